"""Bounds the waiting that a trace cannot have, from the trace's own events.

Each rule stands for one thing that the recorder does not see, and names the place in the recorder's code that makes it so.
docs/concepts/bound.md lists them, with those that no trace can bound. A rule counts the times in which a thread may have
waited unseen, at most: the true waiting lies between what a trace has and that plus the bound.

Some of the rules need a limit that no event gives: `CORE_NS`, and `WAY_NS` with `FIRST_NS`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.contention import Contention
from headway.traces.analysis.groups import grouped
from headway.traces.analysis.intervals import Holds, Recorded
from headway.traces.analysis.threads import lives_ns
from headway.traces.model import Flag, Kind, Park, Trace

__all__ = ["CORE_NS", "FIRST_NS", "INSTEAD", "QUIET", "WAY_NS", "Missing", "Part", "Unseen", "missing"]

WAY_NS = 1_000
"""More than the mean way from the call that wants a GIL or a lock to the recorder's first reading of the clock, for a thread
that has a core meanwhile. That is 0.1 us with warm code: to the failing trylock (`lock_gil()` of native/gil/hooks.c), to
`hw__on_wait()` (native/trace/events.c), or to the first yield (`hook_yield()` of native/gil/parking.c). By the oracles' clocks
the mean is 0.3 us, and cold code takes 12 us at most."""
FIRST_NS = 20_000
"""The same for a thread's first wait, in addition: the thread's record is made before the clock is read (`enter()` of
native/trace/events.c), and code and stack are touched for the first time."""
CORE_NS = 10_000_000
"""The longest time for which a thread that has what it needs is without a core. The recorder itself takes no later event
for the end of a wait for the GIL's mutex (`MUTEX_MOST_NS` of native/trace/events.c)."""
QUIET = 4_096
"""After so many releases in a row by one thread the hook of `pthread_mutex_lock` is taken out (`hw__hooks_quiet` of
native/gil/hooks.c)."""
_ANSWERED_NS, _PREEMPTED_NS = 1_000_000, 50_000
"""A release so soon after the request, or a thread that is back so soon after the hand-off, is known to be preempted
(`ANSWERED_NS` and `PREEMPTED_NS` of native/trace/events.c)."""
_WOKEN_NS = 50_000_000
"""A waiter that wakes after a switch interval comes to its next `pthread_cond_timedwait` within this time: all waiters wake at
about the same time, and each needs a core and the GIL's mutex."""
_SPINS = 40
"""The most yields of one spin (MAX_SPIN_COUNT of CPython's Python/lock.c)."""
_EVENTS_OF_A_WAIT = 2
_TURNS = np.isin(np.arange(256), [int(one) for one in (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE)])
"""Whether an event of each kind begins or ends a wait or a hold, by the kind's number."""
INSTEAD = frozenset({Park.OBJECT, Park.MUTEX, Park.WORLD})
"""Locks of the interpreter and of its objects, which take a GIL's place; a wait for another lock may be idle time."""


class Unseen(StrEnum):
    """Something that the recorder does not see, or may miss."""

    WAY = "way"
    """The way from a call to the first look at what it wants."""
    MUTEX = "mutex"
    """Waits for the GIL's mutex while one thread alone used the GIL."""
    PREEMPTED = "preempted"
    """The begin of the waits of threads that were preempted late, and may have lost their core."""
    BEGIN = "begin"
    """Waits that were under way when the recording began."""
    DROPPED = "dropped"
    """Events for which there was no room, or that were lost with others."""
    THREADS = "threads"
    """Threads of which no event is in the file."""
    FORKED = "forked"
    """Waits that began while a forked child made its memory."""
    SPINS = "spins"
    """The last spin of each thread of a process that did not end in order."""
    DAMAGED = "damaged"
    """Damaged bytes, which may have been anything."""
    UNPLACED = "unplaced"
    """Dropped events of unknown threads."""


@final
@dataclass(frozen=True)
class Part:
    """The waiting that may be missing for one reason.

    Attributes:
        why: The reason.
        count: The number of waits, threads or events that it is about.
        most_ns: The most waiting that is missing; None: nothing bounds it.
    """

    why: Unseen
    count: int
    most_ns: int | None


@final
@dataclass(frozen=True)
class Missing:
    """The most waiting that a trace may lack, in a window of time.

    Attributes:
        waited_ns: The waiting that the trace has: for GILs, and for the locks that take a GIL's place.
        parts: The reasons, those without a bound first, then the greatest first.
    """

    waited_ns: int
    parts: tuple[Part, ...]

    @property
    def most_ns(self) -> int:
        """The most waiting that is missing for all reasons that have a bound."""
        return sum(one.most_ns or 0 for one in self.parts)

    @property
    def bounded(self) -> bool:
        """True if each reason has a bound."""
        return all(one.most_ns is not None for one in self.parts)

    @property
    def share(self) -> float:
        """`most_ns` as a part of all waiting, with that which may be missing."""
        return self.most_ns / max(1, self.waited_ns + self.most_ns)


class _Window(NamedTuple):
    trace: Trace
    found: Recorded
    """The holds and waits of the whole trace."""
    start_ns: int
    end_ns: int
    waits: int
    """The number of waits in the window."""
    waiters: int
    """The most threads that these can be of."""

    @property
    def free(self) -> bool:
        """True if the trace is of a process that ran without a GIL."""
        return self.trace.process.free_threaded and not self.trace.process.gil_enabled

    def within(self, since_ns: NDArray[np.int64], until_ns: NDArray[np.int64]) -> int:
        """Return how much of some times lies in the window."""
        cut = np.minimum(until_ns, self.end_ns) - np.maximum(since_ns, self.start_ns)
        return int(np.maximum(cut, 0).sum())


_Rule = Callable[[_Window], Iterator[Part]]


def missing(
    trace: Trace, found: Recorded, waits: tuple[int, int], contention: Contention, start_ns: int, end_ns: int
) -> Missing:
    """Return the most waiting that a trace may lack within a window.

    Args:
        trace: The trace.
        found: The holds and waits of the whole trace.
        waits: The number of the waits for GILs in the window, and their total.
        contention: The waits for locks in the window.
        start_ns: The begin of the window.
        end_ns: The end of the window.
    """
    locks = [times for kind, times in contention.kinds.items() if kind in INSTEAD]
    count = waits[0] + sum(one.count for one in locks)
    waited_ns = waits[1] + sum(one.total_ns for one in locks)
    if trace.process.simulated:
        return Missing(waited_ns, ())
    window = _Window(trace, found, start_ns, end_ns, count, len(trace.threads))
    parts = [part for rule in _RULES for part in rule(window) if part.most_ns is None or part.most_ns > 0]
    return Missing(waited_ns, tuple(sorted(parts, key=lambda one: (one.most_ns is not None, -(one.most_ns or 0)))))


def _way(window: _Window) -> Iterator[Part]:
    yield Part(Unseen.WAY, window.waits, window.waits * WAY_NS + min(window.waits, window.waiters) * FIRST_NS)


def _mutex(window: _Window) -> Iterator[Part]:
    """Bound the waits for a GIL's mutex whose begin no hook saw (`look_and_signal()` of native/gil/hooks.c).

    The hook is out from the 4,096th release in a row of one thread until another thread acquires a GIL or waits for one.
    Threads that want the mutex then are in the C library's function already. None of them is there for longer than `CORE_NS`:
    the mutex is free most of the time, as the one thread alone uses it.
    """
    events = window.trace.events
    turns = _TURNS[events["kind"]]
    out_ns = _unwatched(window.trace, turns)
    if not out_ns:
        return
    at = np.flatnonzero(turns)
    time_ns, thread, wants = events["time_ns"][at], events["thread"][at], events["kind"][at] != Kind.RELEASE
    since, until = [], []
    of_thread: dict[int, NDArray[np.int64]] = {}
    for begin_ns, back_ns in out_ns:
        first, last = np.searchsorted(time_ns, [back_ns, back_ns + CORE_NS], "left").tolist()
        for one, place in zip(
            *(found.tolist() for found in np.unique(thread[first:last], return_index=True)), strict=True
        ):
            if not wants[first + place]:
                continue
            if one not in of_thread:
                of_thread[one] = time_ns[thread == one]
            want_ns = int(time_ns[first + place])
            before = int(np.searchsorted(of_thread[one], back_ns, "left")) - 1
            # A thread counts as seen from its first event on, and may have been there long before that.
            before_ns = int(of_thread[one][before]) if before >= 0 else window.trace.start_ns
            since_ns = max(begin_ns, before_ns, want_ns - CORE_NS)
            if since_ns < back_ns:
                since.append(since_ns)
                until.append(want_ns)
    most_ns = window.within(np.array(since, dtype=np.int64), np.array(until, dtype=np.int64))
    yield Part(Unseen.MUTEX, len(since), most_ns)


def _unwatched(trace: Trace, turns: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the times from when on waits for the GIL's mutex were not watched until they were again.

    Args:
        trace: The trace.
        turns: A mask of the events that begin or end a wait or a hold.
    """
    events, is_cut = trace.events, trace.loss.overwritten_events > 0
    gils = np.flatnonzero(np.bincount(events["gil"][turns], minlength=1)).tolist()
    thread = events["thread"][turns]
    others_come = len(thread) > 0 and thread.min() != thread.max()  # to whichever GIL
    if not is_cut and not (
        others_come and any(_is_alone_for_long(events, turns & (events["gil"] == one)) for one in gils)
    ):
        return []
    back_ns, out_ns = [np.zeros(0, dtype=np.int64)], []
    for gil in gils:
        at = np.flatnonzero(turns & (events["gil"] == gil))
        kind, thread = events["kind"][at], events["thread"][at]
        is_release = kind == Kind.RELEASE
        last = np.maximum.accumulate(np.where(is_release, np.arange(len(at)), -1))
        others = (kind == Kind.WAIT) | (~is_release & ((last < 0) | (thread[last] != thread)))
        back_ns.append(events["time_ns"][at[others]])
        releases = at[is_release]
        first = np.append(-QUIET if is_cut else 0, np.searchsorted(releases, at[others]))  # after each of these
        length = np.diff(np.append(first, len(releases)))
        for begin in first[length >= QUIET].tolist():
            place = begin + QUIET - 1
            out_ns.append(int(events["time_ns"][releases[place]]) if place >= 0 else trace.start_ns)
    all_ns = np.sort(np.concatenate(back_ns))  # a thread that comes to any GIL brings the hook back for all
    found: dict[int, int] = {}
    for begin_ns in sorted(out_ns, reverse=True):
        place = int(np.searchsorted(all_ns, begin_ns, "right"))
        if place < len(all_ns):
            found[int(all_ns[place])] = begin_ns
    return [(begin_ns, until_ns) for until_ns, begin_ns in sorted(found.items())]


def _is_alone_for_long(events: NDArray[np.void], mine: NDArray[np.bool_]) -> bool:
    """Tell whether one thread has so many releases of a GIL in a row that the hook was taken out."""
    thread = events["thread"][mine & (events["kind"] == Kind.RELEASE)]
    turns = np.append(np.flatnonzero(thread[1:] != thread[:-1]) + 1, len(thread))
    return bool(np.diff(np.append(0, turns)).max(initial=0) >= QUIET)


def _preempted(window: _Window) -> Iterator[Part]:
    """Bound the begin of the waits of preempted threads (`began_before_ns()` of native/trace/events.c).

    A thread that was preempted waits from its release on, and is known by its quick answer to the request, or by its quick
    return after the hand-off. If it did neither, it may have made a call, or it was preempted and had no core.
    """
    holds = window.found.holds
    late = holds.end_ns - holds.asked_ns > _ANSWERED_NS
    late |= (holds.asked_ns == holds.end_ns) | bool(window.trace.process.policy)
    since, until = [], []
    for gil, mine in grouped(holds.gil).items():
        waits = window.found.waits.chosen(window.found.waits.gil == gil)
        of_waiter = grouped(waits.thread)
        for thread, of_thread in grouped(holds.thread[mine]).items():
            own = mine[of_thread]
            chosen = own[(holds.forced & late)[own]]
            if not len(chosen):
                continue
            waited = of_waiter.get(thread, np.zeros(0, dtype=np.int64))
            wants_ns = np.sort(np.concatenate([holds.start_ns[own], waits.start_ns[waited]]))
            places = np.searchsorted(wants_ns, holds.end_ns[chosen], "left")
            chosen, places = chosen[places < len(wants_ns)], places[places < len(wants_ns)]
            back_ns, switched_ns = wants_ns[places], _next_hold_ns(holds, mine, holds.end_ns[chosen])
            alone_ns = back_ns - switched_ns
            unknown = (alone_ns > _PREEMPTED_NS) & (alone_ns <= CORE_NS)
            since += holds.end_ns[chosen[unknown]].tolist()
            until += back_ns[unknown].tolist()
    yield Part(
        Unseen.PREEMPTED, len(since), window.within(np.array(since, dtype=np.int64), np.array(until, dtype=np.int64))
    )


def _next_hold_ns(holds: Holds, mine: NDArray[np.int64], end_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when the next of some holds, of one GIL, begins at or after each of some times."""
    starts_ns = np.append(holds.start_ns[mine], np.iinfo(np.int64).max)
    found: NDArray[np.int64] = starts_ns[np.searchsorted(holds.start_ns[mine], end_ns, "left")]
    return found


def _begin(window: _Window) -> Iterator[Part]:
    """Bound the waits that were under way when the recording began.

    A thread that waits for a GIL comes to the hook of `pthread_cond_timedwait` when it next wakes, at most a switch interval
    after the hooks are in place, as they are at the first event. One that waits for a lock sleeps in `sem_wait`, for which
    there was no hook: its wait has no beginning in the file, and lasts until the thread is first seen at the latest.
    Threads are known by when they were first seen, as their first events may be overwritten, or in no part that was read.
    """
    trace = window.trace
    there = trace.evidence.there
    if window.free:
        left = {one.tid for one in trace.threads if one.start_ns < window.start_ns}
        count = len(set(there) - left)
        if count:
            yield Part(Unseen.BEGIN, count, None)
        return
    if not there or not len(trace.events):
        return
    threads, first = np.unique(trace.events["thread"], return_index=True)
    tids, seen_ns = (
        np.array([getattr(one, name) for one in trace.threads], dtype=np.int64) for name in ("tid", "start_ns")
    )
    limit_ns = int(seen_ns.min()) + trace.process.interval_us * 1_000 + _WOKEN_NS
    early = np.isin(tids, there) & (seen_ns >= trace.start_ns) & (seen_ns <= limit_ns)
    early = early[threads] & (trace.events["flags"][first] & Flag.ASSUMED == 0)
    until_ns = trace.events["time_ns"][first][early]
    most_ns = window.within(np.array(trace.start_ns), until_ns)
    yield Part(Unseen.BEGIN, int(np.count_nonzero(until_ns > window.start_ns)), most_ns)


def _dropped(window: _Window) -> Iterator[Part]:
    """Bound the waits of which events are missing (`make_room()` of native/trace/thread.c, and the reader's mending)."""
    trace = window.trace
    since, until = (
        np.array([getattr(one, name) for one in trace.gaps], dtype=np.int64) for name in ("since_ns", "until_ns")
    )
    yield Part(Unseen.DROPPED, len(trace.gaps), window.within(since, until))


def _unrecorded(window: _Window) -> Iterator[Part]:
    """Bound the waits of threads of which nothing is in the file, or whose dropped events have no place there.

    Without a GIL, these are the waits that begin while another thread of a forked child makes the child's memory
    (`miss()` of native/trace/parks.c): each counts as two dropped events. Otherwise they are of threads without a record
    (`enter()` of native/trace/events.c), of which nothing is known. A thread that dropped all of its events, or its last
    ones, hides both: the dropped events that have no place may all be its own.
    """
    loss, wall_ns = window.trace.loss, window.end_ns - window.start_ns
    if loss.dropped_events or (window.free and not window.trace.process.ended):
        yield Part(Unseen.THREADS, loss.unseen_threads, loss.unseen_threads * wall_ns)
    if loss.unplaced_events and not loss.unseen_threads:
        waits = -(-loss.unplaced_events // _EVENTS_OF_A_WAIT)
        if window.free:
            yield Part(Unseen.FORKED, waits, waits * wall_ns)
        else:
            yield Part(Unseen.UNPLACED, loss.unplaced_events, None)
    if loss.damaged_bytes:
        yield Part(Unseen.DAMAGED, loss.damaged_bytes, None)


def _spins(window: _Window) -> Iterator[Part]:
    """Bound the last spins, which are kept back until the thread's next event (`hw__on_spin()` of native/trace/parks.c).

    A thread that is parked at the end does not spin, and its spin before that is in the file.
    """
    trace = window.trace
    if not window.free or trace.process.ended or not len(trace.events):
        return
    last_ns = np.full(len(trace.threads), trace.start_ns)
    np.maximum.at(last_ns, trace.events["thread"], trace.events["time_ns"])
    alive = np.array([one.end_ns is None for one in trace.threads])
    threads, last = np.unique(trace.events["thread"][::-1], return_index=True)
    alive[threads] &= trace.events["kind"][::-1][last] != Kind.PARK
    since_ns = np.maximum(last_ns, trace.end_ns - _SPINS * CORE_NS)[alive]
    lived_ns = lives_ns(trace.threads, window.start_ns, window.end_ns)[alive]
    most_ns = np.minimum(np.maximum(window.end_ns - np.maximum(since_ns, window.start_ns), 0), lived_ns)
    yield Part(Unseen.SPINS, int(np.count_nonzero(most_ns)), int(most_ns.sum()))


_RULES: tuple[_Rule, ...] = (_way, _mutex, _preempted, _begin, _dropped, _unrecorded, _spins)
