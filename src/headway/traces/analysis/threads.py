"""The holds and waits of each thread: counts, totals, percentiles.

Percentiles are nearest-rank: the p-th percentile is the smallest recorded value that at least p per cent of the values
do not exceed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import in_order
from headway.traces.analysis.intervals import Holds, Intervals, Recorded
from headway.traces.analysis.words import labels, roles
from headway.traces.model import Thread, Trace

__all__ = [
    "NOTHING",
    "SLEEPS",
    "Distribution",
    "Held",
    "Names",
    "ThreadSummary",
    "distribution",
    "distributions",
    "held",
    "is_cpu_bound",
    "lives_ns",
    "names",
    "role_summaries",
    "thread_summaries",
]

SLEEPS = 0.1
"""A holder that runs for less than this share of its holds sleeps with the GIL, or has no core."""

_FEW = 10
"""Among more holds, a single one that was preempted is an exception."""


@final
@dataclass(frozen=True)
class Distribution:
    """The number of intervals, and their lengths."""

    count: int = 0
    total_ns: int = 0
    p50_ns: int = 0
    p90_ns: int = 0
    p99_ns: int = 0
    max_ns: int = 0


NOTHING = Distribution()


@final
@dataclass(frozen=True)
class ThreadSummary:
    """The holds and waits of one thread, or of a pool of threads together, over all GILs or at one.

    Attributes:
        index: The thread's index in `Trace.threads`; for a pool, the index of its first thread.
        label: The text that names the thread: its name, with its native id if others have the same name.
        name: The thread's name in Python.
        tid: Native id.
        serial: Unique in its process.
        threads: The number of threads; for a pool, of those that lived in the window.
        lived_ns: The time for which the thread lived in the window; for a pool, the sum.
        since_ns, until_ns: The part of the window in which it lived; for a pool, from the first thread's begin to the last
            one's end.
        gils: Indices of the GILs that were held or waited for.
        holds: The lengths of the holds.
        waits: The lengths of the waits.
        longest_waiter: The index of the thread that had the longest wait; -1 without waits.
        forced: The number of holds that were preempted.
        forced_ns: The time in those holds.
        forced_off_core_ns: The part of that in which the thread had no core, as far as is known.
        off_core_ns: The same part of all its holds.
        voluntary: The number of holds that the thread ended by itself, to block or to exit.
        pushed: The number of waits after a preempted hold. The other waits follow a blocking call.
        pushed_ns: The time in those waits.
    """

    index: int
    label: str
    name: str
    tid: int
    serial: int
    threads: int
    lived_ns: int
    since_ns: int
    until_ns: int
    gils: tuple[int, ...]
    holds: Distribution
    waits: Distribution
    longest_waiter: int
    forced: int
    forced_ns: int
    forced_off_core_ns: int
    off_core_ns: int
    voluntary: int
    pushed: int
    pushed_ns: int

    @property
    def computes(self) -> bool:
        """True for a CPU-bound thread."""
        forced = Held(self.forced, self.forced_ns, self.forced_off_core_ns)
        return is_cpu_bound(forced, Held(self.holds.count, self.holds.total_ns, self.off_core_ns))


@final
@dataclass(frozen=True)
class Held:
    """Some holds: their number, their time, and the part of that without a core, as far as is known."""

    count: int
    total_ns: int
    off_core_ns: int

    @property
    def ran_ns(self) -> int:
        """The time on a core."""
        return self.total_ns - self.off_core_ns


def held(holds: Holds) -> Held:
    """Return the number and the times of holds."""
    return Held(len(holds), int(holds.length_ns.sum()), int(holds.off_core_ns.sum()))


def is_cpu_bound(forced: Held, every: Held) -> bool:
    """Tell whether a thread is CPU-bound: it is on a core in preempted holds for half of its time on a core in holds, or more.

    A thread that hardly ran in its preempted holds slept there in a call, or waited for a core: that is no computing. Nor is
    one such hold among many that the thread ended by itself.

    Args:
        forced: The thread's preempted holds.
        every: All its holds.
    """
    is_usual = forced.count > 1 or every.count <= _FEW
    return is_usual and 2 * forced.ran_ns >= every.ran_ns > 0 and forced.ran_ns >= SLEEPS * forced.total_ns > 0


def distribution(lengths_ns: NDArray[np.int64]) -> Distribution:
    """Return the distribution of some lengths."""
    return _of_sorted(np.sort(lengths_ns))


def _of_sorted(ordered: NDArray[np.int64]) -> Distribution:
    count = len(ordered)
    if not count:
        return NOTHING
    p50, p90, p99 = (int(ordered[math.ceil(count * percent / 100) - 1]) for percent in (50, 90, 99))
    return Distribution(count, int(ordered.sum()), p50, p90, p99, int(ordered[-1]))


def distributions(lengths_ns: NDArray[np.int64], group: NDArray, groups: int) -> list[Distribution]:
    """Return the distribution of the lengths in each of the groups 0 to `groups` - 1."""
    ordered = lengths_ns[in_order(group)]
    ends = np.cumsum(np.bincount(group, minlength=groups))
    return [_of_sorted(np.sort(one)) for one in np.split(ordered, ends[:-1])]


def lives_ns(threads: Sequence[Thread], start_ns: int, end_ns: int) -> NDArray[np.int64]:
    """Return how long each thread lived within a window."""
    since_ns, until_ns = _lives(threads, start_ns, end_ns)
    lives: NDArray[np.int64] = np.maximum(0, until_ns - since_ns)
    return lives


def _lives(threads: Sequence[Thread], start_ns: int, end_ns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when each thread began and ended within a window."""
    since_ns = [max(one.start_ns, start_ns) for one in threads]
    until_ns = [end_ns if one.end_ns is None else min(one.end_ns, end_ns) for one in threads]
    return np.array(since_ns, dtype=np.int64), np.array(until_ns, dtype=np.int64)


@final
@dataclass(frozen=True, eq=False)
class Names:
    """The names of a trace's threads, and of the pools of those that held or waited in a window.

    Attributes:
        labels: The label of each thread.
        roles: The name by which each is grouped: that of its pool, or its label.
        first: For each thread the index of the first thread of its pool, which stands for it; None if there is no pool.
        present: A mask of the threads that lived in the window.
    """

    labels: tuple[str, ...]
    roles: tuple[str, ...]
    first: NDArray[np.uint32] | None
    present: NDArray[np.bool_]


def names(trace: Trace, found: Recorded, start_ns: int, end_ns: int) -> Names:
    """Return the names of threads and pools in a window, for all GILs together. The arguments are as below."""
    told = labels(trace.threads)
    used = np.union1d(found.holds.thread, found.waits.thread).astype(np.int64)
    grouped = roles(trace.threads, told, used.tolist())
    present = lives_ns(trace.threads, start_ns, end_ns) > 0
    present[used] = True
    if grouped == told:
        return Names(told, grouped, None, present)
    first: dict[str, int] = {}
    of_each = np.array([first.setdefault(name, index) for index, name in enumerate(grouped)], dtype=np.uint32)
    return Names(told, grouped, of_each, present)


def thread_summaries(
    trace: Trace, found: Recorded, named: Names, start_ns: int, end_ns: int
) -> tuple[ThreadSummary, ...]:
    """Return a summary of every thread that held or waited, ordered by the time in both, longest first.

    Args:
        trace: The trace.
        found: Its holds and waits within the window.
        named: The names of its threads.
        start_ns: The begin of the window.
        end_ns: The end of the window.
    """
    return _summaries(trace, found, named.labels, named.present, start_ns, end_ns)


def role_summaries(
    trace: Trace, found: Recorded, named: Names, start_ns: int, end_ns: int
) -> tuple[ThreadSummary, ...]:
    """Return the same summaries with each pool of threads as one; () if there is no pool."""
    if named.first is None:
        return ()
    return _summaries(trace, found, named.roles, named.present, start_ns, end_ns)


def _summaries(
    trace: Trace, found: Recorded, by: tuple[str, ...], present: NDArray[np.bool_], start_ns: int, end_ns: int
) -> tuple[ThreadSummary, ...]:
    """Return one summary for all threads with the same name in `by`."""
    if not by:
        return ()
    known = {name: number for number, name in enumerate(dict.fromkeys(by))}
    group = np.array([known[name] for name in by])
    holds, waits = (replace(one, thread=group[one.thread].astype(np.uint32)) for one in (found.holds, found.waits))
    firsts = np.unique(group, return_index=True)[1]
    count = len(known)
    held_ns, waited_ns = holds.length_ns, waits.length_ns
    longest_waiter = _longest(found.waits, waited_ns, waits.thread, count)
    of_holds = distributions(held_ns, holds.thread, count)
    of_waits = distributions(waited_ns, waits.thread, count)
    forced, forced_ns = _marked(holds, held_ns, count)
    pushed, pushed_ns = _marked(waits, waited_ns, count)
    off_core_ns = found.holds.off_core_ns
    _, forced_off_core_ns = _marked(holds, off_core_ns, count)
    all_off_core_ns = np.bincount(holds.thread, weights=off_core_ns, minlength=count)
    voluntary = np.bincount(holds.thread[~holds.forced & ~holds.open], minlength=count)
    gils = [held | waited for held, waited in zip(_gils(holds, count), _gils(waits, count), strict=True)]
    # A thread of a pool that began after the window, or ended before it, is no member of the pool there.
    members = np.bincount(group[present], minlength=count)
    begun_ns, ended_ns = _lives(trace.threads, start_ns, end_ns)
    since_ns, until_ns = np.full(count, end_ns), np.full(count, start_ns)
    np.minimum.at(since_ns, group[present], begun_ns[present])
    np.maximum.at(until_ns, group[present], ended_ns[present])
    lived_ns = np.bincount(group, weights=lives_ns(trace.threads, start_ns, end_ns), minlength=count)
    summaries = []
    for name, number in known.items():
        if not gils[number]:
            continue
        first = int(firsts[number])
        thread = trace.threads[first]
        summaries.append(
            ThreadSummary(
                index=first,
                label=name,
                name=name if members[number] > 1 else thread.name,
                tid=thread.tid,
                serial=thread.serial,
                threads=int(members[number]),
                lived_ns=int(lived_ns[number]),
                since_ns=int(since_ns[number]),
                until_ns=int(until_ns[number]),
                gils=tuple(sorted(gils[number])),
                holds=of_holds[number],
                waits=of_waits[number],
                longest_waiter=int(longest_waiter[number]),
                forced=int(forced[number]),
                forced_ns=int(forced_ns[number]),
                forced_off_core_ns=int(forced_off_core_ns[number]),
                off_core_ns=int(all_off_core_ns[number]),
                voluntary=int(voluntary[number]),
                pushed=int(pushed[number]),
                pushed_ns=int(pushed_ns[number]),
            )
        )
    return tuple(sorted(summaries, key=lambda one: (-one.holds.total_ns - one.waits.total_ns, one.index)))


def _longest(intervals: Intervals, length_ns: NDArray[np.int64], group: NDArray, groups: int) -> NDArray[np.int64]:
    """Return, for each group, the thread of its longest interval, of equal ones the first; -1 if it has none."""
    most_ns = np.zeros(groups, dtype=np.int64)
    np.maximum.at(most_ns, group, length_ns)
    which = np.flatnonzero(length_ns == most_ns[group])[::-1]
    found = np.full(groups, -1, dtype=np.int64)
    found[group[which]] = intervals.thread[which]
    return found


def _marked(intervals: Intervals, length_ns: NDArray[np.int64], threads: int) -> tuple[NDArray, NDArray]:
    """Return, for each thread, the number of its `forced` intervals and the time in them."""
    thread = intervals.thread[intervals.forced]
    weights = length_ns[intervals.forced]
    return np.bincount(thread, minlength=threads), np.bincount(thread, weights=weights, minlength=threads)


def _gils(intervals: Intervals, threads: int) -> list[set[int]]:
    """Return, for each thread, the set of GILs in its intervals."""
    seen = np.bincount(intervals.thread.astype(np.int64) * 256 + intervals.gil, minlength=threads * 256)
    rows = seen.reshape(threads, 256)
    return [set(np.flatnonzero(row).tolist()) for row in rows]
