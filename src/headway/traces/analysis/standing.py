"""Finds threads that wait for each other's locks, from the stacks that they had when `headway attach` began.

Such a thread has no event. But its stack tells where it waits, and the source which locks its lines run with.
"""

from collections.abc import Collection, Sequence

from headway.traces.analysis.contention import takes
from headway.traces.analysis.holders import line_of
from headway.traces.calls import locks_at
from headway.traces.frames import Frame
from headway.traces.guards import Lock, Stands, stands
from headway.traces.model import Silent

__all__ = ["standstill"]


def standstill(threads: Sequence[Silent], changed: Collection[str] = ()) -> dict[int, int]:
    """Return the threads that wait for a lock which only one of the others can have, with that one, by their indices.

    That may be the thread itself. `changed` are files whose lines may be others by now.
    """
    found = {}
    for index, one in enumerate(threads):
        locks = _waits_for(one.frames, changed)
        if len(locks) == 1:
            having = [
                at for at, other in enumerate(threads) if _has(other.frames, locks[0], changed, waits=at == index)
            ]
            if len(having) == 1:
                found[index] = having[0]
    return found


def _waits_for(frames: Sequence[Frame], changed: Collection[str]) -> tuple[Lock, ...]:
    if not frames or not takes(frames[0], changed):
        return ()
    line = line_of(frames)
    return () if line is None else locks_at(line, changed)


def _has(frames: Sequence[Frame], lock: Lock, changed: Collection[str], *, waits: bool) -> bool:
    """Tell whether a stack runs with a lock; of a thread that waits for it, only its callers can have taken it."""
    line = line_of(frames)
    inner = 0 if line is None else frames.index(line)
    relations = [stands(one, lock, changed) for one in frames]
    if relations[inner : inner + 1] == [Stands.TAKES] and not waits:
        return False  # it waits for the lock, too
    return Stands.INSIDE in relations[inner + waits :] or Stands.TAKES in relations[inner + 1 :]
