"""Finds, for each request to release a GIL, the wait in which it was made and the hold that ended because of it."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import grouped
from headway.traces.analysis.intervals import Holds, Intervals
from headway.traces.model import Kind, Trace

__all__ = ["Requests", "requests"]

_SIXTEEN_BITS = 1 << 16


@final
@dataclass(frozen=True, eq=False)
class Requests:
    """Columns of requests, by time. Requests whose wait was lost are left out."""

    time_ns: NDArray[np.int64]
    wait: NDArray[np.int32]
    """The wait in which the request was made."""
    hold: NDArray[np.int32]
    """The hold that was preempted and to which this request was the first; -1 if there is none."""


def requests(trace: Trace, holds: Holds, waits: Intervals) -> Requests:
    """Return a trace's requests."""
    events = trace.events[trace.events["kind"] == Kind.REQUEST]
    wait = np.full(len(events), -1, dtype=np.int32)
    hold = np.full(len(events), -1, dtype=np.int32)
    gils = max(len(trace.gils), 1)
    of_waits = _key(waits.thread, waits.gil, len(trace.threads), gils)
    of_events = _key(events["thread"], events["gil"], len(trace.threads), gils)
    order = np.argsort(of_waits, kind="stable")
    for key, mine in grouped(of_events).items():
        low, high = np.searchsorted(of_waits, [key], "left", order), np.searchsorted(of_waits, [key], "right", order)
        theirs = order[low[0] : high[0]]
        at = np.searchsorted(waits.start_ns[theirs], events["time_ns"][mine], "right") - 1
        wait[mine[at >= 0]] = theirs[at[at >= 0]]

    for gil in range(gils):
        mine = np.flatnonzero(events["gil"] == gil)
        forced = np.flatnonzero(holds.forced & (holds.gil == gil))
        times = events["time_ns"][mine]
        at = np.searchsorted(times, holds.asked_ns[forced])
        asked = at < len(mine)
        asked[asked] = times[at[asked]] == holds.asked_ns[forced[asked]]
        hold[mine[at[asked]]] = forced[asked]

    seen = wait >= 0
    return Requests(events["time_ns"][seen], wait[seen], hold[seen])


def _key(thread: NDArray, gil: NDArray, threads: int, gils: int) -> NDArray:
    key: NDArray = thread.astype(np.uint32) * np.uint32(gils) + gil
    return key.astype(np.uint16) if threads * gils < _SIXTEEN_BITS else key  # numpy sorts 16 bits by radix
