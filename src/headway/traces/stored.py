"""The chunks of a trace file, which may grow while it is read: the collector overwrites chunks, and packs them.

A chunk of events that is packed moves to another place of the file, and keeps its owner and its sequence.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces.chunks import chunk_headers, pread, read_header
from headway.traces.packed import are_of_events, event_counts, events_of

__all__ = ["Stored"]

_ROOM_BYTES = hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES
_MOST_SEARCHES = 16
"""How often the headers are read anew for chunks that have moved. Each time takes as long as the first."""


def _keys(chunks: NDArray[np.void]) -> list[tuple[int, int]]:
    """Return what a chunk of events keeps when it is packed: owner and sequence."""
    return list(zip(chunks["head"]["owner"].tolist(), chunks["head"]["sequence"].tolist(), strict=True))


@final
class Stored:
    """The chunks of a file."""

    def __init__(self, path: Path, file: int, header: np.void, *, grows: bool) -> None:
        """Take an open file and its header; if it does not grow, nothing in it changes any more."""
        self._path = path
        self._file = file
        self._header = header
        self._grows = grows
        self._offset = int(header["chunks_offset"])
        self._now: NDArray[np.void] | None = None
        """The chunks of events when their headers were read last, for chunks that had moved."""
        self._place_of: dict[tuple[int, int], int] = {}
        self._searches = 0

    def headers(self) -> NDArray[np.void]:
        """Read the headers of all chunks, as PLACED_DTYPE.

        If the file grows, the headers are read twice: a chunk may have moved, during the first time, from a place that
        was still to be read to one that had been read.
        """
        if not self._grows:
            return chunk_headers(self._file, self._header)
        before = chunk_headers(self._file, self._header)
        now = chunk_headers(self._file, read_header(self._path, self._file))
        known = set(_keys(now))
        moved = np.array([key not in known for key in _keys(before)], dtype=np.bool_)
        # Those that were overwritten meanwhile, too: whoever reads them finds that out, and counts them.
        return np.concatenate([now, before[moved & (before["head"]["kind"] != hwt.CHUNK_META)]])

    def read(self, position: int, at: int, size: int) -> bytes:
        """Read bytes of a chunk; `at` counts from the end of the chunk's header."""
        return pread(self._file, size, self._offset + position + hwt.CHUNK_HEADER_BYTES + at)

    @staticmethod
    def sound(chunks: NDArray[np.void], kind: int) -> NDArray[np.bool_]:
        """Return a mask of the chunks of events (CHUNK_EVENTS), or of records (CHUNK_META), that make sense."""
        head = chunks["head"]
        fits = head["used"] <= _ROOM_BYTES - chunks["position"] % hwt.CHUNK_BYTES
        records = (head["kind"] == hwt.CHUNK_META) & (head["owner"] <= hwt.NO_GIL)
        found: NDArray[np.bool_] = fits & (records if kind == hwt.CHUNK_META else are_of_events(head))
        return found

    def of_events(self, chunks: NDArray[np.void]) -> NDArray[np.void]:
        """Return the chunks of events that make sense, by thread and in the order in which they were taken.

        Of a chunk that the file has twice, since the collector was just packing it, the packed one is returned.
        """
        mine = chunks[self.sound(chunks, hwt.CHUNK_EVENTS)]
        head = mine["head"]
        packed = head["kind"] == hwt.CHUNK_PACKED
        mine = mine[np.lexsort((mine["position"], packed, head["sequence"], head["owner"]))]
        head = mine["head"]
        same = (head["owner"][1:] == head["owner"][:-1]) & (head["sequence"][1:] == head["sequence"][:-1])
        replaced = same & (head["kind"][1:] == hwt.CHUNK_PACKED) & (head["kind"][:-1] == hwt.CHUNK_EVENTS)
        kept: NDArray[np.void] = mine[~np.append(replaced, np.False_)[: len(mine)]]
        return kept

    def events(
        self, mine: NDArray[np.void], which: Sequence[int]
    ) -> tuple[NDArray[np.void], NDArray[np.int64], set[int]]:
        """Read the events of some chunks.

        Args:
            mine: Chunks of events (PLACED_DTYPE).
            which: Indices of the chunks.

        Returns:
            The events (EVENT_DTYPE) in the order of `which`; how many each chunk has, as of `events_of`; and which chunks
            were overwritten since their headers were read: they have no events here.
        """
        events, sizes = events_of(mine["head"], self._of(mine), which)
        gone = [one for one in which if self._grows and self._taken_anew(mine[one])]
        if not gone:
            return events, sizes, set()
        parts = dict(zip(which, np.split(events, np.cumsum(sizes)[:-1]), strict=True))
        lost = set()
        for one, key in zip(gone, _keys(mine[gone]), strict=True):
            chunk = self._moved(mine[one], key)
            found = parts[one][:0] if chunk is None else events_of(chunk["head"], self._of(chunk), [0])[0]
            if chunk is None or self._taken_anew(chunk[0]):
                lost.add(one)
                found = found[:0]
            parts[one] = found[: event_counts(mine["head"][[one]])[0]]
        return np.concatenate(list(parts.values())), np.array([len(part) for part in parts.values()]), lost

    def _moved(self, chunk: np.void, key: tuple[int, int]) -> NDArray[np.void] | None:
        """Return a chunk as it is after it has moved; None: it has not, or is overwritten again, or has moved too late.

        A chunk moves once, when it is packed.
        """
        if chunk["head"]["kind"] == hwt.CHUNK_PACKED:
            return None
        if key not in self._place_of and self._searches < _MOST_SEARCHES:
            self._searches += 1
            self._now = self.of_events(self.headers())
            self._place_of = {each: place for place, each in enumerate(_keys(self._now))}
        if self._now is None or key not in self._place_of:
            return None
        return self._now[[self._place_of[key]]]

    def _of(self, chunks: NDArray[np.void]) -> Callable[[int, int], bytes]:
        """Return the function that reads the first bytes of a chunk's room, by the chunk's index."""
        positions = chunks["position"]
        return lambda one, size: self.read(int(positions[one]), 0, size)

    def _taken_anew(self, chunk: np.void) -> bool:
        """Tell whether a chunk was overwritten, or has moved, since its header was read."""
        data = self.read(int(chunk["position"]), -hwt.CHUNK_HEADER_BYTES, hwt.CHUNK_HEADER_BYTES)
        now = np.frombuffer(data, hwt.CHUNK_DTYPE, len(data) // hwt.CHUNK_HEADER_BYTES)
        if not len(now):
            return True
        head, before = now[0], chunk["head"]
        changed = head["sequence"] != before["sequence"] or head["kind"] != before["kind"]
        return bool(changed or head["used"] < before["used"])
