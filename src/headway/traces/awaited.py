"""Finds what a thread waits for that another thread of the program gives: a lock, an event, a queue, a result.

The stack tells: `Event.wait`, `Queue.get` and `Future.result` wait in the same line of `Condition.wait`, and none of them
waits for a lock.
"""

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Final

from headway.traces.calls import awaits_a_queue, takes_a_lock, waits_for_good
from headway.traces.frames import Frame
from headway.traces.libraries import Awaited, awaited_in, is_of_threads
from headway.traces.sources import source_line

__all__ = ["Awaited", "awaited_at", "has_a_time_out", "waiting_line"]


_WAITING: Final = frozenset({"Condition.wait", "Thread.join", "Thread._wait_for_tstate_lock"})
"""The functions of `threading` that release the GIL to wait; any other one takes a lock."""
_TAKES_BACK: Final = "_acquire_restore"
"""`Condition.wait` takes its own lock again with this call."""
_POOLS: Final = re.compile(
    r"/(sqlalchemy/pool/|sqlalchemy/util/queue\.py|psycopg_pool/|urllib3/connectionpool\.py|redis/connection\.py)"
)


def awaited_at(frames: Sequence[Frame], changed: Collection[str] = ()) -> Awaited | None:
    """Return what a thread waits for that releases the GIL at a stack; None if it waits for no other thread there.

    Args:
        frames: The stack, innermost frame first.
        changed: Files whose lines are not those of the trace.
    """
    if not frames:
        return None
    inner = frames[0]
    if not is_of_threads(inner):
        if awaits_a_queue(inner, changed):
            return Awaited.QUEUE
        return Awaited.LOCK if takes_a_lock(inner, changed) else None
    if inner.function not in _WAITING or _TAKES_BACK in source_line(inner.filename, inner.line):
        return Awaited.LOCK
    found = None
    for frame in itertools.takewhile(is_of_threads, frames):
        found = awaited_in(frame) or found
    line = waiting_line(frames)
    return Awaited.CONNECTION if line is not None and _POOLS.search(line.filename) else found


def waiting_line(frames: Sequence[Frame]) -> Frame | None:
    """Return the line that calls the standard library's function in which a thread waits; None if the stack has none."""
    return next(itertools.filterfalse(is_of_threads, frames), None)


def has_a_time_out(frames: Sequence[Frame], changed: Collection[str] = ()) -> bool:
    """Tell whether a wait ends by itself after a time, as far as the line that waits tells, and the line that calls it."""
    if not frames:
        return False
    inner, line = frames[0], waiting_line(frames)
    if inner.function == "Condition.wait" and (text := source_line(inner.filename, inner.line)):
        return "timeout" in text
    return line is not None and not waits_for_good(line, changed)
