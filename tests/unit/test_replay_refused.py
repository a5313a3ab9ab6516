"""Traces that give no model, and the reasons that the errors tell."""

import pytest
from made_turns import MS, trace_of, turn

from headway.errors import ScenarioError
from headway.sim.machine import load
from headway.sim.replay import refused
from headway.sim.replay.change import Change
from headway.sim.replay.learn import learn
from headway.sim.whatif import predict
from headway.traces.model import Kind

COSTS = load("preset")


def test_a_gil_of_imports_is_no_gil():
    """A free-threaded build whose GIL was on only for a moment gives no prediction, and the error says why."""
    off = {"free_threaded": True, "gil_enabled": False, "has_stacks": False}
    trace = trace_of(turn(0, 0, holds_us=10, stack=0), until_ns=2000 * MS, **off)
    with pytest.raises(ScenarioError, match="shows no GIL"):
        learn(trace, COSTS)


def holding_for(seconds, *, others=()):
    """Return a trace of a thread that holds the GIL to the end, after short holds of others."""
    rows = [row for index, thread in enumerate(others) for row in turn(index * 100, thread, holds_us=10, stack=1)]
    rows.append((1000, 0, Kind.ACQUIRE, 0))
    return trace_of(rows, names=("MainThread", "helper"), until_ns=round(seconds * 1000) * MS)


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        (holding_for(5), r"only MainThread used the GIL in the 5 s of the trace, and no thread waited for it"),
        (holding_for(5, others=(1,)), r"of the 5 s of the trace can be replayed \(threads did not wait for the GIL\)"),
        (holding_for(0.5), r"the trace is too short for a prediction"),
    ],
    ids=["one thread", "two threads", "short"],
)
def test_a_trace_that_gives_no_model_tells_the_reason(trace, reason):
    """A trace of seconds is not called too short; the error says what the trace lacks."""
    with pytest.raises(ScenarioError, match=reason):
        predict(learn(trace, COSTS), [Change(policy="fair")], COSTS, cores=2)


@pytest.mark.parametrize("most", [2, 3])
def test_a_program_of_too_many_threads_is_refused_before_the_work(monkeypatch, most):
    """A thread for each task gives no model, and its simulation would take minutes."""
    monkeypatch.setattr(refused, "_MOST_THREADS", most)
    rows = [row for index in range(300) for row in turn(index * 5000, index % 3, holds_us=1000, waits_us=500, stack=1)]
    trace = trace_of(rows, names=("one", "two", "three"), until_ns=2000 * MS)
    if most < 3:
        with pytest.raises(ScenarioError, match=r"3 threads had the GIL in the .* at most 2") as found:
            learn(trace, COSTS)
        assert "headway report" in (found.value.hint or "")
    else:
        assert len(learn(trace, COSTS).actors) == 3
