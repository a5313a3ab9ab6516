"""What each thread held and waited: counts, totals, percentiles.

Percentiles are nearest-rank: the smallest recorded value that at least so many per cent do not exceed.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Intervals, Recorded
from headway.traces.analysis.words import labels
from headway.traces.model import Trace

__all__ = ["NOTHING", "Distribution", "ThreadSummary", "distribution", "distributions", "thread_summaries"]

_SIXTEEN_BITS = 1 << 16


@final
@dataclass(frozen=True)
class Distribution:
    """How many intervals there were, and how long they lasted."""

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
    """One thread's holds and waits, over all GILs.

    Attributes:
        index: Of the thread in `Trace.threads`.
        label: What to call it: its name, and its native id where others have the same name.
        name: As Python names it.
        tid: Native id.
        serial: Unique in its process.
        gils: Indices of the GILs that it held or waited for.
        holds: The times that it held a GIL.
        waits: The times that it waited for one.
        forced: Holds that ended because another thread had asked.
        forced_ns: The time in those: a thread that mostly computes has most of its time there.
        voluntary: Holds that it ended by itself, to block or to exit.
        pushed: Waits that follow a forced release: its turn was over. The others follow a blocking call.
        pushed_ns: The time in those.
    """

    index: int
    label: str
    name: str
    tid: int
    serial: int
    gils: tuple[int, ...]
    holds: Distribution
    waits: Distribution
    forced: int
    forced_ns: int
    voluntary: int
    pushed: int
    pushed_ns: int

    @property
    def computes(self) -> bool:
        """Most of its hold time ended only because another thread had asked."""
        return self.forced > 0 and 2 * self.forced_ns >= self.holds.total_ns


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
    """Return the distribution of the lengths in each of `groups` groups."""
    narrow = group.astype(np.uint16) if groups < _SIXTEEN_BITS else group
    grouped = lengths_ns[np.argsort(narrow, kind="stable")]
    ends = np.cumsum(np.bincount(group, minlength=groups))
    return [_of_sorted(np.sort(one)) for one in np.split(grouped, ends[:-1])]


def thread_summaries(trace: Trace, found: Recorded) -> tuple[ThreadSummary, ...]:
    """Return every thread that held or waited, those first that did so longest."""
    holds, waits, count = found.holds, found.waits, len(trace.threads)
    if not count:
        return ()
    held_ns, waited_ns = holds.length_ns, waits.length_ns
    of_holds = distributions(held_ns, holds.thread, count)
    of_waits = distributions(waited_ns, waits.thread, count)
    forced, forced_ns = _marked(holds, held_ns, count)
    pushed, pushed_ns = _marked(waits, waited_ns, count)
    voluntary = np.bincount(holds.thread[~holds.forced & ~holds.open], minlength=count)
    gils = [held | waited for held, waited in zip(_gils(holds, count), _gils(waits, count), strict=True)]
    names = labels(trace.threads)
    summaries = [
        ThreadSummary(
            index=index,
            label=names[index],
            name=thread.name,
            tid=thread.tid,
            serial=thread.serial,
            gils=tuple(sorted(gils[index])),
            holds=of_holds[index],
            waits=of_waits[index],
            forced=int(forced[index]),
            forced_ns=int(forced_ns[index]),
            voluntary=int(voluntary[index]),
            pushed=int(pushed[index]),
            pushed_ns=int(pushed_ns[index]),
        )
        for index, thread in enumerate(trace.threads)
        if gils[index]
    ]
    return tuple(sorted(summaries, key=lambda one: (-one.holds.total_ns - one.waits.total_ns, one.index)))


def _marked(intervals: Intervals, length_ns: NDArray[np.int64], threads: int) -> tuple[NDArray, NDArray]:
    """Return by thread how many of its intervals are `forced`, and the time in them."""
    thread = intervals.thread[intervals.forced]
    weights = length_ns[intervals.forced]
    return np.bincount(thread, minlength=threads), np.bincount(thread, weights=weights, minlength=threads)


def _gils(intervals: Intervals, threads: int) -> list[set[int]]:
    """Return for each thread which GILs its intervals are of."""
    seen = np.bincount(intervals.thread.astype(np.int64) * 256 + intervals.gil, minlength=threads * 256)
    rows = seen.reshape(threads, 256)
    return [set(np.flatnonzero(row).tolist()) for row in rows]
