"""Finds threads that take turns without the GIL: one of them runs while the others block at one line of the program.

A lock that threads share does this. The trace has no events of such a lock, but it shows which threads have released
the GIL, where, and until when they want it back.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import grouped
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.intervals import Recorded
from headway.traces.calls import Call, call_at
from headway.traces.loops import home_at
from headway.traces.model import Frame, Trace

__all__ = ["Away", "Turns", "times_away", "turns"]

_NEVER = np.iinfo(np.int64).max
_LEAST_TIMES = 5
"""A thread that blocked at a line less often is not counted there."""
_LEAST_BLOCKED = 0.1
"""The least share of the wall time for which a thread of the group is blocked at the line."""
_LEAST_SHARE = 0.1
"""The least share of the group's work that a thread has: one that hardly ever runs takes no turns."""
_LEAST_BUSY = 0.5
"""The least share of the wall time in which one of the group runs."""
_MOST_BESIDE = 0.05
"""The largest share of that time in which two of the group run beside each other, or wait for the GIL."""


@final
@dataclass(frozen=True)
class Turns:
    """Threads of which one at a time runs, while the others block at one line.

    Attributes:
        frame: The line.
        threads: The indices of the threads.
        blocked_ns: The sum of the times for which they were blocked at the line.
    """

    frame: Frame
    threads: tuple[int, ...]
    blocked_ns: int


@final
@dataclass(frozen=True, eq=False)
class Away:
    """Columns of times from a release that no other thread had requested until the thread wanted a GIL again."""

    thread: NDArray[np.uint32]
    stack: NDArray[np.uint32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    """The end of the thread or of the trace, if the thread wanted no GIL until then."""
    back: NDArray[np.bool_]
    """Whether the thread wanted a GIL again."""
    has_ns: NDArray[np.int64]
    """The time at which the thread had a GIL again; if it had none until the trace's end, the end of its wait for one."""

    def clipped(self, since_ns: int, until_ns: int) -> "Away":
        """Return the times cut to a window; those outside the window are left out."""
        lasts_ns = (self.end_ns.max(initial=until_ns), self.has_ns.max(initial=until_ns))
        if self.start_ns.min(initial=since_ns) >= since_ns and max(lasts_ns) <= until_ns:
            return self
        inside = (self.start_ns < until_ns) & ((self.end_ns > since_ns) | (self.start_ns >= since_ns))
        return Away(
            self.thread[inside],
            self.stack[inside],
            np.maximum(self.start_ns[inside], since_ns),
            np.minimum(self.end_ns[inside], until_ns),
            self.back[inside],
            np.minimum(self.has_ns[inside], until_ns),
        )


def turns(trace: Trace, away: Away, changed: Collection[str], start_ns: int, end_ns: int) -> tuple[Turns, ...]:
    """Return the lines at which threads take turns in a window, those with most blocked time first.

    Left out are lines of libraries, which include those where an idle thread of a pool waits for work, and lines that
    sleep or wait for a peer: a thread may have the lock there, and the others wait for it elsewhere. The lines of files in
    `changed` are not those of the trace.
    """
    wall_ns = end_ns - start_ns
    groups = []
    back = np.flatnonzero(away.back)
    for frame, of_frame in grouped(trace.stack_frame[away.stack[back]]).items():
        at = back[of_frame]
        place = trace.frames[frame]
        if own_frame((place,)) is None or home_at((place,)) is not None:
            continue
        if call_at(place, changed) in {Call.SLEEP, Call.RECEIVE, Call.POLL}:
            continue
        groups.append(_group(place, [away.thread[at], away.start_ns[at], away.end_ns[at]], wall_ns))
    return tuple(sorted((one for one in groups if one is not None), key=lambda one: -one.blocked_ns))


def times_away(trace: Trace, found: Recorded) -> Away:
    """Return the times for which threads were away from the GIL in a whole trace."""
    holds, waits = found.holds, found.waits
    of_holds, of_waits = grouped(holds.thread), grouped(waits.thread)
    parts: list[list[NDArray[Any]]] = [[], [], [], [], [], []]
    for thread, held in of_holds.items():
        holds_ns = np.append(holds.start_ns[held], _NEVER)
        waits_ns = np.append(waits.start_ns[of_waits.get(thread, held[:0])], _NEVER)
        chosen = np.flatnonzero(~holds.open[held] & ~holds.forced[held] & (holds.stack[held] > 0))
        mine = held[chosen]
        wants_ns = np.minimum(holds_ns[chosen + 1], waits_ns[np.searchsorted(waits_ns, holds.end_ns[mine])])
        over_ns = trace.threads[thread].end_ns
        last_ns = trace.end_ns if over_ns is None else over_ns
        parts[0].append(np.full(len(mine), thread, np.uint32))
        parts[1].append(holds.stack[mine])
        parts[2].append(holds.end_ns[mine])
        lasts_ns = np.maximum(last_ns, holds.end_ns[mine])
        parts[3].append(np.where(wants_ns < _NEVER, wants_ns, lasts_ns))
        parts[4].append(wants_ns < _NEVER)
        parts[5].append(np.minimum(holds_ns[chosen + 1], np.maximum(lasts_ns, parts[3][-1])))
    if not of_holds:
        none = np.zeros(0, np.int64)
        numbers = none.astype(np.uint32)
        return Away(numbers, numbers, none, none, none.astype(bool), none)
    # A column's parts are freed before those of the next are put together.
    return Away(*(np.concatenate(parts.pop(0)) for _ in range(len(parts))))


def _group(place: Frame, columns: Sequence[NDArray[Any]], wall_ns: int) -> Turns | None:
    """Return the threads that take turns at a line; None if they do not."""
    thread, start_ns, end_ns = columns
    indices, which, times = np.unique(thread, return_inverse=True, return_counts=True)
    blocked_ns = np.bincount(which, weights=end_ns - start_ns)
    chosen = (times >= _LEAST_TIMES) & (blocked_ns >= _LEAST_BLOCKED * wall_ns)
    if np.count_nonzero(chosen) < 2:
        return None
    inside = chosen[which]
    start_ns, end_ns, which = start_ns[inside], end_ns[inside], which[inside]
    # Before its first time at the line, and after its last, a thread does something else.
    members = np.flatnonzero(chosen)
    since_ns = max(int(start_ns[which == one].min()) for one in members)
    until_ns = min(int(end_ns[which == one].max()) for one in members)
    if until_ns - since_ns < wall_ns / 2:
        return None
    edges_ns = np.clip(np.concatenate([start_ns, end_ns]), since_ns, until_ns)
    steps = np.repeat([1, -1], len(start_ns))
    order = np.argsort(edges_ns, kind="stable")
    lengths_ns = np.diff(edges_ns[order])
    running = len(members) - np.cumsum(steps[order])[:-1]
    alone_ns, beside_ns = int(lengths_ns[running == 1].sum()), int(lengths_ns[running > 1].sum())
    busy_ns = alone_ns + beside_ns
    own_ns = (until_ns - since_ns) - np.array(
        [
            (
                np.clip(end_ns[which == one], since_ns, until_ns) - np.clip(start_ns[which == one], since_ns, until_ns)
            ).sum()
            for one in members
        ]
    )
    if (
        busy_ns < _LEAST_BUSY * wall_ns
        or beside_ns > _MOST_BESIDE * busy_ns
        or np.count_nonzero(own_ns >= _LEAST_SHARE * busy_ns) < 2
    ):
        return None
    return Turns(place, tuple(indices[chosen].tolist()), int(blocked_ns[chosen].sum()))
