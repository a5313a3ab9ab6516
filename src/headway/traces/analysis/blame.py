"""Computes who waited how long while whom held, exact to the nanosecond, from the overlap of each wait with each hold.

The holds of a GIL do not overlap. The time that a thread held between two holds is therefore a difference of two
running sums, with one column for each holder. A wait begins within (or after) one hold and ends within another. The
overlaps with these two are computed by themselves, and the time between them is the difference. Columns are made block
by block, so that memory does not grow with the trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Intervals

__all__ = ["COLUMNS", "Blame", "Met", "blame", "meet", "overlaps", "waited_during"]

COLUMNS = 64
"""The number of holders with a column of their own: those that held longest. A larger matrix costs time unread."""

_BLOCK = 8192
"""Holds in a block, whose running sums (4 MiB) stay in the processor's cache."""


@final
@dataclass(frozen=True, eq=False)
class Blame:
    """The time that threads waited for one GIL, by its holder meanwhile. A row adds up to `wait_ns` exactly.

    Attributes:
        gil: Index of the GIL.
        waiters: The rows: indices of the threads that waited, the longest total first.
        holders: The columns: indices of the threads that held longest, the longest total first.
        held_ns: `held_ns[row, column]` is the time that the row's thread waited while the column's thread held.
        others_ns: For each row, the time that it waited while a thread without a column held.
        nobody_ns: For each row, the time that it waited while no thread held: from a release until the waiter has woken
            up.
        wait_ns: For each row, the total of its waits.
    """

    gil: int
    waiters: NDArray[np.int64]
    holders: NDArray[np.int64]
    held_ns: NDArray[np.int64]
    others_ns: NDArray[np.int64]
    nobody_ns: NDArray[np.int64]
    wait_ns: NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class Met:
    """The holds of a GIL that each wait met, as indices into the GIL's holds.

    Attributes:
        first: The hold during or after which the wait began; -1: the wait began before any hold.
        last: The last hold that began before the wait ended; at most `first` if none began during the wait.
        first_ns: The overlap with `first`.
        last_ns: The overlap with `last` if that is not `first`; else 0. The wait overlaps the holds between them
            wholly.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    first_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]


def meet(holds: Intervals, waits: Intervals) -> Met:
    """Return the holds of a GIL that its waits met."""
    first = np.searchsorted(holds.start_ns, waits.start_ns, "right") - 1
    last = np.searchsorted(holds.start_ns, waits.end_ns, "left") - 1
    if not len(holds):
        nothing = np.zeros(len(waits), dtype=np.int64)
        return Met(first, last, nothing, nothing)
    first_ns = np.minimum(holds.end_ns[first], waits.end_ns)
    first_ns -= waits.start_ns
    first_ns[(first_ns < 0) | (first < 0)] = 0
    last_ns = np.minimum(holds.end_ns[last], waits.end_ns)
    last_ns -= holds.start_ns[last]
    last_ns[last <= first] = 0
    return Met(first, last, first_ns, last_ns)


def blame(gil: int, holds: Intervals, waits: Intervals, met: Met, threads: int) -> Blame:
    """Return the blame matrix of one GIL.

    Args:
        gil: The index of the GIL.
        holds: The holds of the GIL, in order.
        waits: The waits for the GIL.
        met: The result of `meet` for these holds and waits.
        threads: The number of threads in the trace.
    """
    held = np.bincount(holds.thread, weights=holds.length_ns, minlength=threads)
    holders = np.argsort(-held, kind="stable")[: min(COLUMNS, np.count_nonzero(held))]
    # One column for each holder in `holders`, and the last one for all others.
    column_of = np.full(threads, len(holders), dtype=np.int64)
    column_of[holders] = np.arange(len(holders))
    columns = len(holders) + 1
    row_of, rows = _rows(waits, threads)
    column = column_of[holds.thread]
    row = row_of[waits.thread]

    matrix = np.zeros((len(rows), columns), dtype=np.int64)
    for which, overlap_ns in ((met.first, met.first_ns), (met.last, met.last_ns)):
        some = np.flatnonzero(overlap_ns)
        cells = row[some] * columns + column[which[some]]
        sums = np.bincount(cells, weights=overlap_ns[some], minlength=matrix.size)
        matrix += sums.astype(np.int64).reshape(matrix.shape)
    matrix += _between(holds, column, met, row, matrix.shape)
    wait_ns = np.bincount(row, weights=waits.length_ns, minlength=len(rows)).astype(np.int64)
    return Blame(
        gil=gil,
        waiters=rows,
        holders=holders,
        held_ns=matrix[:, :-1],
        others_ns=matrix[:, -1],
        nobody_ns=wait_ns - matrix.sum(axis=1),
        wait_ns=wait_ns,
    )


def _rows(waits: Intervals, threads: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each thread, and the thread of each row: the threads that waited, the longest total first."""
    waited = np.bincount(waits.thread, weights=waits.length_ns, minlength=threads)
    seen = np.bincount(waits.thread, minlength=threads)
    rows = np.lexsort((-waited, seen == 0))[: np.count_nonzero(seen)]
    row_of = np.zeros(threads, dtype=np.int64)
    row_of[rows] = np.arange(len(rows))
    return row_of, rows


def _between(
    holds: Intervals, column: NDArray[np.int64], met: Met, row: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Return, by row and column, the time in holds that lie wholly within a wait: after its first, before its last."""
    some = np.flatnonzero(met.last > met.first + 1)
    # That time is the running sum before hold `last` minus the one before hold `first + 1`.
    begins = _Ends(met.first[some] + 1, row[some])
    ends = _Ends(met.last[some], row[some])
    total = np.zeros(shape, dtype=np.int64)
    before = np.zeros(shape[1], dtype=np.int64)
    length_ns = holds.length_ns
    for block in range(0, len(holds) if len(some) else 0, _BLOCK):
        mine = slice(block, min(block + _BLOCK, len(holds)))
        sums = np.zeros((mine.stop - block + 1, shape[1]), dtype=np.int64)
        sums[np.arange(1, len(sums)), column[mine]] = length_ns[mine]
        np.cumsum(sums, axis=0, out=sums)
        sums += before
        before = sums[-1].copy()
        for end, sign in ((ends, 1), (begins, -1)):
            for rows, found in end.in_block(block, mine.stop, sums):
                total[rows] += sign * found
    return total


@final
class _Ends:
    """One end of many waits, which is looked up in the running sums block by block."""

    def __init__(self, hold: NDArray[np.int64], row: NDArray[np.int64]) -> None:
        order = np.argsort(hold, kind="stable")
        self._hold, self._row = hold[order], row[order]

    def in_block(
        self, start: int, stop: int, sums: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield distinct rows, each with the sum of the running sums at its ends within holds `start` to `stop`."""
        low, high = np.searchsorted(self._hold, (start, stop))
        # Many ends can lie in one hold, so they are taken in parts of limited size.
        for first in range(low, high, 2 * _BLOCK):
            part = slice(first, min(first + 2 * _BLOCK, high))
            row = self._row[part]
            order = np.argsort(row.astype(np.uint32), kind="stable")
            row = row[order]
            begins = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
            yield row[begins], np.add.reduceat(sums[self._hold[part][order] - start], begins, axis=0)


_Times = tuple[NDArray[np.int64], NDArray[np.int64]]
_Running = tuple[NDArray[np.int64], NDArray[np.int64]]


def waited_during(holds: Intervals, waits: Intervals) -> NDArray[np.int64]:
    """Return, for each hold of a GIL, the sum of the times for which threads waited for the GIL during the hold."""
    return overlaps((holds.start_ns, holds.end_ns), (waits.start_ns, waits.end_ns))


def overlaps(these: _Times, others: _Times) -> NDArray[np.int64]:
    """Return, for each of these intervals, the sum of its overlaps with the others, in ns.

    Both are (begins, ends). The others' begins ascend.
    """
    if not len(these[0]) or not len(others[0]):
        return np.zeros(len(these[0]), dtype=np.int64)
    base_ns = int(others[0][0])
    begun, ended = _running_sum(others[0], base_ns), _running_sum(np.sort(others[1]), base_ns)
    result = _waited_until(these[1], begun, ended, base_ns)
    result -= _waited_until(these[0], begun, ended, base_ns)
    return result


def _running_sum(times_ns: NDArray[np.int64], base_ns: int) -> _Running:
    return times_ns, np.concatenate([[0], np.cumsum(times_ns - base_ns)])


def _waited_until(time_ns: NDArray[np.int64], begun: _Running, ended: _Running, base_ns: int) -> NDArray[np.int64]:
    """Return the time that threads had waited by each time. The sums may wrap around; their difference is right."""
    result = np.zeros(len(time_ns), dtype=np.int64)
    for (times, sums), sign in ((begun, 1), (ended, -1)):
        count = np.searchsorted(times, time_ns, "left")
        result += sign * (count * (time_ns - base_ns) - sums[count])
    return result
