"""Finds the line at which threads sleep with the GIL, in a call of C that does not release it.

Such a hold looks like one that lost its core: its thread did not run. But a thread that runs Python code answers a request as
soon as it has a core again, mostly within a slice or two of the others', and runs for some of each hold. One that sleeps in a
call hardly runs at all, and nearly all its holds go on for long after the request.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.threads import SLEEPS
from headway.traces.frames import OURS
from headway.traces.model import Frame, Trace

__all__ = ["Asleep", "asleep"]

_FEW = 10
"""Fewer holds are not a pattern."""
_MOST = 0.5
"""The least share of the time without a core in holds with a request: less of it may be that of other lines."""
_NEARLY_ALL = 0.9
"""The least share of the holds that go on for more than an interval after the request."""


@final
@dataclass(frozen=True)
class Asleep:
    """The line at which threads slept with a GIL.

    Attributes:
        stack: The stack with most of that time, innermost frame first.
        frame: The program's own line in it, or else the innermost one; None if the trace has no lines.
        holds: The number of holds with a request that ended there.
        late: The number of them that went on for more than a switch interval after the request.
        held_ns: The time in these holds.
        off_core_ns: The part of that in which the thread did not run.
        thread: The index of the thread with most of that.
    """

    stack: tuple[Frame, ...]
    frame: Frame | None
    holds: int
    late: int
    held_ns: int
    off_core_ns: int
    thread: int


def asleep(trace: Trace, holds: Holds, interval_ns: NDArray[np.int64]) -> Asleep | None:
    """Return the line at which threads slept with the GIL; None if the holds show no such line.

    Args:
        trace: The trace.
        holds: The holds of one GIL.
        interval_ns: The switch interval at the end of each.
    """
    # A watcher's account has the longest time for which a hold may have had no core, and `headway stalls` has its causes.
    if trace.evidence.watched:
        return None
    off_core_ns = holds.off_core_ns
    rows = np.flatnonzero(holds.forced & (holds.ran > 0) & (holds.asked_ns < holds.end_ns))
    line = trace.stack_frame[holds.stack[rows]]
    off_of_line = np.bincount(line, weights=off_core_ns[rows], minlength=len(trace.frames))
    if not len(rows):
        return None
    most = int(off_of_line.argmax())
    is_unknown = most == 0 and trace.process.has_stacks
    if is_unknown or off_of_line[most] < _MOST * off_of_line.sum():
        return None
    rows = rows[line == most]
    late = int(np.count_nonzero((holds.end_ns - holds.asked_ns)[rows] > interval_ns[rows]))
    length_ns, off_ns = holds.length_ns[rows], off_core_ns[rows]
    hardly_ran = float(np.median(off_ns / np.maximum(length_ns, 1))) > 1 - SLEEPS
    if len(rows) < _FEW or late < _NEARLY_ALL * len(rows) or not hardly_ran:
        return None
    stack = trace.stack(int(np.bincount(holds.stack[rows], weights=off_ns).argmax()))
    frame = own_frame(stack) or next(iter(stack), None)
    if frame == OURS:
        return None
    return Asleep(
        stack=stack,
        frame=frame,
        holds=len(rows),
        late=late,
        held_ns=int(length_ns.sum()),
        off_core_ns=int(off_ns.sum()),
        thread=int(np.bincount(holds.thread[rows], weights=off_ns).argmax()),
    )
