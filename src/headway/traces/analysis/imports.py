"""The GIL of a free-threaded build that only imports of extension modules switch on, each for a moment.

CPython 3.13 and later switch the GIL on before they load an extension module. They switch it off afterwards if the
module declares that it works without a GIL (`_PyEval_EnableGILTransient()` and `_PyEval_DisableGIL()` in
Python/ceval_gil.c). Threads that wait for the GIL at that moment run on without an acquire, so their waits have no end
in the trace.

The thread that imports holds the GIL until it is off again, and the place of that last release is known: the import
system's `create_module()`, or the function with which Headway loads its own extension. A GIL that stays on is released
anywhere later.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import distinct
from headway.traces.model import Frame, Trace

if TYPE_CHECKING:
    from headway.traces.analysis.intervals import Holds, Intervals

__all__ = ["without_moments"]

_WORTH = 0.01
"""A share of the wall time: without stacks, a GIL that was held for less was on only for imports."""
_CALLER = ("<frozen importlib._bootstrap>", "_call_with_frames_removed")
_OWN = ("headway_agent/library.py", "load")


def without_moments(trace: Trace, holds: "Holds", waits: "Intervals") -> "tuple[Holds, Intervals, bool]":
    """Return the holds and waits of GILs that stayed on, and whether imports of the program held another one.

    A wait that began while an import had the GIL ends where the GIL was switched off.
    """
    if not trace.process.free_threaded or trace.process.gil_enabled or not len(holds) + len(waits):
        return holds, waits, False
    program, own = _places(trace, holds)
    by_imports = False
    for gil in np.union1d(holds.gil, waits.gil).tolist():
        mine = np.flatnonzero(holds.gil == gil)
        if _stays_on(trace, holds.chosen(mine), (program | own)[mine]):
            waits = _ended(waits, gil, holds.end_ns[mine[(program | own)[mine]]])
            continue
        by_imports |= bool(program[mine].any())
        program, own = program[holds.gil != gil], own[holds.gil != gil]
        holds, waits = holds.chosen(holds.gil != gil), waits.chosen(waits.gil != gil)
    return holds, waits, by_imports


def _stays_on(trace: Trace, holds: "Holds", of_imports: NDArray[np.bool_]) -> bool:
    """Tell whether a GIL with these holds was on after the last import that had switched it on."""
    if not len(holds):
        return False
    if not trace.process.has_stacks:
        return int(holds.length_ns.sum()) >= _WORTH * (trace.end_ns - trace.start_ns)
    return not of_imports[-1]


def _ended(waits: "Intervals", gil: int, off_ns: NDArray[np.int64]) -> "Intervals":
    """Return the waits, of which those for a GIL that was switched off end there; `off_ns` are the times of that."""
    if not len(off_ns):
        return waits
    at = np.searchsorted(off_ns, waits.start_ns, "right")
    end_ns = np.where(at < len(off_ns), off_ns[np.minimum(at, len(off_ns) - 1)], waits.end_ns)
    early = (waits.gil == gil) & (end_ns < waits.end_ns)
    return replace(waits, end_ns=np.where(early, end_ns, waits.end_ns), open=waits.open | early)


def _places(trace: Trace, holds: "Holds") -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the holds that ended as an import of the program, or of Headway, switched the GIL off."""
    chosen = ~holds.forced & ~holds.open & (holds.stack > 0)
    stacks, which = distinct(holds.stack)
    found = [_place(trace.stack(int(stack))[:2]) for stack in stacks]
    program, own = (np.array([one == kind for one in found], dtype=bool)[which] & chosen for kind in ("program", "own"))
    return program, own


def _place(stack: tuple[Frame, ...]) -> str:
    """Return whose import ends at a stack: "program", "own", or "" if none does."""
    if not stack:
        return ""
    inner = stack[0]
    if inner.filename.endswith(_OWN[0]) and inner.function == _OWN[1]:
        return "own"
    caller = stack[1].function if len(stack) > 1 else ""
    imports = (inner.filename, inner.function) == _CALLER and caller.rpartition(".")[2] == "create_module"
    return "program" if imports else ""
