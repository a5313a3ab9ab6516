"""Reads the stacks of a recording process by their numbers, as they come in, from the meta chunks of its file.

headway.traces.records does the same for a whole file. This module does it for a few stacks at a time and without numpy:
the watcher runs beside a service all the time, and must be small.
"""

import os
import struct
from typing import final

from headway.traces.codes import CODE, Code, code_of
from headway.traces.frames import Frame

__all__ = ["Stacks"]

# native/trace/format.h; a test holds them against traces/format.py.
CHUNK_BYTES = 16384
CHUNK_HEADER_BYTES = 128
_CHUNK = struct.Struct("<IIIIQ")
"""The header of struct hw__chunk: state, kind, used, owner, sequence."""
_CHUNKS = struct.Struct("<II")
_CHUNK_COUNT, _CHUNKS_OFFSET = 84, 88
_META = struct.Struct("<HHI")
_GIL = struct.Struct("<8xIIQq")
_NODE = struct.Struct("<8xIIIi")
_META_CHUNK = 2
_META_GIL, _META_CODE, _META_NODE = 1, 3, 4
_MAIN_GIL = 0
_DEPTH = 128


@final
class Stacks:
    """The stacks of the main interpreter's GIL."""

    def __init__(self, file: int) -> None:
        """Begin without stacks. `file` is the descriptor of the file that the process's collection is copied into."""
        self._file = file
        self._codes: dict[int, Code] = {}
        self._nodes: dict[int, tuple[int, int, int]] = {}
        self._frames: dict[tuple[int, int], Frame] = {}
        self._read_until: dict[int, int] = {}
        """The bytes that were read, by the chunk's index in the file."""
        self.gil = 0
        """The address of the main GIL's memory in the process; 0 if not known yet."""

    def update(self) -> None:
        """Read the records that have come in since the last call. Malformed records are skipped."""
        count, offset = (
            struct.unpack("<I", os.pread(self._file, 4, _CHUNK_COUNT))[0],
            struct.unpack("<Q", os.pread(self._file, 8, _CHUNKS_OFFSET))[0],
        )
        for place in range(count):
            at = offset + place * CHUNK_BYTES
            head = os.pread(self._file, _CHUNK.size, at)
            if len(head) < _CHUNK.size:
                break
            _, kind, used, owner, _ = _CHUNK.unpack(head)
            known = self._read_until.get(place, 0)
            if kind != _META_CHUNK or owner != _MAIN_GIL or not known < used <= CHUNK_BYTES - CHUNK_HEADER_BYTES:
                continue
            self._add(os.pread(self._file, used - known, at + CHUNK_HEADER_BYTES + known))
            self._read_until[place] = used

    def _add(self, data: bytes) -> None:
        at = 0
        while len(data) - at >= _META.size:
            kind, _, size = _META.unpack_from(data, at)
            if size < _META.size or size > len(data) - at:
                return
            if kind == _META_NODE and size >= _NODE.size:
                number, parent, code, where = _NODE.unpack_from(data, at)
                self._nodes[number] = (parent, code, where)
            elif kind == _META_CODE and size >= CODE.size:
                number, code_object = code_of(data[at : at + size])
                if code_object is not None:
                    self._codes[number] = code_object
            elif kind == _META_GIL and size >= _GIL.size:
                self.gil = _GIL.unpack_from(data, at)[2]
            at += size

    def is_whole(self, number: int) -> bool:
        """Tell whether all frames of a stack are known, as far as they are recorded."""
        for _ in range(_DEPTH):
            if not number:
                break
            parent, code, _where = self._nodes.get(number, (0, 0, 0))
            if code not in self._codes:
                return False
            number = parent if parent < number else 0
        return True

    def frames(self, number: int, most: int = _DEPTH) -> tuple[Frame, ...]:
        """Return the innermost `most` frames of a stack, the innermost first; () if the stack is not known."""
        found: list[Frame] = []
        while number and len(found) < most:
            parent, code, where = self._nodes.get(number, (0, 0, 0))
            known = self._codes.get(code)
            if known is None:
                break
            place = (code, where)
            if place not in self._frames:
                self._frames[place] = known.frame(where)
            found.append(self._frames[place])
            number = parent if parent < number else 0
        return tuple(found)
