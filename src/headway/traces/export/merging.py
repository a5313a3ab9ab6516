"""Merges rows of bytes from several sources in the order of their times, and writes them a block at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.export.protobuf import Piece, rows

__all__ = ["Stream", "stream", "write_merged"]

_PHASES = 4


@final
@dataclass(frozen=True, eq=False)
class Stream:
    """Rows of one shape.

    Attributes:
        time_ns: The time of each row, ascending.
        item: The item that each row is about: an argument for `made`, and the row's rank among rows of the same time.
            None: each row's item is its own index.
        phase: Orders the rows of one item at the same time: lower phases come first, and all of them come before the
            rows of the next item. From 0 to 3.
        made: Returns the pieces of the rows about some items.
    """

    time_ns: NDArray[np.int64]
    item: NDArray[np.int32] | None
    phase: int
    made: Callable[[NDArray], list[Piece]]
    place: NDArray[np.int32] | None = None
    """The item in whose place a row is ranked, if that is not the row's own item."""

    def items(self, which: slice) -> NDArray:
        """Return the items of some rows."""
        return np.arange(which.start, which.stop) if self.item is None else self.item[which]

    def ranks(self, which: slice) -> NDArray[np.int64]:
        """Return the ranks of some rows among the rows of the same time."""
        place = self.items(which) if self.place is None else self.place[which]
        return place.astype(np.int64) * _PHASES + self.phase


def stream(
    time_ns: NDArray[np.int64],
    phase: int,
    made: Callable[[NDArray], list[Piece]],
    chosen: NDArray[np.bool_] | None = None,
) -> Stream:
    """Return the rows of the chosen items, ordered by time; None chooses all items."""
    if chosen is None and not np.any(time_ns[1:] < time_ns[:-1]):
        return Stream(time_ns, None, phase, made)
    items = np.arange(len(time_ns), dtype=np.int32) if chosen is None else np.flatnonzero(chosen).astype(np.int32)
    items = items[np.argsort(time_ns[items], kind="stable")]
    return Stream(time_ns[items], items, phase, made)


def write_merged(file: BinaryIO, streams: Sequence[Stream], cuts_ns: NDArray[np.int64]) -> None:
    """Write all rows. The rows of a block, between two cuts, are merged in memory and written at once."""
    edges = [
        np.concatenate([[0], np.searchsorted(one.time_ns, cuts_ns), [len(one.time_ns)]]).tolist() for one in streams
    ]
    for block in range(len(cuts_ns) + 1):
        parts = [
            (one, slice(at[block], at[block + 1]))
            for one, at in zip(streams, edges, strict=True)
            if at[block] < at[block + 1]
        ]
        if parts:
            file.write(_merged(parts))


def _merged(parts: list[tuple[Stream, slice]]) -> memoryview:
    time_ns = np.concatenate([one.time_ns[which] for one, which in parts])
    rank = np.concatenate([one.ranks(which) for one, which in parts])
    place = np.empty(len(time_ns), dtype=np.int64)
    place[np.lexsort((rank, time_ns))] = np.arange(len(time_ns))
    encoded = [rows(which.stop - which.start, one.made(one.items(which))) for one, which in parts]
    longest = max(one.shape[1] for one in encoded)
    lengths = np.empty(len(time_ns), dtype=np.int32)
    table = np.empty((len(time_ns), longest), dtype=np.uint8)
    at = 0
    for one in encoded:
        mine = place[at : at + len(one)]
        table[mine, : one.shape[1]] = one
        lengths[mine] = one.shape[1]
        at += len(one)
    return table[np.arange(longest) < lengths[:, None]].data
