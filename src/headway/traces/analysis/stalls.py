"""Finds stalls: an event loop, a request or a thread made no progress for too long, and why.

A stall is split into parts, each with its cause and place. The trace tells who held the GIL while the thread waited for
it, what the thread did while it held the GIL, and at which call it released the GIL. Evidence from outside
(`Trace.evidence`), if there is any, adds where the code of a long hold was and for how long the thread had no core.
Garbage collections are parts of their own. Time that none of these explains stays unexplained.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.accounts import Accounts
from headway.traces.analysis.contention import takes
from headway.traces.analysis.holders import Holders, LockHold, LockWaits
from headway.traces.analysis.intervals import Holds, recorded
from headway.traces.analysis.short_times import IDLE_SHARE, ShortTimes
from headway.traces.analysis.stall_model import Cause, Kept, Part, Stall, StallKind, Thresholds, merged
from headway.traces.analysis.thread_events import ThreadEvents
from headway.traces.calls import Call, call_at
from headway.traces.loops import (
    Home,
    home_at,
    is_for_a_request,
    is_in_a_loop,
    is_in_a_pool,
    is_in_anyio,
    is_whole,
    may_be_a_target_in_c,
    serves_the_web,
    waits_for_a_lock,
)
from headway.traces.model import CoreTime, Flag, Frame, Kind, Sample, Trace
from headway.traces.sources import edited

__all__ = ["find_stalls"]

_MS: Final = 1_000_000
_FREE_NS: Final = 1 * _MS
"""If a wanted GIL is free for less than this, its hand-off is still under way."""
_SHORT_QUEUE_NS: Final = 1 * _MS
_ELSEWHERE_NS: Final = 10 * _MS
_IN_C_NS: Final = 2 * _MS
"""A request made Python code release the GIL within microseconds; a later release means that a call of C ran."""
_WAITS: Final = (Call.SLEEP, Call.LOCK, Call.RECEIVE, Call.SEND, Call.POLL)


def find_stalls(trace: Trace, thresholds: Thresholds | None = None, *, since_ns: int = 0) -> list[Stall]:
    """Return a trace's stalls in the order of their beginnings.

    Args:
        trace: The trace of a process with a GIL.
        thresholds: The lengths that are too long; by default 100 ms, and 1 s for a request.
        since_ns: Stalls that ended before this time are left out.
    """
    thresholds = thresholds or Thresholds()
    finder = _Finder(trace, since_ns)
    found: list[Stall] = []
    for thread in range(len(trace.threads)):
        mine = [*finder.laps(thread, thresholds), *finder.overwritten_laps(thread, thresholds.loop_ns)]
        mine += finder.late_wake_ups(thread, thresholds.loop_ns, mine)
        mine += finder.waits(thread, thresholds.wait_ns, mine)
        found += mine
    return sorted(found, key=lambda one: (one.since_ns, one.thread))


class _Finder:
    """Finds the stalls of one trace."""

    def __init__(self, trace: Trace, over_since_ns: int) -> None:
        self._trace = trace
        self._over_since_ns = over_since_ns
        self._recorded = recorded(trace)
        self._homes: dict[int, Home | None] = {0: None}
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._own: dict[int, ThreadEvents] = {}
        self._samples: dict[int, list[Sample]] = defaultdict(list)
        for sample in trace.evidence.samples:
            self._samples[sample.tid].append(sample)
        self._accounts = Accounts(trace.evidence.core_times, self._of)

    @cached_property
    def _changed(self) -> frozenset[str]:
        """The files of source that are not those of the trace any more."""
        return edited(self._trace)

    @cached_property
    def _holders(self) -> Holders:
        return Holders(self._trace, self._recorded.holds, self._recorded.waits, self._changed)

    @cached_property
    def _is_web(self) -> bool:
        """Whether the process serves requests in an event loop."""
        return serves_the_web(self._trace.frames)

    @cached_property
    def _holds(self) -> dict[int, Holds]:
        holds = self._recorded.holds
        return {int(gil): holds.chosen(holds.gil == gil) for gil in np.unique(holds.gil)}

    def _of(self, thread: int) -> ThreadEvents:
        if thread not in self._own:
            self._own[thread] = ThreadEvents(self._trace, thread)
        return self._own[thread]

    def _home(self, stack: int) -> Home | None:
        if stack not in self._homes:
            self._homes[stack] = home_at(self._stack(stack))
        return self._homes[stack]

    def _stack(self, stack: int) -> tuple[Frame, ...]:
        if stack not in self._stacks:
            self._stacks[stack] = self._trace.stack(stack)
        return self._stacks[stack]

    # ------------------------------------------------------------------ stalls
    def laps(self, thread: int, thresholds: Thresholds) -> Iterator[Stall]:
        """Yield the laps of a thread that took too long."""
        own = self._of(thread)
        released = np.flatnonzero((own.kind == Kind.RELEASE) & (own.flags & Flag.FORCED == 0))
        stacks, which = np.unique(own.stack[released], return_inverse=True)
        homes = [self._home(int(stack)) for stack in stacks]
        if not any(homes):
            yield from self._first_request(thread, thresholds.request_ns)
            return
        at_home = released[np.array([home is not None for home in homes])[which]]
        begins = at_home[at_home + 1 < len(own)] + 1
        ends = np.append(at_home[1:], -1)[: len(begins)]
        if self._home(int(own.stack[at_home[0]])) is Home.POOL and self._has_begin(thread):
            # The thread was waiting for work when the recording began: its first lap begins with its first event.
            begins, ends = np.append(0, begins), np.append(at_home[0], ends)
        ends_ns = np.where(ends >= 0, own.time_ns[ends], self._trace.end_ns)
        least_ns = min(thresholds.loop_ns, thresholds.request_ns)
        long = (ends_ns - own.time_ns[begins] >= least_ns) & (ends_ns >= self._over_since_ns)
        for place in np.flatnonzero(long).tolist():
            begin, end = int(begins[place]), int(ends[place])
            kind = self._kind(own, begin, end, int(own.stack[begin - 1 if begin else end]))
            length_ns = int(ends_ns[place] - own.time_ns[begin])
            if kind is None or length_ns < (thresholds.loop_ns if kind is StallKind.LOOP else thresholds.request_ns):
                continue
            yield self._stall(
                kind, thread, begin, len(own) - 1 if end < 0 else end, int(ends_ns[place]), goes_on=end < 0
            )

    def overwritten_laps(self, thread: int, least_ns: int) -> Iterator[Stall]:
        """Yield the laps of an event loop that a watcher has seen, and whose begin is not in the recording any more."""
        own, end_ns = self._of(thread), self._trace.end_ns
        first_ns = int(own.time_ns[0]) if len(own) else end_ns
        for lap in self._trace.evidence.laps:
            until_ns, goes_on = lap.ended_ns or end_ns, not lap.ended_ns
            if (
                lap.serial != self._trace.threads[thread].serial
                or lap.begun_ns > first_ns
                or until_ns < max(lap.begun_ns + least_ns, self._over_since_ns)
                or (goes_on and self._trace.process.ended)
            ):
                continue
            parts: tuple[Part, ...] = ()
            lost_ns = min(first_ns, until_ns) - lap.begun_ns
            if first_ns < until_ns:
                last = int(np.searchsorted(own.time_ns, until_ns, "right")) - 1
                parts = self._stall(StallKind.LOOP, thread, 0, last, until_ns, goes_on=goes_on).parts
            parts = tuple(sorted((*parts, Part(Cause.UNEXPLAINED, lost_ns)), key=lambda one: -one.time_ns))
            yield Stall(StallKind.LOOP, thread, lap.begun_ns, until_ns, goes_on, parts, lost_ns=lost_ns)

    def _first_request(self, thread: int, least_ns: int) -> Iterator[Stall]:
        """Yield the request that a thread has answered since its first event, without having been at a home."""
        own, end_ns = self._of(thread), self._trace.end_ns
        if not len(own) or end_ns - own.time_ns[0] < least_ns or end_ns < self._over_since_ns:
            return
        kind = self._kind(own, 0, -1, 0) if self._has_begin(thread) else None
        if kind is not None:
            yield self._stall(kind, thread, 0, len(own) - 1, end_ns, goes_on=True)

    def _has_begin(self, thread: int) -> bool:
        """Tell whether a thread's first event in the trace can be the begin of its first lap.

        If earlier events of the thread are lost, the lap's begin is not known, nor whether the lap was reported.
        """
        starts_ns = int(self._of(thread).time_ns[0]) - self._trace.threads[thread].start_ns
        return starts_ns < _ELSEWHERE_NS or not self._trace.loss.overwritten_events

    def _kind(self, own: ThreadEvents, begin: int, end: int, home_stack: int) -> StallKind | None:
        """Return the kind of a lap that began at a home; None if the thread has left its loop, or if a pool runs a job."""
        inside = slice(begin, end if end >= 0 else len(own))
        if np.any(own.kind[inside] == Kind.EXIT) or (end < 0 and self._trace.process.ended):
            return None
        stacks = {int(stack) for stack in own.stack[inside][own.kind[inside] == Kind.RELEASE]} - {0}
        frames = [self._stack(stack) for stack in stacks]
        if self._home(home_stack) is Home.LOOP:
            in_c = may_be_a_target_in_c(self._stack(home_stack))
            # A thread that computes after its loop's end yields the GIL nowhere: only looks at its stack tell, two or more.
            until_ns = int(own.time_ns[end]) if end >= 0 else self._trace.end_ns
            seen = self._seen(own.thread, int(own.time_ns[begin]), until_ns)
            outside = [one for one in seen if is_whole(one.frames) and not is_in_a_loop(one.frames, in_c=in_c)]
            in_loop = all(is_in_a_loop(one, in_c=in_c) for one in frames) and 2 * len(outside) <= max(2, len(seen))
            return StallKind.LOOP if in_loop else None
        if not all(is_in_a_pool(one) for one in frames):
            return None
        # Code that computes, and that nobody asks for the GIL, releases it only at home. A thread of AnyIO leaves its home
        # for work alone; a server's accept loop leaves it at each of its timeouts.
        is_request = any(is_for_a_request(one, is_web=self._is_web) for one in frames) or (
            self._is_web and is_in_anyio(self._stack(home_stack))
        )
        return StallKind.REQUEST if is_request else None

    def _seen(self, thread: int, since_ns: int, until_ns: int) -> list[Sample]:
        """Return the samples of a thread's stack within a time."""
        tid = self._trace.threads[thread].tid
        return [one for one in self._samples.get(tid, ()) if since_ns <= one.time_ns <= until_ns]

    def late_wake_ups(self, thread: int, least_ns: int, known: Sequence[Stall]) -> list[Stall]:
        """Return the times when a loop's thread had work, but no core for `least_ns`, before it wanted the GIL."""
        found = []
        for before, after in itertools.pairwise(self._accounts.looks(self._trace.threads[thread].tid)):
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
        own = self._of(thread)
        first, end = np.searchsorted(own.time_ns, (before.time_ns, after.time_ns), "right").tolist()
        first_ns = int(own.time_ns[first - 1]) if first else self._trace.start_ns
        events = slice(max(0, first - 1), end)
        lengths_ns = np.diff(np.append(own.time_ns[events], after.time_ns))
        at_home = own.kind[events] == Kind.RELEASE
        at_home[at_home] = [self._home(int(stack)) is Home.LOOP for stack in own.stack[events][at_home]]
        if not at_home.any():
            return after.time_ns, after.time_ns
        longest = int(np.argmax(np.where(at_home, lengths_ns, -1)))
        length_ns, until_ns = int(lengths_ns[longest]), int(own.time_ns[events][longest] + lengths_ns[longest])
        elsewhere_ns = after.time_ns - first_ns - length_ns
        return until_ns - min(length_ns, max(0, after.queued_ns - before.queued_ns - elsewhere_ns)), until_ns

    def waits(self, thread: int, least_ns: int, known: Sequence[Stall]) -> list[Stall]:
        """Return a thread's long waits for the GIL outside of the stalls `known`, except those after a preemption."""
        own = self._of(thread)
        found = []
        for begin in np.flatnonzero(own.kind == Kind.WAIT).tolist():
            goes_on = begin == len(own) - 1
            since_ns = int(own.time_ns[begin])
            until_ns = self._trace.end_ns if goes_on else int(own.time_ns[begin + 1])
            interrupted = begin > 0 and own.flags[begin - 1] & Flag.FORCED and own.kind[begin - 1] == Kind.RELEASE
            inside = any(one.since_ns <= since_ns and until_ns <= one.until_ns for one in known)
            late = until_ns - since_ns >= least_ns and until_ns >= self._over_since_ns
            if late and not interrupted and not inside:
                end = begin if goes_on else begin + 1
                found.append(self._stall(StallKind.WAIT, thread, begin, end, until_ns, goes_on=goes_on))
        return found

    # ------------------------------------------------------------------ causes
    def _stall(self, kind: StallKind, thread: int, begin: int, end: int, until_ns: int, *, goes_on: bool) -> Stall:
        """Return the stall of a thread that lasts from one of its events to another one."""
        own = self._of(thread)
        since_ns = int(own.time_ns[begin])
        is_summed, parts = self._summed(thread, begin, end)
        for event in [*(begin + np.flatnonzero(~is_summed)).tolist(), end]:
            begun_ns = int(own.time_ns[event])
            over_ns = int(own.time_ns[event + 1]) if event < end else until_ns
            if over_ns <= begun_ns:
                continue
            following = event + 1 if event + 1 < len(own) and own.time_ns[event + 1] <= until_ns else None
            parts += [(event, part) for part in self._parts(thread, event, following, begun_ns, over_ns)]
        in_order = [part for _, part in sorted(parts, key=lambda one: one[0])]
        return Stall(kind, thread, since_ns, until_ns, goes_on, merged(in_order, until_ns - since_ns))

    def _summed(self, thread: int, begin: int, end: int) -> tuple[NDArray[np.bool_], list[tuple[int, Part]]]:
        """Return which times between an event and the next one are summed up, and the sums, each with an event in it."""
        tid = self._trace.threads[thread].tid
        times = ShortTimes(self._of(thread), begin, end, _ELSEWHERE_NS)
        account = self._accounts.columns(tid, thread, times.since_ns, times.until_ns)
        collected = [(one.start_ns, one.end_ns) for one in self._trace.evidence.collections if one.tid == tid]
        times.leave_out(~account.is_plain)
        times.leave_out_moments(np.array(sorted(one.time_ns for one in self._samples.get(tid, ())), dtype=np.int64))
        times.leave_out_spans(*np.array(collected, dtype=np.int64).reshape(-1, 2).T)
        times.leave_out_stacks(lambda stack: waits_for_a_lock(self._stack(stack), self._changed))
        sums = itertools.chain(
            times.held(account, lambda stack: self._home(stack) is None),
            times.away(account, self._is_a_wait, has_account=tid in self._accounts),
        )
        found = []
        for one in sums:
            frames = () if one.cause is Cause.CORE else self._stack(one.stack)
            part = Part(one.cause, one.time_ns, thread, frames, idle=one.idle, longest_ns=one.longest_ns)
            found.append((one.event, part))
        return times.is_short, found

    def _is_a_wait(self, stack: int) -> bool:
        """Tell whether a thread that yields the GIL at this stack is in a call that waits."""
        frames = self._stack(stack)
        return bool(frames and call_at(frames[0], self._changed) in _WAITS)

    def _parts(self, thread: int, event: int, following: int | None, begun_ns: int, over_ns: int) -> list[Part]:
        """Return the reasons why a thread made no progress between one of its events and the next."""
        own = self._of(thread)
        kind = own.kind[event]
        if kind == Kind.WAIT:
            return self._waiting(thread, int(own.gil[event]), begun_ns, over_ns)
        share = None if following is None else own.ran(following)
        if kind == Kind.ACQUIRE:
            forced = following is not None and bool(own.flags[following] & Flag.FORCED)
            stack = (
                self._let_go_at(int(own.stack[following]), over_ns - begun_ns, forced=forced)
                if following is not None
                else ()
            )
            return self._holding(thread, begun_ns, over_ns, stack, share)
        return self._away(thread, event, begun_ns, over_ns, share)

    def _holding(
        self, thread: int, begun_ns: int, over_ns: int, stack: tuple[Frame, ...], share: float | None
    ) -> list[Part]:
        """Return how a thread spent a time in which it held the GIL."""
        tid = self._trace.threads[thread].tid
        length_ns = over_ns - begun_ns
        collected_ns = self._collected_ns(tid, begun_ns, over_ns)
        queued_ns = self._accounts.queued_ns(tid, begun_ns, over_ns)
        if share is not None:
            off_ns = round(length_ns * (1 - share))
        else:
            off_ns = min(length_ns, max(queued_ns or 0, self._accounts.off_core_ns(tid, begun_ns, over_ns)))
        # A garbage collection waits for a core as often as the thread's other work.
        collected_ns = collected_ns * (length_ns - off_ns) // length_ns
        found = self._placed(Cause.COLLECTION, collected_ns, thread, begun_ns, over_ns, stack)
        found += self._off_core(thread, off_ns, queued_ns, stack)
        return found + self._placed(Cause.OWN, length_ns - off_ns - collected_ns, thread, begun_ns, over_ns, stack)

    def _let_go_at(self, stack: int, length_ns: int, *, forced: bool) -> tuple[Frame, ...]:
        """Return the stack at which a hold ended if it shows where the whole hold was; else ().

        After a request, the holder releases the GIL at once, or right after a call of C. A thread that yields after a
        long hold was elsewhere during the hold.
        """
        if self._home(stack) is not None or (length_ns >= _ELSEWHERE_NS and not forced):
            return ()
        return self._stack(stack)

    def _off_core(self, thread: int, off_ns: int, queued_ns: int | None, stack: tuple[Frame, ...]) -> list[Part]:
        """Return the reasons why a thread that held the GIL was not on a core."""
        if queued_ns is None:
            return [Part(Cause.UNEXPLAINED, off_ns, thread, stack, idle=True)]
        without_ns = min(off_ns, queued_ns)
        return [Part(Cause.CORE, without_ns, thread), Part(Cause.BLOCKED, off_ns - without_ns, thread, stack)]

    def _away(self, thread: int, event: int, begun_ns: int, over_ns: int, share: float | None) -> list[Part]:
        """Return how a thread spent a time after it had yielded the GIL with one of its events."""
        own = self._of(thread)
        stack = self._stack(int(own.stack[event]))
        length_ns = over_ns - begun_ns
        tid = self._trace.threads[thread].tid
        ran_ns = (
            round(length_ns * share)
            if share is not None
            else self._accounts.ran_away_ns(tid, thread, begun_ns, over_ns)
        )
        queued_ns = min(length_ns - ran_ns, self._accounts.queued_ns(tid, begun_ns, over_ns) or 0)
        found = [Part(Cause.OWN, ran_ns, thread, stack), Part(Cause.CORE, queued_ns, thread)]
        rest_ns = length_ns - ran_ns - queued_ns
        asleep = length_ns >= _ELSEWHERE_NS and self._trace.evidence.was_asleep(tid, begun_ns, over_ns)
        lock = waits_for_a_lock(stack, self._changed, asleep=asleep)
        if lock:
            kept = self._kept(thread, int(own.gil[event]), begun_ns, over_ns)
            kept_ns = sum(part.time_ns for part in kept)
            if kept_ns > rest_ns:  # the account of what the thread ran is up to a tick old
                kept = [replace(part, time_ns=part.time_ns * rest_ns // kept_ns) for part in kept]
                kept_ns = sum(part.time_ns for part in kept)
            found += kept
            rest_ns -= kept_ns
        # Without the system's account, a call that computes may have waited for a core.
        known = tid in self._accounts or (share is not None and share < IDLE_SHARE)
        waits = lock or asleep or known or bool(stack and call_at(stack[0], self._changed) in _WAITS)
        holder = self._holder(thread, event, begun_ns, over_ns) if lock and length_ns >= _ELSEWHERE_NS else None
        cause = Cause.BLOCKED if waits else Cause.UNEXPLAINED
        return [*found, Part(cause, rest_ns, thread, stack, lock=lock, holder=holder)]

    def _holder(self, thread: int, event: int, begun_ns: int, over_ns: int) -> LockHold | None:
        """Return who had the lock that a thread waited for, for most of that time."""
        times_ns, stack = self._of(thread).time_ns, int(self._of(thread).stack[event])
        if not takes(self._trace.frames[self._trace.stack_frame[stack]], self._changed):
            return None
        woken = event + 1 < len(times_ns) and int(times_ns[event + 1]) <= over_ns
        found = self._holders.of(stack, LockWaits.of_one(thread, begun_ns, over_ns, woken=woken))
        return found[0] if found and 2 * found[0].blocked_ns > over_ns - begun_ns else None

    def _kept(self, thread: int, gil: int, begun_ns: int, over_ns: int) -> list[Part]:
        """Return the parts in which a call of C kept the GIL: no other thread could release a lock of Python then."""
        return [
            part
            for part in self._waiting(thread, gil, begun_ns, over_ns)
            if part.cause is Cause.COLLECTION or part.kept in (Kept.C, Kept.UNREACHED)
        ]

    def _waiting(self, thread: int, gil: int, begun_ns: int, over_ns: int) -> list[Part]:
        """Return the holders of the GIL, as parts, while a thread waited for it."""
        found: list[Part] = []
        covered_ns = 0
        holds = self._holds.get(gil)
        if holds is not None:
            for place in range(int(np.searchsorted(holds.end_ns, begun_ns, "right")), len(holds)):
                since_ns, until_ns = int(holds.start_ns[place]), int(holds.end_ns[place])
                if since_ns >= over_ns:
                    break
                since_ns, until_ns = max(since_ns, begun_ns), min(until_ns, over_ns)
                if until_ns > since_ns and int(holds.thread[place]) != thread:
                    covered_ns += until_ns - since_ns
                    found += self._held(holds, place, since_ns, until_ns)
        free_ns = over_ns - begun_ns - covered_ns
        queued_ns = self._accounts.queued_ns(self._trace.threads[thread].tid, begun_ns, over_ns)
        without_ns = min(free_ns, queued_ns or 0) if free_ns >= _FREE_NS else 0
        return [*found, Part(Cause.CORE, without_ns, thread), Part(Cause.UNEXPLAINED, free_ns - without_ns, thread)]

    def _held(self, holds: Holds, place: int, since_ns: int, until_ns: int) -> list[Part]:
        """Return how the holder of the GIL spent a part of its hold."""
        holder = int(holds.thread[place])
        tid = self._trace.threads[holder].tid
        length_ns = until_ns - since_ns
        collected_ns = self._collected_ns(tid, since_ns, until_ns)
        one = holds.chosen(slice(place, place + 1))  # each property of all holds is a pass over them
        whole_ns = int(one.length_ns[0])
        known = self._let_go_at(int(one.stack[0]), whole_ns, forced=bool(one.forced[0]))
        off_ns = round(length_ns * int(one.off_core_ns[0]) / max(1, whole_ns))
        off_ns = max(off_ns, self._accounts.off_core_ns(tid, since_ns, until_ns))
        account_ns = self._accounts.queued_ns(tid, since_ns, until_ns)
        # Without an account, a holder that did not run may have had no core, or have slept with the GIL held.
        queued_ns = min(off_ns if account_ns is None else min(off_ns, account_ns), length_ns - collected_ns)
        queued_ns = queued_ns if queued_ns >= _SHORT_QUEUE_NS else 0
        # The time after the request does not count if the holder had no core, as it could not release the GIL then. If
        # the system's account shows that the holder was asleep, it was in a call.
        late_ns = int(one.overrun_ns[0])
        if account_ns is not None:
            late_ns = int(one.end_ns[0] - one.asked_ns[0]) - account_ns
        unasked = Kept.UNREACHED if self._trace.process.has_subinterpreters else Kept.C
        kept: Kept | None = unasked if late_ns >= _IN_C_NS else Kept.PYTHON
        if until_ns >= self._trace.end_ns and 2 * (off_ns - queued_ns) > length_ns:
            kept = None  # it hardly ran: asleep in a call, or without a core, which the account shows only afterwards
        found = self._placed(Cause.COLLECTION, collected_ns, holder, since_ns, until_ns, known)
        idle_ns = 0
        if account_ns is None:
            idle_ns, queued_ns = queued_ns, 0
        elif kept is Kept.PYTHON and 2 * (off_ns - queued_ns) > length_ns:
            # A holder that neither ran nor had to wait for a core was in no bytecode: its process was stopped, say.
            idle_ns = min(off_ns - queued_ns, length_ns - collected_ns - queued_ns)
        found += [Part(Cause.UNEXPLAINED, idle_ns, holder, known, idle=True), Part(Cause.CORE, queued_ns, holder)]
        rest_ns = length_ns - collected_ns - queued_ns - idle_ns
        return found + self._placed(Cause.GIL, rest_ns, holder, since_ns, until_ns, known, kept)

    # ------------------------------------------------------------------ evidence
    def _placed(
        self,
        cause: Cause,
        time_ns: int,
        thread: int,
        since_ns: int,
        until_ns: int,
        stack: tuple[Frame, ...],
        kept: Kept | None = None,
    ) -> list[Part]:
        """Split a time by the functions in which samples saw the thread; without samples, it is one part at `stack`."""
        tid = self._trace.threads[thread].tid
        seen = [
            one.frames
            for one in self._seen(thread, since_ns, until_ns)
            if self._is_collecting(tid, one.time_ns) == (cause is Cause.COLLECTION)
        ]
        functions: dict[tuple[str, str, int], list[tuple[Frame, ...]]] = defaultdict(list)
        for frames in seen:
            functions[frames[0].filename, frames[0].function, frames[0].first_line].append(frames)
        if not functions:
            return [Part(cause, time_ns, thread, stack, kept)]
        return [
            Part(cause, time_ns * len(some) // len(seen), thread, Counter(some).most_common(1)[0][0], kept)
            for some in functions.values()
        ]

    def _is_collecting(self, tid: int, time_ns: int) -> bool:
        return any(one.tid == tid and one.start_ns <= time_ns <= one.end_ns for one in self._trace.evidence.collections)

    def _collected_ns(self, tid: int, since_ns: int, until_ns: int) -> int:
        """Return the time for which a thread collected garbage."""
        return sum(
            max(0, min(one.end_ns, until_ns) - max(one.start_ns, since_ns))
            for one in self._trace.evidence.collections
            if one.tid == tid
        )
