"""Reads the outer parts of a trace file, and checks them: the header, the chunks' headers, and bytes at an offset.

The file is not mapped: a mapping would count a second time against memory, and if the file is truncated during the
reading, an access to the mapping would kill the process. The size of allocations follows from the file's size, never
from the header alone.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.errors import TraceError
from headway.traces import format as hwt

__all__ = [
    "PLACED_DTYPE",
    "chunk_headers",
    "first_chunks",
    "last_before_gaps",
    "opened",
    "pread",
    "read_header",
    "refuse_joined",
    "unplaced_drops",
]

PLACED_DTYPE = np.dtype([("position", "<i8"), ("head", hwt.CHUNK_DTYPE)])
"""A chunk's header, and the chunk's position: in bytes, after the offset of the first chunk."""

_HINT = "name the .hwt file that a recording wrote"
_NONE = (
    f"{_HINT}; it writes none if no Python of the program loads Headway, as in a frozen program, after `env -i`,"
    " or where PYTHONPATH was replaced or leads to another `sitecustomize` first"
)
_DAMAGED = "the file is damaged: copy it again, or record again"
_MOST_OFFSET = 2**62
_ROOM_BYTES = hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a trace for reading; an OSError inside the block becomes a TraceError, too."""
    try:
        # O_NONBLOCK, because the opening of a FIFO without a writer would block.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise TraceError(
            f"cannot open the trace `{path}`: {(error.strerror or str(error)).lower()}",
            hint=_NONE if isinstance(error, FileNotFoundError) else _HINT,
        ) from error
    except ValueError as error:
        raise TraceError(f"cannot open the trace {str(path)!r}: a path must not contain NUL", hint=_HINT) from error
    try:
        yield file
    except OSError as error:
        raise TraceError(
            f"cannot read the trace `{path}`: {(error.strerror or str(error)).lower()}", hint=_HINT
        ) from error
    finally:
        os.close(file)


def pread(file: int, size: int, offset: int) -> bytes:
    """Read `size` bytes at `offset`, or fewer at the end of the file."""
    data = os.pread(file, size, offset)
    while 0 < len(data) < size:
        more = os.pread(file, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def read_header(path: Path, file: int) -> np.void:
    """Read the header, and check the fields that the rest of the reading depends on.

    Raises:
        TraceError: The file is not a trace, has another version, or has a header that makes no sense.
    """
    data = pread(file, hwt.HEADER_BYTES, 0)
    if data[: len(hwt.MAGIC)] != hwt.MAGIC:
        if not data.strip(b"\0"):
            raise TraceError(
                f"`{path}` is not a trace file: it is empty",
                hint="record again: perhaps the disk was full, or the recording was killed at its start",
            )
        if data.startswith((hwt.MAGIC[:4], b"\x09" + hwt.MAGIC[1:4])):
            raise TraceError(
                f"the trace `{path}` was changed by a transfer in text mode", hint="copy it again, in binary mode"
            )
        raise TraceError(f"`{path}` is not a trace file: it does not begin as a trace does", hint=_HINT)
    if len(data) < hwt.HEADER_BYTES:
        raise TraceError(
            f"the trace `{path}` has {len(data)} bytes, expected {hwt.HEADER_BYTES} or more", hint="copy it again"
        )
    header: np.void = np.frombuffer(data, hwt.HEADER_DTYPE, 1)[0]
    if header["version"] not in hwt.READ_VERSIONS:
        expected = " or ".join(map(str, hwt.READ_VERSIONS))
        raise TraceError(
            f"the trace `{path}` has format version {header['version']}, expected {expected}",
            hint="read it with the Headway that recorded it",
        )
    for name, size in (("header_bytes", hwt.HEADER_BYTES), ("chunk_bytes", hwt.CHUNK_BYTES)):
        if header[name] != size:
            raise TraceError(f"the trace `{path}` has {name} {header[name]}, expected {size}", hint=_DAMAGED)
    slots_offset, offset = int(header["slots_offset"]), int(header["chunks_offset"])
    least = slots_offset + int(header["slot_count"]) * int(header["slot_bytes"])
    if slots_offset < hwt.HEADER_BYTES or not least <= offset <= _MOST_OFFSET:
        raise TraceError(
            f"the trace `{path}` has slots at byte {slots_offset} and chunks at {offset}, expected slots from "
            f"{hwt.HEADER_BYTES} and chunks from {least} on",
            hint=_DAMAGED,
        )
    if not 0 <= header["start_ns"] <= _MOST_OFFSET:
        raise TraceError(f"the trace `{path}` begins at {header['start_ns']} ns, expected 0 or later", hint=_DAMAGED)
    return header


def refuse_joined(path: Path, file: int, header: np.void) -> None:
    """Refuse a file in which another trace begins after the last chunk: what a reader of the first one shows is not all of it.

    Raises:
        TraceError: The file has more than one trace.
    """
    end = int(header["chunks_offset"]) + int(header["chunk_count"]) * hwt.CHUNK_BYTES
    if pread(file, len(hwt.MAGIC), end) == hwt.MAGIC:
        raise TraceError(
            f"`{path}` has more than one trace: another one begins at byte {end:,}, as after `cat` of two files",
            hint=f"name the files themselves; `head -c {end}` has the first trace, and `tail -c +{end + 1}` the rest",
        )


def chunk_headers(file: int, header: np.void) -> NDArray[np.void]:
    """Read the headers of the chunks that the file has, as PLACED_DTYPE; chunks in holes of the file are left out."""
    size = os.fstat(file).st_size
    offset = int(header["chunks_offset"])
    # The last chunk may be cut off; its complete records are read all the same.
    count = min(int(header["chunk_count"]), max(0, -(-(size - offset) // hwt.CHUNK_BYTES)))
    heads: list[bytes] = []
    positions: list[int] = []
    position = 0
    while position < count:
        # The file is created with its largest size, so it has holes: seek from data to data.
        try:
            data = os.lseek(file, offset + position * hwt.CHUNK_BYTES, os.SEEK_DATA)
            until = os.lseek(file, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break
        position = max(position, (data - offset) // hwt.CHUNK_BYTES)
        past = min(count, max(position + 1, -(-(until - offset) // hwt.CHUNK_BYTES)))
        for one in range(position, past):
            for at, head in _heads_at(file, offset + one * hwt.CHUNK_BYTES):
                heads.append(head)
                positions.append(one * hwt.CHUNK_BYTES + at)
        position = past
    placed = np.zeros(len(heads), dtype=PLACED_DTYPE)
    placed["position"] = positions
    placed["head"] = np.frombuffer(b"".join(heads), hwt.CHUNK_DTYPE)
    return placed


def _heads_at(file: int, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield the chunks' headers at one place, and how far they are from its beginning: short chunks share a place."""
    at = 0
    while at <= _ROOM_BYTES:
        head = pread(file, hwt.CHUNK_HEADER_BYTES, offset + at)
        if len(head) < hwt.CHUNK_HEADER_BYTES:
            return
        yield at, head
        chunk = np.frombuffer(head, hwt.CHUNK_DTYPE)[0]
        following = int(chunk["next"])
        if not following or following < chunk["used"]:  # chunks that overlap are damage
            return
        at += hwt.CHUNK_HEADER_BYTES + following


def unplaced_drops(head: NDArray[np.void], dropped: int, *, overwritten: bool) -> int:
    """Return the number of dropped events that no gap of a thread accounts for.

    A chunk's number is larger by the events that its thread dropped before it. Of a thread that dropped its last events, that
    number is not known; all that no other thread accounts for may be its own.

    Args:
        head: The headers of event chunks, by thread and in the order in which they were taken.
        dropped: The number of dropped events.
        overwritten: The first chunks of threads may have been overwritten.
    """
    goes_on = np.append(head["owner"][1:] == head["owner"][:-1], np.False_)[: len(head)]
    if dropped and np.any(~goes_on & (head["state"] == hwt.CHUNK_CLOSED)):
        return 0
    number = head["number"].astype(np.int64)
    missing = np.append(number[1:], 0)[: len(head)] - number - 1
    placed = int(np.maximum(missing[goes_on], 0).sum())
    if not overwritten:
        placed += int(number[first_chunks(head)].clip(1).sum() - np.count_nonzero(first_chunks(head)))
    return max(0, dropped - placed)


def first_chunks(head: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return a mask of the first chunks of threads. If one's number is above 1, its thread dropped its first events."""
    found: NDArray[np.bool_] = np.append(np.True_, head["owner"][1:] != head["owner"][:-1])[: len(head)]
    return found


def last_before_gaps(head: NDArray[np.void], *, dropped: bool) -> NDArray[np.intp]:
    """Return the chunks after which events of their thread are missing, as indices.

    Args:
        head: The headers of event chunks, by thread and in the order in which they were taken.
        dropped: Events were dropped. A thread closes its chunk for the sake of a further event, or when it exits: so if
            a chunk is closed and none follows, that event was dropped.
    """
    goes_on = np.append(head["owner"][1:] == head["owner"][:-1], np.False_)[: len(head)]
    number = head["number"].astype(np.int64)
    following = np.append(number[1:], 0)[: len(head)]
    missing = goes_on & (number > 0) & (following > 0) & (following != number + 1)
    missing |= ~goes_on & (head["state"] == hwt.CHUNK_CLOSED) & dropped
    found: NDArray[np.intp] = np.flatnonzero(missing)
    return found
