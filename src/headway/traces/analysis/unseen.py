"""Finds what slows a program with a GIL down although no thread waits for the GIL: late event loops, and waits elsewhere.

The trace has the line at which a thread releases the GIL, and the time until it wants the GIL again. It does not have
what the thread awaits there: work, a lock, a file, or another process.
"""

import functools
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.printable import printable
from headway.traces.analysis.groups import distinct, in_order
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.threads import lives_ns
from headway.traces.analysis.turns import Away
from headway.traces.analysis.words import role
from headway.traces.calls import Call, call_at, is_of_a_queue, locks_at
from headway.traces.libraries import is_of_threading, is_of_threads
from headway.traces.loops import Home, home_at, is_in_a_loop, waits_for_a_lock
from headway.traces.model import Frame, Trace

__all__ = ["LateLoop", "UnseenWait", "late_loops", "unseen_waits"]

_MOST = 0.5
"""The least part of a thread's or a role's life that it spends at a line, and of the wall time that all threads do."""
_SOME = 0.1
"""The same for a line at which threads await each other: less of it than this hardly slows a program down."""
_SHARED = 0.5
"""The least part of the time at a line that others who come there, too, end: beyond it, they share what they await."""
_MOST_STACKS = 200
"""The stacks that are looked at, since each may open a file: those at which threads were away for longest, or most often."""
_EVENT = ("Event.wait",)
_IDLE = ("Thread.join", "Thread._wait_for_tstate_lock")
_IDLE_FRAMES = 3
_MEETING = frozenset({"Barrier.wait"})
_MEETING_FRAMES = 5
"""A thread waits four frames deep in `Barrier.wait`."""
_STUCK_NS = 1_000_000_000
"""A thread that is at a line until the recording ends, for less time than this, may well come back."""
_UNLIKE_BEFORE = 2
"""It is blocked, and not idle again, if it is there for so many times as long as ever before."""
_SOON_NS = 5_000_000
"""A thread that ends another one's wait had the GIL no longer ago than this; a time-out may come at any time."""


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
    """A line at which threads without the GIL spent much of their time.

    Attributes:
        frame: The line at which they released the GIL.
        own: The program's own line that called it.
        threads: The indices of these threads.
        away_ns: The sum of the times for which they were there.
        lived_ns: The sum of the times for which they lived in the window.
        shared: Those that come to this line mostly end each other's waits there: they share what they await.
        may_be_idle: They await another thread there, not for most of their time, and nothing shows that it is not for work.
        meets: They wait at a `threading.Barrier` for the last thread to arrive.
        last: At a barrier, the threads that arrived last, each with the time that others waited for it, most time first.
        stuck: Those of the threads that were there until the recording ended, and never before for nearly as long.
        stuck_ns: The longest of these times.
        hides_a_lock: The line takes a lock and makes a call, and nothing tells which of them the threads await.
    """

    frame: Frame
    own: Frame
    threads: tuple[int, ...]
    away_ns: int
    lived_ns: int
    shared: bool = False
    may_be_idle: bool = False
    meets: bool = False
    last: tuple[tuple[int, int], ...] = ()
    stuck: tuple[int, ...] = ()
    stuck_ns: int = 0
    hides_a_lock: bool = False


@final
@dataclass
class _Place:
    """A line at which threads were without the GIL.

    Attributes:
        stacks: The stacks of that line.
        awaits: A thread awaits others there.
        event: It awaits an event, which is mostly idle time: a flag to stop, a timer, a job. A pool may give each thread
            that awaits one of its connections an event of its own, though.
        meets: It is a wait at a barrier.
        by_thread_ns: How long each thread was there.
    """

    stacks: list[int]
    awaits: bool
    event: bool
    meets: bool
    by_thread_ns: dict[int, int]

    def mostly_there(
        self, least: float, lived_ns: NDArray[np.int64], by_role: Collection[list[int]], wall_ns: int
    ) -> tuple[int, ...]:
        """Return the threads that spent most of their lives here, and those of roles that spent more than a part of theirs.

        `least` is that part, and the least share of the wall time; () if all these threads spent less.
        """
        spent_ns = self.by_thread_ns
        there = {thread for thread, ns in spent_ns.items() if ns >= _MOST * lived_ns[thread] > 0}
        for members in by_role:
            mine = [thread for thread in members if thread in spent_ns]
            if sum(spent_ns[thread] for thread in mine) > least * int(lived_ns[members].sum()):
                there.update(mine)
        enough = sum(spent_ns[thread] for thread in there) >= least * wall_ns
        return tuple(sorted(there)) if enough else ()


def late_loops(trace: Trace, holds: Holds, away: Away, start_ns: int, end_ns: int) -> tuple[LateLoop, ...]:
    """Return the event loops that were late for longer than a stall takes in a window, the latest first.

    Laps are those of `headway.traces.analysis.stalls`, whose causes would take too long to find for a report. They are cut
    to the window, while `holds` and `away` are those of the whole trace.
    """
    times = np.bincount(away.stack)
    often = [one for one in np.argsort(-times, kind="stable")[:_MOST_STACKS].tolist() if times[one]]
    homes = [one for one in often if home_at(trace.stack(one)) is Home.LOOP]
    at_home = np.flatnonzero(np.isin(away.stack, homes))
    if not len(at_home):
        return ()
    thread, since_ns = away.thread[at_home], away.end_ns[at_home]
    ends = np.append(thread[1:] == thread[:-1], np.False_)  # the thread comes home again
    until_ns = np.where(ends, np.append(away.start_ns[at_home][1:], trace.end_ns), trace.end_ns)
    alive = np.array([one.end_ns is None for one in trace.threads], dtype=bool)
    goes_on = ~ends & alive[thread]
    length_ns = np.minimum(until_ns, end_ns) - np.maximum(since_ns, start_ns)
    late = away.back[at_home] & (ends | goes_on) & (length_ns >= Thresholds().loop_ns)
    in_loop = functools.cache(
        lambda stack, home, returned: (
            not stack or is_in_a_loop(trace.stack(stack), trace.stack(home), returned=returned)
        )
    )
    found = []
    for one in np.unique(thread[late]).tolist():
        mine = holds.chosen(holds.thread == one)
        laps_ns = []
        for lap in np.flatnonzero(late & (thread == one)).tolist():
            first, last = np.searchsorted(mine.end_ns, [since_ns[lap], until_ns[lap]], "right").tolist()
            home = int(away.stack[at_home[lap]])
            if goes_on[lap] and trace.process.ended and (mine.open[last - 1] or not mine.stack[last - 1]):
                continue  # the thread may have left its loop since it had the GIL again
            if all(in_loop(stack, home, bool(ends[lap])) for stack in np.unique(mine.stack[first:last]).tolist()):
                laps_ns.append(int(length_ns[lap]))
        if laps_ns:
            found.append(LateLoop(one, len(laps_ns), sum(laps_ns), max(laps_ns)))
    return tuple(sorted(found, key=lambda one: -one.max_ns))


def unseen_waits(
    trace: Trace, holds: Holds, away: Away, changed: frozenset[str], start_ns: int, end_ns: int
) -> tuple[UnseenWait, ...]:
    """Return the lines, most time first, at which threads spent much of their lives without the GIL, and not by nature.

    Much is most of it, or, where they await another thread, a smaller part. The threads of one role count together.
    Left out are sleeps, timers and joins, loops and pools that wait for work, and libraries' own threads; of events, those
    that do not stand for something that threads share.
    `holds` and `away` are those in the window; `changed` are files whose lines may be others by now.
    """
    lived_ns = lives_ns(trace.threads, start_ns, end_ns)
    names, role_of = np.unique([role(printable(one.name)) for one in trace.threads], return_inverse=True)
    by_role = [np.flatnonzero(role_of == number).tolist() for number in range(len(names))]
    places = _places(trace, away, changed)
    before = _stacks_before(holds) if any(one.awaits for one in places.values()) else holds.stack
    meeting = [stack for one in places.values() if one.meets for stack in one.stacks]
    found = []
    for (frame, own), one in places.items():
        shared = one.awaits and not one.meets and _is_shared(holds, before, away, one, role_of)
        if one.event and not shared:
            continue
        each_other = shared or one.meets
        threads = one.mostly_there(_SOME if each_other else _MOST, lived_ns, by_role, end_ns - start_ns)
        may_be_idle = one.awaits and not threads
        if may_be_idle:
            threads = one.mostly_there(_SOME, lived_ns, by_role, end_ns - start_ns)
        stuck_for_ns = _stuck(trace, away, one, end_ns)
        if stuck_for_ns and (may_be_idle or not threads):
            threads, may_be_idle = tuple(stuck_for_ns), False
        if threads:
            away_ns = sum(one.by_thread_ns[thread] for thread in threads)
            life_ns = int(lived_ns[list(threads)].sum())
            last = _last_to_arrive(holds, before, away, one.stacks, threads, meeting) if one.meets else ()
            stuck = tuple(thread for thread in stuck_for_ns if thread in threads)
            stuck_ns = max((stuck_for_ns[thread] for thread in stuck), default=0)
            hides_a_lock = not one.awaits and bool(locks_at(frame, changed))
            found.append(
                UnseenWait(
                    frame=frame,
                    own=own,
                    threads=threads,
                    away_ns=away_ns,
                    lived_ns=life_ns,
                    shared=shared,
                    may_be_idle=may_be_idle,
                    meets=one.meets,
                    last=last,
                    stuck=stuck,
                    stuck_ns=stuck_ns,
                    hides_a_lock=hides_a_lock,
                )
            )
    return tuple(sorted(found, key=lambda one: -one.away_ns))


def _places(trace: Trace, away: Away, changed: frozenset[str]) -> dict[tuple[Frame, Frame], _Place]:
    """Return the lines at which threads were without the GIL, and not by nature: each with the program's own line."""
    length_ns = away.end_ns - away.start_ns
    stacks, which = distinct(away.stack)
    totals_ns = np.bincount(which, weights=length_ns, minlength=len(stacks))
    places: dict[tuple[Frame, Frame], _Place] = {}
    for number in np.argsort(-totals_ns, kind="stable")[:_MOST_STACKS].tolist():
        stack = trace.stack(int(stacks[number]))
        own = own_frame(stack)
        if own is None or _is_idle(stack, changed):
            continue
        event = _awaits(stack, _EVENT)
        here = np.flatnonzero(which == number)
        by_thread_ns = np.bincount(away.thread[here], weights=length_ns[here])
        awaits = waits_for_a_lock(stack, changed)
        meets = _awaits(stack, _MEETING, _MEETING_FRAMES)
        place = places.setdefault((stack[0], own), _Place([], awaits, event, meets, defaultdict(int)))
        place.stacks.append(int(stacks[number]))
        for thread in np.flatnonzero(by_thread_ns).tolist():
            is_main = trace.threads[thread].name == "MainThread"
            if meets or not (is_main and is_of_threads(stack[0])):  # it waits for the others to end
                place.by_thread_ns[thread] += int(by_thread_ns[thread])
    return places


def _stuck(trace: Trace, away: Away, place: _Place, end_ns: int) -> dict[int, int]:
    """Return the threads that were at a line for long when the recording ended, each with that time.

    A thread that takes work from a queue has none, and one that was there for as long before came back then.
    """
    if end_ns != trace.end_ns or any(_takes_from_a_queue(trace.stack(stack)) for stack in place.stacks):
        return {}
    alive = np.array([one.end_ns is None for one in trace.threads])
    here = np.flatnonzero(np.isin(away.stack, place.stacks) & np.isin(away.thread, list(place.by_thread_ns)))
    length_ns = away.end_ns[here] - away.start_ns[here]
    at_end = ~away.back[here] & (away.end_ns[here] >= end_ns) & alive[away.thread[here]]
    before_ns = length_ns[~at_end].max(initial=0)
    stuck = at_end & (length_ns >= max(_STUCK_NS, _UNLIKE_BEFORE * before_ns))
    return dict(sorted(zip(away.thread[here][stuck].tolist(), length_ns[stuck].tolist(), strict=True)))


def _takes_from_a_queue(stack: tuple[Frame, ...]) -> bool:
    return any(is_of_a_queue(one) and one.function.endswith(".get") for one in stack[:_IDLE_FRAMES])


def _is_shared(
    holds: Holds, before: NDArray[np.integer], away: Away, place: _Place, role_of: NDArray[np.integer]
) -> bool:
    """Tell whether the threads that come to a line mostly end each other's waits there, as with permits of a semaphore.

    A thread gives back what others await while it has the GIL, after it was elsewhere. A worker that was given a job is
    no such thread: it comes from the line itself. Neither is a thread of another role that never waits there: it gives
    the jobs. One of the same role may find a permit whenever it comes.
    `before` has for each hold the stack at which its thread was before, or -1.
    """
    if not len(holds):  # all threads are away in all of the window
        return False
    threads = list(place.by_thread_ns)
    peers = np.isin(role_of, role_of[threads])
    here = np.flatnonzero(np.isin(away.stack, place.stacks) & np.isin(away.thread, threads))
    last = np.searchsorted(holds.start_ns, away.end_ns[here], "left") - 1  # the hold in which the wait ended
    ender, came_from = holds.thread[last], before[last]
    ended = away.back[here] & (last >= 0) & (ender != away.thread[here]) & peers[ender]
    ended &= (came_from >= 0) & ~np.isin(came_from, place.stacks)
    if place.event:
        ended &= holds.end_ns[last] >= away.end_ns[here] - _SOON_NS
    length_ns = away.end_ns[here] - away.start_ns[here]
    return bool(length_ns[ended].sum() > _SHARED * length_ns.sum())


def _last_to_arrive(
    holds: Holds,
    before: NDArray[np.integer],
    away: Away,
    stacks: Sequence[int],
    waiters: Sequence[int],
    meeting: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Return the threads that were the last at a barrier, each with the time that `waiters` waited there for it.

    The last thread wakes the others up while it has the GIL. Those that wake up first may have it before the next ones
    do, but they come from a wait at the barrier. `stacks` are those of the waits; `meeting` those of all waits at barriers.
    """
    if not len(holds):
        return ()
    arrived = np.where(np.isin(before, meeting), -1, np.arange(len(holds)))
    here = np.flatnonzero(np.isin(away.stack, stacks) & np.isin(away.thread, waiters) & away.back)
    hold = np.searchsorted(holds.start_ns, away.end_ns[here], "left") - 1
    hold = np.where(hold < 0, -1, np.maximum.accumulate(arrived)[hold])
    known = (hold >= 0) & (holds.thread[hold] != away.thread[here])
    length_ns = (away.end_ns[here] - away.start_ns[here])[known]
    threads, which = np.unique(holds.thread[hold[known]], return_inverse=True)
    totals_ns = np.bincount(which, weights=length_ns, minlength=len(threads)).astype(np.int64)
    return tuple(sorted(zip(threads.tolist(), totals_ns.tolist(), strict=True), key=lambda one: -one[1]))


def _stacks_before(holds: Holds) -> NDArray[np.int64]:
    """Return for each hold the stack at which its thread had released the GIL before; -1 if that was its first hold."""
    order = in_order(holds.thread)
    thread, stack = holds.thread[order], holds.stack[order].astype(np.int64)
    found = np.full(len(holds), -1, np.int64)
    again = np.flatnonzero(thread[1:] == thread[:-1]) + 1
    found[order[again]] = stack[again - 1]
    return found


def _is_idle(stack: tuple[Frame, ...], changed: frozenset[str]) -> bool:
    """Tell whether a thread that has released the GIL at a stack is idle: it waits for a time, for work, or for an end."""
    if home_at(stack) is not None or call_at(stack[0], changed) in (Call.SLEEP, Call.POLL):
        return True
    if stack[0].filename.endswith("/socket.py") and stack[0].function.endswith("accept"):
        return True
    return _awaits(stack, _IDLE)


def _awaits(stack: tuple[Frame, ...], functions: Collection[str], frames: int = _IDLE_FRAMES) -> bool:
    """Tell whether a thread at a stack is in one of these functions of `threading`."""
    return any(is_of_threading(one) and one.function in functions for one in stack[:frames])
