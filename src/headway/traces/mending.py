"""Puts the events of threads in one order, and takes out what contradicts the rest.

A file can have holes: chunks that were overwritten, events for which there was no room, bytes that were damaged. What
is left then tells of a RELEASE without its ACQUIRE, or of two holders at once. A hold (WAIT, ACQUIRE, RELEASE) that
does not add up is taken out as a whole: half of one would become a hold of seconds. What is left keeps the invariants
(invariants.py), and a sound trace loses nothing.

Two orders of events stand below. "By thread": one thread's events after the other's, each in the order in which they
happened. "By time": as `Trace.events` has them.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from headway.traces.model import Flag, Kind

__all__ = ["NEVER_NS", "by_time", "contradictions", "cut_front", "going_back", "taken_twice"]

NEVER_NS = np.iinfo(np.int64).max
"""When a GIL ends that does not."""

Mask = NDArray[np.bool_]


def _kinds(*kinds: Kind) -> Mask:
    """Return a table to look kinds up in."""
    table = np.zeros(256, dtype=np.bool_)
    table[list(kinds)] = True
    return table


_TURNS = _kinds(Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT)
_OWNS = _kinds(Kind.ACQUIRE, Kind.RELEASE)
_HOLDS = _kinds(Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE)


def going_back(times: NDArray[np.int64]) -> Mask:
    """Return which of one thread's events to take out so that times do not go back: as few as will do.

    That keeps a whole thread where one time in it was damaged, be it the first or the last.
    """
    tails: list[int] = []  # tails[n]: the earliest time that a rising run of n + 1 events can end at
    ends: list[int] = []  # and the event that it ends with
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
    """Return each event's successor's value, or `fill` where it is the last of its thread."""
    following = np.full_like(values, fill)
    following[:-1][same] = values[1:][same]
    return following


def _previous(values: NDArray, same: Mask, fill: int) -> NDArray:
    preceding = np.full_like(values, fill)
    preceding[1:][same] = values[:-1][same]
    return preceding


def contradictions(events: NDArray[np.void], gil_ends_ns: NDArray[np.int64]) -> Mask:
    """Return which events, by thread, do not fit those that the same thread has before and after.

    Args:
        events: By thread.
        gil_ends_ns: By GIL, when it ended, or `NEVER_NS`: its end ends a hold of it.
    """
    thread, kind = events["thread"], events["kind"]
    bad = np.zeros(len(events), dtype=np.bool_)
    # An EXIT with events after it was none.
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


def by_time(events: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the order by time of events by thread: what `Trace.events` promises, and the same for the same events.

    Of several threads' events at the same time, RELEASEs of what was held before come first, holds of no length then,
    and ACQUIREs that stay last; each thread's own order is kept.
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
    # Only times at which more than one thread did something.
    times = events["time_ns"][order[tied[between]]]
    positions = np.flatnonzero(np.isin(events["time_ns"][order], times))
    some = order[positions]  # by time, then by thread, then as it happened
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
    """Return which events, by time and without `contradictions`, belong to holds that overlap others of the same GIL."""
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
    good = np.append(pair | (acquires[:-1] & ~same), acquires[-1:])  # the last of its GIL may be open
    good[1:] |= pair
    if good.all():
        return bad
    bad[turns[~good]] = True
    # Its WAIT and REQUESTs go with an ACQUIRE.
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
    """Return which events, by thread, to take out so that the trace begins at `start_ns`, and move those before it.

    A hold or a wait that is open at `start_ns` begins there then; such an ACQUIRE becomes an assumed one.
    """
    early = events["time_ns"] < start_ns
    turns = np.flatnonzero(_TURNS[events["kind"]])
    time, thread, kind = (events[name][turns] for name in ("time_ns", "thread", "kind"))
    still = np.append((thread[1:] != thread[:-1]) | (time[1:] >= start_ns), True)
    spanning = turns[(time < start_ns) & still & ((kind == Kind.ACQUIRE) | (kind == Kind.WAIT))]
    early[spanning] = False
    assumed = spanning[events["kind"][spanning] == Kind.ACQUIRE]
    events["flags"][assumed] |= np.uint16(Flag.ASSUMED)
    events["time_ns"][spanning] = start_ns
    return early
