"""Tells which threads hold a GIL of a sub-interpreter's own, from the memory of the process.

The recorder finds such a GIL when a thread next acquires it. A thread that is alone at its GIL and only computes never
does: it has no event, and the trace has no sign of it. `_PyRuntime` has the places of the GILs, from 3.13 on
(`_Py_DebugOffsets` of Include/internal/pycore_debug_offsets.h). The memory is read while the process changes it, and
the process may be a hostile one: what is found is a claim, with bounds.
"""

import contextlib
import struct
from dataclasses import dataclass
from typing import Final, final

from headway.live.memory import ILL_FORMED, Memory, python_symbols

__all__ = ["HeldGil", "OwnGils"]

_COOKIE: Final = b"xdebugpy"
_HEAD, _ID, _NEXT = 5, 7, 8
_GIL: Final = {(3, 13): 14, (3, 14): 15, (3, 15): 15}
"""The index in _Py_DebugOffsets of `interpreter_state.ceval_gil`; those of the interpreter's own GIL follow it."""
_OWN, _LOCKED, _HOLDER = 1, 3, 4
_RELEASED: Final = (0xC, 0xF)
"""The release levels, candidate and final, from which on a version's structs stay as they are (PY_VERSION_HEX)."""
_TID: Final = {(3, 13): 25, (3, 14): 28, (3, 15): 31}
"""The index of `thread_state.native_thread_id`."""
_WORDS = 32
_FURTHEST = 1 << 20
"""The bound of offsets: no field is so far from the start of its struct."""
_MOST_INTERPRETERS = 1000


@dataclass(frozen=True, slots=True)
class HeldGil:
    """A GIL of a sub-interpreter's own that a thread holds."""

    address: int
    tid: int
    """The holder, by the id that the process has for it."""


@dataclass(frozen=True, slots=True)
class _Places:
    head: int
    """The address of the pointer to the first interpreter; the others are offsets in an interpreter or a thread's state."""
    id: int
    next: int
    gil: int
    own: int
    locked: int
    holder: int
    tid: int


@final
class OwnGils:
    """The GILs of a process's sub-interpreters."""

    def __init__(self, pid: int) -> None:
        """Prepare to look; the process need not have started its Python yet."""
        self._pid = pid
        self._places: _Places | None = None
        self._is_known = True

    def held(self) -> tuple[HeldGil, ...]:
        """Return those that a thread holds at this moment; () if the process does not tell."""
        found: list[HeldGil] = []
        if self._is_known:
            with contextlib.suppress(*ILL_FORMED), Memory(self._pid, read_only=True) as memory:
                if self._places is None:
                    self._places = _find(self._pid, memory)
                    self._is_known = self._places is not None
                if self._places is not None:
                    _walk(memory, self._places, found)
        return tuple(found)


def _find(pid: int, memory: Memory) -> _Places | None:
    """Return where the process has its interpreters; None if it does not tell, as before 3.13 and in an alpha or a beta."""
    runtime = python_symbols(pid, memory, ("_PyRuntime",)).get("_PyRuntime", -1)
    block = memory.read(runtime, 8 * _WORDS)
    offsets = struct.unpack(f"<{_WORDS}Q", block)
    version = offsets[1] >> 24 & 0xFF, offsets[1] >> 16 & 0xFF
    if block[:8] != _COOKIE or version not in _GIL or offsets[1] >> 4 & 0xF not in _RELEASED:
        return None
    gil = _GIL[version]
    used = [offsets[one] for one in (_HEAD, _ID, _NEXT, gil, gil + _OWN, gil + _LOCKED, gil + _HOLDER, _TID[version])]
    return None if max(used) > _FURTHEST else _Places(runtime + used[0], *used[1:])


def _walk(memory: Memory, places: _Places, found: list[HeldGil]) -> None:
    """Add the GILs that are held; raises one of ILL_FORMED where an interpreter ends meanwhile."""
    at = memory.words(places.head, 1)[0]
    for _ in range(_MOST_INTERPRETERS):
        if at == 0:
            break
        own = at + places.own
        # The main interpreter has the id 0. Interpreters that share its GIL point to that one.
        is_own = memory.words(at + places.id, 1)[0] != 0 and memory.words(at + places.gil, 1)[0] == own
        if is_own and memory.halves(at + places.locked, 1)[0] == 1:
            tid = memory.words(memory.words(at + places.holder, 1)[0] + places.tid, 1)[0]
            found.append(HeldGil(own, tid))
        at = memory.words(at + places.next, 1)[0]
