"""The events of one thread, as the search for stalls reads them."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.model import RAN_ALL, RAN_SHIFT, Kind, Trace

__all__ = ["EventsByThread", "Spent", "ThreadEvents"]

_TURNS: Final = np.isin(np.arange(256), [int(one) for one in (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT)])
"""By kind: whether an event begins or ends a hold or a wait."""


@final
class Spent(NamedTuple):
    """For how long a thread did what, within a time; it waited for the GIL for the rest."""

    away_ns: int
    """The thread was in calls for which it had released the GIL, and that may compute."""
    rested_ns: int
    """The thread was in calls that wait, such as that of an event loop at home."""
    held_ns: int
    """The thread held the GIL."""


@final
class EventsByThread:
    """The rows of a trace's events that begin or end a hold or a wait, thread by thread."""

    def __init__(self, trace: Trace) -> None:
        """Sort the events once: there may be thousands of threads, and a million events."""
        self._events = trace.events
        turns = np.flatnonzero(_TURNS[trace.events["kind"]])
        threads = trace.events["thread"][turns]
        self._order = turns[np.argsort(threads, kind="stable")]
        self._ends = np.cumsum(np.bincount(threads, minlength=len(trace.threads))).tolist()

    def of(self, thread: int) -> NDArray[Any]:
        """Return the rows of the thread with this index, in their order."""
        return self._events[self._order[self._ends[thread - 1] if thread else 0 : self._ends[thread]]]


@final
class ThreadEvents:
    """The events of one thread that begin or end a hold or a wait."""

    def __init__(self, mine: NDArray[Any], thread: int, rests: Callable[[int], bool]) -> None:
        """Take the events of a thread; times are in ns, as in the trace.

        Args:
            mine: The rows of its events (`EventsByThread`).
            thread: The thread's index.
            rests: Tells whether a thread that released the GIL at a stack is in a call that waits.
        """
        self.thread = thread
        self._rests = rests
        self.time_ns: NDArray[np.int64] = mine["time_ns"].astype(np.int64)
        self.kind: NDArray[np.uint8] = mine["kind"]
        self.stack: NDArray[np.uint32] = mine["value"]
        self.flags: NDArray[np.uint16] = mine["flags"]
        self.gil: NDArray[np.uint8] = mine["gil"]
        self._spent: dict[tuple[int, int], Spent] = {}

    def __len__(self) -> int:
        return len(self.time_ns)

    def at_rest(self, stacks: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Tell of each stack of a release whether the thread was then in a call that waits."""
        found, which = np.unique(stacks, return_inverse=True)
        return np.array([self._rests(int(one)) for one in found], dtype=np.bool_)[which]

    def spent(self, since_ns: int, until_ns: int) -> Spent:
        """Return what the thread did within a time.

        A time without a look of the watcher is asked for again at each of its events.
        """
        if (since_ns, until_ns) not in self._spent:
            self._spent[since_ns, until_ns] = self._spent_in(since_ns, until_ns)
        return self._spent[since_ns, until_ns]

    def _spent_in(self, since_ns: int, until_ns: int) -> Spent:
        if not len(self):
            return Spent(until_ns - since_ns, 0, 0)
        first, last = np.searchsorted(self.time_ns, [since_ns, until_ns])
        place = np.arange(first - 1, last)  # the event before the time begins what the thread does at its start
        begin_ns = np.maximum(np.where(place >= 0, self.time_ns[place], since_ns), since_ns)
        length_ns = np.diff(begin_ns, append=until_ns)
        kind = np.where(place >= 0, self.kind[place], Kind.RELEASE)
        is_away = kind == Kind.RELEASE
        away_ns = length_ns[is_away]
        rests = self.at_rest(np.where(place >= 0, self.stack[place], 0)[is_away])
        held_ns = length_ns[kind == Kind.ACQUIRE]
        return Spent(int(away_ns[~rests].sum()), int(away_ns[rests].sum()), int(held_ns.sum()))

    def ran(self, event: int) -> float | None:
        """Return the share of the time before an event in which the thread ran; None if the event does not tell it."""
        bits = int(self.flags[event]) >> RAN_SHIFT
        return (bits - 1) / RAN_ALL if bits else None
