"""Tells which threads hold a GIL of a sub-interpreter's own, from the memory of the process.

The recorder finds such a GIL when a thread next acquires it. A thread that is alone at its GIL and only computes never
does: it has no event, and the trace has no sign of it. From 3.13 on a process has the places of its GILs
(headway.live.debug_offsets). The memory is read while the process changes it: what is found is a claim, with bounds.
"""

import contextlib
from dataclasses import dataclass
from typing import Final, final

from headway.live.debug_offsets import DebugOffsets, debug_offsets
from headway.live.memory import ILL_FORMED, Memory

__all__ = ["HeldGil", "OwnGils"]

_OWN, _LOCKED, _HOLDER = 1, 3, 4
"""So many words after `interpreter_state.ceval_gil` come the fields of the interpreter's own GIL."""
_RELEASED: Final = (0xC, 0xF)
"""The release levels, candidate and final, from which on a version's structs stay as they are (PY_VERSION_HEX)."""
_TID: Final = {(3, 13): 25, (3, 14): 28, (3, 15): 31}
"""The index of `thread_state.native_thread_id`."""


@dataclass(frozen=True, slots=True)
class HeldGil:
    """A GIL of a sub-interpreter's own that a thread holds."""

    address: int
    tid: int
    """The holder, by the id that the process has for it."""


@final
class OwnGils:
    """The GILs of a process's sub-interpreters."""

    def __init__(self, pid: int) -> None:
        """Prepare to look; the process need not have started its Python yet."""
        self._pid = pid
        self._offsets: DebugOffsets | None = None
        self._is_known = True

    def held(self) -> tuple[HeldGil, ...]:
        """Return those that a thread holds at this moment; () if the process does not tell."""
        found: list[HeldGil] = []
        if self._is_known:
            with contextlib.suppress(*ILL_FORMED), Memory(self._pid, read_only=True) as memory:
                if self._offsets is None:
                    self._offsets = _find(self._pid, memory)
                    self._is_known = self._offsets is not None
                if self._offsets is not None:
                    _walk(memory, self._offsets, found)
        return tuple(found)


def _find(pid: int, memory: Memory) -> DebugOffsets | None:
    """Return where the process has its interpreters; None if it does not tell, as before 3.13 and in an alpha or a beta."""
    offsets = debug_offsets(pid, memory)
    return offsets if offsets is not None and offsets.hexversion >> 4 & 0xF in _RELEASED else None


def _walk(memory: Memory, offsets: DebugOffsets, found: list[HeldGil]) -> None:
    """Add the GILs that are held; raises one of ILL_FORMED where an interpreter ends meanwhile."""
    gil, own, locked, holder = (offsets.of_gil(further) for further in (0, _OWN, _LOCKED, _HOLDER))
    native_id = offsets.word(_TID[offsets.version])
    for at, number in offsets.interpreters(memory):
        # Interpreters that share the main interpreter's GIL point to that one.
        is_own = number != 0 and memory.words(at + gil, 1)[0] == at + own
        if is_own and memory.halves(at + locked, 1)[0] == 1:
            tid = memory.words(memory.words(at + holder, 1)[0] + native_id, 1)[0]
            found.append(HeldGil(at + own, tid))
