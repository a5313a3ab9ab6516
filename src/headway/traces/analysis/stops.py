"""Finds which threads stopped the world, in a build without a GIL, and at which line.

A thread that stops the world waits for the others, each of which is suspended when it next looks. So its own wait begins
first and ends once all are suspended, and theirs end together, when it starts the world again. A thread that finds no other
one running does not wait, and is not found.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.groups import in_order
from headway.traces.model import Frame, Kind, Park, Trace, park_kinds

__all__ = ["Stopper", "stoppers"]

_LATER_NS = 50_000
"""The last thread to be suspended may block a little after the thread that stops the world went on."""


@final
@dataclass(frozen=True)
class Stopper:
    """A line at which threads stopped the world.

    Attributes:
        frame: The line; None if it is unknown.
        threads: The indices of the threads, the one with most stops first.
        stops: The number of times.
        stopped_ns: The sum of the times for which other threads were stopped.
    """

    frame: Frame | None
    threads: tuple[int, ...]
    stops: int
    stopped_ns: int


@final
@dataclass(frozen=True, eq=False)
class _Waits:
    """Columns of waits to stop the world or while it is stopped, in the order of their begin."""

    thread: NDArray[np.int64]
    frame: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def stoppers(trace: Trace, since_ns: int, until_ns: int) -> tuple[Stopper, ...]:
    """Return the lines that stopped the world within a window, those with most stopped time first."""
    waits = _waits(trace, since_ns, until_ns)
    threads: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    stopped_ns: dict[int, int] = defaultdict(int)
    over = 0  # the waits before this one belong to a stop that is known
    for first in range(len(waits.thread)):
        one = _first_over(waits, first)
        if first < over or not _stops(waits, first, one):
            continue
        stops, over = _in_a_row(waits, first, one)
        frame = next(filter(None, waits.frame[stops].tolist()), 0)
        threads[frame][int(waits.thread[one])] += len(stops)
        inside = np.setdiff1d(np.arange(first, over), stops)
        stopped_ns[frame] += int((waits.end_ns[inside] - waits.start_ns[inside]).sum())
    found = [
        Stopper(
            frame=trace.frames[frame] if frame else None,
            threads=tuple(sorted(of, key=lambda one: -of[one])),
            stops=sum(of.values()),
            stopped_ns=stopped_ns[frame],
        )
        for frame, of in threads.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.stopped_ns))


def _in_a_row(waits: _Waits, first: int, one: int) -> tuple[list[int], int]:
    """Return the wait `one` of a thread that stops the world, with its further ones before all others go on.

    A garbage collection stops the world twice, and a thread that is to go on may get its core late.
    The second value is the number of the first wait after these stops.
    """
    stops = [one]
    while True:
        last = _last_within(waits, stops[-1])
        ends_ns = waits.end_ns[np.setdiff1d(np.arange(first, last + 1), stops)].max()
        over = int(np.searchsorted(waits.start_ns, ends_ns, "right"))
        later = np.arange(stops[-1] + 1, over)
        again = later[waits.thread[later] == waits.thread[one]]
        if not len(again) or not _stops(waits, int(again[0]), int(again[0])):
            return stops, over
        stops.append(int(again[0]))


def _first_over(waits: _Waits, first: int) -> int:
    """Return the wait that is over first, of those that began with a wait or soon after it.

    A thread may be suspended before the thread that stops the world begins to wait: the latter is the first to go on.
    """
    until_ns = min(int(waits.start_ns[first]) + _LATER_NS, int(waits.end_ns[first]))
    near = slice(first, max(first + 1, int(np.searchsorted(waits.start_ns, until_ns, "right"))))
    return first + int(waits.end_ns[near].argmin())


def _last_within(waits: _Waits, one: int) -> int:
    """Return the last wait that began before the end of another one, or soon after it."""
    return int(np.searchsorted(waits.start_ns, waits.end_ns[one] + _LATER_NS, "right")) - 1


def _stops(waits: _Waits, first: int, one: int) -> bool:
    """Tell whether the thread of a wait stopped the world, by the last other wait from `first` on until its end, or soon after."""
    last = _last_within(waits, one)
    last -= last == one
    if last < first:
        return False
    # Of threads that are suspended together, none waits on for long after another.
    within_ns = waits.end_ns[one] - waits.start_ns[last]
    after_ns = waits.end_ns[last] - waits.end_ns[one]
    return bool(after_ns > max(within_ns, 0))


def _waits(trace: Trace, since_ns: int, until_ns: int) -> _Waits:
    events = trace.events
    events = events[(events["kind"] == Kind.PARK) | (events["kind"] == Kind.UNPARK)]
    events = events[in_order(events["thread"])]
    begin = np.flatnonzero(
        (events["kind"][:-1] == Kind.PARK)
        & (events["kind"][1:] == Kind.UNPARK)
        & (events["thread"][:-1] == events["thread"][1:])
        & (park_kinds(events[:-1]) == Park.WORLD)
    )
    start_ns, end_ns = events["time_ns"][begin], events["time_ns"][begin + 1]
    inside = np.flatnonzero((start_ns >= since_ns) & (end_ns <= until_ns))
    inside = inside[np.argsort(start_ns[inside], kind="stable")]
    begin = begin[inside]
    frame = np.asarray(trace.stack_frame)[events["value"][begin]]
    return _Waits(events["thread"][begin].astype(np.int64), frame, start_ns[inside], end_ns[inside])
