"""Lines of a library at which threads wait for locks: the program's lines that lead there have locks of their own."""

import dataclasses

import numpy as np
import pytest
from made_traces import MS, UNKNOWN_FRAME
from told_traces import Script, told

from headway.report.trace.tables import locks_table
from headway.traces.analysis import analyse
from headway.traces.frames import Frame
from headway.traces.model import Park

WAIT = Frame("/usr/lib/python3.13t/threading.py", 359, "Condition.wait", 327)
GET = Frame("/usr/lib/python3.13t/queue.py", 171, "Queue.get", 154)
CALLERS = [Frame("/app/app.py", 10 * number, f"f{number}", 10 * number) for number in range(1, 31)]


def traced(script):
    """Return the trace of a build without a GIL; stack number i waits in a queue that CALLERS[i - 1] has called."""
    script.rows.sort()
    trace = script.trace(10_000, *(f"t{number}" for number in range(31)), gils=0, free_threaded=True, gil_enabled=False)
    count = len(CALLERS)
    return dataclasses.replace(
        trace,
        frames=(UNKNOWN_FRAME, WAIT, GET, *CALLERS),
        stack_frame=np.array([0, *[1] * count, *[2] * count, *range(3, 3 + count)]),
        stack_parent=np.array([0, *range(count + 1, 3 * count + 1), *[0] * count]),
    )


def test_each_caller_has_its_own_time():
    """A queue that is read for 3 s at one line, and another one that is full for 3 s, are two places."""
    script = Script().park(0, 0, 3000, Park.LOCK, stack=1)
    for turn in range(300):
        script.park(1, 10 * turn, 10 * turn + 10, Park.LOCK, stack=2)
    places = [
        (one.stack[-1], one.members, one.times.count, one.callers) for one in analyse(traced(script)).contention.places
    ]

    assert sorted(places, key=str) == [(CALLERS[0], (0,), 1, 1), (CALLERS[1], (1,), 300, 1)]


def test_callers_with_little_time_are_one_place():
    """Thirty lines that log each wait a little at the logger's lock: together that is much, and no line has it alone."""
    script = Script()
    for number in range(30):
        for turn in range(8):
            script.park(
                number, 240 * turn + 8 * number, 240 * turn + 8 * number + 8 + number / 100, Park.LOCK, stack=1 + number
            )
    analysis = analyse(traced(script))
    (one,) = analysis.contention.places

    assert (one.callers, one.threads, one.times.count) == (30, 30, 240)
    assert one.times.total_ns == pytest.approx(240 * 8 * MS, rel=0.05)
    table = locks_table(analysis)
    assert table is not None
    assert "(from /app/app.py:300 f30, 29 more)" in table.rows[0][0]


def test_a_finding_counts_the_further_callers(tmp_path):
    """The line that is named is one of many."""
    enter = dataclasses.replace(WAIT, line=304, function="Condition.__enter__")
    script = Script()
    for number in range(30):
        for turn in range(8):
            script.park(number, 240 * turn + 8 * number, 240 * turn + 8 * number + 30, Park.LOCK, stack=1 + number)
    trace = traced(script)
    found = told(dataclasses.replace(trace, frames=(UNKNOWN_FRAME, enter, *trace.frames[2:])))

    assert ", called from /app/app.py:10 f1 and 29 other lines: " in found["contended-lock"].fact


@pytest.mark.parametrize(
    ("function", "is_idle", "is_told"),
    [("Semaphore.acquire", False, True), ("Semaphore.acquire", True, False), ("Event.wait", False, False)],
    ids=["a pool", "idle workers", "no semaphore"],
)
def test_permits_that_threads_seem_to_lack_are_told(function, is_idle, is_told):
    """Three threads share a permit, so one of them is always elsewhere; those that await work are mostly all there at once."""
    script = Script()
    for turn in range(100):
        for thread in range(3):
            if is_idle or thread != turn % 3:
                script.park(thread, 100 * turn, 100 * turn + 90, Park.LOCK, stack=1)
    trace = dataclasses.replace(
        script.trace(10_000, "one", "two", "three", gils=0, free_threaded=True, gil_enabled=False),
        frames=(UNKNOWN_FRAME, WAIT, dataclasses.replace(WAIT, line=507, function=function), CALLERS[0]),
        stack_frame=np.array([0, 1, 2, 3]),
        stack_parent=np.array([0, 2, 3, 0]),
    )
    found = told(trace)

    assert ("contended-lock" in found) == is_told
    assert ("no-lock-contention" in found) != is_told
    if is_told:
        one = found["contended-lock"]
        assert (one.weight, next(iter(found))) == ("note", "contended-lock")
        assert one.fact.startswith(
            "one, two and three blocked 200 times on a semaphore at .../lib/python3.13t/threading.py:359 "
        )
        assert "called from /app/app.py:10 f1: 18 s in total (60 % of their time)" in one.fact
        assert "more permits" in one.advice
