"""A stall in which a thread waits for one that it has started, and which needs the GIL to run."""

import pytest
import test_stalls
from test_stalls import AT_POLL, FOREVER, HANDLER, LIB, MS, RUN_ONCE, STACKS, WAIT, loop, with_stacks
from told_traces import AT_COMPUTE, Script

from headway.traces.analysis.stall_model import Cause, Thresholds
from headway.traces.analysis.stall_words import stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.frames import Frame

AWAITS = Frame(f"{LIB}/threading.py", 655, "Event.wait", 640)
START = Frame(f"{LIB}/threading.py", 995, "Thread.start", 960)
ADJUSTS = Frame(f"{LIB}/concurrent/futures/thread.py", 203, "ThreadPoolExecutor._adjust_thread_count", 180)


@pytest.mark.parametrize(("inner", "cause"), [((START, ADJUSTS), Cause.GIL), ((), Cause.BLOCKED)])
def test_a_thread_that_is_started_waits_for_the_gil(inner, cause, monkeypatch):
    """`Thread.start()` returns when the new thread runs: threads that compute in turn keep it waiting, and no event does."""
    monkeypatch.setattr(test_stalls, "STACKS", [*STACKS, (WAIT, AWAITS, *inner, HANDLER, RUN_ONCE, FOREVER)])
    script = loop(Script()).hold(0, 10, 11, stack=len(STACKS)).wait(3, 12, stack=0)
    for turn in range(40):
        script.hold(1 + turn % 2, 11 + 5 * turn, 16 + 5 * turn, stack=AT_COMPUTE, forced=True)
    script.hold(3, 211, 211.2, stack=AT_COMPUTE).wait(0, 211.1, stack=0).hold(0, 211.2, 212, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread", "left", "right", "started"))
    stall = next(one for one in find_stalls(trace, Thresholds()) if one.thread == 0)

    assert stall.cause is cause
    assert sum(part.time_ns for part in stall.parts if part.cause is cause) > 195 * MS
    assert ("the GIL held by left" in stall_line(trace, stall)) is (cause is Cause.GIL)
