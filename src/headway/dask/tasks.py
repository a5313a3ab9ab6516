"""Adds up, by key prefix, how long a worker's tasks hold the GIL and wait for it, each measured in its own thread."""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, final

from headway.errors import HeadwayError
from headway.live.recording import gil_longest, gil_times

__all__ = ["OTHER", "TaskTimes"]

_R = TypeVar("_R")

OTHER: Final = "other"
"""The prefix of the sums of tasks that have none of their own."""
_MOST_PREFIXES: Final = 400
"""The number of prefixes, `OTHER` not counted, that have sums of their own. At one more, the lower half goes to `OTHER`."""


@final
@dataclass
class _Sums:
    count: int = 0
    run_ns: int = 0
    hold_ns: int = 0
    wait_ns: int = 0
    longest_hold_ns: int = 0
    longest_wait_ns: int = 0

    def add(self, other: "_Sums") -> None:
        """Add the sums of other tasks."""
        self.count += other.count
        self.run_ns += other.run_ns
        self.hold_ns += other.hold_ns
        self.wait_ns += other.wait_ns
        self.longest_hold_ns = max(self.longest_hold_ns, other.longest_hold_ns)
        self.longest_wait_ns = max(self.longest_wait_ns, other.longest_wait_ns)


def _by_rank(sums: dict[str, _Sums]) -> list[str]:
    """Return the prefixes but `OTHER`, first those that kept the GIL longest: in all, or in one hold.

    A rare task with one long hold starves a loop; those with most of the time slow down all. Both must keep their names.
    """
    most_ns = max((one.hold_ns for one in sums.values()), default=0) or 1
    longest_ns = max((one.longest_hold_ns for one in sums.values()), default=0) or 1

    def rank(prefix: str) -> float:
        one = sums[prefix]
        return max(one.hold_ns / most_ns, one.longest_hold_ns / longest_ns)

    return sorted((prefix for prefix in sums if prefix != OTHER), key=rank, reverse=True)


@final
class TaskTimes:
    """The sums of one worker's tasks. The worker's threads add to them."""

    def __init__(self) -> None:
        """Begin without sums."""
        self._lock = threading.Lock()  # protects _sums
        self._sums: dict[str, _Sums] = {}

    def measured(self, prefix: str, task: Callable[[], _R]) -> _R:
        """Run a task in this thread, and add its times, also if it fails.

        Without times, as where the recorder cannot start for lack of memory, the task runs all the same.

        Args:
            prefix: The prefix of the task's key: `dask.utils.key_split`.
            task: The task's function.
        """
        begun_ns = time.perf_counter_ns()
        try:
            before = gil_times()
        except HeadwayError:
            return task()
        gil_longest()  # discards the longest times of earlier tasks
        try:
            return task()
        finally:
            with contextlib.suppress(HeadwayError):
                longest, after = gil_longest(), gil_times()
                run_ns = time.perf_counter_ns() - begun_ns
                # A negative difference means that another recording, with its own counters, has begun meanwhile.
                held_ns, waited_ns = max(0, after.held_ns - before.held_ns), max(0, after.waited_ns - before.waited_ns)
                self._add(prefix, _Sums(1, run_ns, held_ns, waited_ns, longest.held_ns, longest.waited_ns))

    def _add(self, prefix: str, sums: _Sums) -> None:
        with self._lock:
            self._sums.setdefault(prefix, _Sums()).add(sums)
            if len(self._sums) - (OTHER in self._sums) > _MOST_PREFIXES:
                for least in _by_rank(self._sums)[_MOST_PREFIXES // 2 :]:
                    self._sums.setdefault(OTHER, _Sums()).add(self._sums.pop(least))

    def told(self, most: int) -> dict[str, dict[str, float]]:
        """Return the sums in s of at most `most` prefixes, those first that held the GIL longest in all.

        If there are more, those with the least and shortest holds are in the sums of `OTHER`.
        """
        with self._lock:
            ranked = _by_rank(self._sums)
            kept = ranked if len(self._sums) <= most else ranked[: most - 1]
            found = {prefix: self._sums[prefix] for prefix in kept}
            rest = _Sums()
            for prefix, one in self._sums.items():
                if prefix not in found:
                    rest.add(one)
            if rest.count:
                found[OTHER] = rest
            return {
                prefix: {
                    "count": one.count,
                    "run_s": one.run_ns / 1e9,
                    "hold_s": one.hold_ns / 1e9,
                    "wait_s": one.wait_ns / 1e9,
                    "longest_hold_s": one.longest_hold_ns / 1e9,
                    "longest_wait_s": one.longest_wait_ns / 1e9,
                }
                for prefix, one in sorted(found.items(), key=lambda item: -item[1].hold_ns)
            }
