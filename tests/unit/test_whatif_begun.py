"""Shortened holds that began in another file than the one in which they ended: a prediction says so."""

import pytest
from made_turns import MS, trace_of, turn

from headway.sim.machine import load
from headway.sim.replay.begun import begun_elsewhere
from headway.sim.replay.change import Change, Shorten
from headway.sim.replay.learn import learn
from headway.sim.whatif import predict
from headway.traces.model import Frame, Kind

COSTS = load("preset")
TOLD = (
    "app.py:1 is where the holds that are shortened ended: they began after pool.py:2 worker, and their time may be spent "
    "anywhere in between"
)


def model_of(*, began_in="pool.py", ends_ms=25.0, forced=True):
    """Return the model of a thread that takes work in a pool's code, and that ends a hold in the program's at `ends_ms`.

    Another thread requests the GIL 5 ms after the hold began.
    """
    rows = []
    for at in range(0, 2_000_000, 40_000):
        rows += turn(at, 0, holds_us=10, stack=2)
        rows += [(at + 100, 0, Kind.ACQUIRE, 0), (at + 100, 1, Kind.WAIT, 2), (at + 5_100, 1, Kind.REQUEST, 0)]
        ends = at + 100 + int(ends_ms * 1_000)
        rows += [(ends, 0, Kind.RELEASE, 1, forced), (ends + 10, 1, Kind.ACQUIRE, 0), (ends + 20, 1, Kind.RELEASE, 2)]
    frames = (Frame("", 0, "?"), Frame("app.py", 1, "rows"), Frame(began_in, 2, "worker"))
    return learn(trace_of(rows, frames=frames, until_ns=2_000 * MS), COSTS)


CHANGE = Change(shorten=(Shorten("app.py", 1, 0.5),))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, [TOLD]),
        ({"forced": False}, [TOLD]),
        ({"began_in": "app.py"}, []),
        ({"ends_ms": 5.003}, []),
    ],
    ids=["late", "by itself", "in the same file", "preempted in time"],
)
def test_holds_that_began_elsewhere_are_told(how, told):
    """A hold that answered late, or ended by itself, does not show what it ran; one that was preempted in time does."""
    assert list(begun_elsewhere(model_of(**how), CHANGE)) == told


def test_a_prediction_rests_on_it():
    """The prediction of a shorter hold has the sentence, and that of another change has not."""
    shorter, fair = predict(model_of(), [CHANGE, Change(policy="fair")], COSTS, cores=2, seeds=1)

    assert TOLD in shorter.rests_on
    assert not any("began after" in one for one in fair.rests_on)
