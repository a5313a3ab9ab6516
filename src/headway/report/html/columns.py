"""A trace's holds, waits and stacks as columns of unsigned numbers, packed for a page.

One million events take some 4 MB in this form: gaps instead of times, each number's bytes in separate planes (most of
which are zero), deflated. A larger trace is given as shares held and waited in bins of equal length, with its longest
intervals.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntFlag
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from headway.report.html.schema import Column
from headway.traces.analysis.intervals import Intervals
from headway.traces.analysis.utilisation import per_bucket

__all__ = ["BINS", "LONGEST", "WHOLE", "Cut", "End", "LaneKey", "Packed", "pack"]

WHOLE = 1_500_000
"""The most holds and waits that are all given."""
LONGEST = 200_000
"""The number of each kind, the longest ones, that are given if there are more."""
BINS = 16_384
_MOST_BINS = 4_000_000
"""The most bins of all lanes together: with thousands of threads each lane has fewer."""
_LEAST_BINS = 256
_FULL = 65_535
_WIDTHS = (1, 2, 4, 8)

LaneKey = tuple[int, int]
"""A GIL's index (-1 means locks) and a thread's index."""


@final
class End(IntFlag):
    """Facts about the ends of an interval, as the columns of flags have them."""

    FORCED = 1
    """The GIL was released at the request of another thread."""
    OPEN = 2
    """The end was not recorded."""
    AFTER = 4
    """The interval goes on beyond the end of the window."""
    BEFORE = 8
    """The interval began before the window."""


@final
@dataclass(frozen=True, eq=False)
class Cut(Intervals):
    """Intervals cut to a window."""

    began_before: NDArray[np.bool_]
    goes_on: NDArray[np.bool_]

    @classmethod
    def to(cls, span_ns: tuple[int, int], intervals: Intervals) -> Self:
        """Return the parts of intervals that lie in a window."""
        since_ns, until_ns = span_ns
        whole = {one.name: getattr(intervals, one.name) for one in fields(Intervals)}
        return cls(**whole, began_before=intervals.start_ns < since_ns, goes_on=intervals.end_ns > until_ns).clipped(
            since_ns, until_ns
        )

    @property
    def flags(self) -> NDArray[np.uint8]:
        """The facts about the ends of each interval."""
        result = np.zeros(len(self), dtype=np.uint8)
        for flag, which in (
            (End.FORCED, self.forced),
            (End.OPEN, self.open & ~self.goes_on),
            (End.AFTER, self.goes_on),
            (End.BEFORE, self.began_before),
        ):
            result |= which * np.uint8(flag)
        return result


@final
@dataclass(frozen=True)
class Packed:
    """Columns in one block.

    Attributes:
        columns: The columns in the block, in order.
        block: The deflated data (zlib).
        bins: The number of bins; 0 if every interval is in the block.
        rows: By lane: the first hold, the number of holds, the first wait, the number of waits.
    """

    columns: tuple[Column, ...]
    block: bytes
    bins: int
    rows: tuple[tuple[int, int, int, int], ...]


def pack(
    lanes: list[LaneKey],
    holds: Cut,
    waits: Cut,
    span_ns: tuple[int, int],
    stacks: tuple[NDArray[np.int64], NDArray[np.int64]],
    *,
    whole: int = WHOLE,
) -> Packed:
    """Return the data that a page needs of a trace in some window.

    Args:
        lanes: The lanes, in the page's order; every interval belongs to one of them.
        holds: Holds, cut to the window. Those of one lane do not overlap.
        waits: Waits, cut to the window; the GIL of a wait for a lock is -1.
        span_ns: The window.
        stacks: The parent and the frame of each stack.
        whole: The most intervals that are given one by one.
    """
    start_ns, end_ns = span_ns
    of = {key: place for place, key in enumerate(lanes)}
    of_hold, of_wait = _lane(holds, of), _lane(waits, of)
    bins = min(BINS, max(_LEAST_BINS, _MOST_BINS // max(1, len(lanes))), end_ns - start_ns)
    if len(holds) + len(waits) <= whole:
        bins = 0
    binned: list[tuple[str, NDArray]] = []
    if bins:
        edges = np.linspace(start_ns, end_ns, bins + 1).astype(np.int64)
        binned = [
            (name, _shares(intervals, lane, len(lanes), edges))
            for name, intervals, lane in (("bin_held", holds, of_hold), ("bin_waited", waits, of_wait))
        ]
    totals = [
        ("stack_held", _by_stack(holds, len(stacks[0]))),
        ("stack_waited", _by_stack(waits, len(stacks[0]))),
    ]
    if bins:
        holds, of_hold = _longest(holds, of_hold)
        waits, of_wait = _longest(waits, of_wait)
    named = [
        *_of_lanes("hold", holds, of_hold, start_ns),
        *_of_lanes("wait", waits, of_wait, start_ns),
        ("stack_parent", stacks[0]),
        ("stack_frame", stacks[1]),
        *totals,
        *binned,
    ]
    planes = [_planes(name, values) for name, values in named]
    block = zlib.compress(b"".join(data for _, data in planes), 6)
    counted = [np.bincount(lane, minlength=len(lanes)) for lane in (of_hold, of_wait)]
    firsts = [np.cumsum(counts) - counts for counts in counted]
    rows = zip(*(part.tolist() for pair in zip(firsts, counted, strict=True) for part in pair), strict=True)
    return Packed(tuple(column for column, _ in planes), block, bins, tuple(rows))


def _lane(intervals: Intervals, of: dict[LaneKey, int]) -> NDArray[np.int64]:
    """Return the lane of each interval."""
    if not len(intervals):
        return np.zeros(0, dtype=np.int64)
    threads = int(intervals.thread.max()) + 1
    known, which = np.unique((intervals.gil.astype(np.int64) + 1) * threads + intervals.thread, return_inverse=True)
    places = [of[int(key) // threads - 1, int(key) % threads] for key in known]
    result: NDArray[np.int64] = np.array(places, dtype=np.int64)[which]
    return result


def _by_stack(intervals: Intervals, stacks: int) -> NDArray[np.int64]:
    """Return the time in each stack."""
    total = np.zeros(stacks, dtype=np.int64)
    np.add.at(total, intervals.stack, intervals.length_ns)
    return total


def _longest(intervals: Cut, lane: NDArray[np.int64]) -> tuple[Cut, NDArray[np.int64]]:
    if len(intervals) <= LONGEST:
        return intervals, lane
    kept = np.sort(np.argpartition(-intervals.length_ns, LONGEST)[:LONGEST])
    return intervals.chosen(kept), lane[kept]


def _shares(intervals: Intervals, lane: NDArray[np.int64], lanes: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    share = per_bucket(intervals, lane, lanes, edges) / np.diff(edges)
    # The least part of a bin is shown, too: a thread that held for moments only would look as if it never did.
    result: NDArray[np.int64] = np.where(share > 0, np.rint(share.clip(0, 1) * _FULL).clip(1), 0).astype(np.int64)
    return result.ravel()


def _of_lanes(name: str, intervals: Cut, lane: NDArray[np.int64], start_ns: int) -> Iterator[tuple[str, NDArray]]:
    order = np.lexsort((intervals.start_ns, lane))
    chosen, lane = intervals.chosen(order), lane[order]
    before = np.append(start_ns, chosen.end_ns[:-1])[: len(chosen)]
    before[np.append(True, lane[1:] != lane[:-1])[: len(chosen)]] = start_ns
    yield f"{name}_gap", np.maximum(chosen.start_ns - before, 0)
    yield f"{name}_length", chosen.length_ns
    yield f"{name}_stack", chosen.stack
    yield f"{name}_flags", chosen.flags


def _planes(name: str, values: NDArray) -> tuple[Column, bytes]:
    most = int(values.max(initial=0))
    width = next(width for width in _WIDTHS if most < 1 << (8 * width))
    columns = values.astype(f"<u{width}").view(np.uint8).reshape(len(values), width)
    return Column(name, len(values), width), np.ascontiguousarray(columns.T).tobytes()
