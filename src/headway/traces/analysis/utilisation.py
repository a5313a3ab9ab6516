"""The use of each GIL over time: by thread, with the number of waiting threads, in buckets of equal length."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Intervals

__all__ = ["BUCKETS", "Timeline", "per_bucket", "timeline"]

BUCKETS = 100
_THREADS = 64
"""The number of threads with a line of their own: those that held longest."""


@final
@dataclass(frozen=True, eq=False)
class Timeline:
    """The use of one GIL over time.

    Attributes:
        edges_ns: The times between which the buckets lie; one more than there are buckets.
        held: For each bucket, the share of the time in which the GIL was held.
        waiting: For each bucket, the average number of threads that waited for the GIL.
        threads: Indices of the threads that held longest.
        held_by: `held_by[i, bucket]` is the share of the time in which `threads[i]` held.
    """

    edges_ns: NDArray[np.int64]
    held: NDArray[np.float64]
    waiting: NDArray[np.float64]
    threads: NDArray[np.int64]
    held_by: NDArray[np.float64]


def per_bucket(intervals: Intervals, group: NDArray, groups: int, edges_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, by group and bucket, the time in the group's intervals. These must lie between first and last edge."""
    buckets = len(edges_ns) - 1
    totals = np.zeros((groups, buckets), dtype=np.int64)
    for times_ns, sign in ((intervals.start_ns, 1), (intervals.end_ns, -1)):
        # A begin adds the rest of its bucket and all later buckets; an end subtracts the same.
        bucket = np.clip(np.searchsorted(edges_ns, times_ns, "right") - 1, 0, buckets - 1)
        cell = group * np.int64(buckets) + bucket
        rest_ns = edges_ns[bucket + 1] - times_ns
        sums = np.bincount(cell, weights=rest_ns, minlength=totals.size).astype(np.int64).reshape(totals.shape)
        counts = np.bincount(cell, minlength=totals.size).reshape(totals.shape)
        earlier = np.cumsum(counts, axis=1) - counts
        totals += sign * (sums + earlier * np.diff(edges_ns))
    return totals


def timeline(holds: Intervals, waits: Intervals, threads: int, start_ns: int, end_ns: int) -> Timeline | None:
    """Return one GIL's use over time, or None if no time passed."""
    if end_ns <= start_ns:
        return None
    span = end_ns - start_ns
    buckets = min(BUCKETS, span)
    edges_ns = np.array([start_ns + span * number // buckets for number in range(buckets + 1)], dtype=np.int64)
    width_ns = np.diff(edges_ns)
    by_thread = per_bucket(holds, holds.thread, threads, edges_ns)
    waited = per_bucket(waits, np.zeros(len(waits), dtype=np.int64), 1, edges_ns)
    held = by_thread.sum(axis=1)
    longest = np.argsort(-held, kind="stable")[: min(_THREADS, np.count_nonzero(held))]
    return Timeline(
        edges_ns=edges_ns,
        held=by_thread.sum(axis=0) / width_ns,
        waiting=waited[0] / width_ns,
        threads=longest,
        held_by=by_thread[longest] / width_ns,
    )
