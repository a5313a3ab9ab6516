"""Finds the thread that woke a thread which waited for a lock, a queue or a condition.

A trace of a build with a GIL has no wake-ups. But a thread that releases a lock or puts an item holds the GIL while it
does so, and the thread that it wakes wants the GIL one wake-up later. The waker is therefore the thread that held the
GIL one wake-up earlier. Now and then that is an independent thread, so the waits of a place are looked at together: they
show which threads usually end them.

A wait with a time-out may have ended by itself, while others happened to hold the GIL. It did if it lasted for the time
that the program's line has as a number. If that is not known, it did if the waits of its place nearly all last as long as
the others, and for most of them no thread was there to end them.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.sim.replay.bursts import Bursts, Seen
from headway.traces.analysis.intervals import Holds
from headway.traces.calls import Call

__all__ = ["Wakes", "find_wakes"]

_SLEPT_NS = 5_000
"""A call for a lock that took less than this found the lock free."""
_SOON_NS = 500_000
"""The waker's hold ended at most this long before the wake-up."""
_FEW = 16
"""Fewer waits of a place do not show a time-out that is not known, nor which threads usually end them."""
_NEARLY_ALL = 0.9
"""A thread that was there in so many waits of a place, as a share, may have ended all of them."""
_SELDOM = 0.1
"""A role that was the nearest to this share of the wake-ups of another one, or less, was there by chance."""
_EVER = np.iinfo(np.int64).max
_NEARLY = 0.95
"""A wait that lasts for this share of a time-out has ended by it: `Queue.get()` waits for what is left of its own."""


@final
@dataclass(frozen=True)
class Wakes:
    """The wake-ups among a program's threads.

    Each wake-up is a semaphore of its own, unless several threads wake a thread at one place, as the producers of a queue
    do a consumer: its next item may come from any of them. At a lock, that has no such meaning.

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
    seen: Seen,
    kinds: Mapping[int, Call],
    wake_ns: float,
    timeouts_ns: Mapping[int, int] | None = None,
    roles: Mapping[int, str] | None = None,
    locks: Container[int] = (),
) -> Wakes:
    """Return the wake-ups in a window.

    Args:
        seen: The contents of the trace in the window.
        kinds: For each stack, the kind of call that releases the GIL there.
        wake_ns: The typical time from a wake-up until the thread wants the GIL.
        timeouts_ns: For each stack whose call has a time-out, that time; 0: it is not known.
        roles: For each thread, its role; None: each is of a role of its own.
        locks: The stacks at which threads wait for locks.
    """
    holds = seen.holds
    burst_of, before_ns = _places(seen)
    able_of = {thread: np.flatnonzero((holds.thread == thread) & (burst_of >= 0)) for thread in seen.bursts}
    posts: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    takes: dict[tuple[int, int], int] = {}
    timed_out: dict[tuple[int, int], int] = {}
    count = 0
    for thread, bursts in seen.bursts.items():
        is_lock = np.array([kinds[int(stack)] is Call.LOCK for stack in bursts.stack], dtype=bool)
        waits = np.flatnonzero(is_lock & (bursts.away_ns > _SLEPT_NS))
        slept_ns = bursts.end_ns[waits]
        wanted_ns = slept_ns + bursts.away_ns[waits]
        posted_ns = np.maximum(slept_ns, (wanted_ns - wake_ns).astype(np.int64))
        asleep = _Asleep(slept_ns, posted_ns, wanted_ns)
        able = np.flatnonzero((holds.thread != thread) & (burst_of >= 0))
        wakers = _nearest(holds, able, asleep)
        _keep_usual(wakers, holds, able_of, bursts.stack[waits], asleep, roles or {})
        over_ns = _over(bursts, waits, wakers, wake_ns, timeouts_ns or {})
        if len(bursts) and bursts.away_ns[-1] < 0:  # the window ends in that call: it is as those of its place
            alike = over_ns[bursts.stack[waits] == bursts.stack[-1]]
            if 2 * np.count_nonzero(alike) > len(alike):
                timed_out[thread, len(bursts) - 1] = int(alike.max())
        queues = _queues(holds, bursts.stack[waits], wakers, locks)
        shared = {stack: count + nth for nth, stack in enumerate(queues)}
        count += len(shared)
        for nth, (burst, index) in enumerate(zip(waits.tolist(), wakers.tolist(), strict=True)):
            if over_ns[nth] > 0:
                timed_out[thread, burst] = int(over_ns[nth])
                continue
            if index < 0:
                continue
            inside_ns = int(min(holds.end_ns[index], posted_ns[nth]) - holds.start_ns[index])
            offset_ns = int(before_ns[index]) + max(0, inside_ns)
            takes[thread, burst] = semaphore = shared.get(int(bursts.stack[burst]), count)
            count = max(count, semaphore + 1)
            posts[int(holds.thread[index]), int(burst_of[index])].append((offset_ns, semaphore))
    return Wakes({key: tuple(sorted(value)) for key, value in posts.items()}, takes, count, timed_out)


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


@final
@dataclass(frozen=True)
class _Asleep:
    """When a thread fell asleep in some of its waits, was woken, as one wake-up before it wanted the GIL, and wanted it."""

    slept_ns: NDArray[np.int64]
    posted_ns: NDArray[np.int64]
    wanted_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.slept_ns)

    def chosen(self, which: NDArray[np.int64]) -> "_Asleep":
        return _Asleep(self.slept_ns[which], self.posted_ns[which], self.wanted_ns[which])


def _keep_usual(
    wakers: NDArray[np.int64],
    holds: Holds,
    able_of: Mapping[int, NDArray[np.int64]],
    stacks: NDArray[np.uint32],
    asleep: _Asleep,
    roles: Mapping[int, str],
) -> None:
    """Replace, in a thread's `wakers`, holds of threads that were there by chance by those of a place's usual wakers.

    Independent threads now and then hold the GIL just when the thread is woken. Without the true waker, such a wait
    would never end. If one thread is the nearest in most waits of a place, and is there in nearly all, it woke the
    thread in all of them. Else, a role that is the nearest far less often than another one was there by chance.

    Args:
        wakers: For each wait, the hold that was nearest to the wake-up, or -1.
        holds: All holds.
        able_of: For each thread, the holds in which it can wake another one.
        stacks: For each wait, the stack of it.
        asleep: The times of each wait.
        roles: The roles of threads.
    """
    for stack in np.unique(stacks).tolist():
        here = np.flatnonzero(stacks == stack)
        woken = here[wakers[here] >= 0]
        threads = Counter(holds.thread[wakers[woken]].tolist())
        if len(here) < _FEW or len(threads) < 2:
            continue
        main, often = threads.most_common(1)[0]
        if 2 * often > len(here) and np.mean(_nearest(holds, able_of[main], asleep.chosen(here)) >= 0) >= _NEARLY_ALL:
            usual, soon_ns = [main], _EVER
        else:
            counts: Counter[str | int] = Counter()
            for thread, count in threads.items():
                counts[roles.get(thread, thread)] += count
            seldom = _SELDOM * max(counts.values())
            usual, soon_ns = [one for one in threads if counts[roles.get(one, one)] >= seldom], _SOON_NS
        by_chance = woken[~np.isin(holds.thread[wakers[woken]], usual)]
        if len(by_chance):
            able = np.sort(np.concatenate([able_of[one] for one in usual]))
            wakers[by_chance] = _nearest(holds, able, asleep.chosen(by_chance), soon_ns)


def _queues(holds: Holds, stacks: NDArray[np.uint32], wakers: NDArray[np.int64], locks: Container[int]) -> list[int]:
    """Return the stacks, except those of locks, at which several threads woke a thread."""
    return [
        stack
        for stack in np.unique(stacks).tolist()
        if stack not in locks and len(np.unique(holds.thread[wakers[(stacks == stack) & (wakers >= 0)]])) > 1
    ]


def _nearest(holds: Holds, able: NDArray[np.int64], asleep: _Asleep, soon_ns: int = _SOON_NS) -> NDArray[np.int64]:
    """Return, for each wait, the hold among those `able` to wake the thread that was nearest to its wake-up, or -1.

    It is the hold at that time; else the last one before it that was not over when the thread went to sleep; else the
    first one after it.
    """
    if not len(able):
        return np.full(len(asleep), -1, dtype=np.int64)
    last = np.searchsorted(holds.start_ns[able], asleep.posted_ns, "right") - 1
    before, after = able[np.maximum(last, 0)], able[np.minimum(last + 1, len(able) - 1)]
    end_ns = holds.end_ns[before]
    is_before = (last >= 0) & (end_ns > asleep.slept_ns) & (asleep.posted_ns - end_ns <= soon_ns)
    is_after = (last + 1 < len(able)) & (holds.start_ns[after] < asleep.wanted_ns)
    found: NDArray[np.int64] = np.where(is_before, before, np.where(is_after, after, -1))
    return found


def _places(seen: Seen) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each hold, its thread's burst (-1: none that ended), and the time that the burst ran before it."""
    burst_of = np.full(len(seen.holds), -1, dtype=np.int64)
    before_ns = np.zeros(len(seen.holds), dtype=np.int64)
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
        burst_of[mine] = burst
        before_ns[mine] = (after_ns - ran_ns[mine]) - (after_ns - ran_ns[mine])[first]
    return burst_of, before_ns
