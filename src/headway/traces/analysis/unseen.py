"""Finds what slows a program with a GIL down although no thread waits for the GIL: late event loops, and waits elsewhere.

The trace has the line at which a thread releases the GIL, and the time until it wants the GIL again. It does not have
what the thread awaits there: work, a lock, a file, or another process.
"""

import functools
from collections import defaultdict
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.threads import lives_ns
from headway.traces.analysis.turns import Away
from headway.traces.calls import Call, call_at
from headway.traces.loops import Home, home_at, is_in_a_loop, may_be_a_target_in_c
from headway.traces.model import Frame, Trace

__all__ = ["LateLoop", "UnseenWait", "late_loops", "unseen_waits"]

_MOST = 0.5
"""The least part of a thread's life that it spends at a line, and of the wall time that all threads do."""
_MOST_STACKS = 200
"""The stacks that are looked at, since each may open a file: those at which threads were away for longest, or most often."""
_AWAITING = ("threading.py", "queue.py", "_base.py")
"""Modules of the standard library in which a program's main thread waits for the others."""
_IDLE = ("Event.wait", "Thread.join", "Thread._wait_for_tstate_lock")
_IDLE_FRAMES = 3


@final
@dataclass(frozen=True)
class LateLoop:
    """The laps of one thread's event loop that took too long: how many, their sum, and the longest."""

    thread: int
    laps: int
    total_ns: int
    max_ns: int


@final
@dataclass(frozen=True)
class UnseenWait:
    """A line at which threads without the GIL spent most of their time.

    Attributes:
        frame: The line at which they released the GIL.
        own: The program's own line that called it.
        threads: The indices of these threads.
        away_ns: The sum of the times for which they were there.
        lived_ns: The sum of the times for which they lived in the window.
    """

    frame: Frame
    own: Frame
    threads: tuple[int, ...]
    away_ns: int
    lived_ns: int


def late_loops(trace: Trace, holds: Holds, away: Away, start_ns: int, end_ns: int) -> tuple[LateLoop, ...]:
    """Return the event loops that were late for longer than a stall takes in a window, the latest first.

    Laps are those of `headway.traces.analysis.stalls`, whose causes would take too long to find for a report. They are cut
    to the window, while `holds` and `away` are those of the whole trace.
    """
    stacks, times = np.unique(away.stack, return_counts=True)
    often = stacks[np.argsort(-times, kind="stable")[:_MOST_STACKS]].tolist()
    homes = [one for one in often if home_at(trace.stack(one)) is Home.LOOP]
    at_home = np.flatnonzero(np.isin(away.stack, homes))
    if not len(at_home):
        return ()
    thread, since_ns = away.thread[at_home], away.end_ns[at_home]
    ends = np.append(thread[1:] == thread[:-1], np.False_)  # the thread comes home again
    until_ns = np.where(ends, np.append(away.start_ns[at_home][1:], trace.end_ns), trace.end_ns)
    alive = np.array([one.end_ns is None for one in trace.threads], dtype=bool)
    goes_on = ~ends & alive[thread] & (not trace.process.ended)
    length_ns = np.minimum(until_ns, end_ns) - np.maximum(since_ns, start_ns)
    late = away.back[at_home] & (ends | goes_on) & (length_ns >= Thresholds().loop_ns)
    in_loop = functools.cache(lambda stack, in_c: not stack or is_in_a_loop(trace.stack(stack), in_c=in_c))
    found = []
    for one in np.unique(thread[late]).tolist():
        mine = holds.chosen(holds.thread == one)
        laps_ns = []
        for lap in np.flatnonzero(late & (thread == one)).tolist():
            first, last = np.searchsorted(mine.end_ns, [since_ns[lap], until_ns[lap]], "right").tolist()
            in_c = may_be_a_target_in_c(trace.stack(int(away.stack[at_home[lap]])))
            if all(in_loop(stack, in_c) for stack in np.unique(mine.stack[first:last]).tolist()):
                laps_ns.append(int(length_ns[lap]))
        if laps_ns:
            found.append(LateLoop(one, len(laps_ns), sum(laps_ns), max(laps_ns)))
    return tuple(sorted(found, key=lambda one: -one.max_ns))


def unseen_waits(
    trace: Trace, away: Away, changed: frozenset[str], start_ns: int, end_ns: int
) -> tuple[UnseenWait, ...]:
    """Return the lines, most time first, at which threads spent most of their lives without the GIL, and not by nature.

    Left out are sleeps, timers and joins, loops and pools that wait for work, and libraries' own threads.
    `changed` are files whose lines may be others by now.
    """
    length_ns = away.end_ns - away.start_ns
    stacks, which = np.unique(away.stack, return_inverse=True)
    totals_ns = np.bincount(which, weights=length_ns, minlength=len(stacks))
    lived_ns = lives_ns(trace.threads, start_ns, end_ns)
    spent_ns: dict[tuple[Frame, Frame], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for number in np.argsort(-totals_ns, kind="stable")[:_MOST_STACKS].tolist():
        stack = trace.stack(int(stacks[number]))
        own = own_frame(stack)
        if own is None or _is_idle(stack, changed):
            continue
        here = np.flatnonzero(which == number)
        by_thread_ns = np.bincount(away.thread[here], weights=length_ns[here])
        for thread in np.flatnonzero(by_thread_ns).tolist():
            if trace.threads[thread].name != "MainThread" or not stack[0].filename.endswith(_AWAITING):
                spent_ns[stack[0], own][thread] += int(by_thread_ns[thread])
    found = []
    for (frame, own), by_thread in spent_ns.items():
        threads = tuple(sorted(thread for thread, ns in by_thread.items() if ns >= _MOST * lived_ns[thread] > 0))
        away_ns = sum(by_thread[thread] for thread in threads)
        if threads and away_ns >= _MOST * (end_ns - start_ns):
            found.append(UnseenWait(frame, own, threads, away_ns, int(lived_ns[list(threads)].sum())))
    return tuple(sorted(found, key=lambda one: -one.away_ns))


def _is_idle(stack: tuple[Frame, ...], changed: frozenset[str]) -> bool:
    """Tell whether a thread that has released the GIL at a stack is idle: it waits for a time, for work, or for an end."""
    if home_at(stack) is not None or call_at(stack[0], changed) in (Call.SLEEP, Call.POLL):
        return True
    if stack[0].filename.endswith("/socket.py") and stack[0].function.endswith("accept"):
        return True
    return any(one.filename.endswith("/threading.py") and one.function in _IDLE for one in stack[:_IDLE_FRAMES])
