"""Waits for locks: by kind of lock, place and type of the contended object.

A free-threaded build's trace has an event for each. With a GIL, a trace has releases of the GIL and their lines.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.blame import overlaps
from headway.traces.analysis.groups import distinct, grouped, in_order
from headway.traces.analysis.holders import Holders, LockHold, LockWaits
from headway.traces.analysis.hotspots import caller
from headway.traces.analysis.intervals import Holds, Recorded
from headway.traces.analysis.threads import Distribution, distribution, lives_ns
from headway.traces.analysis.turns import Away
from headway.traces.calls import takes_a_lock
from headway.traces.libraries import awaits_others
from headway.traces.loops import home_at
from headway.traces.model import Frame, Kind, Park, Trace, park_kinds

__all__ = [
    "CONTENDED",
    "LASTING_NS",
    "Contention",
    "ParkPlace",
    "contention",
    "takes",
    "taking_part",
    "waits_for_locks",
]

CONTENDED = 0.01
"""A share of the threads' time: less blocking on a lock is not worth a change."""
_PLACES = 40
_CALLER = 0.1
"""A caller that has this share of the time at a line of a library is a place of its own."""
_MOST_LINES = 200
"""The lines of source that are read in search of locks: those at which threads were away for longest."""
LASTING_NS = 500_000_000
"""A thread that has waited for less at the end of a recording may have got what it waits for soon after."""
_TAKING = frozenset({"Condition.__enter__", "Condition._acquire_restore"})
"""Functions of `threading` that take a lock which other threads hold while they work, as those of a queue do."""
_LEAST_PART = 0.02
_LEAST_COUNT, _LEAST_TIMES = 0.1, 3
"""A thread hardly takes part if it was blocked for less than `_LEAST_PART` of the time of the thread that was blocked
longest, and less than `_LEAST_TIMES` times, or less than `_LEAST_COUNT` of the times of the one blocked most often."""
_MOST_LEFT_OUT = 0.1
"""A share of a place's time: threads that have more of it together are not left out, however small the part of each is."""


@final
@dataclass(frozen=True)
class ParkPlace:
    """One place where threads blocked on locks of one kind and objects of one type.

    Attributes:
        kind: The kind of lock.
        type_name: The type of the contended object; "" if it is unknown.
        frame: The line; None if it is unknown.
        stack: The stack with most of the time, innermost frame first.
        times: How long these threads were blocked.
        members: The indices of these threads, without those with hardly any part in the time.
        lived_ns: The sum of the times for which these threads lived in the window.
        at_once: These threads, or the only one, were blocked all at once for most of the time in which any of them was. None
            of them had what they waited for, then.
        awaits: The place is in a module of the standard library that blocks to await another thread, as
            `Condition.wait` does. Such a wait may be idle time.
        gil_ns: The part of the time in which another of these threads, which had been blocked here before, waited for
            the GIL. If the line takes one lock, that thread had it.
        met_ns: The total of the waits during which another of these threads was blocked here, too, or before which it had
            left this place not long ago. Before the other waits, none of them had come here, so none had the lock.
        unended: The number of long waits for a lock of the program that had not ended when the recording did.
        holders: With a GIL, who had the lock meanwhile and what that thread did, most time first; () if that is not known.
        stuck: The threads that still waited when the recording ended, each with the thread that had the lock.
        sure: Whether there is only one lock of the name that the line has for it; unknown for places with little time.
        callers: The number of the program's lines from which threads came here; 0 if the line is the program's own.
    """

    kind: Park
    type_name: str
    frame: Frame | None
    stack: tuple[Frame, ...]
    times: Distribution
    members: tuple[int, ...]
    lived_ns: int
    at_once: bool = False
    awaits: bool = False
    gil_ns: int = 0
    met_ns: int = 0
    unended: int = 0
    holders: tuple[LockHold, ...] = ()
    stuck: tuple[tuple[int, int], ...] = ()
    sure: bool = False
    callers: int = 0

    @property
    def threads(self) -> int:
        """The number of threads."""
        return len(self.members)

    @property
    def known_ns(self) -> int:
        """The part of the time for which it is known who had the lock."""
        return sum(one.blocked_ns for one in self.holders)

    @property
    def behind_gil(self) -> bool:
        """True if the threads mostly waited for one that waited for the GIL: the GIL is the cause, and not the lock."""
        return 2 * self.gil_ns > self.times.total_ns

    @property
    def apart(self) -> bool:
        """True if these threads mostly did not meet here: they waited for another one, which had the lock."""
        return 2 * self.met_ns < self.times.total_ns


@final
@dataclass(frozen=True)
class Contention:
    """All waits for locks.

    Attributes:
        kinds: How long threads were blocked, by kind of lock.
        places: The places with most time, longest first.
        unpaired: The number of PARKs whose UNPARK was lost, and of UNPARKs whose PARK was lost.
        lived_ns: The sum of the times for which all threads lived in the window; 0 if there is no wait.
        threads: The number of threads that were blocked.
    """

    kinds: dict[Park, Distribution]
    places: tuple[ParkPlace, ...]
    unpaired: int
    lived_ns: int = 0
    threads: int = 0


@final
class _Parked(NamedTuple):
    """Columns of waits for locks, as a trace without a GIL has them."""

    thread: NDArray[np.int64]
    stack: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    """The end of the thread or of the trace, if the wait did not end before."""
    ended: NDArray[np.bool_]
    kind: NDArray[np.int64]
    type_of: NDArray[np.int64]

    def chosen(self, rows: NDArray[np.bool_]) -> "_Parked":
        """Return some of the waits."""
        return _Parked._make(column[rows] for column in self)


@final
@dataclass(frozen=True, eq=False)
class _Blocked:
    """Columns of waits for locks."""

    thread: NDArray[np.int64]
    stack: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    length_ns: NDArray[np.int64]
    kind: NDArray[np.int64]
    type_of: NDArray[np.int64]
    awaits: NDArray[np.bool_]
    gil_ns: NDArray[np.int64]
    woken: NDArray[np.bool_]
    """The thread wanted the GIL at the end, because another thread had released the lock."""
    lasting: NDArray[np.bool_]
    """The thread still waited when the recording ended, and had done so for long."""


def contention(
    trace: Trace,
    changed: frozenset[str],
    since_ns: int,
    until_ns: int,
    threads: Collection[int] | None = None,
) -> Contention:
    """Return the waits for locks within a window; a wait that is open at the trace's end ends there.

    `changed` are files whose lines may be others by now. `threads` are the indices of the threads whose waits are wanted;
    None: all threads.
    `unpaired` and `threads` of the result count those of all.
    """
    kinds = trace.events["kind"]
    events = trace.events[(kinds == Kind.PARK) | (kinds == Kind.UNPARK)]
    if not len(events):
        return Contention({}, (), 0)
    parked, unpaired = _paired(trace, events)
    inside = (parked.start_ns < until_ns) & (parked.end_ns > since_ns)
    inside |= (parked.start_ns == parked.end_ns) & (parked.start_ns >= since_ns) & (parked.end_ns <= until_ns)
    blocked_threads = len(np.unique(parked.thread[inside]))
    if threads is not None:
        inside &= np.isin(parked.thread, list(threads))
    if not inside.any():
        return Contention({}, (), unpaired, threads=blocked_threads)
    blocked = _cut(trace, parked.chosen(inside), since_ns, until_ns)
    by_kind = {
        Park(one): distribution(blocked.length_ns[blocked.kind == one]) for one in np.unique(blocked.kind).tolist()
    }
    lived_ns = lives_ns(trace.threads, since_ns, until_ns)
    places = _places(trace, blocked, lived_ns, _holders_at_the_end(trace, blocked, changed))
    kinds_ns = dict(sorted(by_kind.items(), key=lambda item: -item[1].total_ns))
    return Contention(kinds_ns, places, unpaired, int(lived_ns.sum()), blocked_threads)


def _paired(trace: Trace, events: NDArray[np.void]) -> tuple[_Parked, int]:
    """Return the waits between the PARKs and UNPARKs of a whole trace, and how many of these events have no partner."""
    events = events[in_order(events["thread"])]
    parks = np.flatnonzero(events["kind"] == Kind.PARK)
    thread = events["thread"]
    has_next = np.append(thread[1:] == thread[:-1], np.False_)[parks]
    following = np.minimum(parks + 1, len(events) - 1)
    ended = has_next & (events["kind"][following] == Kind.UNPARK)
    ends = np.array([trace.end_ns if one.end_ns is None else one.end_ns for one in trace.threads], dtype=np.int64)
    # A PARK before another PARK has lost its end; the last PARK of a thread is open.
    start_ns = events["time_ns"][parks]
    end_ns = np.where(ended, events["time_ns"][following], np.maximum(ends[thread[parks]], start_ns))
    kept = ended | ~has_next
    unpaired = int(np.count_nonzero(~kept)) + len(events) - len(parks) - int(np.count_nonzero(ended))

    # The locks are named by the whole trace, so that a window or a choice of threads changes no name.
    kind = park_kinds(events[parks]).astype(np.int64)
    kind[kind > max(Park)] = Park.OTHER
    type_of = np.where(ended, events["value"][following], 0).astype(np.int64)
    stack = events["value"][parks].astype(np.int64)
    frame = trace.stack_frame[stack]
    kind, type_of = _named(kind, type_of, frame, _of_program(trace)[frame])
    columns = _Parked(thread[parks].astype(np.int64), stack, start_ns, end_ns, ended, kind, type_of)
    return columns.chosen(kept), unpaired


def _cut(trace: Trace, parked: _Parked, since_ns: int, until_ns: int) -> _Blocked:
    """Return waits cut to a window."""
    awaits = _of_program(trace) & [one.function not in _TAKING for one in trace.frames]
    start_ns = np.maximum(parked.start_ns, since_ns)
    length_ns = np.minimum(parked.end_ns, until_ns) - start_ns
    return _Blocked(
        thread=parked.thread,
        stack=parked.stack,
        start_ns=start_ns,
        length_ns=length_ns,
        kind=parked.kind,
        type_of=parked.type_of,
        awaits=awaits[trace.stack_frame[parked.stack]],
        gil_ns=np.zeros_like(length_ns),
        woken=np.zeros(len(length_ns), dtype=bool),
        lasting=~parked.ended & (parked.kind == Park.LOCK) & (length_ns >= LASTING_NS),
    )


def _holders_at_the_end(trace: Trace, blocked: _Blocked, changed: frozenset[str]) -> Holders:
    """Return what finds the threads that have locks when a recording without a GIL ends: those that still wait tell."""
    start_ns, no = blocked.start_ns, np.zeros(len(blocked.start_ns), dtype=bool)
    unknown = no.astype(np.uint8)
    begins = Holds(
        start_ns,
        start_ns,
        blocked.thread.astype(np.uint32),
        unknown,
        blocked.stack.astype(np.uint32),
        no,
        no,
        asked_ns=start_ns,
        asked_ran=unknown,
        ran=unknown,
        away_ran=unknown,
    )
    return Holders(trace, begins.chosen(blocked.lasting), begins.chosen(no), changed)


def waits_for_locks(
    trace: Trace, found: Recorded, away: Away, changed: frozenset[str], since_ns: int, until_ns: int
) -> tuple[ParkPlace, ...]:
    """Return the lines of a program with a GIL at which threads were blocked for a lock, most time first.

    The words of a line tell that it takes a lock. A thread that finds the lock free does not release the GIL there.
    `found` has the holds and waits of the whole trace, `away` the times away in the window; `changed` are files whose lines
    may be others by now.
    """
    length_ns = away.end_ns - away.start_ns
    frames, which = distinct(trace.stack_frame[away.stack])
    is_lock = np.zeros(len(frames), dtype=bool)
    for one in np.argsort(-np.bincount(which, weights=length_ns, minlength=len(frames)))[:_MOST_LINES].tolist():
        is_lock[one] = takes(trace.frames[int(frames[one])], changed)
    at = np.flatnonzero(is_lock[which])
    stacks, which_stack = distinct(away.stack[at])
    kept = np.array([not _is_idle(trace.stack(int(one))) for one in stacks], dtype=bool)[which_stack]
    at = at[kept]
    none = np.zeros(len(at), np.int64)
    gil_ns = none.copy()
    for one in np.flatnonzero(is_lock).tolist():
        here = which[at] == one
        mine = at[here]
        with_lock = (np.sort(away.end_ns[mine]), away.has_ns[mine])
        gil_ns[here] = np.minimum(overlaps((away.start_ns[mine], away.end_ns[mine]), with_lock), length_ns[mine])
    blocked = _Blocked(
        thread=away.thread[at].astype(np.int64),
        stack=away.stack[at].astype(np.int64),
        start_ns=away.start_ns[at],
        length_ns=length_ns[at],
        kind=none + Park.LOCK,
        type_of=none,
        awaits=none.astype(bool),
        gil_ns=gil_ns,
        woken=away.back[at] & (away.end_ns[at] < until_ns),
        lasting=~away.back[at] & (length_ns[at] >= LASTING_NS),
    )
    return _places(
        trace, blocked, lives_ns(trace.threads, since_ns, until_ns), Holders(trace, found.holds, found.waits, changed)
    )


def _is_idle(stack: Sequence[Frame]) -> bool:
    """Tell whether a thread that blocks at a lock awaits its next work: a library's pool may do so at a lock of its own.

    A worker that takes the lock of a condition does not: another one has that lock, as each takes it between two tasks.
    """
    return stack[0].function not in _TAKING and home_at(stack) is not None


def takes(frame: Frame, changed: Collection[str]) -> bool:
    """Tell whether a line takes a lock that other threads hold while they work."""
    if awaits_others(frame):
        return frame.function in _TAKING
    return takes_a_lock(frame, changed)


def _places(trace: Trace, blocked: _Blocked, lived_ns: NDArray[np.int64], holders: Holders) -> tuple[ParkPlace, ...]:
    """Return the places of waits, most time first; `lived_ns` has the life of each thread."""
    thread, length_ns = blocked.thread, blocked.length_ns
    frame, caller_of = trace.stack_frame[blocked.stack], _callers(trace, blocked.stack)
    columns = np.stack([blocked.kind, blocked.type_of, frame, _apart(frame, caller_of, length_ns)])
    groups, group = np.unique(columns, axis=1, return_inverse=True)
    group = group.reshape(-1)
    totals = np.bincount(group, weights=length_ns, minlength=groups.shape[1])
    places = []
    for number in np.argsort(-totals, kind="stable")[:_PLACES].tolist():
        mine = np.flatnonzero(group == number)
        taking = mine[_take_part(length_ns[mine], thread[mine])]
        members = np.unique(thread[taking])
        one_kind, one_type, one_frame = (int(value) for value in groups[:3, number])
        heaviest = int(np.bincount(blocked.stack[mine], weights=length_ns[mine] + 1).argmax())
        life_ns = int(lived_ns[members].sum())
        held: tuple[LockHold, ...] = ()
        is_sure = False
        stuck: list[tuple[int, int]] = []
        if length_ns[taking].sum() >= CONTENDED * life_ns:
            starts_ns = blocked.start_ns[taking]
            waits = LockWaits(thread[taking], starts_ns, starts_ns + length_ns[taking], blocked.woken[taking])
            held = holders.of(heaviest, waits)
            for one in taking[blocked.lasting[taking]].tolist():
                has = holders.at(int(blocked.stack[one]), int(thread[one]), int(blocked.start_ns[one] + length_ns[one]))
                stuck += [] if has is None else [(int(thread[one]), has)]
            is_sure = holders.is_sure(heaviest, *(owner for _, owner in stuck))
        places.append(
            ParkPlace(
                kind=Park(one_kind),
                type_name=trace.types[one_type],
                frame=trace.frames[one_frame] if one_frame else None,
                stack=trace.stack(heaviest),
                times=distribution(length_ns[taking]),
                members=tuple(members.tolist()),
                lived_ns=life_ns,
                at_once=_at_once(blocked.start_ns[taking], length_ns[taking], thread[taking]),
                awaits=bool(blocked.awaits[mine[0]]),
                gil_ns=int(blocked.gil_ns[taking].sum()),
                met_ns=int(length_ns[taking][_met(blocked.start_ns[taking], length_ns[taking], thread[taking])].sum()),
                unended=int(np.count_nonzero(blocked.lasting[taking])),
                holders=held,
                stuck=tuple(stuck),
                sure=is_sure,
                callers=len(np.unique(caller_of[mine][caller_of[mine] > 0])),
            )
        )
    return tuple(sorted(places, key=lambda one: -one.times.total_ns))


def _callers(trace: Trace, stack: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the program's line, as a number above 0, that has called the innermost one of each stack; 0: there is none."""
    stacks, which = distinct(stack)
    numbers: dict[Frame | None, int] = {None: 0}
    found = [numbers.setdefault(caller(trace.stack(int(one))), len(numbers)) for one in stacks]
    return np.array(found, dtype=np.int64)[which]


def _apart(frame: NDArray[np.integer], caller_of: NDArray[np.int64], length_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `caller_of`, with 0 for the callers that have little of the time at a line: these are one place.

    Callers of a line in a library wait for locks of their own: those of one queue are not those of another.
    """
    pairs, which = np.unique(np.stack([frame, caller_of]), axis=1, return_inverse=True)
    which = which.reshape(-1)
    of_pair = np.bincount(which, weights=length_ns, minlength=pairs.shape[1])
    lines, line = np.unique(pairs[0], return_inverse=True)
    of_line = np.bincount(line, weights=of_pair, minlength=len(lines))
    found: NDArray[np.int64] = np.where((of_pair >= _CALLER * of_line[line])[which], caller_of, 0)
    return found


def _take_part(length_ns: NDArray[np.int64], thread: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return a mask of a place's waits: those of threads with a part in the time that is worth the mention."""
    _, which = np.unique(thread, return_inverse=True)
    return taking_part(np.bincount(which, weights=length_ns), np.bincount(which))[which]


def taking_part(totals_ns: NDArray[np.number], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of a place's threads: those with a part in the time that is worth the mention.

    `totals_ns` and `counts` have a value for each thread: how long, and how often, it was there.
    """
    often = (counts >= _LEAST_TIMES) & (counts >= _LEAST_COUNT * counts.max())
    taking: NDArray[np.bool_] = often | (totals_ns >= _LEAST_PART * totals_ns.max())
    if totals_ns[~taking].sum() > _MOST_LEFT_OUT * totals_ns.sum():
        return np.ones(len(counts), dtype=bool)
    return taking


def _of_program(trace: Trace) -> NDArray[np.bool_]:
    """Return a mask of the frames that block for a lock of the program only."""
    return np.array([awaits_others(one) for one in trace.frames], dtype=bool)


def _named(
    kind: NDArray[np.int64], type_of: NDArray[np.int64], frame: NDArray[np.int64], of_program: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return kinds and types of locks, with those that the recorder could not tell named by their place.

    `sched_yield()` does not tell for which lock a thread spins. A spin is for a lock of the program if the line blocks
    for no other, or if threads park for such a lock at the same line. The type of a lock may be unknown for the first waits.
    """
    parks = np.flatnonzero((kind == Park.LOCK) & (frame != 0))
    parks = parks[np.argsort(type_of[parks] == 0, kind="stable")]
    parked, first = np.unique(frame[parks], return_index=True)
    place = np.minimum(np.searchsorted(parked, frame), max(0, len(parked) - 1))
    same = parked[place] == frame if len(parked) else np.zeros(len(frame), dtype=bool)
    own = (kind == Park.MUTEX) & (of_program | same)
    type_of = np.where(own, 0, type_of)
    if len(parked):
        type_of = np.where(own & same, type_of[parks[first]][place], type_of)
        type_of = np.where((kind == Park.LOCK) & same & (type_of == 0), type_of[parks[first]][place], type_of)
    return np.where(own, int(Park.LOCK), kind), type_of


def _at_once(start_ns: NDArray[np.int64], length_ns: NDArray[np.int64], thread: NDArray[np.integer]) -> bool:
    """Tell whether the threads of a place were blocked all at once for most of the time in which any of them was."""
    times = np.concatenate([start_ns, start_ns + length_ns])
    steps = np.repeat(np.array([1, -1]), len(start_ns))
    order = np.lexsort((steps, times))
    lengths_ns, blocked = np.diff(times[order]), np.cumsum(steps[order])[:-1]
    any_ns, all_ns = lengths_ns[blocked > 0].sum(), lengths_ns[blocked == len(np.unique(thread))].sum()
    return bool(2 * all_ns > any_ns)


def _met(start_ns: NDArray[np.int64], length_ns: NDArray[np.int64], thread: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return a mask of a place's waits: those that had another thread at the place, or a little past it.

    A thread that leaves the place with the lock has it for about as long as the others wait for it, at most. So one that
    left the place longer ago than the longest wait has it no more.
    """
    end_ns = start_ns + length_ns
    gone_ns = end_ns + int(length_ns.max(initial=0))

    def meets(mine: NDArray, others: NDArray) -> NDArray[np.int64]:
        begun = np.searchsorted(np.sort(start_ns[others]), end_ns[mine], "left")
        result: NDArray[np.int64] = begun - np.searchsorted(np.sort(gone_ns[others]), start_ns[mine], "left")
        return result

    everything = np.arange(len(thread))
    found = meets(everything, everything)
    for mine in grouped(thread).values():
        found[mine] -= meets(mine, mine)
    return found > 0
