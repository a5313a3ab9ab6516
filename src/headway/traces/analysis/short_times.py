"""Sums up the many short times of a lap: between a thread's releases of the GIL and its acquires, 100,000 may lie."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.accounts import Columns
from headway.traces.analysis.stall_model import Cause
from headway.traces.analysis.thread_events import ThreadEvents
from headway.traces.model import RAN_ALL, RAN_SHIFT, Flag, Kind

__all__ = ["IDLE_SHARE", "ShortTimes", "Sum"]

IDLE_SHARE: Final = 0.1
"""A call in which the thread ran for a smaller share than this waits."""


@final
class Sum(NamedTuple):
    """The sum of times with the same cause at the same stack."""

    event: int
    """The event with which the longest of the times begins."""
    stack: int
    cause: Cause
    time_ns: int
    longest_ns: int
    idle: bool
    """As in Part."""


@final
class ShortTimes:
    """The times from each of some events of a thread to the next one, as columns.

    `headway.traces.analysis.stall_causes` explains a single time, and has the reasons; here are the same rules for a time
    that is shorter than `most_ns`, in which no sample was taken, no garbage was collected, no lock was waited for, and no
    other thread requested the GIL at its begin.
    """

    def __init__(self, own: ThreadEvents, begin: int, end: int, most_ns: int) -> None:
        """Take the times from the event `begin` up to the event `end`."""
        self._first = begin
        at, following = slice(begin, end), slice(begin + 1, end + 1)
        self.since_ns, self.until_ns = own.time_ns[at], own.time_ns[following]
        self._length_ns = self.until_ns - self.since_ns
        self.rests = own.at_rest(own.stack[at])
        self._stack, self._next_stack = own.stack[at], own.stack[following]
        bits = own.flags[following].astype(np.int64) >> RAN_SHIFT
        self._has_share, self._share = bits > 0, (bits - 1) / RAN_ALL
        is_kind = [own.kind[at] == kind for kind in (Kind.ACQUIRE, Kind.RELEASE)]
        self.is_short: NDArray[np.bool_] = (self._length_ns > 0) & (self._length_ns < most_ns)
        is_kind[1] &= own.flags[at] & Flag.FORCED == 0
        self._holds, self._away = (one & self.is_short for one in is_kind)
        self.is_short &= is_kind[0] | is_kind[1]

    def leave_out(self, which: NDArray[np.bool_]) -> None:
        """Leave out times, which are no short ones then."""
        self.is_short &= ~which
        self._holds &= ~which
        self._away &= ~which

    def leave_out_moments(self, moments_ns: NDArray[np.int64]) -> None:
        """Leave out the times in which one of these moments lies. The moments are in their order."""
        first = np.searchsorted(moments_ns, self.since_ns, "left")
        self.leave_out(first < np.searchsorted(moments_ns, self.until_ns, "right"))

    def leave_out_spans(self, start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> None:
        """Leave out the times that overlap one of these spans."""
        begun = np.searchsorted(np.sort(start_ns), self.until_ns, "left")
        self.leave_out(begun > np.searchsorted(np.sort(end_ns), self.since_ns, "right"))

    def leave_out_stacks(self, is_left_out: Callable[[int], bool]) -> None:
        """Leave out the times that begin with a release of the GIL at one of these stacks."""
        stacks, which = np.unique(self._stack[self._away], return_inverse=True)
        mask = np.zeros(len(self.is_short), dtype=np.bool_)
        mask[self._away] = np.array([is_left_out(int(one)) for one in stacks], dtype=np.bool_)[which]
        self.leave_out(mask)

    def held(self, account: Columns, shown: Callable[[int], bool]) -> Iterator[Sum]:
        """Yield the sums for the times in which the thread held the GIL.

        Args:
            account: The system's account of these times.
            shown: Tells whether the stack of a release shows where the hold before it was.
        """
        stacks, which = np.unique(self._next_stack, return_inverse=True)
        stack = np.array([int(one) if shown(int(one)) else 0 for one in stacks], dtype=np.int64)[which]
        off_ns = np.minimum(self._length_ns, np.maximum(account.queued_ns, account.off_core_ns))
        off_ns = np.where(self._has_share, np.rint(self._length_ns * (1 - self._share)).astype(np.int64), off_ns)
        without_ns = np.minimum(off_ns, account.queued_ns)
        is_known = account.is_known
        yield from self._sums(self._holds & ~is_known, stack, Cause.UNEXPLAINED, off_ns, idle=True)
        yield from self._sums(self._holds & is_known, stack, Cause.CORE, without_ns)
        yield from self._sums(self._holds & is_known, stack, Cause.BLOCKED, off_ns - without_ns)
        yield from self._sums(self._holds, stack, Cause.OWN, self._length_ns - off_ns)

    def away(self, account: Columns, waits: Callable[[int], bool]) -> Iterator[Sum]:
        """Yield the sums for the times after a release of the GIL.

        Args:
            account: The system's account of these times.
            waits: Tells whether the call at a stack waits.
        """
        stack = self._stack.astype(np.int64)
        ran_ns = np.rint(self._length_ns * self._share).astype(np.int64)
        ran_ns = np.where(self._has_share, ran_ns, account.ran_away_ns)
        queued_ns = np.where(self._has_share, account.queued_ns, account.queued_away_ns)
        queued_ns = np.minimum(self._length_ns - ran_ns, queued_ns)
        stacks, which = np.unique(stack, return_inverse=True)
        is_blocked = np.array([waits(int(one)) for one in stacks], dtype=np.bool_)[which]
        is_blocked |= account.is_known | (self._has_share & (self._share < IDLE_SHARE))
        rest_ns = self._length_ns - ran_ns - queued_ns
        yield from self._sums(self._away, stack, Cause.OWN, ran_ns)
        yield from self._sums(self._away, stack, Cause.CORE, queued_ns)
        yield from self._sums(self._away & is_blocked, stack, Cause.BLOCKED, rest_ns)
        yield from self._sums(self._away & ~is_blocked, stack, Cause.UNEXPLAINED, rest_ns)

    def _sums(
        self,
        which: NDArray[np.bool_],
        stack: NDArray[np.int64],
        cause: Cause,
        time_ns: NDArray[np.int64],
        *,
        idle: bool = False,
    ) -> Iterator[Sum]:
        """Yield the sum of the chosen times for each stack."""
        chosen = np.flatnonzero(which & (time_ns > 0))
        chosen = chosen[np.argsort(stack[chosen], kind="stable")]
        if not len(chosen):
            return
        firsts = np.flatnonzero(np.diff(stack[chosen], prepend=-1))
        for mine in np.split(chosen, firsts[1:]):
            longest = mine[time_ns[mine].argmax()]
            sums_ns = int(time_ns[mine].sum()), int(time_ns[longest])
            yield Sum(self._first + int(longest), int(stack[longest]), cause, *sums_ns, idle)
