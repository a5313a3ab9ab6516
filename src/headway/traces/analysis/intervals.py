"""Holds and waits as columns, paired up from a trace's events.

A hold lasts from an ACQUIRE to the RELEASE, a wait from a WAIT to the ACQUIRE, each of the same thread and GIL. If the
end was not recorded, an interval ends at the thread's EXIT, or else at the end of the GIL, the thread or the trace; in
the latter cases it is `open`. Holds of one GIL never overlap: a hold whose RELEASE was lost ends where the next one
begins. A wait whose ACQUIRE was lost is counted and left out. So are the holds and waits of a GIL that only imports of
extension modules switched on (`headway.traces.analysis.imports`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import distinct, in_order
from headway.traces.analysis.imports import without_moments
from headway.traces.model import RAN_ALL, RAN_SHIFT, Flag, Gil, Kind, Thread, Trace

__all__ = ["DEFAULT_NS", "Holds", "Intervals", "Recorded", "SwitchInterval", "recorded"]

_US_NS = 1_000
DEFAULT_NS = 5_000_000
"""The switch interval of a new interpreter."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Columns of intervals, by start; the intervals of one GIL are in the order in which they happened."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    thread: NDArray[np.uint32]
    gil: NDArray[np.uint8]
    stack: NDArray[np.uint32]
    """For a hold, the stack that released the GIL; for a wait, the stack at its begin; 0 is unknown."""
    forced: NDArray[np.bool_]
    """For a hold: it was preempted. For a wait: it follows a preempted hold of the same thread."""
    open: NDArray[np.bool_]
    """The end of the interval was not recorded, or lies beyond the window to which the interval was cut."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> NDArray[np.int64]:
        """The length of each interval."""
        return self.end_ns - self.start_ns

    def chosen(self, which: NDArray | slice) -> Self:
        """Return the intervals that a mask, indices or a slice choose."""
        return replace(self, **{one.name: getattr(self, one.name)[which] for one in fields(self)})

    def clipped(self, since_ns: int, until_ns: int) -> Self:
        """Return the intervals cut to a window; those outside the window are left out."""
        if len(self) == 0 or (self.start_ns[0] >= since_ns and self.end_ns.max() <= until_ns):
            return self
        inside = self.chosen((self.start_ns < until_ns) & ((self.end_ns > since_ns) | (self.start_ns >= since_ns)))
        times = [one.name for one in fields(self) if one.name.endswith("_ns")]
        cut = {name: np.clip(getattr(inside, name), since_ns, until_ns) for name in times}
        return replace(inside, **cut, open=inside.open | (inside.end_ns > until_ns))


@final
@dataclass(frozen=True, eq=False)
class Holds(Intervals):
    """Holds, with the first request during each."""

    asked_ns: NDArray[np.int64]
    """The time of the first REQUEST during the hold; the hold's end if there was none."""
    asked_ran: NDArray[np.uint8]
    """The share of the time before that request in which the thread ran, as in the REQUEST's flags; 0: unknown."""
    ran: NDArray[np.uint8]
    """The share of the hold in which the thread ran on a core, as in the RELEASE's flags; 0: unknown."""
    away_ran: NDArray[np.uint8]
    """The same share for the time from the thread's last release to the hold, or to the wait for it."""

    def clipped(self, since_ns: int, until_ns: int) -> Self:
        """Return the holds cut to a window; one that goes on after it was not preempted in it."""
        inside = super().clipped(since_ns, until_ns)
        return replace(inside, forced=inside.forced & ~inside.open)

    @property
    def off_core_ns(self) -> NDArray[np.int64]:
        """The time of each hold in which the thread did not run; 0 if that is unknown."""
        off = np.where(self.ran == 0, 0, RAN_ALL + 1 - self.ran.astype(np.int64))
        result: NDArray[np.int64] = self.length_ns * off // RAN_ALL
        return result

    @property
    def overrun_ns(self) -> NDArray[np.int64]:
        """How long each hold ran on after the request. Python code answers in microseconds, a call of C does not.

        It is a lower bound: all time in which the thread did not run is subtracted, except the part that is known to lie
        before the request.
        """
        before_ns = self.asked_ns - self.start_ns
        # The share that ran is rounded down, so the thread may have run for one step more.
        off = np.where(self.asked_ran == 0, 0, RAN_ALL - np.minimum(self.asked_ran, RAN_ALL).astype(np.int64))
        off_after_ns = np.maximum(self.off_core_ns - before_ns * off // RAN_ALL, 0)
        result: NDArray[np.int64] = np.maximum(self.end_ns - self.asked_ns - off_after_ns, 0)
        return result


@final
@dataclass(frozen=True, eq=False)
class SwitchInterval:
    """The switch interval over time; a program may change it."""

    since_ns: NDArray[np.int64]
    value_ns: NDArray[np.int64]

    def at(self, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the interval in force at each time."""
        if len(self.value_ns) == 1:
            return np.full(len(time_ns), self.value_ns[0])
        return self.value_ns[np.maximum(np.searchsorted(self.since_ns, time_ns, "right") - 1, 0)]

    def main_ns(self, start_ns: int, end_ns: int) -> int:
        """Return the interval that was in force for the longest part of a window."""
        lengths = np.diff(np.clip(np.append(self.since_ns, end_ns), start_ns, end_ns))
        lengths[np.searchsorted(self.since_ns, end_ns, "right") - 1] += (
            1  # in force at the end, also of an empty window
        )
        values, which = np.unique(self.value_ns, return_inverse=True)
        return int(values[np.bincount(which, weights=lengths).argmax()])


@final
@dataclass(frozen=True, eq=False)
class Recorded:
    """The holds and waits of a trace, paired up from its events."""

    holds: Holds
    waits: Intervals
    interval: SwitchInterval
    """That of the main interpreter's GIL."""
    unpaired: int
    """The number of WAITs and RELEASEs whose other end was lost."""
    by_imports: bool = False
    """Imports of the program held a GIL that is left out, because only imports switched it on."""
    other_intervals: dict[int, SwitchInterval] = field(default_factory=dict)
    """Those of sub-interpreters' own GILs for which the trace has one, by the GIL's index."""

    def interval_of(self, gil: int) -> SwitchInterval:
        """Return the switch interval of a GIL. A new interpreter has the default, whatever that of the others is."""
        if gil == 0:
            return self.interval
        default = SwitchInterval(np.zeros(1, dtype=np.int64), np.full(1, DEFAULT_NS, dtype=np.int64))
        return self.other_intervals.get(gil, default)


@final
class _Columns:
    """The events that begin or end a hold or wait, as columns, with the next event of the same thread and GIL.

    The last element of every column stands for "no event": its kind is 0.
    """

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        kinds = np.zeros(256, dtype=bool)
        kinds[[Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT]] = True
        chosen = np.flatnonzero(kinds[events["kind"]])
        self.time_ns = np.append(events["time_ns"][chosen], 0)
        self.kind = np.append(events["kind"][chosen], np.uint8(0))
        self.thread = np.append(events["thread"][chosen], np.uint32(0))
        self.gil = np.append(events["gil"][chosen], np.uint8(0))
        self.value = np.append(events["value"][chosen], np.uint32(0))
        self.forced = np.append(events["flags"][chosen] & Flag.FORCED != 0, np.False_)
        self.ran = np.append(events["flags"][chosen] >> RAN_SHIFT, 0).astype(np.uint8)
        del chosen
        self.next = self._next()
        self.exit_ns = _ends(trace.threads, trace.end_ns)
        self.gil_end_ns = _ends(trace.gils, trace.end_ns) if any(one.end_ns is not None for one in trace.gils) else None

    def _next(self) -> NDArray[np.int32]:
        last = len(self.kind) - 1
        key = self.thread[:-1]
        if self.gil.any():
            key = key * np.uint32(256) + self.gil[:-1]
            key = distinct(key)[1]
        order = in_order(key).astype(np.int32)
        key = key[order]
        following = np.full(last + 1, last, dtype=np.int32)
        following[order[:-1]] = np.where(key[1:] == key[:-1], order[1:], last)
        return following

    def begun(self, kind: Kind) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the events of a kind, and the event that follows each."""
        begin = np.flatnonzero(self.kind == kind)
        return begin, self.next[begin]

    def end_ns(self, begin: NDArray, following: NDArray) -> NDArray[np.int64]:
        """Return the time of the following event, or the end of the GIL, the thread or the trace if that is earlier."""
        none = following == len(self.kind) - 1
        end_ns: NDArray[np.int64] = np.where(none, self.exit_ns[self.thread[begin]], self.time_ns[following])
        if self.gil_end_ns is not None:
            end_ns = np.minimum(end_ns, self.gil_end_ns[self.gil[begin]])
        result: NDArray[np.int64] = np.maximum(end_ns, self.time_ns[begin])
        return result


def _ends(ones: Sequence[Thread] | Sequence[Gil], end_ns: int) -> NDArray[np.int64]:
    """Return the end of each thread or GIL, but at most the end of the trace."""
    return np.array([end_ns if one.end_ns is None else min(one.end_ns, end_ns) for one in ones], dtype=np.int64)


def recorded(trace: Trace) -> Recorded:
    """Return a trace's holds and waits."""
    columns = _Columns(trace)
    releases, after_release = columns.begun(Kind.RELEASE)
    pushed = np.zeros(len(columns.kind), dtype=bool)
    pushed[after_release[columns.forced[releases]]] = True
    waits, unpaired = _waits(columns, pushed)
    holds = _holds(columns)
    unpaired += len(releases) - int(
        np.count_nonzero(columns.kind[columns.next[columns.kind == Kind.ACQUIRE]] == Kind.RELEASE)
    )
    del columns, pushed, releases, after_release
    holds, waits, by_imports = without_moments(trace, holds, waits)
    main, others = _switch_intervals(trace)
    return Recorded(_asked(trace, holds), waits, main, unpaired, by_imports, others)


def _waits(columns: _Columns, pushed: NDArray[np.bool_]) -> tuple[Intervals, int]:
    begin, following = columns.begun(Kind.WAIT)
    ended_by = columns.kind[following]
    lost = (ended_by == Kind.WAIT) | (ended_by == Kind.RELEASE)
    if lost.any():
        begin, following, ended_by = begin[~lost], following[~lost], ended_by[~lost]
    waits = Intervals(
        start_ns=columns.time_ns[begin],
        end_ns=columns.end_ns(begin, following),
        thread=columns.thread[begin],
        gil=columns.gil[begin],
        stack=columns.value[begin],
        forced=pushed[begin],
        open=ended_by == 0,
    )
    return waits, int(np.count_nonzero(lost))


def _holds(columns: _Columns) -> Holds:
    begin, following = columns.begun(Kind.ACQUIRE)
    released = columns.kind[following] == Kind.RELEASE
    start_ns, end_ns = columns.time_ns[begin], columns.end_ns(begin, following)
    gil, is_open = columns.gil[begin], ~released & (columns.kind[following] != Kind.EXIT)
    for one in np.flatnonzero(np.bincount(gil)):
        mine = slice(None) if not gil.any() else np.flatnonzero(gil == one)
        starts, ends = start_ns[mine], end_ns[mine]
        late = np.append(ends[:-1] > starts[1:], np.False_)
        if late.any():
            ends[late] = starts[1:][late[:-1]]
            end_ns[mine] = ends
            is_open[mine] |= late
    return Holds(
        start_ns=start_ns,
        end_ns=end_ns,
        thread=columns.thread[begin],
        gil=gil,
        stack=np.where(released, columns.value[following], np.uint32(0)),
        forced=released & columns.forced[following],
        open=is_open,
        asked_ns=end_ns,
        asked_ran=np.zeros(len(begin), dtype=np.uint8),
        ran=np.where(released, columns.ran[following], np.uint8(0)),
        away_ran=_away_ran(columns)[begin],
    )


def _away_ran(columns: _Columns) -> NDArray[np.uint8]:
    """Return, for each ACQUIRE, the share of the time before it (or before its WAIT) in which the thread ran."""
    found = columns.ran.copy()
    waits, following = columns.begun(Kind.WAIT)
    found[following] = columns.ran[waits]
    return found


def _asked(trace: Trace, holds: Holds) -> Holds:
    """Return the holds with the first REQUEST during each filled in."""
    requests = trace.events[trace.events["kind"] == Kind.REQUEST]
    if not len(requests) or not len(holds):
        return holds
    asked_ns, ran = holds.end_ns.copy(), holds.asked_ran.copy()
    for one in np.flatnonzero(np.bincount(requests["gil"])):
        mine = np.flatnonzero(holds.gil == one)
        of_it = requests[requests["gil"] == one]
        at = np.searchsorted(holds.start_ns[mine], of_it["time_ns"], "right") - 1
        of_it, at = of_it[at >= 0], mine[at[at >= 0]]
        first = np.append(True, at[1:] != at[:-1])[: len(at)]
        of_it, at = of_it[first], at[first]
        in_time = of_it["time_ns"] < asked_ns[at]  # others came after the hold's end
        of_it, at = of_it[in_time], at[in_time]
        asked_ns[at], ran[at] = of_it["time_ns"], of_it["flags"] >> RAN_SHIFT
    return replace(holds, asked_ns=asked_ns, asked_ran=ran)


def _switch_intervals(trace: Trace) -> tuple[SwitchInterval, dict[int, SwitchInterval]]:
    """Return the switch interval of the main GIL, and of each other GIL with an event for it."""
    events = trace.events
    at = np.flatnonzero(events["kind"] == Kind.INTERVAL)
    gils = events["gil"][at]
    others = {}
    for gil in np.unique(gils[gils > 0]).tolist():
        mine = at[gils == gil]
        # At the first acquire, the event tells the first value. Recordings of older versions have changes only.
        is_first = not np.any((events["gil"][: mine[0]] == gil) & (events["kind"][: mine[0]] == Kind.ACQUIRE))
        first_us = int(events["value"][mine[0]]) if is_first else 0
        others[gil] = _changes(trace.start_ns, first_us, events[mine])
    return _changes(trace.start_ns, trace.process.interval_us, events[at[gils == 0]]), others


def _changes(start_ns: int, first_us: int, changes: NDArray[np.void]) -> SwitchInterval:
    since_ns = np.append(start_ns, changes["time_ns"]).astype(np.int64)
    value_ns = np.append(first_us, changes["value"]).astype(np.int64) * _US_NS
    value_ns[value_ns == 0] = DEFAULT_NS  # a build without a GIL has no interval until the GIL is switched on
    return SwitchInterval(since_ns, value_ns)
