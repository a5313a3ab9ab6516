"""Tells whether the GIL of a free-threaded process is on for good, from the memory of the process.

An extension module that does not declare that it works without a GIL switches the GIL on for the rest of the process.
The counters do not tell such a GIL from one that is on while a module is loaded. CPython does: the field `enabled` of
the GIL counts the modules that are being loaded, and is INT_MAX if the GIL stays on (Include/internal/pycore_gil.h).
`_PyRuntime` has the field's offset, from 3.13 on (`_Py_DebugOffsets`).
"""

import contextlib
import struct
from typing import final

from headway.live.memory import ILL_FORMED, Memory, python_symbols

__all__ = ["GilSwitch"]

_COOKIE = b"xdebugpy"
_HEAD, _ID, _NEXT = 5, 7, 8
_GIL = {(3, 13): 14, (3, 14): 15, (3, 15): 15}
"""The index in _Py_DebugOffsets of `interpreter_state.ceval_gil`; the one of `enabled` is two further on."""
_WORDS = 20
_FURTHEST = 1 << 20
"""The bound of offsets: no field is so far from the start of its struct."""
_MOST_INTERPRETERS = 1000
_FOR_GOOD = (1 << 31) - 1


@final
class GilSwitch:
    """The switch of the main interpreter's GIL in a free-threaded process."""

    def __init__(self, pid: int) -> None:
        """Prepare to look; the process need not have started its Python yet."""
        self._pid = pid
        self._at: int | None = None
        self._is_on = False

    def is_on(self) -> bool:
        """Return whether the GIL is known to be on for good; it then stays so."""
        if not self._is_on:
            with contextlib.suppress(*ILL_FORMED), Memory(self._pid, read_only=True) as memory:
                if self._at is None:
                    self._at = _find(self._pid, memory)
                self._is_on = struct.unpack("<i", memory.read(self._at, 4))[0] == _FOR_GOOD
        return self._is_on


def _find(pid: int, memory: Memory) -> int:
    """Return the address of the field `enabled`; raise one of ILL_FORMED if the process does not tell it."""
    runtime = python_symbols(pid, memory, ("_PyRuntime",)).get("_PyRuntime", -1)
    block = memory.read(runtime, 8 * _WORDS)
    offsets = struct.unpack(f"<{_WORDS}Q", block)
    gil = _GIL.get((offsets[1] >> 24 & 0xFF, offsets[1] >> 16 & 0xFF))
    if block[:8] != _COOKIE or not offsets[2] or gil is None:
        raise ValueError("the process runs no free-threaded CPython that is known")
    if max(offsets[_HEAD], offsets[_ID], offsets[_NEXT], offsets[gil], offsets[gil + 2]) > _FURTHEST:
        raise ValueError("the offsets are not those of CPython")
    at, enabled = memory.words(runtime + offsets[_HEAD], 1)[0], int(offsets[gil + 2])
    for _ in range(_MOST_INTERPRETERS):
        if memory.words(at + offsets[_ID], 1)[0] == 0:
            return memory.words(at + offsets[gil], 1)[0] + enabled
        at = memory.words(at + offsets[_NEXT], 1)[0]
    raise ValueError("the process has no main interpreter")
