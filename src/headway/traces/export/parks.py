"""Parks as columns: when a thread of a free-threaded build blocked on a lock, its kind, and the object's type."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.model import Kind, Trace, park_kinds

__all__ = ["Parks", "parks"]


@final
@dataclass(frozen=True, eq=False)
class Parks:
    """Columns of parks, by start. A park without an UNPARK ends with its thread, or else with the trace."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    thread: NDArray[np.uint32]
    stack: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    """A value of `Park`."""
    type: NDArray[np.uint32]
    """Index in `Trace.types`; 0 if the type is unknown."""
    open: NDArray[np.bool_]
    """The end of the park was not recorded: the trace ended before."""

    def __len__(self) -> int:
        return len(self.start_ns)


def parks(trace: Trace) -> Parks:
    """Return a trace's parks."""
    events = trace.events
    events = events[np.isin(events["kind"], (Kind.PARK, Kind.UNPARK, Kind.EXIT))]
    order = np.argsort(events["thread"], kind="stable")
    following = np.full(len(events), -1)
    same = events["thread"][order[1:]] == events["thread"][order[:-1]]
    following[order[:-1]] = np.where(same, order[1:], -1)

    begin = np.flatnonzero(events["kind"] == Kind.PARK)
    after = following[begin]
    # If a PARK follows, the end of this one was lost, and the thread has done other things since.
    known = (after < 0) | (events["kind"][after] != Kind.PARK)
    begin, after = begin[known], after[known]
    unparked = (after >= 0) & (events["kind"][after] == Kind.UNPARK)
    return Parks(
        start_ns=events["time_ns"][begin],
        end_ns=np.where(after >= 0, events["time_ns"][after], trace.end_ns),
        thread=events["thread"][begin],
        stack=events["value"][begin],
        kind=park_kinds(events[begin]).astype(np.uint8),
        type=np.where(unparked, events["value"][after], np.uint32(0)),
        open=after < 0,
    )
