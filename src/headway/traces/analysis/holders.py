"""Finds who had a lock while other threads waited for it, and what the threads that had it did.

A trace with a GIL has no event of a lock. But the thread that releases a lock holds the GIL at that time, and the waiter
wakes up at once and wants the GIL back, if it gets a core. So a wait for a lock ends when a thread that uses the same lock
holds the GIL, or just did. Without a core for the waiter, the trace does not tell when within its hold the thread released
the lock. From there, the thread's holds and the times between them are followed backwards to the begin of the wait. If
that thread itself waited for the lock meanwhile, the thread that woke it comes next. The source tells which lines run with
a lock of that name: a time at another line of the same function is not taken for a time with the lock.

This is the critical path of a wait, as wPerf has it (Zhou et al., OSDI 2018), without its events of wake-ups.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.doing import Doing, doing_away
from headway.traces.analysis.groups import grouped
from headway.traces.analysis.hotspots import at_place
from headway.traces.analysis.intervals import Holds, Intervals
from headway.traces.analysis.lock_stacks import LockStacks, stacks_of
from headway.traces.calls import locks_at, waits_for_good
from headway.traces.guards import Lock, is_reentrant
from headway.traces.libraries import is_of_threading
from headway.traces.model import Frame, Trace

__all__ = ["ELSEWHERE_NS", "Circle", "Holders", "LockHold", "LockWaits", "line_of", "summed"]

_WAKES_NS = 2_000_000
"""A thread that is woken wants the GIL within this time, if it gets a core."""
ELSEWHERE_NS = 10_000_000
"""A thread that yields after a longer hold was elsewhere during the hold."""
_MOST_WAITS = 1_000
"""The waits of a place that are looked at. Of more, some are chosen, by their share of the time."""
_BUSY = 0.1
"""The part of holds without a core from which on a thread that is woken may get one late, too."""
_FROM_INSIDE = 2
_MOST_STEPS = 200_000
"""The holds that are looked at for one place."""
_MOST_TOLD = 8
"""The results for one place."""


class Circle(Enum):
    """Whether a thread waits for a lock whose owner waits, directly or not, for that thread: a deadlock."""

    NO = "no"
    PERHAPS = "perhaps"
    """It is one if the locks of these names are the same objects."""
    SURE = "sure"


@final
@dataclass(frozen=True)
class LockHold:
    """A time for which threads had a lock that others waited for, and did one thing at one line.

    Attributes:
        threads: The indices of the threads, most time first.
        doing: What they did.
        stack: Where, innermost frame first, the stack with most of the time; () if the line is not known.
        blocked_ns: The sum of the times for which others waited for the lock meanwhile.
        sure: Whether there is only one lock of that name. Else it may have been that of another object.
        each_ns: The part of `blocked_ns` of each thread; () if there is one thread.
    """

    threads: tuple[int, ...]
    doing: Doing
    stack: tuple[Frame, ...]
    blocked_ns: int
    sure: bool = True
    each_ns: tuple[int, ...] = ()

    @property
    def by_thread_ns(self) -> dict[int, int]:
        """The part of `blocked_ns` of each thread."""
        return dict(zip(self.threads, self.each_ns or (self.blocked_ns,), strict=True))

    @property
    def which(self) -> str:
        """The words that follow "the lock" if it may have been another one."""
        return "" if self.sure else ", or one of the same name,"

    @property
    def words(self) -> str:
        """The text that tells what the threads did, and where: `in a call without the GIL at app.py:7 refresh`."""
        return f"{self.doing.words}{at_place(self.stack)}"


def summed(holds: Iterable[LockHold]) -> tuple[LockHold, ...]:
    """Return one hold for each thread, most time first: the one with most time, with the time of all of the thread's."""
    threads: dict[int, list[LockHold]] = defaultdict(list)
    for one in holds:
        threads[one.threads[0]].append(one)
    found = [
        replace(max(some, key=lambda one: one.blocked_ns), blocked_ns=sum(one.blocked_ns for one in some))
        for some in threads.values()
    ]
    return tuple(sorted(found, key=lambda one: -one.blocked_ns))


@final
class LockWaits(NamedTuple):
    """Columns of waits for a lock."""

    thread: NDArray[np.integer]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    """The time at which the thread wanted the GIL again; if it did not, until when it is known to have waited."""
    woken: NDArray[np.bool_]
    """Whether it wanted the GIL again."""

    @classmethod
    def of_one(cls, thread: int, start_ns: int, end_ns: int, *, woken: bool) -> Self:
        """Return the columns of one wait."""
        times = np.array([start_ns, end_ns], dtype=np.int64)
        return cls(np.array([thread]), times[:1], times[1:], np.array([woken]))


@final
class _Timeline(NamedTuple):
    """The holds of one thread in their order, and when it wanted the GIL before each."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    want_ns: NDArray[np.int64]
    stack: NDArray[np.uint32]
    is_there: NDArray[np.bool_]
    """Whether the stack at the end of a hold shows where the whole hold was."""


@final
class Holders:
    """Follows waits for locks to the threads that had them."""

    def __init__(self, trace: Trace, holds: Holds, waits: Intervals, changed: Collection[str]) -> None:
        """Take a whole trace's holds and waits; `changed` are files whose lines may be others by now.

        Without a GIL there are neither. A time of no length stands for the begin of a wait that never ended, at its stack.
        """
        self._trace = trace
        self._holds, self._waits = holds, waits
        self._changed = changed
        self._timelines: dict[int, _Timeline] = {}
        self._searches: dict[Lock, _Search] = {}

    def of(self, stack: int, waits: LockWaits) -> tuple[LockHold, ...]:
        """Return who had the lock that threads waited for at one line, most time first.

        `stack` is a stack of the line. The result is () if the line does not tell which lock it takes.
        """
        search = self._search(stack) if self._trace.gils else None
        return () if search is None else self._by_line(search.follow(waits), search)

    def by_thread(self, stack: int, waits: LockWaits) -> tuple[LockHold, ...]:
        """Return as `of`, but one result for each thread that had the lock: its whole time, and what it did for longest."""
        search = self._search(stack) if self._trace.gils else None
        if search is None:
            return ()
        found_ns = search.follow(waits)
        return summed(one for key, each_ns in found_ns.items() for one in self._by_line({key: each_ns}, search))

    def at(self, stack: int, thread: int, time_ns: int) -> int | None:
        """Return the thread that has the lock at a time at which a thread waits for it, if only one can have it.

        That may be the thread itself. `stack` is where it waits. Of locks with one name, a thread that keeps one beyond the
        function that acquires it may have any: then it is not known.
        """
        frame = line_of(self._trace.stack(stack))
        search = self._search(stack)
        if search is None or frame is None or not waits_for_good(frame, self._changed):
            return None
        if search.is_kept and not search.lock.is_one:
            return None
        found = search.has(thread, time_ns)
        return None if found == thread and is_reentrant(frame, search.lock) else found

    def is_sure(self, stack: int, *owners: int) -> bool:
        """Tell whether there is only one lock of the name that a stack's line has for it, and none but it is the owners'."""
        search = self._search(stack)
        return search is not None and search.lock.is_one and all(map(search.is_sure_of, owners))

    def _search(self, stack: int) -> "_Search | None":
        """Return the search for the lock that a stack takes; None if the line does not tell which one."""
        frame = line_of(self._trace.stack(stack))
        locks = () if frame is None else locks_at(frame, self._changed)
        if len(locks) != 1:
            return None
        if locks[0] not in self._searches:
            self._searches[locks[0]] = self._search_for(locks[0])
        return self._searches[locks[0]]

    def _search_for(self, lock: Lock) -> "_Search":
        user = stacks_of(lock, self._trace, self._changed)
        uses = user.inside | user.takes
        of_holds, of_waits = self._holds.thread[uses[self._holds.stack]], self._waits.thread[uses[self._waits.stack]]
        threads = np.unique(np.concatenate([of_holds, of_waits]))
        return _Search(self, lock, user, threads, np.flatnonzero(np.isin(self._holds.thread, threads)))

    def _by_line(self, found_ns: dict[tuple[int, Doing, int], int], search: "_Search") -> tuple[LockHold, ...]:
        """Return what was found, by line; the keys are the thread, what it did, and the stack."""
        lines: dict[tuple[Doing, int], list[tuple[int, int, int]]] = defaultdict(list)
        for (thread, does, stack), blocked_ns in sorted(found_ns.items(), key=lambda item: -item[1]):
            frame = int(self._trace.stack_frame[stack])
            doing = doing_away(self._trace.stack(stack), self._changed) if does is Doing.AWAY else does
            lines[doing, frame].append((blocked_ns, thread, stack))
        result = []
        for (doing, _), ones in lines.items():
            each_ns: Counter[int] = Counter()
            for blocked_ns, thread, _ in ones:
                each_ns[thread] += blocked_ns
            threads, times_ns = zip(*each_ns.most_common(), strict=True)
            sure = all(search.is_sure_of(thread) for thread in threads)
            result.append(LockHold(threads, doing, self._trace.stack(ones[0][2]), sum(times_ns), sure, times_ns))
        return tuple(sorted(result, key=lambda one: -one.blocked_ns)[:_MOST_TOLD])

    @functools.cached_property
    def _rows(self) -> tuple[dict[int, NDArray[np.int64]], dict[int, NDArray[np.int64]]]:
        """The rows of the holds, and of the waits, of each thread."""
        return grouped(self._holds.thread), grouped(self._waits.thread)

    def timeline(self, thread: int) -> _Timeline:
        """Return the holds of a thread."""
        if thread not in self._timelines:
            holds, waits = self._holds, self._waits
            none = np.zeros(0, dtype=np.int64)
            mine, waiting = (rows.get(thread, none) for rows in self._rows)
            start_ns, end_ns = holds.start_ns[mine], holds.end_ns[mine]
            waits_ns = np.append(waits.start_ns[waiting], np.iinfo(np.int64).max)
            before_ns = np.append(np.iinfo(np.int64).min, end_ns[:-1]) if len(mine) else end_ns
            want_ns = np.minimum(waits_ns[np.searchsorted(waits_ns, before_ns)], start_ns)
            is_there = holds.forced[mine] | (end_ns - start_ns < ELSEWHERE_NS)
            self._timelines[thread] = _Timeline(start_ns, end_ns, want_ns, holds.stack[mine], is_there)
        return self._timelines[thread]

    def rows(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
        """Return the begins, ends and threads of some holds."""
        return self._holds.start_ns[rows], self._holds.end_ns[rows], self._holds.thread[rows]

    def lacks_cores(self, rows: NDArray[np.int64]) -> bool:
        """Tell whether the process has one core, or some holds were without one for much of their time."""
        holds = self._holds.chosen(rows)
        return (
            self._trace.process.core_count == 1
            or int(holds.off_core_ns.sum()) >= _BUSY * int(holds.length_ns.sum()) > 0
        )

    def interrupted(self, rows: NDArray[np.int64], inside: NDArray[np.bool_]) -> tuple[int, int]:
        """Return how many of some holds ended on request at the stacks `inside`, and how many elsewhere."""
        at = self._holds.stack[rows][self._holds.forced[rows]]
        return int(np.count_nonzero(inside[at])), int(np.count_nonzero(~inside[at]))


@final
class _Search:
    """Follows the waits for one lock."""

    def __init__(
        self, holders: Holders, lock: Lock, user: LockStacks, threads: NDArray[np.integer], rows: NDArray[np.int64]
    ) -> None:
        """Take the stacks that tell of the lock, the threads that use it, and their holds."""
        self.lock = lock
        self.is_kept = user.kept
        self._holders = holders
        self._user = user
        self._threads = threads.tolist()
        self._rows = rows
        self._start_ns, self._end_ns, self._thread = holders.rows(rows)
        self._sure: dict[int, bool] = {}
        self._having: tuple[int, frozenset[int], frozenset[int]] | None = None
        self._steps = 0
        self._weight = 1.0
        self._found_ns: dict[tuple[int, Doing, int], float] = {}

    def follow(self, waits: LockWaits) -> dict[tuple[int, Doing, int], int]:
        """Return for how long a thread did something at a stack while it had the lock, by these three."""
        self._found_ns = defaultdict(float)
        self._steps = 0
        length_ns = waits.end_ns - waits.start_ns
        followed_ns = 0.0
        for one, weight in _sample(length_ns):
            if self._steps >= _MOST_STEPS:
                break
            self._weight = weight
            followed_ns += weight * int(length_ns[one])
            thread, since_ns, until_ns = (int(column[one]) for column in waits[:3])
            last = self._waker(thread, since_ns, until_ns) if waits.woken[one] else None
            if last is None and (has := self.has(thread, until_ns)) is not None:
                # Without a waker, a signal or a time-out may have ended the wait: the lock's owner still has it then.
                last = has, until_ns
            self._follow(last, since_ns)
        # The sample is in no order, so the waits that were not followed are like those that were.
        factor = int(length_ns.sum()) / followed_ns if followed_ns else 1.0
        return {key: round(found_ns * factor) for key, found_ns in self._found_ns.items()}

    def is_sure_of(self, thread: int) -> bool:
        """Tell whether a thread that had a lock of that name had this one: no line of it may have had another one."""
        if thread not in self._sure:
            stacks = np.unique(self._holders.timeline(thread).stack)
            uses = stacks[self._user.inside[stacks] | self._user.takes[stacks]]
            self._sure[thread] = self.lock.is_one and bool(self._user.certain[uses].all())
        return self._sure[thread]

    def _follow(self, last: tuple[int, int] | None, since_ns: int) -> None:
        """Follow one wait back to its begin; `last` is the thread that had the lock at the end, and until when."""
        while last is not None and last[1] > since_ns:
            thread, until_ns = last
            got_ns = self._with_lock(thread, since_ns, until_ns)
            if got_ns >= until_ns:
                return
            last = self._waker(thread, since_ns, got_ns)

    def has(self, thread: int, time_ns: int) -> int | None:
        """Return the only thread that has the lock at a time at which a thread waits for it; None if it is not known."""
        inside, again = self._having_at(time_ns)
        found = (inside | again) - {thread} or again & {thread}
        return next(iter(found)) if len(found) == 1 else None

    def _having_at(self, time_ns: int) -> tuple[frozenset[int], frozenset[int]]:
        """Return the threads that have the lock at a time, at a line inside, and at one where they take it again.

        The last result is kept: threads that are stuck all ask for the end of the recording.
        """
        if self._having is None or self._having[0] != time_ns:
            inside, again = set[int](), set[int]()
            for other in self._threads:
                line = self._holders.timeline(other)
                at = int(np.searchsorted(line.start_ns, time_ns)) - 1
                self._steps += 1
                if at >= 0 and self._user.inside[line.stack[at]]:
                    inside.add(other)
                elif at >= 0 and self._user.again[line.stack[at]]:
                    again.add(other)
            self._having = time_ns, frozenset(inside), frozenset(again)
        return self._having[1:]

    def _waker(self, thread: int, since_ns: int, until_ns: int) -> tuple[int, int] | None:
        """Return the thread that woke another one up at a time, as far as the trace tells, and until when it had the lock.

        The waiter may get its core late: by then, the thread may have held the GIL again, without the lock.
        """
        row = int(np.searchsorted(self._start_ns, until_ns)) - 1
        likely: tuple[int, int] | None = None
        while row >= 0 and self._end_ns[row] >= until_ns - _WAKES_NS and self._end_ns[row] > since_ns:
            self._steps += 1
            other = int(self._thread[row])
            had = self._had(other, int(self._start_ns[row])) if other != thread else 0
            found = other, min(until_ns, int(self._end_ns[row]))
            if had == _FROM_INSIDE:
                return found
            if had and likely is None:  # of equal ones, the one that held the GIL last
                likely = found
            row -= 1
        return likely

    def _had(self, thread: int, start_ns: int) -> int:
        """Tell how likely a thread had the lock when it acquired the GIL: it came from a line inside, or it took it."""
        line = self._holders.timeline(thread)
        before = int(np.searchsorted(line.start_ns, start_ns)) - 1
        stack = int(line.stack[before]) if before >= 0 else 0
        return _FROM_INSIDE if self._user.inside[stack] else 1 if self._user.takes[stack] else 0

    def _with_lock(self, thread: int, since_ns: int, until_ns: int) -> int:
        """Add what a thread did before a time while it had the lock; return the time at which it got the lock.

        That is 0 if its begin is not known.
        """
        line, user = self._holders.timeline(thread), self._user
        at = int(np.searchsorted(line.start_ns, until_ns)) - 1
        if at >= 0 and user.inside[line.stack[at]]:
            self._add(thread, Doing.AWAY, int(line.stack[at]), max(since_ns, int(line.end_ns[at])), until_ns)
        while at > 0:
            self._steps += 1
            before = int(line.stack[at - 1])
            if not (user.inside[before] or user.takes[before]):
                return 0  # it got the lock later, without a wait
            # The trace has the line at which a hold ended: it tells nothing of the lock if it is outside, and nothing of a
            # long hold that no request ended.
            stack = int(line.stack[at])
            start_ns = int(line.start_ns[at])
            end_ns = min(until_ns, int(line.end_ns[at]))
            is_inside = bool(user.inside[stack])
            does = Doing.WENT_ON if not is_inside and self._wakes_late else Doing.RAN
            self._add(thread, does, stack if is_inside and line.is_there[at] else 0, max(since_ns, start_ns), end_ns)
            if start_ns <= since_ns:
                return 0
            left_ns, want_ns = int(line.end_ns[at - 1]), int(line.want_ns[at])
            self._add(thread, Doing.QUEUED, before, max(since_ns, want_ns), min(until_ns, start_ns))
            if user.takes[before]:
                return want_ns if want_ns > left_ns else 0
            self._add(thread, Doing.AWAY, before, max(since_ns, left_ns), min(until_ns, want_ns))
            if left_ns <= since_ns:
                return 0
            at -= 1
        return 0

    @functools.cached_property
    def _wakes_late(self) -> bool:
        """Whether a waiter may have woken up long after the release: it had no core, and the holder went on without the lock.

        Lines at which holds ended on request tell where these threads compute: with the lock, or without.
        """
        if not self._holders.lacks_cores(self._rows):
            return False
        inside, outside = self._holders.interrupted(self._rows, self._user.inside)
        return inside <= outside

    def _add(self, thread: int, doing: Doing, stack: int, since_ns: int, until_ns: int) -> None:
        if until_ns > since_ns:
            self._found_ns[thread, doing, stack] += (until_ns - since_ns) * self._weight


def _sample(length_ns: NDArray[np.int64]) -> list[tuple[int, float]]:
    """Return the waits to look at, by row, and for how much each of them counts, so that the sums are those of all waits."""
    total_ns = int(length_ns.sum())
    if len(length_ns) <= _MOST_WAITS or total_ns == 0:
        return [(row, 1.0) for row in _shuffled(len(length_ns))]
    part_ns = total_ns / _MOST_WAITS
    points_ns = (np.arange(_MOST_WAITS) + 0.5) * part_ns
    rows, times = np.unique(np.searchsorted(np.cumsum(length_ns), points_ns), return_counts=True)
    weights = times * part_ns / length_ns[rows]
    return [(int(rows[at]), float(weights[at])) for at in _shuffled(len(rows))]


def _shuffled(count: int) -> list[int]:
    """Return the numbers below a count in an order that is no order of time, always the same."""
    found: list[int] = np.random.default_rng(count).permutation(count).tolist()
    return found


def line_of(stack: Sequence[Frame]) -> Frame | None:
    """Return the line that takes a lock: of a condition, the one that enters it."""
    return next((one for one in stack if not is_of_threading(one)), None)
