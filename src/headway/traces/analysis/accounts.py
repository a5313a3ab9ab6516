"""The system's account of threads: for how long they ran on cores, and waited for one, between two looks at them."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.thread_events import ThreadEvents
from headway.traces.frames import CoreTime

__all__ = ["Accounts", "Columns"]

_TICK_NS: Final = 4_000_000
"""The age of the system's account of a running thread: up to one tick of its core, 4 ms with CONFIG_HZ=250."""
_STILL: Final = 0.05
"""A thread that ran or waited for a core for less than this part of the time between two looks was asleep."""
_FAR_NS: Final = 60_000_000_000
"""Products of times between looks that are further apart may not fit into 64 bits."""


@final
class Columns(NamedTuple):
    """The values of an account for many times."""

    is_plain: NDArray[np.bool_]
    """Whether the next columns tell of a time what the methods of `Accounts` do: there is no look within it, say."""
    is_known: NDArray[np.bool_]
    """Whether there is an account of the time: `queued_ns` is not None."""
    queued_ns: NDArray[np.int64]
    off_core_ns: NDArray[np.int64]
    ran_away_ns: NDArray[np.int64]
    queued_away_ns: NDArray[np.int64]


@final
class Accounts:
    """The accounts of a trace's threads."""

    def __init__(self, core_times: Iterable[CoreTime], events_of: Callable[[int], ThreadEvents]) -> None:
        """Take the looks at all threads, in the order of their times, and what returns a thread's events by its index."""
        self._core_times: dict[int, list[CoreTime]] = defaultdict(list)
        for one in core_times:
            self._core_times[one.tid].append(one)
        self._of = events_of

    @property
    def has_looks(self) -> bool:
        """Whether the system's account of any thread was looked at."""
        return bool(self._core_times)

    def looks(self, tid: int) -> list[CoreTime]:
        """Return the looks at a thread."""
        return self._core_times.get(tid, [])

    def _account(self, tid: int, since_ns: int, until_ns: int) -> tuple[CoreTime, CoreTime] | None:
        """Return a thread's account before and after a time; None if there are not two looks at it."""
        times = self._core_times.get(tid, [])
        if not times:
            return None
        first = bisect.bisect_right(times, since_ns, key=_time_ns)
        before = min(times[max(0, first - 1) : first + 1], key=lambda one: abs(one.time_ns - since_ns))
        after = times[min(len(times) - 1, bisect.bisect_left(times, until_ns, key=_time_ns))]
        if before is after and after.time_ns >= until_ns:  # a short time is nearer to the look after it
            before = times[max(0, first - 1)]
        return (before, after) if after.time_ns > before.time_ns else None

    def _looks_from(self, tid: int, before: CoreTime, after: CoreTime) -> list[CoreTime]:
        """Return the looks at a thread from one of them up to another one."""
        times = self._core_times[tid]
        first = bisect.bisect_left(times, before.time_ns, key=_time_ns)
        return times[first : bisect.bisect_right(times, after.time_ns, key=_time_ns)]

    def is_known(self, tid: int, since_ns: int, until_ns: int) -> bool:
        """Tell whether there is an account of a thread for a time: two looks at the thread cover some of it."""
        return self._account(tid, since_ns, until_ns) is not None

    def is_asleep(self, tid: int, time_ns: int) -> bool:
        """Tell whether the account of a thread stands still around a time: it neither ran nor waited for a core."""
        looks = self.looks(tid)
        after = bisect.bisect_right(looks, time_ns, key=_time_ns)
        return 0 < after < len(looks) and _stands_still(looks[after - 1], looks[after])

    def asleep_ns(self, tid: int, since_ns: int) -> int:
        """Return for how long, from a time on, the account of a thread has stood still at the last look at it."""
        looks = self.looks(tid)
        at = len(looks) - 1
        while at > 0 and looks[at - 1].time_ns >= since_ns and _stands_still(looks[at - 1], looks[at]):
            at -= 1
        return looks[-1].time_ns - looks[at].time_ns if looks else 0

    def queued_ns(self, tid: int, since_ns: int, until_ns: int) -> int | None:
        """Return the longest time for which the thread can have waited for a core; None without an account."""
        account = self._account(tid, since_ns, until_ns)
        if account is None:
            return None
        before, after = account
        queued_ns, looked_ns = after.queued_ns - before.queued_ns, after.time_ns - before.time_ns
        if 2 * (until_ns - since_ns) < looked_ns:  # the rest of the wait for a core was before or after
            queued_ns = queued_ns * (until_ns - since_ns) // looked_ns
        inside_ns = self._inside_ns(self._looks_from(tid, before, after), since_ns, until_ns)
        return max(0, min(queued_ns, inside_ns, until_ns - since_ns))

    def most_queued_ns(self, tid: int, since_ns: int, until_ns: int) -> int | None:
        """Return a time for which the thread certainly did not wait longer for a core; None without an account."""
        looks = self.looks(tid)
        if not looks:
            return None
        first = bisect.bisect_right(looks, since_ns, key=_time_ns)
        before = looks[first - 1] if first else CoreTime(0, tid, 0, 0)  # an account begins with the thread
        last = bisect.bisect_left(looks, until_ns, key=_time_ns)
        inside_ns = self._inside_ns([before, *looks[first : last + 1]], since_ns, until_ns)
        if last == len(looks):
            unseen_ns = until_ns - max(since_ns, looks[-1].time_ns)
            inside_ns = unseen_ns + _may_have_queued_ns([before, *looks[first:]], since_ns)
        return min(until_ns - since_ns, inside_ns)

    def _inside_ns(self, looks: list[CoreTime], since_ns: int, until_ns: int) -> int:
        """Return what looks add to the time without a core, as far as it can have been within a time.

        The account has a wait for a core from its end on: what it adds soon after `since_ns` was mostly before.
        """
        return sum(
            min(max(0, two.queued_ns - one.queued_ns), max(0, min(two.time_ns, until_ns) - since_ns))
            for one, two in itertools.pairwise(looks)
        )

    def off_core_ns(self, tid: int, since_ns: int, until_ns: int) -> int:
        """Return the least time for which the thread did not run, by the system's account; 0 if that is unknown."""
        account = self._account(tid, since_ns, until_ns)
        if account is None:
            return 0
        before, after = account
        # A thread that has ended is not looked at again: the time after the last look may have been spent running.
        looked_ns = min(until_ns, after.time_ns) - max(since_ns, before.time_ns)
        return max(0, looked_ns - (after.ran_ns - before.ran_ns) - _TICK_NS)

    def away_ns(self, tid: int, thread: int, since_ns: int, until_ns: int, *, rests: bool) -> tuple[int, int]:
        """Return for how long a thread ran, and waited for a core, in a time in which it was in a call without the GIL.

        `rests` tells whether that call waits. A look may come long after the call, so the account may have later work, too:
        the call has only what the thread's holds, and its other calls, had no room for.
        """
        account = self._account(tid, since_ns, until_ns)
        if account is None:
            return 0, 0
        before, after = account
        ran_ns = queued_ns = seen_ns = 0
        is_most = False
        for one, two in itertools.pairwise(self._looks_from(tid, before, after)):
            inside_ns = min(two.time_ns, until_ns) - max(one.time_ns, since_ns)
            if inside_ns > 0:
                # A longer wait for a core than the looks are apart began before them, when the thread was in this call.
                earlier_ns = max(0, two.queued_ns - one.queued_ns - (two.time_ns - one.time_ns))
                queued_ns += min(earlier_ns, max(0, one.time_ns - since_ns))
                between = replace(two, queued_ns=two.queued_ns - earlier_ns)
                *account_ns, among_ns = self._without_the_gil(thread, one, between)[rests]
                ran, queued = (_of_a_call(account_ns, one_ns, among_ns, inside_ns) for one_ns in account_ns)
                ran_ns, queued_ns, seen_ns = ran_ns + ran, queued_ns + queued, seen_ns + inside_ns
                is_most = is_most or 2 * inside_ns >= among_ns
        if is_most:  # the account has a wait for a core from its end on
            queued_ns = min(queued_ns, self.queued_ns(tid, since_ns, until_ns) or 0)
        ran_ns = min(ran_ns, seen_ns) * (until_ns - since_ns) // seen_ns if seen_ns > 0 else 0
        return ran_ns, min(queued_ns, until_ns - since_ns - ran_ns)

    def _without_the_gil(self, thread: int, before: CoreTime, after: CoreTime) -> tuple[tuple[int, int, int], ...]:
        """Return what the account has, between two looks, of a thread's calls without the GIL.

        A thread that held the GIL ran, or waited for a core. Of the rest of the account, the calls that wait have only what
        the calls that may compute cannot have.

        Returns:
            For the calls that may compute, and for those that wait: what they ran, what they waited for a core, and for
            how long the thread was in them.
        """
        spent = self._of(thread).spent(before.time_ns, after.time_ns)
        looked_ns = after.time_ns - before.time_ns
        ran_ns, queued_ns = after.ran_ns - before.ran_ns, max(0, after.queued_ns - before.queued_ns)
        has_gil_ns = spent.held_ns + queued_ns * (looked_ns - sum(spent)) // looked_ns
        left_ns = max(0, ran_ns + queued_ns - has_gil_ns)
        found, all_ns = [], max(1, ran_ns + queued_ns)
        for length_ns, most_ns in ((spent.away_ns, left_ns), (spent.rested_ns, max(0, left_ns - spent.away_ns))):
            found.append((most_ns * ran_ns // all_ns, most_ns * queued_ns // all_ns, length_ns))
        return tuple(found)

    def columns(
        self,
        tid: int,
        thread: int,
        since_ns: NDArray[np.int64],
        until_ns: NDArray[np.int64],
        rests: NDArray[np.bool_],
    ) -> Columns:
        """Return the account of a thread for many times, each shorter than 10 ms; see the methods above."""
        looks = self.looks(tid)
        count, none = len(looks), np.zeros(len(since_ns), dtype=np.int64)
        if not looks:
            return Columns(none == 0, none > 0, none, none, none, none)
        rows = np.array([(one.time_ns, one.ran_ns, one.queued_ns) for one in looks], dtype=np.int64)
        time_ns, ran_ns, queued_ns = rows.T
        first = np.searchsorted(time_ns, since_ns, "right")
        before, later = np.maximum(0, first - 1), np.minimum(first, count - 1)
        before = np.where(np.abs(time_ns[later] - since_ns) < np.abs(time_ns[before] - since_ns), later, before)
        after = np.minimum(count - 1, np.searchsorted(time_ns, until_ns, "left"))
        before = np.where((before == after) & (time_ns[after] >= until_ns), np.maximum(0, first - 1), before)
        looked_ns = time_ns[after] - time_ns[before]
        is_known = looked_ns > 0
        is_alone = np.diff(time_ns, prepend=time_ns[0] - 1, append=time_ns[-1] + 1) > 0  # no two looks at the same time
        is_next = (after == before + 1) & is_alone[before] & is_alone[after] & is_alone[after + 1]
        is_apart = (
            queued_ns[after] - queued_ns[before] <= looked_ns
        )  # else a part of a wait for a core was before the look
        is_plain = ~is_known | (is_next & is_apart & (looked_ns < _FAR_NS))
        kept = np.flatnonzero(is_plain & is_known)
        queued, off_core, ran_away, queued_away = none.copy(), none.copy(), none.copy(), none.copy()
        a, b = before[kept], after[kept]
        since, until, looked = since_ns[kept], until_ns[kept], looked_ns[kept]
        length, added_ns = until - since, queued_ns[b] - queued_ns[a]
        share_ns = np.where(2 * length < looked, added_ns * length // looked, added_ns)
        inside_ns = np.minimum(np.maximum(0, added_ns), np.maximum(0, np.minimum(time_ns[b], until) - since))
        queued[kept] = np.maximum(0, np.minimum(np.minimum(share_ns, inside_ns), length))
        seen_ns = np.minimum(until, time_ns[b]) - np.maximum(since, time_ns[a])
        off_core[kept] = np.maximum(0, seen_ns - (ran_ns[b] - ran_ns[a]) - _TICK_NS)
        of_looks = np.zeros((count, 2, 3), dtype=np.int64)
        for one in np.unique(a).tolist():
            of_looks[one] = self._without_the_gil(thread, looks[one], looks[one + 1])
        away_ns, without_ns, among_ns = of_looks[a, rests[kept].astype(np.intp)].T
        is_part, all_ns = 2 * seen_ns < among_ns, np.maximum(1, among_ns)
        both_ns = away_ns + without_ns
        kept_ns, both_ns = np.maximum(0, both_ns - np.maximum(0, among_ns - seen_ns)), np.maximum(1, both_ns)
        away_ns = np.where(is_part, away_ns * seen_ns // all_ns, away_ns * kept_ns // both_ns)
        away_ns = np.maximum(0, np.minimum(away_ns, seen_ns))
        ran_away[kept] = np.where(seen_ns > 0, away_ns * length // np.maximum(1, seen_ns), 0)
        alone_ns = np.minimum(without_ns * kept_ns // both_ns, queued[kept])
        without_ns = np.where(is_part, without_ns * seen_ns // all_ns, alone_ns)
        queued_away[kept] = np.minimum(without_ns, length - ran_away[kept])
        return Columns(is_plain, is_known, queued, off_core, ran_away, queued_away)


def _of_a_call(account_ns: list[int], one_ns: int, among_ns: int, inside_ns: int) -> int:
    """Return what a call has of one part of an account.

    Args:
        account_ns: What the thread ran, and waited for a core, in all of its calls without the GIL between two looks.
        one_ns: One of the two, of which the call's part is returned.
        among_ns: For how long the thread was in these calls.
        inside_ns: For how long it was in this call.
    """
    if 2 * inside_ns < among_ns:  # one of many calls
        return one_ns * inside_ns // among_ns
    both_ns = sum(account_ns)
    return one_ns * max(0, both_ns - max(0, among_ns - inside_ns)) // max(1, both_ns)


def _may_have_queued_ns(looks: list[CoreTime], since_ns: int) -> int:
    """Return the longest time for which a thread can have waited for a core from a time on until the last look.

    The account may have nothing of the last wait. A thread that ran between two looks may have waited for the rest of that
    time; one whose account stands still was asleep.
    """
    most_ns = 0
    for one, two in itertools.pairwise(looks):
        ran_ns = two.ran_ns - one.ran_ns
        if ran_ns > 0 or two.queued_ns > one.queued_ns:
            off_core_ns = two.time_ns - one.time_ns - ran_ns
            most_ns += max(0, min(off_core_ns, two.time_ns - max(one.time_ns, since_ns)))
    return most_ns


def _stands_still(one: CoreTime, two: CoreTime) -> bool:
    """Tell whether a thread was asleep between two looks. A look adds the wait for a core of one that could run."""
    return (two.ran_ns - one.ran_ns) + (two.queued_ns - one.queued_ns) <= _STILL * (two.time_ns - one.time_ns)


def _time_ns(one: CoreTime) -> int:
    return one.time_ns
