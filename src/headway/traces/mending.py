"""Puts the events of threads in one order, and removes those that contradict the rest.

A file can have gaps: chunks that were overwritten, events for which there was no room, bytes that were damaged. The
events that are left may then have a RELEASE without its ACQUIRE, or two holders at once. A hold (WAIT, ACQUIRE,
RELEASE) that is inconsistent is removed as a whole, because half of it would become a hold of seconds. The result keeps
the invariants (invariants.py), and nothing is removed from a sound trace.

The functions use two orders of events. "By thread": all events of one thread, in the order in which they happened, then
all events of the next thread. "By time": the order of `Trace.events`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces.model import Flag, Gil, Kind

__all__ = [
    "NEVER_NS",
    "OF_A_GIL",
    "by_time",
    "contradictions",
    "cut_front",
    "ended_gils",
    "going_back",
    "in_vain",
    "kind_table",
    "open_at_gaps",
    "taken_twice",
    "used_gils",
    "whole_waits",
]

NEVER_NS = np.iinfo(np.int64).max
"""The end of a GIL that does not end."""

_AT_ONCE_NS = 1_000_000
"""A thread that is woken in vain mostly waits again within this time."""

Mask = NDArray[np.bool_]


def kind_table(*kinds: int) -> Mask:
    """Return a table that tells for each number whether it is one of these kinds."""
    table = np.zeros(256, dtype=np.bool_)
    table[list(kinds)] = True
    return table


_TURNS = kind_table(Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT)
_FILE_TURNS = kind_table(Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT, hwt.HOLD)
_PARKS = kind_table(Kind.PARK, Kind.UNPARK, Kind.EXIT)
_BEGINS = kind_table(Kind.WAIT, Kind.ACQUIRE, Kind.PARK)
_OWNS = kind_table(Kind.ACQUIRE, Kind.RELEASE)
_HOLDS = kind_table(Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE)
OF_A_GIL = kind_table(Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.REQUEST)
"""Whether an event of each kind is one of a GIL, by the kind's number."""


def open_at_gaps(events: NDArray[np.void], gaps: NDArray[np.int64], owners: NDArray[np.int64]) -> Mask:
    """Return a mask of the events that begin what was not over when events of their thread began to be missing.

    Their ends may be among the missing events, and the next end that there is may be another one's, seconds later.

    Args:
        events: By thread, as they are in the file.
        gaps: The positions before which events are missing.
        owners: For each gap, the thread that misses them.
    """
    bad = np.zeros(len(events), dtype=np.bool_)
    kind, thread = events["kind"], events["thread"]
    for kinds in (_FILE_TURNS, _PARKS):
        mine = np.flatnonzero(kinds[kind])
        last = np.searchsorted(mine, gaps) - 1
        of_gap, last = owners[last >= 0], last[last >= 0]
        last = last[(thread[mine[last]] == of_gap) & _BEGINS[kind[mine[last]]]]
        bad[mine[last]] = True
        # With an ACQUIRE, remove its WAIT, which otherwise would lead to a later ACQUIRE.
        last = last[(kind[mine[last]] == Kind.ACQUIRE) & (last > 0)]
        led = (kind[mine[last - 1]] == Kind.WAIT) & (thread[mine[last - 1]] == thread[mine[last]])
        bad[mine[last - 1][led]] = True
    return bad


def used_gils(events: NDArray[np.void]) -> int:
    """Return the number of GILs up to the last one that has an event; the GIL itself may have lost its record."""
    used = events["gil"][OF_A_GIL[events["kind"]]]
    used = used[used < hwt.NO_GIL]
    return int(used.max()) + 1 if len(used) else 0


def whole_waits(events: NDArray[np.void], *, lost: bool = False) -> NDArray[np.void]:
    """Return the events, by thread, in which one call that wants a lock has one wait.

    A thread that is woken, but finds the lock taken, waits again. The file has an UNPARK there, and a PARK that says so.
    Between the two, the thread may have waited for a lock of the interpreter's, which then is a part of the wait.

    Args:
        events: By thread.
        lost: Events are missing, so an end and a later beginning may be those of two calls.
    """
    again = np.flatnonzero((events["kind"] == Kind.PARK) & (events["flags"] & hwt.PARK_AGAIN != 0))
    if not len(again):
        return events
    kind, flags, thread = events["kind"], events["flags"], events["thread"]
    flags[again] &= ~np.uint32(hwt.PARK_AGAIN)
    inner = ((kind == Kind.PARK) | (kind == Kind.UNPARK)) & (flags == 0)
    # The last event before each that is not of such a wait.
    last = np.maximum.accumulate(np.where(inner, -1, np.arange(len(events))))
    end = last[again - 1]
    goes_on = (again > 0) & (end >= 0)
    if lost:
        goes_on &= events["time_ns"][again] - events["time_ns"][end] <= _AT_ONCE_NS
    goes_on &= (kind[end] == Kind.UNPARK) & (thread[end] == thread[again]) & (flags[end] == flags[again])
    gone = np.zeros(len(events), dtype=np.bool_)
    for first, until in zip(end[goes_on].tolist(), again[goes_on].tolist(), strict=True):
        gone[first : until + 1] = True
    return events[~gone]


def going_back(times: NDArray[np.int64]) -> Mask:
    """Return a mask of one thread's events to remove so that its times do not go back; it removes as few as possible.

    One damaged time, even the first or the last, therefore does not cost the whole thread.
    """
    tails: list[int] = []  # tails[n]: the earliest time at which a rising run of n + 1 events can end
    ends: list[int] = []  # ends[n]: the event with which that run ends
    before = []
    for position, time in enumerate(times.tolist()):
        length = bisect_right(tails, time)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(time)
            ends.append(position)
        else:
            tails[length], ends[length] = time, position
    bad = np.ones(len(times), dtype=np.bool_)
    position = ends[-1] if ends else -1
    while position >= 0:
        bad[position] = False
        position = before[position]
    return bad


def _next(values: NDArray, same: Mask, fill: int) -> NDArray:
    """Return the value of each event's successor, or `fill` for the last event of a thread."""
    following = np.full_like(values, fill)
    following[:-1][same] = values[1:][same]
    return following


def _previous(values: NDArray, same: Mask, fill: int) -> NDArray:
    preceding = np.full_like(values, fill)
    preceding[1:][same] = values[:-1][same]
    return preceding


def contradictions(events: NDArray[np.void], gil_ends_ns: NDArray[np.int64]) -> Mask:
    """Return a mask of the events, by thread, that do not fit the events before and after them in the same thread.

    Args:
        events: By thread.
        gil_ends_ns: For each GIL, the time of its end, or `NEVER_NS`. The end of a GIL also ends a hold of it.
    """
    thread, kind = events["thread"], events["kind"]
    bad = np.zeros(len(events), dtype=np.bool_)
    # An EXIT is wrong if its thread has later events.
    exits = np.flatnonzero(kind == Kind.EXIT)
    later = exits[exits + 1 < len(events)]
    bad[later[thread[later + 1] == thread[later]]] = True

    turns = np.flatnonzero(_TURNS[kind] & ~bad).astype(np.uint32)
    if len(turns):
        at, gil, owner = kind[turns], events["gil"][turns], thread[turns]
        same = owner[1:] == owner[:-1]
        del owner
        next_kind, next_gil = _next(at, same, 0), _next(gil, same, 0)
        ended = np.zeros(len(turns), dtype=np.bool_)
        if (gil_ends_ns != NEVER_NS).any():
            ends_ns = np.append(gil_ends_ns, np.full(256 - len(gil_ends_ns), NEVER_NS))  # an EXIT may name any GIL
            ended = ends_ns[gil] <= _next(events["time_ns"][turns], same, -1)
        acquires, waits = at == Kind.ACQUIRE, at == Kind.WAIT
        good_acquire = acquires & (((next_kind == Kind.RELEASE) & (next_gil == gil)) | (next_kind == 0) | ended)
        leads_on = (next_kind == Kind.ACQUIRE) & (next_gil == gil)
        leads_on[:-1] &= good_acquire[1:]
        good_wait = waits & (leads_on | (next_kind == 0) | (next_kind == Kind.EXIT) | ended)
        good_release = (
            (at == Kind.RELEASE) & (_previous(at, same, 0) == Kind.ACQUIRE) & (_previous(gil, same, 0) == gil)
        )
        bad[turns[~(good_acquire | good_wait | good_release | (at == Kind.EXIT))]] = True

    requests = np.flatnonzero(kind == Kind.REQUEST)
    if len(requests):
        before = np.searchsorted(turns, requests.astype(np.uint32)) - 1
        if len(turns):
            wait = turns[np.maximum(before, 0)]
            waiting = (before >= 0) & (kind[wait] == Kind.WAIT) & ~bad[wait] & (thread[wait] == thread[requests])
            waiting &= events["gil"][wait] == events["gil"][requests]
            bad[requests[~waiting]] = True
        else:
            bad[requests] = True
    return bad


def in_vain(events: NDArray[np.void]) -> Mask:
    """Return a mask of the waits, by thread, for a GIL that was switched off before the thread had it, with their requests.

    A free-threaded build switches its GIL on while it imports an extension module, and off again. A thread that waits for
    it meanwhile runs on without an acquire, and may wait again at a later import, or for the GIL of a sub-interpreter. A
    wait after which nothing follows stays.
    """
    bad = np.zeros(len(events), dtype=np.bool_)
    turns = np.flatnonzero(_TURNS[events["kind"]])
    kind, gil, thread = (events[name][turns] for name in ("kind", "gil", "thread"))
    again = (kind[1:] == Kind.WAIT) | (kind[1:] == Kind.ACQUIRE) & (gil[1:] != gil[:-1])
    waits = np.flatnonzero((kind[:-1] == Kind.WAIT) & (thread[1:] == thread[:-1]) & again)
    bad[turns[waits]] = True
    requests = np.flatnonzero(events["kind"] == Kind.REQUEST)
    before = np.searchsorted(turns, requests) - 1
    asked = before >= 0
    bad[requests[asked]] = bad[turns[before[asked]]] & (thread[before[asked]] == events["thread"][requests[asked]])
    return bad


def by_time(events: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the order by time of events that are by thread: the order that `Trace.events` promises.

    The result depends on the events only. Events of several threads at the same time are ordered as follows: first the
    RELEASEs of holds that began earlier, then holds of no length, then the ACQUIREs of holds that last. The order
    within each thread is kept.
    """
    time = events["time_ns"].copy()
    order = np.argsort(time, kind="stable")
    time = time[order]
    tie = time[1:] == time[:-1]
    del time
    if not tie.any():
        return order
    thread = events["thread"]
    tied = np.flatnonzero(tie)
    between = thread[order[tied]] != thread[order[tied + 1]]
    if not between.any():
        return order
    # Reorder only at times at which more than one thread has an event.
    times = events["time_ns"][order[tied[between]]]
    positions = np.flatnonzero(np.isin(events["time_ns"][order], times))
    some = order[positions]  # by time, then by thread, then in the order in which the events happened
    time, thread, kind = events["time_ns"][some], thread[some], events["kind"][some]
    starts = np.flatnonzero(np.append(True, (time[1:] != time[:-1]) | (thread[1:] != thread[:-1])))
    run = np.zeros(len(some), dtype=np.int64)
    run[starts[1:]] = 1
    run = np.cumsum(run)
    rank = np.ones(len(some), dtype=np.int8)
    owns = np.flatnonzero(_OWNS[kind])
    position = np.arange(len(some))
    seen, first = np.unique(run[owns], return_index=True)
    first = owns[first]
    last = owns[np.append(np.flatnonzero(np.diff(run[owns])), len(owns) - 1)] if len(owns) else owns
    until = np.full(len(starts), -1)
    until[seen] = np.where(kind[first] == Kind.RELEASE, first, -1)
    since = np.full(len(starts), len(some))
    since[seen] = np.where(kind[last] == Kind.ACQUIRE, last, len(some))
    rank[position <= until[run]] = 0
    rank[position >= since[run]] = 2
    order[positions] = some[np.lexsort((rank, time))]
    return order


def taken_twice(events: NDArray[np.void]) -> Mask:
    """Return a mask of the events of holds that overlap other holds of the same GIL.

    The events must be by time, and `contradictions` must have been removed.
    """
    kind, thread = events["kind"], events["thread"]
    bad = np.zeros(len(events), dtype=np.bool_)
    turns = np.flatnonzero(_OWNS[kind])
    gil = events["gil"][turns]
    if len(gil) and gil.max() > 0:
        by_gil = np.argsort(gil, kind="stable")
        turns, gil = turns[by_gil], gil[by_gil]
    acquires, owner = kind[turns] == Kind.ACQUIRE, thread[turns]
    same = gil[1:] == gil[:-1]
    pair = acquires[:-1] & ~acquires[1:] & (owner[:-1] == owner[1:]) & same
    good = np.append(pair | (acquires[:-1] & ~same), acquires[-1:])  # the last hold of a GIL may be open
    good[1:] |= pair
    if good.all():
        return bad
    bad[turns[~good]] = True
    # With an ACQUIRE, remove its WAIT and its REQUESTs.
    turns = np.flatnonzero(_HOLDS[kind])
    turns = turns[np.argsort(thread[turns], kind="stable")]
    led = (kind[turns[:-1]] == Kind.WAIT) & (thread[turns[:-1]] == thread[turns[1:]]) & bad[turns[1:]]
    bad[turns[:-1][led]] = True
    turns = np.flatnonzero(_HOLDS[kind] | (kind == Kind.REQUEST))
    turns = turns[np.argsort(thread[turns], kind="stable")]
    requests = kind[turns] == Kind.REQUEST
    leader = np.maximum.accumulate(np.where(requests, 0, np.arange(len(turns))))
    bad[turns[requests & bad[turns[leader]]]] = True
    return bad


def cut_front(events: NDArray[np.void], start_ns: int) -> Mask:
    """Return a mask of the events, by thread, to remove so that the trace begins at `start_ns`.

    Also changes `events`: a hold, a wait or a park that is open at `start_ns` is made to begin there, and the ACQUIRE of
    such a hold is marked as assumed.
    """
    early = events["time_ns"] < start_ns
    spanning = np.concatenate([_open_at(events, kinds, start_ns) for kinds in (_TURNS, _PARKS)])
    early[spanning] = False
    assumed = spanning[events["kind"][spanning] == Kind.ACQUIRE]
    events["flags"][assumed] |= np.uint16(Flag.ASSUMED)
    events["time_ns"][spanning] = start_ns
    return early


def _open_at(events: NDArray[np.void], kinds: Mask, time_ns: int) -> NDArray[np.intp]:
    """Return the events, by thread, that begin what no event of these kinds has ended before a time."""
    mine = np.flatnonzero(kinds[events["kind"]])
    time, thread = events["time_ns"][mine], events["thread"][mine]
    still = np.append((thread[1:] != thread[:-1]) | (time[1:] >= time_ns), True)[: len(mine)]
    found: NDArray[np.intp] = mine[(time < time_ns) & still & _BEGINS[events["kind"][mine]]]
    return found


def ended_gils(gils: Sequence[Gil], events: NDArray[np.void]) -> list[Gil]:
    """Remove the end of a GIL that comes before one of its events or before its start: such an end is damage."""
    if all(one.end_ns is None for one in gils):
        return list(gils)
    last_ns = np.full(len(gils), -1)
    mine = np.flatnonzero(OF_A_GIL[events["kind"]])
    np.maximum.at(last_ns, events["gil"][mine], events["time_ns"][mine])
    return [
        one if one.end_ns is None or one.end_ns >= max(last_ns[one.index], one.start_ns) else replace(one, end_ns=None)
        for one in gils
    ]
