"""Reads where a CPython process has its interpreters and their GILs, from the memory of the process.

From 3.13 on, `_PyRuntime` begins with the offsets of fields for debuggers (`_Py_DebugOffsets` of
Include/internal/pycore_debug_offsets.h). The process may be a hostile one: what is found is a claim, with bounds.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from headway.live.memory import Memory, python_symbols

__all__ = ["DebugOffsets", "debug_offsets"]

_COOKIE: Final = b"xdebugpy"
_HEAD, _ID, _NEXT = 5, 7, 8
_GIL: Final = {(3, 13): 14, (3, 14): 15, (3, 15): 15}
"""The index of `interpreter_state.ceval_gil`; `gil_runtime_state` and the interpreter's own GIL follow it."""
_WORDS = 32
_FURTHEST = 1 << 20
"""The bound of offsets: no field is so far from the start of its struct."""
_MOST_INTERPRETERS = 1000


@final
@dataclass(frozen=True, slots=True)
class DebugOffsets:
    """The offsets that a process gives."""

    runtime: int
    """The address of `_PyRuntime`."""
    hexversion: int
    """PY_VERSION_HEX of the process."""
    free_threaded: bool
    words: tuple[int, ...]

    @property
    def version(self) -> tuple[int, int]:
        """The version of CPython, one of those that are known here."""
        return self.hexversion >> 24 & 0xFF, self.hexversion >> 16 & 0xFF

    def of_gil(self, further: int = 0) -> int:
        """Return the offset of `interpreter_state.ceval_gil`, or the one that comes so many words after it."""
        return self.word(_GIL[self.version] + further)

    def word(self, index: int) -> int:
        """Return an offset by its index. Raises ValueError if no field can be there."""
        if self.words[index] > _FURTHEST:
            raise ValueError("the offsets are not those of CPython")
        return self.words[index]

    def interpreters(self, memory: Memory) -> Iterator[tuple[int, int]]:
        """Yield the address and the id of each interpreter; the main one has the id 0.

        Raises one of headway.live.memory.ILL_FORMED where an interpreter ends meanwhile.
        """
        number, following = self.word(_ID), self.word(_NEXT)
        at = memory.words(self.runtime + self.word(_HEAD), 1)[0]
        for _ in range(_MOST_INTERPRETERS):
            if at == 0:
                break
            yield at, memory.words(at + number, 1)[0]
            at = memory.words(at + following, 1)[0]


def debug_offsets(pid: int, memory: Memory) -> DebugOffsets | None:
    """Return the offsets of a process; None if it gives none, as before 3.13, or its version is not known here.

    Raises one of headway.live.memory.ILL_FORMED if the memory cannot be read.
    """
    runtime = python_symbols(pid, memory, ("_PyRuntime",)).get("_PyRuntime", -1)
    block = memory.read(runtime, 8 * _WORDS)
    words = struct.unpack(f"<{_WORDS}Q", block)
    found = DebugOffsets(runtime, words[1] & 0xFFFFFFFF, words[2] != 0, words)
    return found if block[:8] == _COOKIE and found.version in _GIL else None
