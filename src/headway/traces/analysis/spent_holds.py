"""Tells how the holders of the GIL spent their holds: the parts of a time in which a thread waited for them.

Hundreds of threads may wait for the same holds. The parts of a whole hold are those of all its waiters, and are found once.
"""

from collections import Counter
from functools import cached_property
from typing import Final, final

import numpy as np

from headway.traces.analysis.holders import ELSEWHERE_NS
from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.observed import Observed
from headway.traces.analysis.stall_model import Cause, Kept, Part
from headway.traces.model import Frame

__all__ = ["IN_C_NS", "SpentHolds"]

_MS: Final = 1_000_000
IN_C_NS: Final = 2 * _MS
"""A request made Python code release the GIL within microseconds; a later release means that a call of C ran."""
_SHORT_QUEUE_NS: Final = 1 * _MS
_ASLEEP_NS: Final = 50 * _MS
"""A holder whose account stands still for so long sleeps: the looks would show that it waits for a core."""


@final
class SpentHolds:
    """The holds of one trace, and what their threads did."""

    def __init__(self, observed: Observed, holds: Holds) -> None:
        """Take the trace's threads with their evidence, and all holds."""
        self._observed = observed
        self._recorded = holds
        self._whole: dict[tuple[int, int], list[Part]] = {}
        """The parts of each whole hold that was waited for, by the GIL and the begin."""

    @cached_property
    def holds(self) -> dict[int, Holds]:
        """The holds of each GIL."""
        holds = self._recorded
        return {int(gil): holds.chosen(holds.gil == gil) for gil in np.unique(holds.gil)}

    @cached_property
    def keeping(self) -> dict[int, Holds]:
        """Those of the holds in which a call of C, or a garbage collection, may have kept the GIL: they are few."""
        collected = [(one.start_ns, one.end_ns) for one in self._observed.trace.evidence.collections]
        begun_ns, over_ns = np.sort(np.array(collected, dtype=np.int64).reshape(-1, 2).T)
        found = {}
        for gil, holds in self.holds.items():
            collects = np.searchsorted(begun_ns, holds.end_ns) > np.searchsorted(over_ns, holds.start_ns)
            found[gil] = holds.chosen(collects | (holds.length_ns >= IN_C_NS))
        return found

    def by_others(self, holds: Holds | None, thread: int, begun_ns: int, over_ns: int) -> tuple[list[Part], int]:
        """Return how the other threads spent their holds within a time, as parts, and the sum of these holds."""
        found: list[Part] = []
        covered_ns = 0
        if holds is not None:
            first = int(np.searchsorted(holds.end_ns, begun_ns, "right"))
            last = int(np.searchsorted(holds.start_ns, over_ns))
            columns = (holds.start_ns, holds.end_ns, holds.thread)
            for place, hold in enumerate(zip(*(one[first:last].tolist() for one in columns), strict=True), first):
                start_ns, end_ns, holder = hold
                since_ns, until_ns = max(start_ns, begun_ns), min(end_ns, over_ns)
                if until_ns > since_ns and holder != thread:
                    covered_ns += until_ns - since_ns
                    is_whole = (since_ns, until_ns) == (start_ns, end_ns)
                    found += (
                        self._whole_hold(holds, place) if is_whole else self._held(holds, place, since_ns, until_ns)
                    )
        return found, covered_ns

    def _whole_hold(self, holds: Holds, place: int) -> list[Part]:
        """Return how the holder of the GIL spent its hold."""
        since_ns = int(holds.start_ns[place])
        key = int(holds.gil[place]), since_ns
        if key not in self._whole:
            parts = self._held(holds, place, since_ns, int(holds.end_ns[place]))
            self._whole[key] = [one for one in parts if one.time_ns]
        return self._whole[key]

    def _held(self, holds: Holds, place: int, since_ns: int, until_ns: int) -> list[Part]:
        """Return how the holder of the GIL spent a part of its hold."""
        holder = int(holds.thread[place])
        tid = self._observed.trace.threads[holder].tid
        length_ns = until_ns - since_ns
        collected_ns = self._observed.collected_ns(tid, since_ns, until_ns)
        one = holds.chosen(slice(place, place + 1))  # each property of all holds is a pass over them
        whole_ns = int(one.length_ns[0])
        known = self.let_go_at(int(one.stack[0]), whole_ns, forced=bool(one.forced[0]))
        off_ns = round(length_ns * int(one.off_core_ns[0]) / max(1, whole_ns))
        off_ns = max(off_ns, self._observed.accounts.off_core_ns(tid, since_ns, until_ns))
        account_ns = self._observed.accounts.queued_ns(tid, since_ns, until_ns)
        # Without an account, a holder that did not run may have had no core, or have slept with the GIL held.
        queued_ns = min(off_ns if account_ns is None else min(off_ns, account_ns), length_ns)
        queued_ns = queued_ns if queued_ns >= _SHORT_QUEUE_NS else 0
        # As in _holding().
        collected_ns = collected_ns * (length_ns - min(off_ns, length_ns)) // max(1, length_ns)
        unasked = Kept.UNREACHED if self._observed.trace.process.has_subinterpreters else Kept.C
        late_ns = self._late_ns(one, tid)
        kept: Kept | None = None
        if late_ns is not None:
            kept = unasked if late_ns >= IN_C_NS else Kept.PYTHON
        if until_ns >= self._observed.trace.end_ns and 2 * off_ns > length_ns:
            # It hardly ran: it is asleep in a call, or without a core, which the account shows only afterwards.
            slept_ns = self._observed.accounts.asleep_ns(tid, int(one.start_ns[0]))
            kept = kept if 2 * slept_ns > off_ns and slept_ns >= _ASLEEP_NS else None
        found = self.placed(Cause.COLLECTION, collected_ns, holder, since_ns, until_ns, known)
        idle_ns = 0
        if account_ns is None:
            idle_ns, queued_ns = queued_ns, 0
        elif (kept is Kept.PYTHON or self._observed.stopped_ns(since_ns, until_ns)[0]) and 2 * (
            off_ns - queued_ns
        ) > length_ns:
            # A holder that neither ran nor had to wait for a core was in no bytecode: its process was stopped, say.
            idle_ns = min(off_ns - queued_ns, length_ns - collected_ns - queued_ns)
        found += [Part(Cause.UNEXPLAINED, idle_ns, holder, known, idle=True), Part(Cause.CORE, queued_ns, holder)]
        rest_ns = length_ns - collected_ns - queued_ns - idle_ns
        return found + self.placed(Cause.GIL, rest_ns, holder, since_ns, until_ns, known, kept)

    def _late_ns(self, one: Holds, tid: int) -> int | None:
        """Return for how long a holder certainly kept the GIL after the request; None if it may not have run then.

        The time in which it had no core does not count, as it could not release the GIL. If the system's account shows
        that the holder was asleep, it was in a call.
        """
        if self._observed.stopped_ns(int(one.asked_ns[0]), int(one.end_ns[0]))[0]:
            return None
        queued_ns = self._observed.accounts.most_queued_ns(tid, int(one.asked_ns[0]), int(one.end_ns[0]))
        if queued_ns is not None:
            return int(one.end_ns[0] - one.asked_ns[0]) - queued_ns
        late_ns = int(one.overrun_ns[0])
        is_known = bool(one.ran[0]) or late_ns < IN_C_NS or not self._observed.accounts.has_looks
        return late_ns if is_known else None

    def placed(
        self,
        cause: Cause,
        time_ns: int,
        thread: int,
        since_ns: int,
        until_ns: int,
        stack: tuple[Frame, ...],
        kept: Kept | None = None,
    ) -> list[Part]:
        """Split a time by the stacks at which samples saw the thread; without samples, it is one part at `stack`.

        For a blocking call with the GIL held, only samples count that saw the thread asleep.
        """
        tid = self._observed.trace.threads[thread].tid
        seen = Counter(
            one.frames
            for one in self._observed.seen(thread, since_ns, until_ns)
            if self._observed.is_collecting(tid, one.time_ns) == (cause is Cause.COLLECTION)
            and (cause is not Cause.BLOCKED or self._observed.accounts.is_asleep(tid, one.time_ns))
        )
        return [
            Part(cause, time_ns * count // seen.total(), thread, frames, kept) for frames, count in seen.items()
        ] or [Part(cause, time_ns, thread, stack, kept)]

    def let_go_at(self, stack: int, length_ns: int, *, forced: bool) -> tuple[Frame, ...]:
        """Return the stack at which a hold ended if it shows where the whole hold was; else ().

        After a request, the holder releases the GIL at once, or right after a call of C. A thread that yields after a
        long hold was elsewhere during the hold.
        """
        if self._observed.home(stack) is not None or (length_ns >= ELSEWHERE_NS and not forced):
            return ()
        return self._observed.stack(stack)
