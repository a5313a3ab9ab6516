"""Holds that end in another function than they began in, as those of a process pool's threads, which pickle."""

import dataclasses

import numpy as np
import pytest
from made_traces import UNKNOWN_FRAME
from told_traces import AT_COMPUTE, AT_RECV, Script, told

from headway.traces.frames import Frame
from headway.traces.model import Kind

PY = "/usr/lib/python3.13"
RECV = Frame(f"{PY}/multiprocessing/connection.py", 395, "Connection._recv", 382)
SEND = Frame(f"{PY}/multiprocessing/connection.py", 384, "Connection._send", 380)
CLEAR = Frame(f"{PY}/concurrent/futures/process.py", 88, "_ThreadWakeup.clear", 86)
READ = Frame("/app/data.py", 20, "read", 18)
SHOW = Frame("/app/app.py", 30, "show", 28)
WAITS = Frame(f"{PY}/threading.py", 359, "Condition.wait", 327)


def traced(script, end_ms, began, ended):
    """Return a trace: stack 1 is where holds begin, stack 2 where they end, and stack 3 another thread's wait."""
    trace = script.trace(end_ms, "manager", "other")
    return dataclasses.replace(
        trace,
        frames=(UNKNOWN_FRAME, began, ended, WAITS),
        stack_frame=np.array([0, 1, 2, 3]),
        stack_parent=np.array([0, 0, 0, 0]),
    )


def late_holds():
    """Return a script of holds of 60 ms that begin after a release at stack 1, and end on request at stack 2."""
    script, now = Script(), 0.0
    for _ in range(10):
        script.hold(0, now, now + 0.1, stack=1)
        script.wait(1, now + 1, stack=3, asks_ms=now + 6).hold(0, now + 0.5, now + 60, stack=2, forced=True, ran=1.0)
        script.wait(0, now + 60, stack=2).hold(1, now + 60.01, now + 60.1, stack=3)
        script.hold(0, now + 60.2, now + 60.3, stack=2)
        now += 70
    return script, now


@pytest.mark.parametrize(
    ("began", "ended", "pickled"),
    [(RECV, CLEAR, True), (READ, SHOW, False), (SHOW, dataclasses.replace(SHOW, line=34, function="f"), False)],
)
def test_a_late_hold_is_told_from_its_begin_to_its_end(began, ended, pickled):
    """The call of C was before the line of the release, perhaps in another file; in a pool's own code, it pickles."""
    script, now = late_holds()
    one = told(traced(script, now, began, ended))["long-hold"]

    where = f"; these holds began after {'.../python3.13/multiprocessing' if pickled else '/app'}/"
    assert (where in one.cause) == (began.filename != ended.filename)
    assert "a call into C, on that line or just before it, does not release the GIL" in one.cause
    assert ("pickle or unpickle" in one.cause) == ("shared_memory" in one.advice) == pickled
    assert ("ProcessPoolExecutor" in one.advice) != pickled


@pytest.mark.parametrize("watched", [False, True])
def test_a_late_hold_that_unpickles_may_be_a_collection(watched):
    """The objects that unpickling makes set collections off. A recording of `headway watch` tells these apart."""
    script, now = late_holds()
    trace = traced(script, now, RECV, CLEAR)
    trace = dataclasses.replace(trace, evidence=dataclasses.replace(trace.evidence, watched=watched))
    one = told(trace)["long-hold"]

    assert ("set collections off" in one.cause) == ("gc.freeze()" in one.advice) == (not watched)
    assert "shared_memory" in one.advice


def test_a_thread_that_feeds_a_pool_is_advised_to_pass_less():
    """Most waiting happens in holds that end in the pool's `send`: another pool would pickle as much."""
    script, now = Script(), 0.0
    for _ in range(200):
        script.wait(1, now + 0.1, stack=3).hold(0, now, now + 4, stack=2)
        script.hold(1, now + 4.01, now + 4.1, stack=3)
        now += 5
    one = told(traced(script, now, RECV, SEND))["behind-a-function"]

    assert "such a hold pickles what goes to another process" in one.cause
    assert "shared_memory" in one.advice
    assert "ProcessPoolExecutor" not in one.advice


def test_a_convoy_on_a_busy_core_has_both_times():
    """The wait is the interval and the time until the release, of which the call's own time on a core is a part."""
    script, now = Script(), 0.0
    for number in range(20):
        length_ms = 8.05 + number * 0.1
        end, ran = now + length_ms, 1 - 3 / length_ms
        script.wait(1, now, asks_ms=now + 5).hold(0, now, end, forced=True, ran=ran)
        script.wait(0, end, stack=AT_COMPUTE).hold(1, end, end + 0.02, stack=AT_RECV)
        now = end + 0.02
    one = told(script.add(now, 0, Kind.ACQUIRE).trace(now, "caller", "reader"))["convoy"]

    assert "it then needs 4 ms more at the median, at least 1.01 ms of that on a core" in one.cause
