"""Finds what a thread waits for that another thread of the program gives: a lock, an event, a queue, a result.

The stack tells: `Event.wait`, `Queue.get` and `Future.result` wait in the same line of `Condition.wait`, and none of them
waits for a lock.
"""

import itertools
import os
import re
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final

from headway.traces.calls import awaits_a_queue, takes_a_lock, waits_for_good
from headway.traces.frames import Frame
from headway.traces.sources import source_line

__all__ = ["Awaited", "awaited_at", "has_a_time_out", "waiting_line"]


class Awaited(Enum):
    """The thing that a thread waits for; the value is how it is told."""

    LOCK = "a lock"
    EVENT = "an event"
    CONDITION = "a condition"
    QUEUE = "a queue"
    RESULT = "a result"
    THREAD = "the end of a thread"
    PERMIT = "a permit of a semaphore"
    BARRIER = "a barrier"
    CONNECTION = "a connection of a pool"


_OF_THREADS: Final = frozenset({"threading.py", "queue.py", "_base.py"})
_FUNCTIONS: Final = {
    ("threading.py", "Condition.wait"): Awaited.CONDITION,
    ("threading.py", "Condition.wait_for"): Awaited.CONDITION,
    ("threading.py", "Event.wait"): Awaited.EVENT,
    ("threading.py", "Semaphore.acquire"): Awaited.PERMIT,
    ("threading.py", "Barrier.wait"): Awaited.BARRIER,
    ("threading.py", "Thread.join"): Awaited.THREAD,
    ("threading.py", "Thread._wait_for_tstate_lock"): Awaited.THREAD,
    ("queue.py", "Queue.get"): Awaited.QUEUE,
    ("queue.py", "Queue.put"): Awaited.QUEUE,
    ("queue.py", "Queue.join"): Awaited.QUEUE,
    ("_base.py", "Future.result"): Awaited.RESULT,
    ("_base.py", "Future.exception"): Awaited.RESULT,
    ("_base.py", "wait"): Awaited.RESULT,
    ("_base.py", "as_completed"): Awaited.RESULT,
}
"""The functions of the standard library that wait, by file and name; the outermost one of a stack tells what for."""
_WAITING: Final = frozenset({"Condition.wait", "Thread.join", "Thread._wait_for_tstate_lock"})
"""The functions of these that release the GIL to wait; any other one takes a lock."""
_TAKES_BACK: Final = "_acquire_restore"
"""`Condition.wait` takes its own lock again with this call."""
_POOLS: Final = re.compile(r"/(sqlalchemy/pool/|psycopg_pool/|urllib3/connectionpool\.py|redis/connection\.py)")
_TIMES_OUT: Final = re.compile(r"\btimeout\b|\.(wait|join)\(\s*[^\s)]")


def _is_of_threads(frame: Frame) -> bool:
    return os.path.basename(frame.filename) in _OF_THREADS


def awaited_at(frames: Sequence[Frame], changed: Collection[str] = ()) -> Awaited | None:
    """Return what a thread waits for that releases the GIL at a stack; None if it waits for no other thread there.

    Args:
        frames: The stack, innermost frame first.
        changed: Files whose lines are not those of the trace.
    """
    if not frames:
        return None
    inner = frames[0]
    if not _is_of_threads(inner):
        if awaits_a_queue(inner, changed):
            return Awaited.QUEUE
        return Awaited.LOCK if takes_a_lock(inner, changed) else None
    if inner.function not in _WAITING or _TAKES_BACK in source_line(inner.filename, inner.line):
        return Awaited.LOCK
    found = None
    for frame in itertools.takewhile(_is_of_threads, frames):
        found = _FUNCTIONS.get((os.path.basename(frame.filename), frame.function), found)
    line = waiting_line(frames)
    return Awaited.CONNECTION if line is not None and _POOLS.search(line.filename) else found


def waiting_line(frames: Sequence[Frame]) -> Frame | None:
    """Return the line that calls the standard library's function in which a thread waits; None if the stack has none."""
    return next(itertools.filterfalse(_is_of_threads, frames), None)


def has_a_time_out(frames: Sequence[Frame], changed: Collection[str] = ()) -> bool:
    """Tell whether a wait ends by itself after a time, as far as the line that waits tells, and the line that calls it."""
    if not frames:
        return False
    inner, line = frames[0], waiting_line(frames)
    if inner.function == "Condition.wait" and (text := source_line(inner.filename, inner.line)):
        return "timeout" in text
    if line is None or line.filename in changed:
        return False
    return not waits_for_good(line) or _TIMES_OUT.search(source_line(line.filename, line.line)) is not None
