"""Finds the lines at which threads were without the GIL, and whose words cannot be read: they may take a lock.

A trace with a GIL has no event of a lock. Only the words of the line tell of it, if the file is still what it was.
"""

import os
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.traces.analysis.contention import ParkPlace, blocks_for_program, waits_at
from headway.traces.analysis.turns import Away
from headway.traces.calls import Call, call_at
from headway.traces.loops import home_at
from headway.traces.model import Trace

__all__ = ["UnreadLine", "unread_lines"]

_MOST_STACKS = 200
"""The stacks that are looked at: those at which threads were away for longest."""
_SIMULATED = "headway "
"""The executables of simulated runs, `headway simulate` and `headway whatif`: such a trace has no more than it was made of."""


@final
@dataclass(frozen=True)
class UnreadLine:
    """A line that cannot be read, the times for which threads were there without the GIL, and the reason in words."""

    place: ParkPlace
    reason: str


def unread_lines(
    trace: Trace, away: Away, changed: frozenset[str], since_ns: int, until_ns: int
) -> tuple[UnreadLine, ...]:
    """Return the lines that cannot be read, most time first, without those whose function tells what threads await.

    `changed` are files whose lines may be others by now.
    """
    if trace.process.executable.startswith(_SIMULATED):
        return ()
    stacks, which = np.unique(away.stack, return_inverse=True)
    unknown = np.zeros(len(stacks), dtype=bool)
    totals_ns = np.bincount(which, weights=away.end_ns - away.start_ns, minlength=len(stacks))
    for one in np.argsort(-totals_ns, kind="stable")[:_MOST_STACKS].tolist():
        stack = trace.stack(int(stacks[one]))
        frame = stack[0]
        unknown[one] = (
            (frame.filename in changed or _has_no_file(frame.filename))
            and not blocks_for_program(frame)
            and home_at(stack) is None
            and call_at(frame, changed) is Call.UNKNOWN
        )
    places = waits_at(trace, away, np.flatnonzero(unknown[which]), since_ns, until_ns)
    return tuple(UnreadLine(one, _reason(one.frame.filename)) for one in places if one.frame is not None)


def _has_no_file(filename: str) -> bool:
    """Tell whether the program compiled a text that is in no file, as `python -c` does; the interpreter's own is none."""
    return bool(filename) and not os.path.isabs(filename) and not filename.startswith("<frozen ")


def _reason(filename: str) -> str:
    if not os.path.isabs(filename):
        return "it is in no file that is known"
    return "edited since" if os.path.exists(filename) else "the file is not there"
