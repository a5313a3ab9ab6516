"""Memories as recording processes make them, for tests of the collector."""

import fcntl
import os
import struct
import time
from collections.abc import Sequence

import numpy as np

from headway.traces import format as hwt

__all__ = ["EVENTS_PER_CHUNK", "memory", "spread_events"]

EVENTS_PER_CHUNK = (hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES) // hwt.EVENT_DTYPE.itemsize
_CONTROL_OFFSET = 3072  # native/trace/control.h
_TAKEN = 1
_F_ADD_SEALS, _SEAL_SHRINK = 1033, 2
_SLOTS_OFFSET, _CLAIMS_OFFSET = 1 << 16, 1 << 17


def spread_events() -> np.ndarray:
    """Return a chunk full of events as of now, so different from each other that packing them is of no use."""
    chance = np.random.default_rng(1)
    events = np.zeros(EVENTS_PER_CHUNK, hwt.EVENT_DTYPE)
    events["time_ns"] = time.monotonic_ns() - np.arange(len(events)) % 2
    events["kind"] = np.where(np.arange(len(events)) % 2, hwt.WAIT, hwt.RELEASE)
    events["value"], events["flags"] = chance.integers(2**30, 2**32, len(events)), 2**16 - 1
    return events


def memory(
    chunks: int = 64, filled: Sequence[np.ndarray] = (), kind: int = hwt.CHUNK_EVENTS, family: int = 0, **header: int
) -> int:
    """Return the descriptor of a memory as a process makes it, whose first chunks are closed and have these events.

    Args:
        chunks: The number of chunks.
        filled: The events of the first chunks (EVENT_DTYPE).
        kind: The kind of these chunks.
        family: The number of the launch.
        header: Further fields of the header.
    """
    offset = _CLAIMS_OFFSET + (4 * chunks + 65535) // 65536 * 65536
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, offset + chunks * hwt.CHUNK_BYTES)
    fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEAL_SHRINK)
    head = np.zeros((), hwt.HEADER_DTYPE)
    head["magic"], head["version"], head["header_bytes"] = hwt.MAGIC, hwt.FORMAT_VERSION, hwt.HEADER_BYTES
    head["family"] = family
    head["slot_bytes"], head["slots_offset"], head["slot_count"] = hwt.SLOT_DTYPE.itemsize, _SLOTS_OFFSET, 1
    head["chunk_bytes"], head["chunks_offset"], head["chunk_count"] = hwt.CHUNK_BYTES, offset, chunks
    for name, value in header.items():
        head[name] = value
    os.pwrite(descriptor, head.tobytes(), 0)
    os.pwrite(descriptor, struct.pack("<Q", _CLAIMS_OFFSET), _CONTROL_OFFSET)
    os.pwrite(descriptor, struct.pack("<I", _TAKEN) * len(filled), _CLAIMS_OFFSET)
    chunk = np.zeros((), hwt.CHUNK_DTYPE)
    chunk["state"], chunk["kind"] = hwt.CHUNK_CLOSED, kind
    chunk["owner"] = 0 if kind == hwt.CHUNK_META else 1
    for at, events in enumerate(filled):
        chunk["sequence"], chunk["number"], chunk["used"] = at, at + 1, events.nbytes
        os.pwrite(descriptor, chunk.tobytes() + events.tobytes(), offset + at * hwt.CHUNK_BYTES)
    return descriptor
