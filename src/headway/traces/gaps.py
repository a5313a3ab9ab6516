"""Collects where events of threads are missing while a file is read, and turns these places into times.

A reader leaves out events in several steps: those around dropped ones, damaged ones, and those that contradict the rest.
Each place is kept as the thread with the events before and after it. In the end, those of the thread's events that are left
tell the time in which it may have done anything, such as wait.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces import mending
from headway.traces.chunks import first_chunks, unplaced_drops
from headway.traces.model import Gap, Thread

__all__ = ["Gaps"]

_BEFORE_NS = -1
"""The time before a place that no event of its thread precedes."""


class _Place(NamedTuple):
    """A place among a thread's events."""

    serial: int
    before_ns: int
    after_ns: int


@final
class Gaps:
    """The places at which events are missing.

    Attributes:
        serials: The serials of the threads, by the index that their events have.
        unseen_threads: The number of threads that had something to record, and have no chunk; 0 if chunks were overwritten.
        unplaced_events: The number of dropped events of which no place is known.
    """

    def __init__(self, header: np.void) -> None:
        self.serials: list[int] = []
        self.unseen_threads = 0
        self.unplaced_events = 0
        self._threads = int(header["thread_count"])
        self._dropped = int(header["dropped_events"])
        self._overwritten = int(header["overwritten_events"]) > 0
        self._places: list[_Place] = []

    def after_chunks(
        self, head: NDArray[np.void], gaps: NDArray[np.intp], time_ns: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        """Add the places after some chunks, and those before the first chunks of threads.

        Args:
            head: The headers of the event chunks, by thread and in the order in which they were taken.
            gaps: The chunks after which events are missing.
            time_ns: The times of the events.
            places: The position of each chunk's first event, and the number of all events.
        """
        firsts, owner = first_chunks(head), head["owner"].tolist()
        self.serials = head["owner"][firsts].tolist()
        for one in gaps.tolist():
            at = int(places[one + 1])
            goes_on = one + 1 < len(owner) and owner[one + 1] == owner[one] and at < int(places[one + 2])
            before_ns = int(time_ns[at - 1]) if at > int(places[one]) else None
            self._between(owner[one], before_ns, int(time_ns[at]) if goes_on else None)
        if self._dropped:
            self.unplaced_events = unplaced_drops(head, self._dropped, overwritten=self._overwritten)
        if not self._overwritten:
            self.unseen_threads = max(0, self._threads - len(self.serials))
            for one in np.flatnonzero(firsts & (head["number"] > 1)).tolist() if self._dropped else []:
                at = int(places[one])
                self._between(owner[one], None, int(time_ns[at]) if at < int(places[one + 1]) else None)

    def _between(self, serial: int, before_ns: int | None, after_ns: int | None) -> None:
        """Add a place between two events of a thread; None: there is none."""
        before_ns = _BEFORE_NS if before_ns is None else before_ns
        self._places.append(_Place(serial, before_ns, mending.NEVER_NS if after_ns is None else after_ns))

    def without(self, events: NDArray[np.void], bad: NDArray[np.bool_]) -> None:
        """Add the places of events that are left out.

        Args:
            events: In an order that keeps each thread's own; `thread` is an index in `serials`.
            bad: A mask of those that are left out.
        """
        if not bad.any():
            return
        order = np.argsort(events["thread"], kind="stable")
        thread, time_ns, bad = events["thread"][order], events["time_ns"][order], bad[order]
        same = np.append(thread[1:] == thread[:-1], np.False_)
        begins = bad & ~np.append(np.False_, (bad & same)[:-1])
        ends = bad & ~(np.append(bad[1:], np.False_) & same)
        for first, last in zip(np.flatnonzero(begins).tolist(), np.flatnonzero(ends).tolist(), strict=True):
            before_ns = int(time_ns[first - 1]) if first and same[first - 1] else None
            after_ns = int(time_ns[last + 1]) if same[last] else None
            self._between(self.serials[thread[first]], before_ns, after_ns)

    def of(self, threads: Sequence[Thread], events: NDArray[np.void], start_ns: int, end_ns: int) -> tuple[Gap, ...]:
        """Return the times of threads, within a trace, of which events are missing; those of one thread do not meet.

        Args:
            threads: The threads of the trace.
            events: The trace's events, by time.
            start_ns: The trace's begin.
            end_ns: The trace's end.
        """
        of_serial = {one.serial: index for index, one in enumerate(threads)}
        found: list[Gap] = []
        times_ns: dict[int, NDArray[np.int64]] = {}
        for place in sorted(one for one in self._places if one.serial in of_serial):
            index = of_serial[place.serial]
            thread = threads[index]
            if index not in times_ns:
                times_ns[index] = events["time_ns"][events["thread"] == index]
            mine_ns = times_ns[index]
            first = int(np.searchsorted(mine_ns, place.before_ns, "right"))
            last = int(np.searchsorted(mine_ns, place.after_ns, "left"))
            since_ns = int(mine_ns[first - 1]) if first else max(start_ns, thread.start_ns)
            until_ns = int(mine_ns[last]) if last < len(mine_ns) else (thread.end_ns or end_ns)
            since_ns, until_ns = max(start_ns, since_ns), min(end_ns, until_ns)
            if found and found[-1].thread == index and since_ns <= found[-1].until_ns:
                since_ns, until_ns = found[-1].since_ns, max(found[-1].until_ns, until_ns)
                found.pop()
            if since_ns < until_ns:
                found.append(Gap(index, since_ns, until_ns))
        return tuple(sorted(found, key=lambda one: (one.thread, one.since_ns)))
