"""Locks of one name: a global variable, and the variables and parameters of functions."""

import dataclasses

import pytest
from test_trace_conditions import nested
from test_trace_lock_holders import written
from told_traces import Script, told

from headway.traces.analysis import analyse
from headway.traces.analysis.standing import standstill
from headway.traces.frames import Frame
from headway.traces.model import Silent

SOURCE = """\
import threading
lock = threading.Lock()
def one_at_a_time(function):
    lock = threading.Lock()
    def wrapper():
        with lock:
            return function()
    return wrapper
def locked(lock, function):
    with lock:
        return function()
def lookup():
    with lock:
        pass
def draw():
    lookup()
def joins(thread):
    lock = thread.lock
    lock.acquire()
    lock.release()
"""
LOOKUP, DRAW = Frame("", 13, "lookup", 12), Frame("", 16, "draw", 15)
WRAPPER = Frame("", 7, "one_at_a_time.<locals>.wrapper", 5)
JOINS = Frame("", 19, "joins", 17)
LOCKED, INSIDE = Frame("", 11, "locked", 9), Frame("", 14, "lookup", 12)


def stacks(tmp_path, *frames):
    """Return stacks of the program's lines, after writing it."""
    file = str(written(tmp_path, SOURCE))
    return [tuple(dataclasses.replace(frame, filename=file) for frame in stack) for stack in frames]


@pytest.mark.parametrize("outer", [WRAPPER, LOCKED], ids=["a variable of a function", "a parameter"])
def test_a_thread_that_has_another_lock_of_that_name_does_not_wait_for_itself(tmp_path, outer):
    """The lock of a decorator is not the global one, and one that is handed over may be any."""
    (stack,) = stacks(tmp_path, (LOOKUP, DRAW, outer))
    trace = nested(Script().hold(0, 0, 1, stack=1).hold(1, 1_999, 2_000), 2_000, [stack])
    found = told(trace).get("deadlock")

    assert found is None or (outer is LOCKED and found.cause.startswith("perhaps a deadlock"))
    assert standstill([Silent("one", stack)]) == {}


@pytest.mark.parametrize(("line", "sure"), [(INSIDE, True), (LOCKED, False)], ids=["the global one", "a parameter"])
def test_a_thread_that_has_a_lock_of_that_name_may_have_another_one(tmp_path, line, sure):
    """The owner is told with "or one of the same name" where a line has the lock as its function's parameter."""
    waiting, having, elsewhere, other = stacks(tmp_path, (LOOKUP,), (line,), (DRAW,), (JOINS,))
    script, now = Script().hold(2, 0.2, 0.3, stack=4), 0.0  # a third thread has nothing to do with it
    for _ in range(10):
        script.hold(0, now, now + 0.1, stack=2).hold(1, now + 1, now + 1.1, stack=1)
        script.hold(0, now + 30, now + 30.1, stack=3).hold(1, now + 30.2, now + 30.3, stack=3)
        now += 40
    (place,) = (
        one
        for one in analyse(nested(script, now, [waiting, having, elsewhere, other], threads=3)).lock_waits
        if one.stack == waiting
    )

    assert place.holders[0].threads == (0,)
    assert [one.sure for one in place.holders[:1]] == [sure]
    assert standstill([Silent("one", waiting), Silent("other", having)]) == ({0: 1} if sure else {})
