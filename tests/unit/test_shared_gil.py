"""Sub-interpreters that share the GIL: a request may not reach the holder, which the trace does not tell from a call of C."""

import dataclasses

import pytest
from told_traces import AT_COMPUTE, Script, told

from headway.sim.machine import load
from headway.sim.replay.learn import learn
from headway.traces.analysis.stall_model import Kept, Thresholds
from headway.traces.analysis.stall_words import advice, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.reader import read
from headway.traces.writer import write

COSTS = load("preset")


def kept(**process):
    """Return a trace in which a reader waits for 200 ms although it made a request."""
    script = Script().hold(1, 0, 1).wait(1, 10, asks_ms=15)
    script.hold(0, 5, 210, stack=AT_COMPUTE, forced=True, ran=1.0).hold(1, 210, 211)
    return script.trace(1200, "host", "reader", python="3.12.1", **process)


@pytest.mark.parametrize("shared", [False, True])
def test_the_other_cause_of_a_long_hold_is_told_where_it_is_possible(shared):
    """The finding names Python of another interpreter, and what to do then, only of a process with sub-interpreters."""
    one = told(kept(has_subinterpreters=shared))["long-hold"]

    assert one.cause.startswith("a call into C, on that line or just before it, does not release the GIL")
    assert ("or Python code ran in another interpreter than the waiter's" in one.cause) == shared
    assert ("; if Python of a sub-interpreter ran there, CPython 3.13 or later" in one.advice) == shared


def test_a_stall_says_that_it_may_be_another_interpreter():
    """The watcher's line and advice have both causes."""
    trace = kept(has_subinterpreters=True)
    (stall,) = find_stalls(trace, Thresholds())

    assert stall.parts[0].kept is Kept.UNREACHED
    assert "the GIL held by host at app.py:12 compute, in one call of C, or in another interpreter" in stall_line(
        trace, stall
    )
    assert "CPython 3.9 to 3.12" in advice(stall.kind, stall.parts[0])
    (stall,) = find_stalls(kept(), Thresholds())
    assert stall.parts[0].kept is Kept.C


def test_a_prediction_is_outside_the_model():
    """The simulator lets each holder see each request."""
    (text,) = set(learn(kept(has_subinterpreters=True), COSTS).outside) - set(learn(kept(), COSTS).outside)

    assert text.startswith("sub-interpreters share the GIL: ")


def test_a_file_keeps_it(tmp_path):
    """The header has a flag for it."""
    for shared in (False, True):
        trace = kept(has_subinterpreters=shared)
        again = read(write(trace, tmp_path / "x.hwt")).process
        assert dataclasses.asdict(again)["has_subinterpreters"] == shared
