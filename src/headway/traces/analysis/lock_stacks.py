"""Tells of each stack of a trace whether its thread has a lock there, or takes it."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.hotspots import own_frame
from headway.traces.calls import takes_a_lock, waits_for_condition
from headway.traces.guards import Lock, Stands, is_certain, is_kept, stands
from headway.traces.model import Trace
from headway.traces.sources import words_in

__all__ = ["LockStacks", "stacks_of"]

_CONDITION_FRAMES = 3
"""`Condition.wait_for()` calls `wait()`, which calls `_acquire_restore()`."""
_WITHOUT = frozenset({Stands.OUTSIDE, Stands.UNKNOWN})
"""The relations of lines that neither take a lock nor run with it."""


@final
@dataclass(frozen=True)
class LockStacks:
    """The stacks of a trace, by what they tell of one lock."""

    inside: NDArray[np.bool_]
    takes: NDArray[np.bool_]
    again: NDArray[np.bool_]
    """A thread takes the lock there that one of its callers has taken."""
    kept: bool
    """A function of the program acquires such a lock and leaves its release to others."""
    certain: bool
    """Each line that has a lock of that name has this one, and none may have another one."""


def stacks_of(lock: Lock, trace: Trace, changed: Collection[str]) -> LockStacks:
    """Return what each stack of the trace tells of a lock."""
    frames = trace.frames
    word = re.compile(rf"\b({re.escape(lock.name.removesuffix('()'))})\b")
    named = {one.filename for one in frames if one.filename and words_in(one.filename, word)}
    of_frame = [stands(one, lock, changed) if one.filename in named else Stands.UNKNOWN for one in frames]
    taking = np.array([one in {Stands.TAKES, Stands.AGAIN} for one in of_frame])
    innermost = taking & [
        is_taking and takes_a_lock(one, changed) for is_taking, one in zip(taking.tolist(), frames, strict=True)
    ]
    # After a `with` on the same line comes a call that may release the GIL, with the lock.
    inside = np.array([one is Stands.INSIDE for one in of_frame]) | (taking & ~innermost)
    again = innermost & [one is Stands.AGAIN for one in of_frame]
    in_threading = np.array([one.filename.endswith("/threading.py") for one in frames])
    stack_frame, parent = trace.stack_frame, trace.stack_parent
    called = in_threading[stack_frame] & (parent > 0)  # Condition.__enter__
    by = np.where(called, parent, np.arange(len(parent)))
    # A wait for a condition releases its lock, and acquires it again at the end.
    waits = np.array([waits_for_condition(one, lock.name, changed) for one in frames])
    waiter = by
    for _ in range(_CONDITION_FRAMES):
        waiter = np.where(in_threading[stack_frame[waiter]] & (parent[waiter] > 0), parent[waiter], waiter)
    let_go = in_threading[stack_frame] & waits[stack_frame[waiter]]
    takes, is_again, is_inside = innermost[stack_frame[by]], again[stack_frame[by]], inside[stack_frame]
    above = parent
    while above.any():
        known = (above > 0) & ((above != by) | ~taking[stack_frame[above]]) & ~(let_go & (above == waiter))
        is_inside |= (inside | taking)[stack_frame[above]] & known
        above = parent[above]
    takes |= let_go
    own = {one.filename for one in frames if one.filename in named and own_frame([one]) is not None}
    kept = any(is_kept(one, lock) for one in own.difference(changed))
    certain = all(
        is_certain(one, lock) for one, relation in zip(frames, of_frame, strict=True) if relation not in _WITHOUT
    )
    return LockStacks(is_inside & ~takes, takes, takes & (is_inside | is_again), kept, certain)
