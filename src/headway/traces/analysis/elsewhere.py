"""Finds where a program's time passes if it does not pass at the GIL: the lines at which threads were for long without it."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.printable import printable
from headway.traces.analysis.groups import distinct
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.threads import lives_ns
from headway.traces.analysis.turns import Away
from headway.traces.analysis.words import role
from headway.traces.calls import Call, call_at
from headway.traces.loops import Home, home_at
from headway.traces.model import Frame, Trace

__all__ = ["Elsewhere", "elsewhere"]

_MUCH = 0.2
"""The least part of the life of a thread, or of a role, that passes at a line."""
_LEAST = 0.01
"""A share of the wall time: a stack with less of it adds nothing to its line."""
_MOST = 3
_FROM_OTHERS = frozenset({Call.LOCK, Call.RECEIVE, Call.POLL})


@final
@dataclass(frozen=True)
class Elsewhere:
    """A line at which the threads of one role spent a good part of their lives without the GIL.

    Attributes:
        frame: The line at which they released the GIL.
        own: The program's own line that called it.
        threads: The indices of these threads.
        away_ns: The sum of the times for which they were there.
        lived_ns: The sum of the times for which they lived in the window.
        in_a_loop: They are event loops that had nothing to run.
        may_be_idle: They wait for other threads or for peers, which may have nothing for them.
    """

    frame: Frame
    own: Frame
    threads: tuple[int, ...]
    away_ns: int
    lived_ns: int
    in_a_loop: bool
    may_be_idle: bool


def elsewhere(trace: Trace, away: Away, changed: Collection[str], start_ns: int, end_ns: int) -> tuple[Elsewhere, ...]:
    """Return the lines at which threads were longest without the GIL in a window, most time first.

    Sleeps, waits for other threads, and idle event loops are among them. Left out are the idle threads of pools, and the
    threads of libraries. `changed` are files whose lines may be others by now.
    """
    length_ns = away.end_ns - away.start_ns
    stacks, which = distinct(away.stack)
    totals_ns = np.bincount(which, weights=length_ns, minlength=len(stacks))
    role_of = [role(printable(one.name)) for one in trace.threads]
    spent_ns: dict[tuple[str, Frame, Frame, bool], dict[int, int]] = defaultdict(dict)
    for number in np.flatnonzero(totals_ns >= max(1, _LEAST * (end_ns - start_ns))).tolist():
        stack = trace.stack(int(stacks[number]))
        own, home = own_frame(stack), home_at(stack)
        if own is None or home is Home.POOL:
            continue
        here = which == number
        for thread, ns in enumerate(np.bincount(away.thread[here], weights=length_ns[here]).astype(np.int64).tolist()):
            if ns:
                there = spent_ns[role_of[thread], stack[0], own, home is Home.LOOP]
                there[thread] = there.get(thread, 0) + ns
    lived_ns = lives_ns(trace.threads, start_ns, end_ns)
    found = []
    for (name, frame, own, in_a_loop), there in spent_ns.items():
        members = [thread for thread, other in enumerate(role_of) if other == name]
        life_ns = int(lived_ns[members].sum())
        if sum(there.values()) >= max(_MUCH * life_ns, _MUCH * (end_ns - start_ns)):
            may_be_idle = in_a_loop or call_at(frame, changed) in _FROM_OTHERS
            threads = tuple(sorted(there))
            found.append(Elsewhere(frame, own, threads, sum(there.values()), life_ns, in_a_loop, may_be_idle))
    return tuple(sorted(found, key=lambda one: -one.away_ns)[:_MOST])
