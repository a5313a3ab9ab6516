"""The events of chunks, also of those that the collector has packed (HW__CHUNK_PACKED of native/trace/format.h).

A packed chunk has the lengths of all fields first and their bytes after these, so that the places of all bytes are sums:
many chunks are unpacked at once, without a step for each event.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt

__all__ = ["AT_ONCE", "are_of_events", "event_counts", "events_of"]

AT_ONCE: Final = 64
"""A good number of chunks to be read at once: a megabyte of events."""

_EVENT_BYTES: Final = hwt.EVENT_DTYPE.itemsize
_MOST_EVENTS: Final = (hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES) // _EVENT_BYTES
_TIME_BYTES: Final = np.array([1, 2, 3, 8])
_FLAGS_BYTES: Final = np.array([0, 1, 2, 0])
_VALUE_BYTES: Final = np.array([0, 1, 2, 4])
_KIND_BYTES: Final = np.array([0, 2])
_UNUSED: Final = 0x80
_NO_FLAGS: Final = 3
"""The length of the flags that no packed event has."""


def are_of_events(head: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return a mask of the chunks of events (CHUNK_DTYPE); a packed one has as many events as there can be."""
    packed = (head["kind"] == hwt.CHUNK_PACKED) & (head["events"] <= np.minimum(head["used"], _MOST_EVENTS))
    packed &= (head["events"] > 0) | (head["used"] == 0)
    found: NDArray[np.bool_] = (packed | (head["kind"] == hwt.CHUNK_EVENTS)) & (head["owner"] > 0)
    return found


def event_counts(head: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the number of events in chunks of events, by their headers."""
    is_packed = head["kind"] == hwt.CHUNK_PACKED
    return np.where(is_packed, head["events"], head["used"] // _EVENT_BYTES).astype(np.int64)


def events_of(
    head: NDArray[np.void], read: Callable[[int, int], bytes], which: Sequence[int]
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Read the events of some chunks of events.

    Args:
        head: The headers of chunks.
        read: Reads the first bytes of a chunk's room, by the chunk's index in `head` and the number of bytes.
        which: Indices of the chunks.

    Returns:
        The events (EVENT_DTYPE) in the order of `which`, and how many each chunk has: fewer than its header says, if the
        file is cut off there, and none if a packed chunk is damaged.
    """
    kinds, useds = head["kind"], head["used"]
    blocks = [read(one, int(useds[one])) for one in which]
    packed = [place for place, one in enumerate(which) if kinds[one] == hwt.CHUNK_PACKED]
    unpacked = _unpacked(head, which, blocks, packed)
    parts = [
        unpacked[place] if place in unpacked else np.frombuffer(data, hwt.EVENT_DTYPE, len(data) // _EVENT_BYTES)
        for place, data in enumerate(blocks)
    ]
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    return np.concatenate([np.zeros(0, hwt.EVENT_DTYPE), *parts]), sizes


def _unpacked(
    head: NDArray[np.void], which: Sequence[int], blocks: Sequence[bytes], packed: Sequence[int]
) -> dict[int, NDArray[np.void]]:
    """Return the events of the packed ones among some chunks, by place: none of a chunk that is damaged or cut off."""
    found = {place: np.zeros(0, hwt.EVENT_DTYPE) for place in packed}
    sound, streams = [], []
    for place in packed:
        of_chunk = _streams(blocks[place], head[which[place]])
        if of_chunk is not None:
            sound.append(place)
            streams.append(of_chunk)
    if sound:
        counts = [len(of_chunk[0]) for of_chunk in streams]
        together = _put_together([np.concatenate(one) for one in zip(*streams, strict=True)], np.array(counts))
        bounds = np.cumsum([0, *counts])
        found |= {place: together[bounds[i] : bounds[i + 1]] for i, place in enumerate(sound)}
    return found


def _lengths(controls: NDArray[np.uint8]) -> tuple[NDArray[np.int64], ...]:
    """Return the bytes that packed events have for kind, time, value and flags."""
    return (
        _KIND_BYTES[(controls & hwt.PACKED_KIND) // hwt.PACKED_KIND],
        _TIME_BYTES[controls >> hwt.PACKED_TIME & 3],
        _VALUE_BYTES[controls >> hwt.PACKED_VALUE & 3],
        _FLAGS_BYTES[controls >> hwt.PACKED_FLAGS & 3],
    )


def _streams(data: bytes, head: np.void) -> list[NDArray[np.uint8]] | None:
    """Return the parts of a packed chunk; None: it is damaged, or has no events."""
    count, used = int(head["events"]), int(head["used"])
    if not count or len(data) < max(count, used):
        return None
    controls = np.frombuffer(data, np.uint8, count)
    if (controls & _UNUSED).any() or (controls >> hwt.PACKED_FLAGS & 3 == _NO_FLAGS).any():
        return None
    parts = [controls]
    at = count
    for length in _lengths(controls):
        size = int(length.sum())
        if at + size > used:
            return None
        parts.append(np.frombuffer(data, np.uint8, size, at))
        at += size
    return parts if at == used else None


def _put_together(streams: Sequence[NDArray[np.uint8]], counts: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the events of chunks, whose parts follow each other in `streams`."""
    controls, kinds, times, values, flags = streams
    kind_bytes, time_bytes, value_bytes, flags_bytes = _lengths(controls)
    firsts = np.cumsum(counts) - counts
    is_first = np.zeros(len(controls), dtype=np.bool_)
    is_first[firsts] = True

    events = np.zeros(len(controls), dtype=hwt.EVENT_DTYPE)
    kind_and_gil = _as_before(_numbers(kinds, kind_bytes, 2), (kind_bytes > 0) | is_first)
    events["kind"], events["gil"] = kind_and_gil & 0xFF, kind_and_gil >> 8
    events["value"] = _as_before(_numbers(values, value_bytes, 4), (value_bytes > 0) | is_first)
    events["flags"] = _numbers(flags, flags_bytes, 2)
    # Each time is a difference to the end of the event before. The sum goes over all chunks; what it has before a chunk
    # is taken off again.
    steps = _numbers(times, time_bytes, 8)
    steps[1:] += np.where(events["kind"][:-1] == hwt.HOLD, events["flags"][:-1], 0).astype(np.uint64)
    until = np.cumsum(steps)
    before = np.where(firsts > 0, until[firsts - 1] + _last_hold(events, firsts), 0).astype(np.uint64)
    events["time_ns"] = (until - np.repeat(before, counts)).view(np.int64)
    return events


def _last_hold(events: NDArray[np.void], firsts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the lengths of the HOLDs right before events; 0 where another event is there."""
    before = events[firsts - 1]
    return np.where(before["kind"] == hwt.HOLD, before["flags"], 0).astype(np.uint64)


def _numbers(data: NDArray[np.uint8], lengths: NDArray[np.int64], most: int) -> NDArray[np.uint64]:
    """Return the little-endian numbers of these lengths in bytes, `most` at most."""
    places = np.cumsum(lengths) - lengths
    found = np.zeros(len(lengths), dtype=np.uint64)
    for byte in range(most):
        longer = np.flatnonzero(lengths > byte)
        if not len(longer):
            break
        found[longer] |= data[places[longer] + byte].astype(np.uint64) << np.uint64(8 * byte)
    return found


def _as_before(numbers: NDArray[np.uint64], known: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return the numbers, each that is not known being the last known one."""
    return numbers[np.maximum.accumulate(np.where(known, np.arange(len(numbers)), 0))]
