"""Tells whether the GIL of a free-threaded process is on for good, from the memory of the process.

An extension module that does not declare that it works without a GIL switches the GIL on for the rest of the process.
The counters do not tell such a GIL from one that is on while a module is loaded. CPython does: the field `enabled` of
the GIL counts the modules that are being loaded, and is INT_MAX if the GIL stays on (Include/internal/pycore_gil.h).
`_PyRuntime` has the field's offset, from 3.13 on (headway.live.debug_offsets).
"""

import contextlib
import struct
from typing import final

from headway.live.debug_offsets import debug_offsets
from headway.live.memory import ILL_FORMED, Memory

__all__ = ["GilSwitch"]

_ENABLED = 2
"""The field `enabled` comes so many words after `interpreter_state.ceval_gil`."""
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
    offsets = debug_offsets(pid, memory)
    if offsets is None or not offsets.free_threaded:
        raise ValueError("the process runs no free-threaded CPython that is known")
    gil, enabled = offsets.of_gil(), offsets.of_gil(_ENABLED)
    for at, number in offsets.interpreters(memory):
        if number == 0:
            return memory.words(at + gil, 1)[0] + enabled
    raise ValueError("the process has no main interpreter")
