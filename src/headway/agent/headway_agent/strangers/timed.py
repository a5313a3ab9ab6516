"""Times calls of a user's function, and tells their waits for a core from the rest.

On a busy machine a call also waits for a core, which is no waiting of the function's own.
"""

import os
import time
from collections import namedtuple

from .. import proc

__all__ = ["Clock", "Took", "by_others", "computing", "cores"]

_TOLD_S = 1e-4
"""The least time of a call that tells of several cores: reading the clocks takes a microsecond, of which CPU time has more."""


class Took(namedtuple("Took", ("wall_s", "cpu_s", "queued_s", "others_s"), defaults=(0.0,))):
    """The times of a call: its length, the CPU time of all threads, the caller's wait for a core, and the others' CPU time."""

    __slots__ = ()

    @property
    def own_s(self):
        """The time without waits for a core; the account of these begins a little before the call."""
        return max(self.wall_s - self.queued_s, self.cpu_s / os.cpu_count(), 1e-9)


class Clock:
    """The clocks of a call, which begins when this object is made."""

    def __init__(self):
        self._queued_ns = proc.queued_ns()
        self._own_ns, self._cpu_ns = time.thread_time_ns(), time.process_time_ns()
        self._begun_ns = time.perf_counter_ns()

    def took(self):
        """Return the times until now."""
        wall_ns = time.perf_counter_ns() - self._begun_ns
        cpu_ns = time.process_time_ns() - self._cpu_ns
        others_ns = max(0, cpu_ns - (time.thread_time_ns() - self._own_ns))
        return Took(wall_ns / 1e9, cpu_ns / 1e9, (proc.queued_ns() - self._queued_ns) / 1e9, others_ns / 1e9)


def computing(times):
    """Return the share of the calls' own time in which the process computes."""
    return min(1.0, sum(one.cpu_s for one in times) / sum(one.own_s for one in times))


def cores(times):
    """Return the number of cores that the calls keep busy; no more than 1 if they are too short to tell of several."""
    wall_s = max(sum(one.wall_s for one in times), 1e-9)
    busy = sum(one.cpu_s for one in times) / wall_s
    return busy if wall_s / len(times) >= _TOLD_S else min(1.0, busy)


def by_others(times):
    """Return the share of the calls' computing that threads other than the caller's do; 0 if the calls are too short.

    Other than `cores`, it does not depend on how many cores there were: threads that take turns on one compute, too.
    """
    cpu_s = sum(one.cpu_s for one in times)
    if cpu_s / len(times) < _TOLD_S:
        return 0.0
    return min(1.0, sum(one.others_s for one in times) / cpu_s)
