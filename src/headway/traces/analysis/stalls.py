"""Finds stalls: an event loop, a request or a thread made no progress for too long, and why.

`headway.traces.analysis.stall_causes` tells why.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from headway.traces.analysis.observed import Observed
from headway.traces.analysis.overwritten import kind_of, lost_parts
from headway.traces.analysis.stall_causes import Causes
from headway.traces.analysis.stall_model import Cause, Part, Stall, StallKind, Thresholds, merged
from headway.traces.analysis.thread_events import ThreadEvents
from headway.traces.analysis.told_parts import ToldParts
from headway.traces.frames import OURS
from headway.traces.loops import (
    Home,
    is_for_a_request,
    is_in_a_loop,
    is_in_a_pool,
    is_in_anyio,
    is_whole,
    serves_the_web,
)
from headway.traces.model import CoreTime, Flag, Frame, Kind, Trace

__all__ = ["find_stalls"]

_MS: Final = 1_000_000
_AT_ONCE_NS: Final = 10 * _MS
"""The first event of a thread that is recorded from its start on comes within less than this."""


def find_stalls(
    trace: Trace,
    thresholds: Thresholds | None = None,
    *,
    since_ns: int = 0,
    begun: Collection[tuple[int, int]] = frozenset(),
    told: Mapping[tuple[int, int], ToldParts] | None = None,
) -> list[Stall]:
    """Return a trace's stalls in the order of their beginnings.

    Args:
        trace: The trace of a process with a GIL.
        thresholds: The lengths that are too long; by default 100 ms, and 1 s for a request.
        since_ns: Stalls that ended before this time are left out.
        begun: Stalls that were seen while they went on: the serial of the thread, and the begin. If the thread has left
            its loop or its pool since, such a stall was over then.
        told: The parts that were told of such stalls, for the time of which the events have been overwritten since.
    """
    thresholds = thresholds or Thresholds()
    finder = _Finder(trace, since_ns, begun, told or {})
    found: list[Stall] = []
    for thread in range(len(trace.threads)):
        mine = list(finder.laps(thread, thresholds))
        mine += finder.overwritten_laps(thread, thresholds, mine)
        mine += finder.late_wake_ups(thread, thresholds.loop_ns, mine)
        mine += finder.waits(thread, thresholds.wait_ns, mine)
        found += mine
    return sorted(found, key=lambda one: (one.since_ns, one.thread))


class _Finder:
    """Finds the stalls of one trace."""

    def __init__(
        self,
        trace: Trace,
        over_since_ns: int,
        begun: Collection[tuple[int, int]],
        told: Mapping[tuple[int, int], ToldParts],
    ) -> None:
        self._trace = trace
        self._over_since_ns = over_since_ns
        self._begun = begun
        self._told = told
        self._observed = Observed(trace)
        self._causes = Causes(self._observed)

    @cached_property
    def _is_web(self) -> bool:
        """Whether the process serves requests in an event loop."""
        return serves_the_web(self._trace.frames)

    def laps(self, thread: int, thresholds: Thresholds) -> Iterator[Stall]:
        """Yield the laps of a thread that took too long."""
        own = self._observed.of(thread)
        released = np.flatnonzero((own.kind == Kind.RELEASE) & (own.flags & Flag.FORCED == 0))
        stacks, which = np.unique(own.stack[released], return_inverse=True)
        homes = [self._observed.home(int(stack)) for stack in stacks]
        if not any(homes):
            yield from self._first_request(thread, thresholds.request_ns)
            return
        at_home = released[np.array([home is not None for home in homes])[which]]
        begins = at_home[at_home + 1 < len(own)] + 1
        ends = np.append(at_home[1:], -1)[: len(begins)]
        if self._observed.home(int(own.stack[at_home[0]])) is Home.POOL and self._has_begin(thread):
            # The thread was waiting for work when the recording began: its first lap begins with its first event.
            begins, ends = np.append(0, begins), np.append(at_home[0], ends)
        ends_ns = np.where(ends >= 0, own.time_ns[ends], self._trace.end_ns)
        least_ns = min(thresholds.loop_ns, thresholds.request_ns)
        long = (ends_ns - own.time_ns[begins] >= least_ns) & (ends_ns >= self._over_since_ns)
        for place in np.flatnonzero(long).tolist():
            begin, end = int(begins[place]), int(ends[place])
            home_stack = int(own.stack[begin - 1 if begin else end])
            left = self._left(own, begin, end, home_stack)
            end, until_ns = (end, int(ends_ns[place])) if left is None else (left, int(own.time_ns[left]))
            kind = self._kind(own, begin, end, home_stack)
            length_ns = until_ns - int(own.time_ns[begin])
            if kind is None or length_ns < (thresholds.loop_ns if kind is StallKind.LOOP else thresholds.request_ns):
                continue
            yield self._stall(kind, thread, begin, len(own) - 1 if end < 0 else end, until_ns, goes_on=end < 0)

    def overwritten_laps(self, thread: int, thresholds: Thresholds, known: Sequence[Stall]) -> list[Stall]:
        """Return the laps that a watcher has seen, and whose begin is not in the recording any more, beside those `known`."""
        own, end_ns = self._observed.of(thread), self._trace.end_ns
        first_ns = int(own.time_ns[0]) if len(own) else end_ns
        found = []
        for lap in self._trace.evidence.laps:
            until_ns, goes_on = lap.ended_ns or end_ns, not lap.ended_ns
            least_ns = thresholds.request_ns if lap.of_a_pool else thresholds.loop_ns
            if (
                lap.serial != self._trace.threads[thread].serial
                or lap.begun_ns > first_ns
                or any(one.since_ns < until_ns and lap.begun_ns < one.until_ns for one in known)
                or until_ns < max(lap.begun_ns + least_ns, self._over_since_ns)
                or (goes_on and self._trace.process.ended and not _never_came_back(own, 0))
            ):
                continue
            if (kind := kind_of(self._observed, lap)) is None:
                continue
            lost_until_ns = min(first_ns, until_ns)
            told = self._told.get((lap.serial, lap.begun_ns))
            parts = lost_parts(self._observed, thread, lap, lost_until_ns, told)
            if first_ns < until_ns:
                last = int(np.searchsorted(own.time_ns, until_ns, "right")) - 1
                parts += self._causes.of(thread, 0, last, until_ns)
            lost_ns, all_parts = lost_until_ns - lap.begun_ns, merged(parts, until_ns - lap.begun_ns)
            found.append(Stall(kind, thread, lap.begun_ns, until_ns, goes_on, all_parts, lost_ns=lost_ns))
        return found

    def _first_request(self, thread: int, least_ns: int) -> Iterator[Stall]:
        """Yield the request that a thread has answered since its first event, without having been at a home."""
        own, end_ns = self._observed.of(thread), self._trace.end_ns
        if not len(own) or end_ns - own.time_ns[0] < least_ns or end_ns < self._over_since_ns:
            return
        left = self._left(own, 0, -1, 0)
        end, until_ns = (-1, end_ns) if left is None else (left, int(own.time_ns[left]))
        kind = self._kind(own, 0, end, 0) if self._has_begin(thread) else None
        if kind is not None and until_ns - own.time_ns[0] >= least_ns:
            yield self._stall(kind, thread, 0, len(own) - 1 if end < 0 else end, until_ns, goes_on=end < 0)

    def _has_begin(self, thread: int) -> bool:
        """Tell whether a thread's first event in the trace can be the begin of its first lap.

        If earlier events of the thread are lost, the lap's begin is not known, nor whether the lap was reported.
        """
        starts_ns = int(self._observed.of(thread).time_ns[0]) - self._trace.threads[thread].start_ns
        return starts_ns < _AT_ONCE_NS or not self._trace.loss.overwritten_events

    def _left(self, own: ThreadEvents, begin: int, end: int, home_stack: int) -> int | None:
        """Return the event that shows that a thread has left its loop or pool in a lap; None if there is none.

        That ends a stall which was seen while it went on. Of other laps, only a thread's last request counts: any other
        thread may have left long before.
        """
        if (self._trace.threads[own.thread].serial, int(own.time_ns[begin])) not in self._begun:
            is_last = end < 0 and self._observed.home(home_stack) is not Home.LOOP
            return self._last_answered(own, begin) if is_last else None
        is_inside = self._is_inside(home_stack, end)
        inside = slice(begin, end if end >= 0 else len(own))
        released = (own.kind[inside] == Kind.RELEASE) & (own.stack[inside] != 0)
        stacks = np.unique(own.stack[inside][released]).tolist()
        outside = [stack for stack in stacks if not is_inside(self._observed.stack(stack))]
        found = np.flatnonzero((released & np.isin(own.stack[inside], outside)) | (own.kind[inside] == Kind.EXIT))
        return begin + int(found[0]) if len(found) else None

    def _last_answered(self, own: ThreadEvents, begin: int) -> int | None:
        """Return the last event at which a pool's thread was certainly in its work, if the thread left its pool after that.

        A server that stops lets each thread finish its request; the thread then ends without waiting for work again. The
        main thread, which serves in a worker of gunicorn's default kind, goes on outside of the server instead.
        """
        released = begin + np.flatnonzero(own.kind[begin:] == Kind.RELEASE)
        stacks, which = np.unique(own.stack[released], return_inverse=True)
        works, leaves = [], []
        for stack in stacks.tolist():
            frames = self._observed.stack(stack)
            is_inside = self._observed.home(stack) is not None or is_in_a_pool(frames)
            works.append(is_inside and self._observed.home(stack) is None and frames != (OURS,))
            leaves.append(not is_inside and is_whole(frames))
        at_work = released[np.array(works, dtype=np.bool_)[which]]
        if not len(at_work):
            return None
        last = int(at_work[-1])
        if own.kind[-1] != Kind.EXIT and not np.any(released[np.array(leaves, dtype=np.bool_)[which]] > last):
            return None
        # The thread was still in the call for which it released the GIL when it wanted the GIL back, and when it got it.
        over = last + 1 + int(np.flatnonzero(np.isin(own.kind[last + 1 :], (Kind.RELEASE, Kind.EXIT)))[0])
        found = max(last + 1, over - 1)
        return found if own.time_ns[found] >= self._over_since_ns else None

    def _is_inside(self, home_stack: int, end: int) -> Callable[[tuple[Frame, ...]], bool]:
        """Return a function that tells whether a stack is inside of the loop or the pool that a thread began a lap at.

        `end` is the event that ended the lap; -1 if it goes on.
        """
        if self._observed.home(home_stack) is not Home.LOOP:
            return is_in_a_pool
        home = self._observed.stack(home_stack)
        return lambda frames: is_in_a_loop(frames, home, returned=end >= 0)

    def _kind(self, own: ThreadEvents, begin: int, end: int, home_stack: int) -> StallKind | None:
        """Return the kind of a lap that began at a home; None if the thread has left its loop, or if a pool runs a job."""
        inside = slice(begin, end if end >= 0 else len(own))
        if np.any(own.kind[inside] == Kind.EXIT):
            return None
        # A thread that had the GIL again may have left its loop or pool, before the process ended.
        if end < 0 and self._trace.process.ended and not _never_came_back(own, begin):
            return None
        stacks = {int(stack) for stack in own.stack[inside][own.kind[inside] == Kind.RELEASE]} - {0}
        frames = [self._observed.stack(stack) for stack in stacks]
        is_inside = self._is_inside(home_stack, end)
        if self._observed.home(home_stack) is Home.LOOP:
            # A thread that computes after its loop's end yields the GIL nowhere: only looks at its stack tell, two or more.
            until_ns = int(own.time_ns[end]) if end >= 0 else self._trace.end_ns
            seen = self._observed.seen(own.thread, int(own.time_ns[begin]), until_ns)
            outside = [one for one in seen if is_whole(one.frames) and not is_inside(one.frames)]
            in_loop = all(map(is_inside, frames)) and 2 * len(outside) <= max(2, len(seen))
            return StallKind.LOOP if in_loop else None
        if not all(map(is_inside, frames)):
            return None
        # Code that computes, and that nobody asks for the GIL, releases it only at home. A thread of AnyIO leaves its home
        # for work alone; a server's accept loop leaves it at each of its timeouts.
        is_request = any(is_for_a_request(one, is_web=self._is_web) for one in frames) or (
            self._is_web and is_in_anyio(self._observed.stack(home_stack))
        )
        return StallKind.REQUEST if is_request else None

    def late_wake_ups(self, thread: int, least_ns: int, known: Sequence[Stall]) -> list[Stall]:
        """Return the times when a loop's thread had work, but no core for `least_ns`, before it wanted the GIL."""
        found = []
        for before, after in itertools.pairwise(self._observed.accounts.looks(self._trace.threads[thread].tid)):
            if after.queued_ns - before.queued_ns < least_ns or after.time_ns < self._over_since_ns:
                continue
            since_ns, until_ns = self._queued_at_home(thread, before, after)
            met = any(one.since_ns < until_ns and since_ns < one.until_ns for one in known)
            if until_ns - since_ns >= least_ns and not met:
                parts = (Part(Cause.CORE, until_ns - since_ns, thread),)
                found.append(Stall(StallKind.LOOP, thread, since_ns, until_ns, goes_on=False, parts=parts))
        return found

    def _queued_at_home(self, thread: int, before: CoreTime, after: CoreTime) -> tuple[int, int]:
        """Return when a thread that was at its loop's home certainly had no core, by two looks at its account.

        The account has a wait for a core from its end on. So what it adds between two looks may have been at any time
        since the thread's event before the first look. The part that does not fit into the rest of that time was at home.
        """
        own = self._observed.of(thread)
        first, end = np.searchsorted(own.time_ns, (before.time_ns, after.time_ns), "right").tolist()
        first_ns = int(own.time_ns[first - 1]) if first else self._trace.start_ns
        events = slice(max(0, first - 1), end)
        lengths_ns = np.diff(np.append(own.time_ns[events], after.time_ns))
        at_home = own.kind[events] == Kind.RELEASE
        at_home[at_home] = [self._observed.home(int(stack)) is Home.LOOP for stack in own.stack[events][at_home]]
        if not at_home.any():
            return after.time_ns, after.time_ns
        longest = int(np.argmax(np.where(at_home, lengths_ns, -1)))
        length_ns, until_ns = int(lengths_ns[longest]), int(own.time_ns[events][longest] + lengths_ns[longest])
        elsewhere_ns = after.time_ns - first_ns - length_ns
        return until_ns - min(length_ns, max(0, after.queued_ns - before.queued_ns - elsewhere_ns)), until_ns

    def waits(self, thread: int, least_ns: int, known: Sequence[Stall]) -> list[Stall]:
        """Return a thread's long waits for the GIL outside of the stalls `known`, except those after a preemption."""
        own = self._observed.of(thread)
        begins = np.flatnonzero(own.kind == Kind.WAIT)
        ends_ns = np.append(own.time_ns, self._trace.end_ns)[begins + 1]
        preempted = np.append(np.False_, (own.kind == Kind.RELEASE) & (own.flags & Flag.FORCED != 0))[begins]
        long = (ends_ns - own.time_ns[begins] >= least_ns) & (ends_ns >= self._over_since_ns) & ~preempted
        found = []
        for begin, until_ns in zip(begins[long].tolist(), ends_ns[long].tolist(), strict=True):
            since_ns, goes_on = int(own.time_ns[begin]), begin == len(own) - 1
            if not any(one.since_ns <= since_ns and until_ns <= one.until_ns for one in known):
                end = begin if goes_on else begin + 1
                found.append(self._stall(StallKind.WAIT, thread, begin, end, until_ns, goes_on=goes_on))
        return found

    def _stall(self, kind: StallKind, thread: int, begin: int, end: int, until_ns: int, *, goes_on: bool) -> Stall:
        """Return the stall of a thread that lasts from one of its events to another one."""
        since_ns = int(self._observed.of(thread).time_ns[begin])
        parts = self._causes.of(thread, begin, end, until_ns)
        return Stall(kind, thread, since_ns, until_ns, goes_on, parts)


def _never_came_back(own: ThreadEvents, begin: int) -> bool:
    """Tell whether a thread never had the GIL again after a call that it made since one of its events.

    Its stack at that call is known, and is then where the thread was when the recording ended.
    """
    released = np.flatnonzero(own.kind[begin:] == Kind.RELEASE)
    if not len(released):
        return False
    last = begin + int(released[-1])
    return bool(own.stack[last]) and not np.any(own.kind[last + 1 :] == Kind.ACQUIRE)
