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
from headway.traces.analysis.standing import standstill
from headway.traces.calls import is_of_a_queue
from headway.traces.frames import Frame
from headway.traces.guards import Lock, Releases, locks_taken, releases
from headway.traces.model import Silent

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


def nested(script, end_ms, stacks, threads=2):
    """Return a trace of some threads; number N in the script is the Nth of these stacks, the innermost frame first."""
    frames, parents, innermost, ends = [UNKNOWN_FRAME], [0], [0], [0]
    for stack in stacks:
        above = 0
        for frame in reversed(stack):
            frames.append(frame)
            parents.append(above)
            innermost.append(len(frames) - 1)
            above = len(parents) - 1
        ends.append(above)
    trace = script.trace(end_ms, *("one", "other", "third")[:threads])
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
    """`not_empty`, `not_full` and `all_tasks_done` of `queue.Queue` share its mutex; a lock of the program is another one."""
    line, mutex = source_frame(queue.Queue.get, "self.not_empty.wait()"), Lock("mutex", "Queue")

    assert is_of_a_queue(line)
    assert locks_taken(source_frame(queue.Queue.get, "with self.not_empty")) == (mutex,)
    assert locks_taken(source_frame(queue.Queue.put, "with self.not_full")) == (mutex,)
    assert releases(line, mutex) is Releases.YES
    assert releases(line, Lock("mutex")) is Releases.PERHAPS  # `other.mutex` may be the queue's
    assert releases(line, Lock("mutex", "Mailer")) is Releases.NO
    assert releases(line, Lock("guard", "Mailer")) is Releases.NO


def test_a_queues_lock_is_not_the_programs_to_hold_for_less_time():
    """The lock inside a queue is had for microseconds: the advice is about the items, not about the work under it."""
    get = source_frame(queue.Queue.get, "with self.not_empty")
    found = told(meeting((Frame("/app/app.py", 5, "work", 3),), (ENTER, get)))["contended-lock"]

    assert "other blocked 10 times on the lock inside a `queue.Queue` at" in found.fact
    assert found.advice.startswith("put more work into each item")


CONDITIONS = """\
import threading
from app import given
guard, ready = threading.Lock(), threading.Condition()
filled = threading.Condition(guard)
class Board:
    def __init__(self, lock):
        self._lock = threading.Lock()
        self._not_empty = threading.Condition(lock=self._lock)
        self._own = threading.Condition(threading.RLock())
        self._given = threading.Condition(lock)
    def waits(self):
        filled.wait_for(self.rows)  # guard: yes
        filled.wait_for(  # guard: yes
            self.rows
        )
        ready.wait()  # guard: no
        self._not_empty.wait()  # Board._lock: yes
        self._not_empty.wait()  # _lock: perhaps
        self._not_empty.wait()  # Other._lock: no
        self._own.wait()  # Board._lock: no
        self._given.wait()  # Board._lock: perhaps
        given.wait()  # guard: perhaps
        with given:
            given.wait()  # guard: no
def waits_for(board):
    board._not_empty.wait()  # Board._lock: perhaps
    print()  # guard: perhaps
"""


def test_the_lock_that_a_wait_releases_is_that_of_its_condition(tmp_path):
    """The file tells which lock a condition was given; one that it does not make, or that gets a parameter, may have any."""
    file = str(written(tmp_path, CONDITIONS))
    owners = {"guard": file, "Board._lock": "Board", "Other._lock": "Other", "_lock": ""}
    told_ones = {}
    for number, text in enumerate(CONDITIONS.splitlines(), 1):
        if ": " in (comment := text.partition("  # ")[2]):
            name, how = comment.split(": ")
            lock = Lock(name.rpartition(".")[2], owners[name])
            told_ones[number] = (releases(Frame(file, number, "f"), lock).value, how)

    assert len(told_ones) == 12
    assert [(line, found) for line, (found, wanted) in told_ones.items() if found != wanted] == []


IDLE = """\
import queue, threading
from app import given, jobs
guard = threading.Lock()
ready = threading.Condition(guard)
class Dispatcher:
    def __init__(self):
        self.lock = threading.Lock()
        self.filled = threading.Condition(self.lock)
    def handle(self):
        with self.lock:
            self.filled.wait()
def consume():
    with guard:
        ready.wait()
def consume_given():
    with guard:
        given.wait()
def fetch():
    with guard:
        jobs.get()
def flush(stock):
    with ready:
        write()
    with stock.lock:
        write()
def put():
    with guard:
        pass
def count(stock):
    with stock.lock:
        pass
"""
PUT, COUNT = Frame("", 27, "put", 26), Frame("", 30, "count", 29)
FLUSHES, SELLS = Frame("", 23, "flush", 21), Frame("", 25, "flush", 21)
GET = source_frame(queue.Queue.get, "self.not_empty.wait()")


@pytest.mark.parametrize(
    ("stack", "blocked", "has_it"),
    [
        ((WAIT, Frame("", 14, "consume", 12)), PUT, False),
        ((WAIT, Frame("", 17, "consume_given", 15)), PUT, False),
        ((WAIT, Frame("", 11, "Dispatcher.handle", 9)), COUNT, False),
        ((WAIT, GET, Frame("", 20, "fetch", 18)), PUT, True),
        ((FLUSHES,), PUT, True),
        ((SELLS,), COUNT, True),
    ],
    ids=[
        "its condition has the lock",
        "it is not known which lock its condition has",
        "a server's idle thread, whose lock has the same name",
        "a thread that awaits an item of a queue",
        "a thread that took the lock by its condition",
        "a thread that took such a lock",
    ],
)
def test_an_idle_thread_has_released_the_lock_of_its_condition(tmp_path, stack, blocked, has_it):
    """A thread in `Condition(lock).wait()` does not have that lock, and so it is not named; one in `Queue.get()` has its own."""
    file = str(written(tmp_path, IDLE))
    having, blocked, other = (
        tuple(one if one.filename else dataclasses.replace(one, filename=file) for one in frames)
        for frames in (stack, (blocked,), (SELLS if blocked is COUNT else FLUSHES,))
    )
    places = analyse(meeting(having, blocked)).lock_waits
    (place,) = (one for one in places if one.stack[-1] == blocked[0])

    assert (place.known_ns > 0.5 * place.times.total_ns) is has_it
    assert standstill([Silent("one", having), Silent("two", blocked)]) == ({1: 0} if has_it else {})
    # Beside a thread that has the lock for sure, an idle one does not make that unknown.
    three = [Silent("one", having), Silent("two", blocked), Silent("three", other)]
    assert standstill(three) == ({} if has_it else {1: 2})
