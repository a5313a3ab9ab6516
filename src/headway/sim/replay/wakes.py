"""Finds the thread that woke a thread which waited for a lock, a queue or a condition.

A trace of a build with a GIL has no wake-ups. But a thread that releases a lock or puts an item holds the GIL while it
does so, and the thread that it wakes wants the GIL one wake-up later. The waker is therefore the thread that held the
GIL one wake-up earlier.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.sim.replay.bursts import Seen
from headway.traces.calls import Call

__all__ = ["Wakes", "find_wakes"]

_SLEPT_NS = 5_000
"""A call for a lock that took less than this found the lock free."""
_SOON_NS = 500_000
"""The waker's hold ended at most this long before the wake-up."""


@final
@dataclass(frozen=True)
class Wakes:
    """The wake-ups among a program's threads; each wake-up is a semaphore of its own.

    Attributes:
        posts: For each thread and burst, the times within the burst, in ns, at which it posts, and the semaphores; in
            order.
        takes: For each thread and burst, the semaphore that the call after the burst waits for.
        count: The number of semaphores.
    """

    posts: dict[tuple[int, int], tuple[tuple[int, int], ...]]
    takes: dict[tuple[int, int], int]
    count: int


def find_wakes(seen: Seen, kinds: Mapping[int, Call], wake_ns: float) -> Wakes:
    """Return the wake-ups in a window.

    Args:
        seen: The contents of the trace in the window.
        kinds: For each stack, the kind of call that releases the GIL there.
        wake_ns: The typical time from a wake-up until the thread wants the GIL.
    """
    holds = seen.holds
    place = _places(seen)
    posts: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    takes: dict[tuple[int, int], int] = {}
    for thread, bursts in seen.bursts.items():
        is_lock = np.array([kinds[int(stack)] is Call.LOCK for stack in bursts.stack], dtype=bool)
        for burst in np.flatnonzero(is_lock & (bursts.away_ns > _SLEPT_NS)):
            slept_ns = int(bursts.end_ns[burst])
            wanted_ns = slept_ns + int(bursts.away_ns[burst])
            posted_ns = max(slept_ns, int(wanted_ns - wake_ns))
            index = _holder(seen, place, thread, slept_ns, posted_ns, wanted_ns)
            if index < 0:
                continue
            waker, in_burst, before_ns = place[index]
            inside_ns = min(int(holds.end_ns[index]), posted_ns) - int(holds.start_ns[index])
            offset_ns = before_ns + max(0, inside_ns)
            takes[thread, int(burst)] = len(takes)
            posts[waker, in_burst].append((offset_ns, takes[thread, int(burst)]))
    return Wakes({key: tuple(sorted(value)) for key, value in posts.items()}, takes, len(takes))


def _holder(
    seen: Seen, place: Mapping[int, tuple[int, int, int]], thread: int, slept_ns: int, posted_ns: int, wanted_ns: int
) -> int:
    """Return the hold in which a thread was woken at about `posted_ns`, or -1.

    The hold must be of another thread, and must belong to a burst that can wake the thread. Among these holds, the
    function chooses the one at that time; else the last one before it that was not over when the thread went to sleep;
    else the first one after it.
    """
    holds = seen.holds
    last = int(np.searchsorted(holds.start_ns, posted_ns, "right")) - 1

    def can(index: int) -> bool:
        return int(holds.thread[index]) != thread and place[index][1] >= 0

    index = last
    while index >= 0 and int(holds.end_ns[index]) > slept_ns and posted_ns - int(holds.end_ns[index]) <= _SOON_NS:
        if can(index):
            return index
        index -= 1
    index = last + 1
    while index < len(holds) and int(holds.start_ns[index]) < wanted_ns:
        if can(index):
            return index
        index += 1
    return -1


def _places(seen: Seen) -> dict[int, tuple[int, int, int]]:
    """Return, for each hold, its thread, its burst (-1: none that ended), and the time that the burst ran before it."""
    found: dict[int, tuple[int, int, int]] = {}
    ran_ns = seen.holds.length_ns - seen.holds.off_core_ns
    for thread, bursts in seen.bursts.items():
        mine = np.flatnonzero(seen.holds.thread == thread)
        burst = -1
        before_ns = 0
        for nth, index in enumerate(mine.tolist()):
            following = int(np.searchsorted(bursts.first_hold, nth, "right")) - 1
            inside = following >= 0 and nth < bursts.first_hold[following] + bursts.holds[following]
            if not inside or following != burst:
                before_ns = 0
            burst = following if inside else -1
            found[index] = (thread, burst, before_ns)
            before_ns += int(ran_ns[index])
    return found
