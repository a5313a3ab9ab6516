"""Finds threads that wait for each other's locks, from the stacks that they had when `headway attach` began.

Such a thread has no event. But its stack tells where it waits, and the source which locks its lines run with.
"""

from collections.abc import Collection, Sequence

from headway.traces.analysis.contention import takes
from headway.traces.analysis.holders import line_of
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.lock_stacks import has_released
from headway.traces.calls import locks_at, waits_for_good
from headway.traces.frames import Frame
from headway.traces.guards import Lock, Stands, is_certain, is_kept, is_reentrant, stands
from headway.traces.model import Silent

__all__ = ["is_sure", "standstill"]


def standstill(threads: Sequence[Silent], changed: Collection[str] = ()) -> dict[int, int]:
    """Return the threads that wait for a lock which only one of the others can have, with that one, by their indices.

    That may be the thread itself. `changed` are files whose lines may be others by now.
    """
    own = {one.filename for each in threads for one in each.frames if own_frame([one]) is not None}
    found = {}
    for index, one in enumerate(threads):
        locks = _waits_for(one.frames, changed)
        if len(locks) == 1 and (
            locks[0].is_one or not any(is_kept(file, locks[0]) for file in own.difference(changed))
        ):
            having = [at for at, other in enumerate(threads) if _has(other.frames, locks[0], changed)]
            others = [at for at in having if at != index]
            line = line_of(one.frames)
            if any(not _is_it(threads[at].frames, locks[0]) for at in having):
                continue
            if len(others) == 1:
                found[index] = others[0]
            elif having == [index] and line is not None and not is_reentrant(line, locks[0]):
                found[index] = index
    return found


def is_sure(thread: Silent) -> bool:
    """Tell whether there is only one lock of the name that a thread waits for."""
    line = line_of(thread.frames)
    return line is not None and all(one.is_one for one in locks_at(line))


def _waits_for(frames: Sequence[Frame], changed: Collection[str]) -> tuple[Lock, ...]:
    line = line_of(frames)
    if line is None or not takes(frames[0], changed) or not waits_for_good(line, changed):
        return ()
    return locks_at(line, changed)


def _has(frames: Sequence[Frame], lock: Lock, changed: Collection[str]) -> bool:
    """Tell whether a stack runs with a lock; where the innermost line takes it, the callers' lines tell that."""
    line = line_of(frames)
    inner = 0 if line is None else frames.index(line)
    released = has_released(frames, lock, changed)
    relations = [Stands.UNKNOWN if one.filename in released else stands(one, lock, changed) for one in frames]
    with_it = {Stands.INSIDE, Stands.AGAIN}
    return not with_it.isdisjoint(relations[inner:]) or Stands.TAKES in relations[inner + 1 :]


def _is_it(frames: Sequence[Frame], lock: Lock) -> bool:
    """Tell whether a stack that has a lock of a global variable has that one, and not a parameter of the same name."""
    return not lock.is_one or all(is_certain(one, lock) for one in frames)
