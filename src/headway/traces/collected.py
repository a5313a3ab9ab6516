"""Takes garbage collections out of a file's events: the recorder writes them as events, and a trace has them as evidence."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces.described import SeenThread
from headway.traces.model import Collected

__all__ = ["collections_of", "without_collections"]


def without_collections(
    events: NDArray[np.void], seen: Sequence[SeenThread]
) -> tuple[NDArray[np.void], list[tuple[int, int, int, int]]]:
    """Remove garbage collections from events by thread.

    Returns the events that are left, and for each collection its tid, time, length in microseconds and generation.
    """
    which = events["kind"] == hwt.COLLECTED
    if not which.any():
        return events, []
    found = [
        (seen[thread].tid, time_ns, value, flags & 0xFF)
        for thread, time_ns, value, flags in zip(
            *(events[name][which].tolist() for name in ("thread", "time_ns", "value", "flags")), strict=True
        )
    ]
    return events[~which], found


def collections_of(found: Sequence[tuple[int, int, int, int]], end_ns: int) -> tuple[Collected, ...]:
    """Return garbage collections. A collection without an end goes on until the end of the trace."""
    begun: dict[int, tuple[int, int]] = {}
    collections = []
    for tid, time_ns, length_us, generation in found:
        if not 0 <= time_ns <= end_ns:
            continue
        if length_us == 0:
            begun[tid] = (time_ns, generation)
        else:
            begun.pop(tid, None)
            collections.append(Collected(tid, max(0, time_ns - length_us * 1000), time_ns, generation))
    collections += [Collected(tid, since_ns, end_ns, generation) for tid, (since_ns, generation) in begun.items()]
    return tuple(sorted(collections, key=lambda one: one.start_ns))
