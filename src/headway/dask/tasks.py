"""Adds up, by key prefix, how long a worker's tasks hold the GIL and wait for it, each measured in its own thread."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, final

from headway.live.recording import gil_longest, gil_times

__all__ = ["OTHER", "TaskTimes"]

_R = TypeVar("_R")

OTHER: Final = "other"
"""The prefix of tasks whose own prefix would exceed _MOST_PREFIXES."""
_MOST_PREFIXES: Final = 200


@final
@dataclass
class _Sums:
    count: int = 0
    run_ns: int = 0
    hold_ns: int = 0
    wait_ns: int = 0
    longest_hold_ns: int = 0
    longest_wait_ns: int = 0


@final
class TaskTimes:
    """The sums of one worker's tasks. The worker's threads add to them."""

    def __init__(self) -> None:
        """Begin without sums."""
        self._lock = threading.Lock()  # protects _sums
        self._sums: dict[str, _Sums] = {}

    def measured(self, prefix: str, task: Callable[[], _R]) -> _R:
        """Run a task in this thread, and add its times, also if it fails.

        Args:
            prefix: The prefix of the task's key: `dask.utils.key_split`.
            task: The task's function.
        """
        begun_ns, before = time.perf_counter_ns(), gil_times()
        gil_longest()  # discards the longest times of earlier tasks
        try:
            return task()
        finally:
            longest, after = gil_longest(), gil_times()
            run_ns = time.perf_counter_ns() - begun_ns
            with self._lock:
                if prefix not in self._sums and len(self._sums) >= _MOST_PREFIXES:
                    prefix = OTHER
                sums = self._sums.setdefault(prefix, _Sums())
                sums.count += 1
                sums.run_ns += run_ns
                # A negative difference means that another recording, with its own counters, has begun meanwhile.
                sums.hold_ns += max(0, after.held_ns - before.held_ns)
                sums.wait_ns += max(0, after.waited_ns - before.waited_ns)
                sums.longest_hold_ns = max(sums.longest_hold_ns, longest.held_ns)
                sums.longest_wait_ns = max(sums.longest_wait_ns, longest.waited_ns)

    def told(self, most: int) -> dict[str, dict[str, float]]:
        """Return the sums in s of the `most` prefixes that held the GIL longest."""
        with self._lock:
            first = sorted(self._sums.items(), key=lambda item: -item[1].hold_ns)[:most]
            return {
                prefix: {
                    "count": one.count,
                    "run_s": one.run_ns / 1e9,
                    "hold_s": one.hold_ns / 1e9,
                    "wait_s": one.wait_ns / 1e9,
                    "longest_hold_s": one.longest_hold_ns / 1e9,
                    "longest_wait_s": one.longest_wait_ns / 1e9,
                }
                for prefix, one in first
            }
