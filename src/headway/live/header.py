"""Decodes the header of the memory that a process records into, which a trace file has, too (struct hw__header).

Needs no numpy, because a watcher and a service's own metrics read it. `headway trace` does, too: it must start a program
at once, must have no threads of numpy's when it forks, and must work with little memory.
"""

import struct
from typing import Final, NamedTuple

__all__ = [
    "COUNTERS_ONLY",
    "EXECUTED_OFFSET",
    "FIELDS_BYTES",
    "FORMAT_VERSION",
    "HEADER_BYTES",
    "MISSING_OFFSET",
    "Header",
    "header_in",
]

# native/trace/format.h; a test holds them against traces/format.py.
FORMAT_VERSION: Final = 3
COUNTERS_ONLY: Final = 8
_MAGIC: Final = b"\x89HWT\r\n\x1a\n"
_FREE_THREADED, _GIL_ENABLED = 1, 2
_LAYOUT: Final = struct.Struct("<8sI4xQi8xIq8xqIIQ52xI1552x512s")
FIELDS_BYTES: Final = _LAYOUT.size
"""The size of the beginning of the header, which has the fields of `Header`."""
HEADER_BYTES: Final = 4096
"""The size of the header."""
EXECUTED_OFFSET: Final = 2292
"""The offset of `executed`."""
MISSING_OFFSET: Final = 2312
"""The offset of `removed_files`, which `unrecorded_processes` follows."""


class Header(NamedTuple):
    """Those fields of the header that a reader of the counters, or of a launch's files, needs."""

    magic: bytes
    version: int
    family: int
    """The id that all traces of a launch share."""
    pid: int
    flags: int
    start_ns: int
    end_ns: int
    slot_count: int
    slot_bytes: int
    slots_offset: int
    thread_count: int
    program: bytes

    @property
    def has_gil(self) -> bool:
        """Whether there was a GIL when recording began: always, if the build is not free-threaded."""
        return not self.flags & _FREE_THREADED or bool(self.flags & _GIL_ENABLED)


def header_in(block: bytes) -> Header | None:
    """Return the header at the beginning of a block of memory or of a file; None if there is none."""
    if len(block) < FIELDS_BYTES:
        return None
    found = Header._make(_LAYOUT.unpack_from(block))
    return found if found.magic == _MAGIC else None
