"""Tells why a thread made no progress for a time: the parts of a stall, each with its cause and place.

The trace tells who held the GIL while the thread waited for it, what the thread did while it held the GIL, and at which
call it released the GIL. Evidence from outside (`Trace.evidence`), if there is any, adds where the code of a long hold
was and for how long the thread had no core. Garbage collections are parts of their own. Time that none of these explains
stays unexplained.
"""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.contention import takes
from headway.traces.analysis.doing import Doing
from headway.traces.analysis.handed import starts_a_thread
from headway.traces.analysis.holders import ELSEWHERE_NS, Circle, Holders, LockHold, LockWaits
from headway.traces.analysis.importing import importing
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.observed import Observed
from headway.traces.analysis.short_times import IDLE_SHARE, ShortTimes
from headway.traces.analysis.spent_holds import IN_C_NS, SpentHolds
from headway.traces.analysis.stall_model import Cause, Kept, Part, merged
from headway.traces.loops import waits_for_a_lock
from headway.traces.model import Flag, Frame, Kind

__all__ = ["Causes"]

_MS: Final = 1_000_000
_FREE_NS: Final = 1 * _MS
"""If a wanted GIL is free for less than this, its hand-off is still under way."""
_HELD_SHARE: Final = 0.15
"""A thread that had a lock for a smaller share of a wait is not told."""
_MOST_HOLDERS: Final = 3
_WITHIN: Final = (0.95, 0.8, 0.6)
"""Parts of a wait after which its lock's owner is looked for."""
_OFF_CORE: Final = (Cause.BLOCKED, Cause.UNEXPLAINED)


@final
class Causes:
    """The causes of what happened to the threads of one trace."""

    def __init__(self, observed: Observed) -> None:
        """Take the trace's threads and their evidence."""
        self._observed = observed
        self._trace = observed.trace
        self._recorded = recorded(observed.trace)
        self._spent = SpentHolds(observed, self._recorded.holds)

    @cached_property
    def _holders(self) -> Holders:
        return Holders(self._trace, self._recorded.holds, self._recorded.waits, self._observed.changed)

    def of(self, thread: int, begin: int, end: int, until_ns: int) -> tuple[Part, ...]:
        """Return why a thread made no progress from one of its events to another one: the longest part first.

        Args:
            thread: The thread's index.
            begin: The event at which the time begins.
            end: The last event at or before the end of the time.
            until_ns: The end of the time.
        """
        own = self._observed.of(thread)
        since_ns = int(own.time_ns[begin])
        is_summed, parts = self._summed(thread, begin, end)
        for event in [*(begin + np.flatnonzero(~is_summed)).tolist(), end]:
            begun_ns = int(own.time_ns[event])
            over_ns = int(own.time_ns[event + 1]) if event < end else until_ns
            if over_ns <= begun_ns:
                continue
            following = event + 1 if event + 1 < len(own) and own.time_ns[event + 1] <= until_ns else None
            found = self._parts(thread, event, following, begun_ns, over_ns)
            holds = own.kind[event] == Kind.ACQUIRE
            found = self._without_stops(thread, found, begun_ns, over_ns, holds=bool(holds))
            parts += [(event, part) for part in found]
        in_order = [part for _, part in sorted(parts, key=lambda one: one[0])]
        return merged(in_order, until_ns - since_ns)

    def _summed(self, thread: int, begin: int, end: int) -> tuple[NDArray[np.bool_], list[tuple[int, Part]]]:
        """Return which times between an event and the next one are summed up, and the sums, each with an event in it."""
        tid = self._trace.threads[thread].tid
        times = ShortTimes(self._observed.of(thread), begin, end, ELSEWHERE_NS)
        account = self._observed.accounts.columns(tid, thread, times.since_ns, times.until_ns, times.rests)
        collected = [(one.start_ns, one.end_ns) for one in self._trace.evidence.collections if one.tid == tid]
        times.leave_out(~account.is_plain)
        times.leave_out_moments(np.array(self._observed.sampled_ns(tid), dtype=np.int64))
        times.leave_out_spans(*np.array(collected, dtype=np.int64).reshape(-1, 2).T)
        times.leave_out_stacks(lambda stack: waits_for_a_lock(self._observed.stack(stack), self._observed.changed))
        sums = itertools.chain(
            times.held(account, lambda stack: self._observed.home(stack) is None),
            times.away(account, self._is_a_wait),
        )
        found = []
        for one in sums:
            frames = () if one.cause is Cause.CORE else self._observed.stack(one.stack)
            part = Part(one.cause, one.time_ns, thread, frames, idle=one.idle, longest_ns=one.longest_ns)
            found.append((one.event, part))
        return times.is_short, found

    def _without_stops(
        self, thread: int, parts: list[Part], since_ns: int, until_ns: int, *, holds: bool
    ) -> list[Part]:
        """Give the time in which the process was stopped a part of its own, and take it from the other parts of a time.

        If the GIL's holder did not run and did not wait for a core, that time is the stop's; else the stop lasts as long
        as the looks make probable.

        Args:
            thread: The thread whose time it is.
            parts: The parts of the time as if the process had not been stopped.
            since_ns: The begin of the time.
            until_ns: Its end.
            holds: The thread itself held the GIL.
        """
        probable_ns, most_ns = self._observed.stopped_ns(since_ns, until_ns)
        if not probable_ns:
            return parts

        def is_idle(part: Part) -> bool:
            return part.idle or (holds and part.cause is Cause.BLOCKED)

        idle_ns = sum(part.time_ns for part in parts if is_idle(part))
        lasts_ns = left_ns = min(idle_ns, most_ns) if 2 * idle_ns >= probable_ns else probable_ns
        found = []
        for part in sorted(parts, key=lambda one: (not is_idle(one), one.cause not in _OFF_CORE)):
            taken_ns = min(part.time_ns, left_ns)
            left_ns -= taken_ns
            found.append(replace(part, time_ns=part.time_ns - taken_ns))
        return [*found, Part(Cause.STOPPED, lasts_ns - left_ns, thread)]

    def _is_a_wait(self, stack: int) -> bool:
        """Tell whether a thread that yields the GIL at this stack is in a call that waits."""
        return self._observed.waits_at(self._observed.stack(stack))

    def _parts(self, thread: int, event: int, following: int | None, begun_ns: int, over_ns: int) -> list[Part]:
        """Return the reasons why a thread made no progress between one of its events and the next."""
        own = self._observed.of(thread)
        kind = own.kind[event]
        if kind == Kind.WAIT:
            return self._waiting(thread, int(own.gil[event]), begun_ns, over_ns)
        share = None if following is None else own.ran(following)
        if kind == Kind.ACQUIRE:
            forced = following is not None and bool(own.flags[following] & Flag.FORCED)
            stack: tuple[Frame, ...] = ()
            if following is not None:
                stack = self._spent.let_go_at(int(own.stack[following]), over_ns - begun_ns, forced=forced)
                ends = (self._observed.stack(int(own.stack[one])) for one in (max(0, event - 1), following))
                stack = stack or importing(*ends)
            in_a_call = not forced or not self._answers_at_once(int(own.gil[event]), begun_ns)
            return self._holding(thread, begun_ns, over_ns, stack, share, in_a_call=in_a_call)
        if kind == Kind.RELEASE and own.flags[event] & Flag.FORCED:
            return self._handing_over(thread, event, begun_ns, over_ns, share)
        return self._away(thread, event, begun_ns, over_ns, share)

    def _holding(
        self,
        thread: int,
        begun_ns: int,
        over_ns: int,
        stack: tuple[Frame, ...],
        share: float | None,
        *,
        in_a_call: bool,
    ) -> list[Part]:
        """Return how a thread spent a time in which it held the GIL.

        Args:
            thread: The thread.
            begun_ns: The begin of the time.
            over_ns: Its end.
            stack: The stack at which it ended, or ().
            share: The share of the time for which the thread ran, if that was measured.
            in_a_call: The time may have ended right after a call of C, on that call's line.
        """
        tid = self._trace.threads[thread].tid
        length_ns = over_ns - begun_ns
        collected_ns = self._observed.collected_ns(tid, begun_ns, over_ns)
        queued_ns = self._observed.accounts.queued_ns(tid, begun_ns, over_ns)
        if share is not None:
            off_ns = round(length_ns * (1 - share))
        else:
            off_ns = min(length_ns, max(queued_ns or 0, self._observed.accounts.off_core_ns(tid, begun_ns, over_ns)))
        # A garbage collection waits for a core as often as the thread's other work.
        collected_ns = collected_ns * (length_ns - off_ns) // length_ns
        found = self._spent.placed(Cause.COLLECTION, collected_ns, thread, begun_ns, over_ns, stack)
        stack_then = stack if in_a_call or queued_ns is None else ()
        found += self._off_core(thread, off_ns, queued_ns, begun_ns, over_ns, stack_then)
        return found + self._spent.placed(
            Cause.OWN, length_ns - off_ns - collected_ns, thread, begun_ns, over_ns, stack
        )

    def _answers_at_once(self, gil: int, begun_ns: int) -> bool:
        """Tell whether the hold that begins at a time ended right after a request, as Python code ends it."""
        holds = self._spent.holds[gil]
        place = int(np.searchsorted(holds.start_ns, begun_ns))
        return int(holds.end_ns[place] - holds.asked_ns[place]) < IN_C_NS

    def _off_core(
        self, thread: int, off_ns: int, queued_ns: int | None, begun_ns: int, over_ns: int, stack: tuple[Frame, ...]
    ) -> list[Part]:
        """Return the reasons why a thread that held the GIL was not on a core; `stack` is where it was, if known."""
        if queued_ns is None:
            return [Part(Cause.UNEXPLAINED, off_ns, thread, stack, idle=True)]
        without_ns = min(off_ns, queued_ns)
        kept = Kept.C if over_ns - begun_ns >= ELSEWHERE_NS else None
        blocked = self._spent.placed(Cause.BLOCKED, off_ns - without_ns, thread, begun_ns, over_ns, stack, kept)
        return [Part(Cause.CORE, without_ns, thread), *blocked]

    def _away(self, thread: int, event: int, begun_ns: int, over_ns: int, share: float | None) -> list[Part]:
        """Return how a thread spent a time after it had yielded the GIL with one of its events."""
        own = self._observed.of(thread)
        stack = self._observed.stack(int(own.stack[event]))
        length_ns = over_ns - begun_ns
        tid = self._trace.threads[thread].tid
        if share is None:
            rests = self._observed.rests(int(own.stack[event]))
            ran_ns, queued_ns = self._observed.accounts.away_ns(tid, thread, begun_ns, over_ns, rests=rests)
        else:
            ran_ns = round(length_ns * share)
            queued_ns = min(length_ns - ran_ns, self._observed.accounts.queued_ns(tid, begun_ns, over_ns) or 0)
        found = [Part(Cause.OWN, ran_ns, thread, stack), Part(Cause.CORE, queued_ns, thread)]
        rest_ns = length_ns - ran_ns - queued_ns
        asleep = length_ns >= ELSEWHERE_NS and self._trace.evidence.was_asleep(tid, begun_ns, over_ns)
        lock = waits_for_a_lock(stack, self._observed.changed, asleep=asleep)
        if lock:
            kept = _shortened(self._kept(thread, event, begun_ns, over_ns), rest_ns)
            found += kept
            rest_ns -= sum(part.time_ns for part in kept)
        # Without the system's account, a call that computes may have waited for a core.
        is_known = self._observed.accounts.is_known(tid, begun_ns, over_ns)
        known = is_known or (share is not None and share < IDLE_SHARE)
        waits = lock or asleep or known or self._is_a_wait(int(own.stack[event]))
        holders = self._holders_of(thread, event, begun_ns, over_ns) if lock and length_ns >= ELSEWHERE_NS else ()
        cause = Cause.BLOCKED if waits else Cause.UNEXPLAINED
        circle = Circle.NO
        if lock and length_ns >= ELSEWHERE_NS and not self._is_over(thread, event, over_ns):
            circle, owner = self._circle(thread, int(own.stack[event]), over_ns)
            holders = owner if circle is not Circle.NO and owner[0].threads[0] == thread else holders or owner
        return [*found, Part(cause, rest_ns, thread, stack, lock=lock, holders=holders, circle=circle)]

    def _handing_over(self, thread: int, event: int, begun_ns: int, over_ns: int, share: float | None) -> list[Part]:
        """Return how a thread spent a time after it had released the GIL while another thread requested it.

        The thread first waits until the other one has the GIL. If it was preempted, it is then back at once, as soon as it
        has a core. If it made a call that releases the GIL, it is now in that call.
        """
        own = self._observed.of(thread)
        gil, stack = int(own.gil[event]), int(own.stack[event])
        taken_ns = min(over_ns, self._held_from_ns(gil, begun_ns))
        found = self._waiting(thread, gil, begun_ns, taken_ns)
        away = self._away(thread, event, taken_ns, over_ns, share) if taken_ns < over_ns else []
        if over_ns - taken_ns >= ELSEWHERE_NS or self._is_a_wait(stack) or any(part.lock for part in away):
            return found + away
        away_ns = sum(part.time_ns for part in away if part.cause is Cause.BLOCKED)
        back = _shortened(self._waiting(thread, gil, taken_ns, over_ns), away_ns)
        return [*found, *(part for part in away if part.cause is not Cause.BLOCKED), *back]

    def _held_from_ns(self, gil: int, since_ns: int) -> int:
        """Return when a hold of a GIL begins, at or after a time."""
        holds = self._spent.holds.get(gil)
        place = int(np.searchsorted(holds.start_ns, since_ns)) if holds is not None else 0
        return int(holds.start_ns[place]) if holds is not None and place < len(holds) else self._trace.end_ns

    def _holders_of(self, thread: int, event: int, begun_ns: int, over_ns: int) -> tuple[LockHold, ...]:
        """Return the threads that had the lock that a thread waited for, and what each did for longest meanwhile.

        The result is () if nobody is known for most of that time.
        """
        stack = int(self._observed.of(thread).stack[event])
        if not takes(self._trace.frames[self._trace.stack_frame[stack]], self._observed.changed):
            return ()
        length_ns = over_ns - begun_ns
        # A waiter without a core was woken earlier. One that still sleeps may wait for the thread that has the GIL: that
        # thread has come from a line with the lock, and no event tells yet where it is now.
        queued_ns = self._observed.accounts.queued_ns(self._trace.threads[thread].tid, begun_ns, over_ns) or 0
        ends = [(over_ns, self._is_over(thread, event, over_ns)), (max(begun_ns, over_ns - queued_ns), True)]
        # Where it is not known who woke the thread, such as one of many waiters, the lock's owner during the wait is.
        ends += [(begun_ns + round(share * length_ns), False) for share in _WITHIN]
        for end_ns, woken in ends:
            holds = self._holders.by_thread(stack, LockWaits.of_one(thread, begun_ns, end_ns, woken=woken))
            told = [one for one in holds if one.blocked_ns >= _HELD_SHARE * length_ns][:_MOST_HOLDERS]
            if 2 * sum(one.blocked_ns for one in told) > length_ns:
                return tuple(self._seen_with(one, begun_ns, over_ns) for one in told)
        return ()

    def _is_over(self, thread: int, event: int, time_ns: int) -> bool:
        """Tell whether what an event of a thread began has ended by a time."""
        times_ns = self._observed.of(thread).time_ns
        return event + 1 < len(times_ns) and int(times_ns[event + 1]) <= time_ns

    def _circle(self, thread: int, stack: int, time_ns: int) -> tuple[Circle, tuple[LockHold, ...]]:
        """Tell whether the lock that a thread waits for is never released, as its owner waits for that thread.

        Args:
            thread: The thread.
            stack: The stack at which it waits.
            time_ns: A time at which it waits. A wait that ends later was in no circle.

        Returns:
            Whether it is so, and if it is, the lock's owner and where that one waits.
        """
        owners: list[LockHold] = []
        waiter, passed = thread, set[int]()
        while waiter not in passed:
            passed.add(waiter)
            owner = self._holders.at(stack, waiter, time_ns)
            if owner is None:
                return Circle.NO, ()
            events = self._observed.of(owner)
            last = int(np.searchsorted(events.time_ns, time_ns, "right")) - 1
            if last < 0 or events.kind[last] != Kind.RELEASE:
                return Circle.NO, ()  # it goes on
            at, sure = int(events.stack[last]), self._holders.is_sure(stack, owner)
            if not takes(self._trace.frames[self._trace.stack_frame[at]], self._observed.changed):
                return Circle.NO, ()  # it may be in another call of that line
            waited_ns = time_ns - int(events.time_ns[last])
            owners.append(LockHold((owner,), Doing.BLOCKED, self._trace.stack(at), waited_ns, sure))
            if owner == thread:
                if len(owners) == 1:
                    owners[0] = replace(owners[0], doing=Doing.ITSELF)
                return Circle.SURE if all(one.sure for one in owners) else Circle.PERHAPS, tuple(owners[:1])
            waiter, stack = owner, at
        return Circle.NO, ()  # the thread waits for others that are in a circle

    def _seen_with(self, hold: LockHold, since_ns: int, until_ns: int) -> LockHold:
        """Return a hold of a lock in a wait from `since_ns` to `until_ns`, with what the evidence from outside adds.

        If the line is not known, samples of the thread while it held the GIL tell it. A thread that had the lock for most
        of the wait may have had no core.
        """
        own = self._observed.of(hold.threads[0])
        # The kernel's account may have a sleep as a wait for a core: seen once, for the 301 ms of a recv().
        sleeps = hold.doing is Doing.AWAY and self._observed.waits_at(hold.stack)
        if not sleeps and hold.doing in (Doing.RAN, Doing.AWAY) and 2 * hold.blocked_ns >= until_ns - since_ns:
            tid = self._trace.threads[hold.threads[0]].tid
            queued_ns = self._observed.accounts.queued_ns(tid, since_ns, until_ns)
            if 2 * (queued_ns or 0) >= hold.blocked_ns:
                hold = replace(hold, doing=Doing.NO_CORE)
        if hold.doing not in (Doing.RAN, Doing.NO_CORE) or hold.stack:
            return hold
        seen = Counter(
            one.frames
            for one in self._observed.seen(own.thread, since_ns, until_ns)
            if own.kind[max(0, int(np.searchsorted(own.time_ns, one.time_ns, "right")) - 1)] == Kind.ACQUIRE
        )
        return replace(hold, stack=seen.most_common(1)[0][0]) if seen else hold

    def _kept(self, thread: int, event: int, begun_ns: int, over_ns: int) -> list[Part]:
        """Return the parts of a wait for another thread, begun with an event, that are due to the GIL's holder.

        While a call of C kept the GIL, no other thread could release a lock of Python. A thread that is being started
        waits for the GIL, whoever holds it.
        """
        own = self._observed.of(thread)
        gil = int(own.gil[event])
        if starts_a_thread(self._trace, int(own.stack[event])):
            return self._spent.by_others(self._spent.holds.get(gil), thread, begun_ns, over_ns)[0]
        found, _ = self._spent.by_others(self._spent.keeping.get(gil), thread, begun_ns, over_ns)
        return [part for part in found if part.cause is Cause.COLLECTION or part.kept in (Kept.C, Kept.UNREACHED)]

    def _waiting(self, thread: int, gil: int, begun_ns: int, over_ns: int) -> list[Part]:
        """Return the holders of the GIL, as parts, while a thread waited for it."""
        found, covered_ns = self._spent.by_others(self._spent.holds.get(gil), thread, begun_ns, over_ns)
        free_ns = over_ns - begun_ns - covered_ns
        queued_ns = self._observed.accounts.queued_ns(self._trace.threads[thread].tid, begun_ns, over_ns)
        without_ns = min(free_ns, queued_ns or 0) if free_ns >= _FREE_NS else 0
        return [*found, Part(Cause.CORE, without_ns, thread), Part(Cause.UNEXPLAINED, free_ns - without_ns, thread)]


def _shortened(parts: list[Part], most_ns: int) -> list[Part]:
    """Return parts that last at most this long: the account of what a thread ran is up to a tick old."""
    lasts_ns = sum(part.time_ns for part in parts)
    if lasts_ns <= most_ns:
        return parts
    return [replace(part, time_ns=part.time_ns * most_ns // lasts_ns) for part in parts]
