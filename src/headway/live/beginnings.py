"""When the threads of a process began, as the kernel knows it; a recorder sees a thread at its first event only."""

import contextlib
import os
import time
from collections.abc import Collection

from headway.live.proc import BEGIN_TICKS, stat
from headway.live.thread_ids import ThreadIds

__all__ = ["UNKNOWN", "beginnings"]

UNKNOWN = 0
"""The beginning of a thread of which the kernel tells none: the process has no such thread any more."""
_S_NS = 1_000_000_000
_READS = 10
_CLOSE_NS = 1_000_000


def beginnings(pid: int, tids: Collection[int], ids: ThreadIds) -> dict[int, int]:
    """Return when threads of a process began: the latest time (CLOCK_MONOTONIC, ns) that is possible, or UNKNOWN.

    Args:
        pid: The process's id.
        tids: The threads' native ids, as the process has them.
        ids: The ids of the process's threads.
    """
    found = dict.fromkeys(tids, UNKNOWN)
    if not found:
        return found
    tick_ns = _S_NS // os.sysconf("SC_CLK_TCK")
    asleep_ns = _asleep_ns()
    now_ns = time.monotonic_ns()
    for tid in found:
        with contextlib.suppress(OSError):
            fields = stat(f"{pid}/task/{ids.ours(tid, now_ns)}")
            found[tid] = (int(fields[BEGIN_TICKS]) + 1) * tick_ns - asleep_ns
    return found


def _asleep_ns() -> int:
    """Return by how much CLOCK_BOOTTIME, of which /proc tells times, is ahead of CLOCK_MONOTONIC; never too much."""
    found = 0
    for _ in range(_READS):
        before_ns = time.monotonic_ns()
        found = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        if time.monotonic_ns() - before_ns < _CLOSE_NS:  # else something ran between the two readings
            break
    return found
