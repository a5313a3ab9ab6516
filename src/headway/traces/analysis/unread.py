"""Finds the lines at which threads were without the GIL, and whose words cannot be read: they may take a lock.

A trace with a GIL has no event of a lock. Only the words of the line tell of it, if the file is still what it was.
"""

import os
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.traces.analysis.contention import taking_part
from headway.traces.analysis.groups import distinct
from headway.traces.analysis.threads import lives_ns
from headway.traces.analysis.turns import Away
from headway.traces.analysis.words import is_own
from headway.traces.calls import Call, call_at
from headway.traces.libraries import awaits_others
from headway.traces.loops import home_at
from headway.traces.model import Frame, Trace

__all__ = ["UnreadLine", "unread_lines"]

_MOST_STACKS = 200
"""The stacks that are looked at: those at which threads were away for longest."""
_TYPED = frozenset({"<string>", "<stdin>"})


@final
@dataclass(frozen=True)
class UnreadLine:
    """A line that cannot be read, and at which threads were without the GIL.

    Attributes:
        frame: The line.
        time_ns: The sum of the times for which these threads were there.
        lived_ns: The sum of the times for which these threads lived in the window; threads that hardly were there are left out.
        reason: Why the line cannot be read, in words.
    """

    frame: Frame
    time_ns: int
    lived_ns: int
    reason: str

    @property
    def had_a_file(self) -> bool:
        """Whether the line is in a file, which is gone or another one by now."""
        return os.path.isabs(self.frame.filename)

    @property
    def was_typed(self) -> bool:
        """Whether the line is of a text without a file: of `python -c`, of a program on standard input, or of `exec()`."""
        return self.frame.filename in _TYPED


def unread_lines(
    trace: Trace, away: Away, changed: frozenset[str], since_ns: int, until_ns: int
) -> tuple[UnreadLine, ...]:
    """Return the lines that cannot be read, most time first, without those whose function tells what threads await.

    Headway's own start-up takes no lock of the program, and the only thread of a program awaits no other one's.

    `changed` are files whose lines may be others by now.
    """
    if trace.process.simulated or len(trace.threads) + len(trace.silent) <= 1:
        return ()
    length_ns = away.end_ns - away.start_ns
    stacks, which = distinct(away.stack)
    unknown = np.zeros(len(stacks), dtype=bool)
    totals_ns = np.bincount(which, weights=length_ns, minlength=len(stacks))
    for one in np.argsort(-totals_ns, kind="stable")[:_MOST_STACKS].tolist():
        stack = trace.stack(int(stacks[one]))
        frame = stack[0]
        unknown[one] = (
            (frame.filename in changed or _has_no_file(frame.filename))
            and not is_own(frame.filename)
            and not awaits_others(frame)
            and home_at(stack) is None
            and call_at(frame, changed) is Call.UNKNOWN
        )
    frames = np.unique(trace.stack_frame[stacks[unknown]])
    line_of = np.searchsorted(frames, trace.stack_frame[stacks])  # of each stack; of no use for the others
    at = np.flatnonzero(unknown[which])
    shape = (len(frames), len(trace.threads))
    place = line_of[which[at]] * shape[1] + away.thread[at]
    by_thread_ns = np.bincount(place, weights=length_ns[at], minlength=shape[0] * shape[1]).reshape(shape)
    counts = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
    lived_ns = lives_ns(trace.threads, since_ns, until_ns)
    found = []
    for number, one in enumerate(frames.tolist()):
        there = np.flatnonzero(counts[number])
        there = there[taking_part(by_thread_ns[number, there], counts[number, there])]
        frame = trace.frames[one]
        time_ns = int(by_thread_ns[number, there].sum())
        found.append(UnreadLine(frame, time_ns, int(lived_ns[there].sum()), _reason(frame.filename)))
    return tuple(sorted(found, key=lambda one: -one.time_ns))


def _has_no_file(filename: str) -> bool:
    """Tell whether the program compiled a text that is in no file, as `python -c` does; the interpreter's own is none."""
    return bool(filename) and not os.path.isabs(filename) and not filename.startswith("<frozen ")


def _reason(filename: str) -> str:
    if not os.path.isabs(filename):
        return "it is in no file" + " that is known" * (not filename.startswith("<"))
    return "edited since" if os.path.exists(filename) else "the file is not there"
