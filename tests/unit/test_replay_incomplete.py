"""Predictions from a trace that lacks events of the part that is replayed say so."""

from dataclasses import replace

import pytest
from made_turns import MS, trace_of, turn

from headway.errors import ScenarioError
from headway.sim.machine import load
from headway.sim.replay.change import NOTHING
from headway.sim.replay.incomplete import incomplete
from headway.sim.replay.learn import learn
from headway.sim.whatif import predict
from headway.traces.model import Gap, Loss

COSTS = load("preset")
DAMAGED, DROPPED = Loss(damaged_bytes=32), Loss(dropped_events=9)


def told(loss=None, gaps=(), **process):
    """Return the sentences of a trace of two threads over a second, with this loss and these gaps."""
    rows = [row for n in range(200) for row in turn(n * 5_000, n % 2, holds_us=10, stack=1 + n % 2)]
    trace = trace_of(rows, names=("pool 0", "pool 1"), **process)
    return list(incomplete(learn(replace(trace, loss=loss or Loss(), gaps=tuple(gaps)), COSTS)))


def test_a_whole_trace_lacks_nothing():
    """Events that lie before the replayed part are no loss of it, and a lost stack is no event."""
    assert told() == told(Loss(lost_stacks=3)) == []
    assert told(DROPPED, [Gap(0, 0, 50 * MS)]) == []


@pytest.mark.parametrize(("loss", "why"), [(DAMAGED, "the trace is damaged"), (DROPPED, "there was no room for them")])
def test_events_that_are_missing_are_told_by_role(loss, why):
    """The share is of the time of all threads of the role within the part that is replayed."""
    trace_part_ns = (100 * MS, 950 * MS)
    (said,) = told(loss, [Gap(1, 0, 2000 * MS)])
    assert said.startswith(f"events of pool * are missing for 50 % of the time that is replayed, since {why}: ")
    (said,) = told(loss, [Gap(0, *trace_part_ns), Gap(1, *trace_part_ns)])
    assert said.startswith("events of pool * are missing for 100 % of the time")


def test_a_thread_that_has_no_event_left_is_named():
    """It has no place in the model, so its role is that of its name."""
    rows = [row for n in range(200) for row in turn(n * 5_000, 0, holds_us=10, stack=1)]
    trace = trace_of([*rows, *turn(1_000, 1, holds_us=10, stack=1)], names=("main", "helper 3"))
    (said,) = incomplete(learn(replace(trace, loss=DAMAGED, gaps=(Gap(1, 2 * MS, 990 * MS),)), COSTS))
    assert said.startswith("events of helper * are missing for 100 %")


def test_a_moment_without_events_is_not_told():
    """A thousandth of the time moves no figure by as much as its interval."""
    assert told(DROPPED, [Gap(0, 500 * MS, 501 * MS)]) == []


def test_losses_without_a_place_are_told():
    """Damaged bytes may have been anything, and an event without a place any thread's."""
    assert told(DAMAGED)[0].startswith("32 bytes of the trace are damaged or missing: ")
    unplaced = replace(DROPPED, unplaced_events=7)
    assert told(unplaced)[0].startswith("7 events had no room in the trace, of threads that are not known: ")
    assert told(unplaced, executable="headway simulate") == []
    assert told(replace(unplaced, unseen_threads=1)) == [
        "1 thread of the program left nothing in the trace, and the model does not have them"
    ]


def test_a_prediction_says_what_its_trace_lacks():
    """It stands first among the reasons to doubt the figures."""
    rows = [row for n in range(200) for row in turn(n * 5_000, n % 2, holds_us=10, stack=1 + n % 2)]
    model = learn(replace(trace_of(rows), loss=DAMAGED), COSTS)
    (found,) = predict(model, [NOTHING], COSTS, cores=2, seeds=1)
    assert found.outside[0].startswith("32 bytes of the trace are damaged")


def test_a_trace_that_cannot_be_read_is_not_said_to_have_no_gil():
    """Nothing is known of its program; a trace that is whole and has no event shows that no GIL was used."""
    nothing = trace_of([], until_ns=2000 * MS)
    with pytest.raises(ScenarioError, match="no event of the trace could be read") as caught:
        learn(replace(nothing, loss=DAMAGED), COSTS)
    assert "headway report" in (caught.value.hint or "")
    with pytest.raises(ScenarioError, match="shows no GIL"):
        learn(nothing, COSTS)
