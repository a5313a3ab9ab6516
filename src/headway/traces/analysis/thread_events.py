"""The events of one thread, as the search for stalls reads them."""

from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.model import RAN_ALL, RAN_SHIFT, Kind, Trace

__all__ = ["ThreadEvents"]


@final
class ThreadEvents:
    """The events of one thread that begin or end a hold or a wait."""

    def __init__(self, trace: Trace, thread: int) -> None:
        """Take the events of the thread with this index; times are in ns, as in the trace."""
        self.thread = thread
        events = trace.events
        kinds = (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT)
        mine = events[(events["thread"] == thread) & np.isin(events["kind"], kinds)]
        self.time_ns: NDArray[np.int64] = mine["time_ns"].astype(np.int64)
        self.kind: NDArray[np.uint8] = mine["kind"]
        self.stack: NDArray[np.uint32] = mine["value"]
        self.flags: NDArray[np.uint16] = mine["flags"]
        self.gil: NDArray[np.uint8] = mine["gil"]
        self._spent: dict[tuple[int, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self.time_ns)

    def spent(self, since_ns: int, until_ns: int) -> tuple[int, int]:
        """Return for how long, within a time, the thread was neither holding the GIL nor waiting for it, and holding it.

        A time without a look of the watcher is asked for again at each of its events.
        """
        if (since_ns, until_ns) not in self._spent:
            self._spent[since_ns, until_ns] = self._spent_in(since_ns, until_ns)
        return self._spent[since_ns, until_ns]

    def _spent_in(self, since_ns: int, until_ns: int) -> tuple[int, int]:
        if not len(self):
            return until_ns - since_ns, 0
        first, last = np.searchsorted(self.time_ns, [since_ns, until_ns])
        place = np.arange(first - 1, last)  # the event before the time begins what the thread does at its start
        begin_ns = np.maximum(np.where(place >= 0, self.time_ns[place], since_ns), since_ns)
        length_ns = np.diff(begin_ns, append=until_ns)
        kind = np.where(place >= 0, self.kind[place], Kind.RELEASE)
        return int(length_ns[kind == Kind.RELEASE].sum()), int(length_ns[kind == Kind.ACQUIRE].sum())

    def ran(self, event: int) -> float | None:
        """Return the share of the time before an event in which the thread ran; None if the event does not tell it."""
        bits = int(self.flags[event]) >> RAN_SHIFT
        return (bits - 1) / RAN_ALL if bits else None
