"""Tells of each stack of a trace whether its thread has a lock there, or takes it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.hotspots import own_frame
from headway.traces.calls import takes_a_lock
from headway.traces.guards import Lock, Releases, Stands, is_certain, is_kept, releases, stands
from headway.traces.libraries import is_of_threading
from headway.traces.model import Frame, Trace
from headway.traces.sources import words_in

__all__ = ["LockStacks", "has_released", "stacks_of"]

_CONDITION_FRAMES = 3
"""`Condition.wait_for()` calls `wait()`, which calls `_acquire_restore()`."""
_AWAITS = frozenset({"Condition.wait", "Condition.wait_for"})
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
    certain: NDArray[np.bool_]
    """No line of the stack has or takes a lock that may be another one of that name."""


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
    in_threading = np.array([is_of_threading(one) for one in frames])
    stack_frame, parent = trace.stack_frame, trace.stack_parent
    called = in_threading[stack_frame] & (parent > 0)  # Condition.__enter__
    by = np.where(called, parent, np.arange(len(parent)))
    outermost, waiter = np.arange(len(parent)), by
    for _ in range(_CONDITION_FRAMES):
        inner = in_threading[stack_frame[waiter]] & (parent[waiter] > 0)
        outermost, waiter = np.where(inner, waiter, outermost), np.where(inner, parent[waiter], waiter)
    # A wait for a condition releases its lock, and acquires it again at the end. An event has a lock of its own.
    awaits = np.array([_is_a_wait(one) for one in frames])[stack_frame[outermost]] & (waiter != outermost)
    released = {one: releases(frames[one], lock, changed) for one in np.unique(stack_frame[waiter[awaits]]).tolist()}
    let_go = awaits & np.isin(stack_frame[waiter], [one for one, how in released.items() if how is Releases.YES])
    may = awaits & np.isin(stack_frame[waiter], [one for one, how in released.items() if how is Releases.PERHAPS])
    file_of = np.unique([one.filename for one in frames], return_inverse=True)[1].reshape(-1)[stack_frame]
    takes, is_again, is_inside = innermost[stack_frame[by]], again[stack_frame[by]], inside[stack_frame]
    unlike = np.array(
        [how not in _WITHOUT and not is_certain(one, lock) for one, how in zip(frames, of_frame, strict=True)]
    )
    without, certain = np.zeros(len(parent), dtype=np.bool_), ~unlike[stack_frame]
    above = parent
    while above.any():
        has = (inside | taking)[stack_frame[above]] & (above > 0) & ((above != by) | ~taking[stack_frame[above]])
        gone = let_go | (may & (file_of[above] == file_of[waiter]))
        is_inside |= has & ~gone
        without |= has & gone
        certain &= ~unlike[stack_frame[above]]
        above = parent[above]
    takes |= without & ~is_inside
    own = {one.filename for one in frames if one.filename in named and own_frame([one]) is not None}
    kept = any(is_kept(one, lock) for one in own.difference(changed))
    return LockStacks(is_inside & ~takes, takes, takes & (is_inside | is_again), kept, certain)


def _is_a_wait(frame: Frame) -> bool:
    return frame.function in _AWAITS and is_of_threading(frame)


def has_released(frames: Sequence[Frame], lock: Lock, changed: Collection[str] = ()) -> frozenset[str]:
    """Return the files of a stack whose lines do not tell any more that it has a lock, as it waits for a condition.

    A condition whose lock is not known has, as far as it is known, the one that the lines of its file take.
    """
    at = next((at for at, one in enumerate(frames) if not is_of_threading(one)), 0)
    if not at or not _is_a_wait(frames[at - 1]):
        return frozenset()
    how = releases(frames[at], lock, changed)
    if how is Releases.YES:
        return frozenset(one.filename for one in frames)
    return frozenset([frames[at].filename] if how is Releases.PERHAPS else [])
