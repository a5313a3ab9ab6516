"""Changes fields of trace files, for files that are damaged or grow."""

from pathlib import Path

import numpy as np

from headway.traces import format as hwt
from headway.traces.writer import CHUNKS_OFFSET


def patch(path: Path, offset: int, data: bytes) -> Path:
    """Write bytes into a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    return path


def patch_header(path: Path, name: str, value: int) -> Path:
    """Set a field of the header."""
    dtype, offset = hwt.HEADER_DTYPE.fields[name][:2]
    return patch(path, offset, np.array(value, dtype=dtype).tobytes())


def patch_chunk(path: Path, position: int, name: str, value: int) -> Path:
    """Set a field of a chunk's header."""
    dtype, offset = hwt.CHUNK_DTYPE.fields[name][:2]
    return patch(path, CHUNKS_OFFSET + position * hwt.CHUNK_BYTES + offset, np.array(value, dtype=dtype).tobytes())


def patch_event(path: Path, position: int, index: int, name: str, value: int) -> Path:
    """Set a field of an event of a chunk."""
    dtype, offset = hwt.EVENT_DTYPE.fields[name][:2]
    at = hwt.CHUNK_HEADER_BYTES + index * hwt.EVENT_DTYPE.itemsize + offset
    return patch(path, CHUNKS_OFFSET + position * hwt.CHUNK_BYTES + at, np.array(value, dtype=dtype).tobytes())
