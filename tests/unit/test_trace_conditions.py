"""Locks of conditions and of queues: a thread that waits for a condition does not have its lock."""

import dataclasses
import inspect
import queue

import numpy as np
import pytest
from made_traces import UNKNOWN_FRAME
from test_trace_lock_holders import written
from told_traces import Script, told

from headway.traces.analysis import analyse
from headway.traces.calls import is_of_a_queue, waits_for_condition
from headway.traces.frames import Frame

SOURCE = """\
import threading
cond, lock = threading.Condition(), threading.Lock()
def consume():
    with cond:
        cond.wait()
def produce():
    with cond:
        pass
def nest():
    with lock:
        with cond:
            cond.wait()
def take():
    with lock:
        pass
"""
THREADING = "/usr/lib/python3.13/threading.py"
ENTER, WAIT = Frame(THREADING, 304, "Condition.__enter__", 303), Frame(THREADING, 359, "Condition.wait", 320)
RESTORE = Frame(THREADING, 316, "Condition._acquire_restore", 315)


def source_frame(method, text):
    """Return the frame of a method of `queue.Queue` at its line with a text."""
    lines, first = inspect.getsourcelines(method)
    at = next(number for number, line in enumerate(lines, first) if text in line)
    return Frame(queue.__file__, at, method.__qualname__, first)


def nested(script, end_ms, stacks):
    """Return a trace of two threads; number N in the script is the Nth of these stacks, the innermost frame first."""
    frames, parents, innermost, ends = [UNKNOWN_FRAME], [0], [0], [0]
    for stack in stacks:
        above = 0
        for frame in reversed(stack):
            frames.append(frame)
            parents.append(above)
            innermost.append(len(frames) - 1)
            above = len(parents) - 1
        ends.append(above)
    trace = script.trace(end_ms, "one", "other")
    events = trace.events.copy()
    of_a_stack = events["value"] < len(ends)
    events["value"][of_a_stack] = np.array(ends)[events["value"][of_a_stack].astype(int)]
    return dataclasses.replace(
        trace,
        events=events,
        frames=tuple(frames),
        stack_frame=np.array(innermost),
        stack_parent=np.array(parents),
    )


def meeting(waiting, blocked):
    """Return a trace: while the first thread waits at a stack for 30 ms, ten times, the other is blocked at another one."""
    script, now = Script(), 0.0
    for _ in range(10):
        script.hold(0, now, now + 0.1, stack=1).hold(1, now + 1, now + 1.1, stack=2)
        script.hold(0, now + 30, now + 30.1, stack=1).hold(1, now + 30.2, now + 30.3, stack=3)
        now += 40
    return nested(script, now, [waiting, blocked, (Frame("/app/other.py", 9, "work", 8),)])


@pytest.mark.parametrize("inner", [(WAIT,), (RESTORE, WAIT)])
@pytest.mark.parametrize(
    ("line", "takes", "has_it"),
    [
        (Frame("", 5, "consume", 3), Frame("", 7, "produce", 6), False),
        (Frame("", 12, "nest", 9), Frame("", 14, "take", 13), True),
    ],
    ids=["the condition's own lock", "another lock around it"],
)
def test_a_thread_that_waits_for_a_condition(tmp_path, inner, line, takes, has_it):
    """Such a thread has released the condition's lock, but no other lock that it has."""
    file = str(written(tmp_path, SOURCE))
    at, blocked = dataclasses.replace(line, filename=file), dataclasses.replace(takes, filename=file)
    enters = (blocked,) if has_it else (ENTER, blocked)
    places = analyse(meeting((*inner, at), enters)).lock_waits
    (place,) = (one for one in places if one.stack[-1].line == blocked.line)

    assert (place.known_ns > 0.5 * place.times.total_ns) is has_it


def test_the_conditions_of_a_queue_have_one_lock():
    """`not_empty`, `not_full` and `all_tasks_done` of `queue.Queue` share its mutex."""
    line = source_frame(queue.Queue.get, "self.not_empty.wait()")

    assert waits_for_condition(line, "not_full")
    assert is_of_a_queue(line)
    assert not waits_for_condition(source_frame(queue.Queue.get, "with self.not_empty"), "not_empty")


def test_a_queues_lock_is_not_the_programs_to_hold_for_less_time():
    """The lock inside a queue is had for microseconds: the advice is about the items, not about the work under it."""
    get = source_frame(queue.Queue.get, "with self.not_empty")
    found = told(meeting((Frame("/app/app.py", 5, "work", 3),), (ENTER, get)))["contended-lock"]

    assert "other blocked 10 times on the lock inside a `queue.Queue` at" in found.fact
    assert found.advice.startswith("put more work into each item")
