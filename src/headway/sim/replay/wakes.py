"""Finds the thread that woke a thread which waited for a lock, a queue or a condition.

A trace of a build with a GIL has no wake-ups. But a thread that releases a lock or puts an item holds the GIL while it
does so, and the thread that it wakes wants the GIL one wake-up later. The waker is therefore the thread that held the
GIL one wake-up earlier.

A wait with a time-out may have ended by itself, while others happened to hold the GIL. It did if it lasted for the time
that the program's line has as a number. If that is not known, it did if the waits of its place nearly all last as long as
the others, and for most of them no thread was there to end them.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.replay.bursts import Bursts, Seen
from headway.traces.calls import Call

__all__ = ["Wakes", "find_wakes"]

_SLEPT_NS = 5_000
"""A call for a lock that took less than this found the lock free."""
_SOON_NS = 500_000
"""The waker's hold ended at most this long before the wake-up."""
_FEW = 16
"""Fewer waits of a place do not show a time-out that is not known."""
_NEARLY = 0.95
"""A wait that lasts for this share of a time-out has ended by it: `Queue.get()` waits for what is left of its own."""


@final
@dataclass(frozen=True)
class Wakes:
    """The wake-ups among a program's threads; each wake-up is a semaphore of its own.

    Attributes:
        posts: For each thread and burst, the times within the burst, in ns, at which it posts, and the semaphores; in
            order.
        takes: For each thread and burst, the semaphore that the call after the burst waits for.
        count: The number of semaphores.
        timed_out: For each thread and burst before a call that ended by its time-out, the time-out in ns.
    """

    posts: dict[tuple[int, int], tuple[tuple[int, int], ...]]
    takes: dict[tuple[int, int], int]
    count: int
    timed_out: Mapping[tuple[int, int], int] = field(default_factory=dict)


def find_wakes(
    seen: Seen, kinds: Mapping[int, Call], wake_ns: float, timeouts_ns: Mapping[int, int] | None = None
) -> Wakes:
    """Return the wake-ups in a window.

    Args:
        seen: The contents of the trace in the window.
        kinds: For each stack, the kind of call that releases the GIL there.
        wake_ns: The typical time from a wake-up until the thread wants the GIL.
        timeouts_ns: For each stack whose call has a time-out, that time; 0: it is not known.
    """
    holds = seen.holds
    place = _places(seen)
    posts: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    takes: dict[tuple[int, int], int] = {}
    timed_out: dict[tuple[int, int], int] = {}
    for thread, bursts in seen.bursts.items():
        is_lock = np.array([kinds[int(stack)] is Call.LOCK for stack in bursts.stack], dtype=bool)
        waits = np.flatnonzero(is_lock & (bursts.away_ns > _SLEPT_NS))
        wakers = np.array([_waker(seen, place, thread, bursts, burst, wake_ns) for burst in waits.tolist()], dtype=int)
        over_ns = _over(bursts, waits, wakers, wake_ns, timeouts_ns or {})
        if len(bursts) and bursts.away_ns[-1] < 0:  # the window ends in that call: it is as those of its place
            alike = over_ns[bursts.stack[waits] == bursts.stack[-1]]
            if 2 * np.count_nonzero(alike) > len(alike):
                timed_out[thread, len(bursts) - 1] = int(alike.max())
        for burst, index, timeout_ns in zip(waits.tolist(), wakers.tolist(), over_ns.tolist(), strict=True):
            if timeout_ns > 0:
                timed_out[thread, burst] = timeout_ns
                continue
            if index < 0:
                continue
            waker, in_burst, before_ns = place[index]
            posted_ns = _posted_ns(bursts, burst, wake_ns)
            inside_ns = min(int(holds.end_ns[index]), posted_ns) - int(holds.start_ns[index])
            offset_ns = before_ns + max(0, inside_ns)
            takes[thread, burst] = len(takes)
            posts[waker, in_burst].append((offset_ns, takes[thread, burst]))
    return Wakes({key: tuple(sorted(value)) for key, value in posts.items()}, takes, len(takes), timed_out)


def _over(
    bursts: Bursts, waits: NDArray[np.int64], wakers: NDArray[np.int64], wake_ns: float, timeouts_ns: Mapping[int, int]
) -> NDArray[np.int64]:
    """Return, for each wait, its time-out if it ended by that; 0 if it did not, or if that is not known."""
    found = np.zeros(len(waits), dtype=np.int64)
    for stack in np.unique(bursts.stack[waits]).tolist():
        if stack not in timeouts_ns:
            continue
        here = np.flatnonzero(bursts.stack[waits] == stack)
        away_ns = bursts.away_ns[waits[here]]
        timeout_ns = timeouts_ns[stack]
        if timeout_ns > 0:
            found[here[away_ns >= _NEARLY * timeout_ns]] = timeout_ns
        elif len(here) >= _FEW:
            least_ns, typical_ns = np.percentile(away_ns, [10, 50])
            alone = here[(wakers[here] < 0) & (away_ns >= _NEARLY * least_ns)]
            if least_ns >= _NEARLY * typical_ns and 2 * len(alone) > len(here):
                found[here[away_ns >= _NEARLY * least_ns]] = max(1, int(least_ns - wake_ns))
    return found


def _posted_ns(bursts: Bursts, burst: int, wake_ns: float) -> int:
    """Return when a thread that waited after a burst was woken."""
    slept_ns = int(bursts.end_ns[burst])
    return max(slept_ns, int(slept_ns + int(bursts.away_ns[burst]) - wake_ns))


def _waker(
    seen: Seen, place: Mapping[int, tuple[int, int, int]], thread: int, bursts: Bursts, burst: int, wake_ns: float
) -> int:
    """Return the hold in which a thread that waited after a burst was woken, or -1."""
    slept_ns = int(bursts.end_ns[burst])
    wanted_ns = slept_ns + int(bursts.away_ns[burst])
    return _holder(seen, place, thread, slept_ns, _posted_ns(bursts, burst, wake_ns), wanted_ns)


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
        nth = np.arange(len(mine))
        burst = np.searchsorted(bursts.first_hold, nth, "right") - 1
        known = burst >= 0
        known[known] = (nth < (bursts.first_hold + bursts.holds)[burst])[known] if len(bursts.first_hold) else False
        burst[~known] = -1
        after_ns = np.cumsum(ran_ns[mine])
        # The first hold of a burst, and each one of no burst, begin anew.
        first = np.maximum.accumulate(np.where(known & (burst == np.roll(burst, 1)) & (nth > 0), 0, nth))
        before_ns = (after_ns - ran_ns[mine]) - (after_ns - ran_ns[mine])[first]
        rows = zip(mine.tolist(), burst.tolist(), before_ns.tolist(), strict=True)
        found.update((index, (thread, one, ns)) for index, one, ns in rows)
    return found
