"""The part of a service's CPU quota that analyses may take, so that they do not make the stalls that they report.

An analysis runs in the service's cgroup. Under a small quota, the whole service is throttled while the analysis runs, and
is late for lack of a core. A report of that would be the next analysis. Under a quota, therefore:

- Analyses take a twentieth of the quota: the more CPU time one has taken, the later is the next one.
- There is one at a time, over all processes that the watcher watches.
- Stalls beside an analysis that had no core itself for most of its time may be its own. They are reported once, because
  others may be among them. Those beside that second analysis wait for the next report that has another reason.

After an analysis for which there was too little memory, there is none for a minute, with or without a quota.

Recordings on request and the last ones of a process that has ended are always allowed. Without a quota all are.
"""

import math
from collections.abc import Callable
from typing import Final, final

from headway.host.quota import quota_cores

__all__ = ["Allowance"]

_SHARE: Final = 20
_MOST_NS: Final = 60_000_000_000
"""The longest pause from the begin of an analysis to the next one."""
_SOON: Final = 4
"""The part (1 / _SOON) of the pause after which a stall in progress is reported."""
_SETTLED_NS: Final = 300_000_000
"""The time from the end of an analysis until its last effects are seen: throttling ends with its period, often 0.1 s."""
_LEAST_CORES: Final = 0.001


@final
class Allowance:
    """The times at which a watcher may begin an analysis that nobody has asked for. All times are the caller's."""

    def __init__(self, quota: Callable[[], float] = quota_cores) -> None:
        """Take the function that tells the quota in cores; it is called for each analysis, as a quota may change."""
        self._quota = quota
        self._cores = math.inf
        self._running = 0
        self._began_ns = 0
        self._pause_ns = 0
        self._beside = range(0)
        """When stalls were seen that may be those of the last analysis that had no core."""
        self._was_second = False
        self._barred_until_ns = 0

    def bar(self, now_ns: int) -> None:
        """Allow no analysis for the longest pause: there is too little memory for one."""
        self._barred_until_ns = now_ns + _MOST_NS

    def begin(self, now_ns: int) -> None:
        """Note that an analysis begins."""
        self._cores = max(_LEAST_CORES, self._quota())
        self._running += 1
        self._began_ns = now_ns

    def end(self, began_ns: int, now_ns: int, *, cpu_ns: int, waited_ns: int, is_second: bool) -> None:
        """Note that an analysis has ended.

        Args:
            began_ns: When it began.
            now_ns: When it ended.
            cpu_ns: The CPU time that it has taken.
            waited_ns: The time for which it had no core.
            is_second: Its only reason were stalls beside another analysis.
        """
        self._running -= 1
        self._pause_ns = 0 if math.isinf(self._cores) else min(_MOST_NS, round(_SHARE * cpu_ns / self._cores))
        if self._pause_ns and waited_ns > cpu_ns:
            self._beside = range(began_ns, now_ns + _SETTLED_NS)
            self._was_second = is_second

    def allows(self, now_ns: int, *, goes_on: bool = False) -> bool:
        """Tell whether an analysis may begin now; `goes_on`: because of a stall in progress."""
        if now_ns < self._barred_until_ns:
            return False
        if math.isinf(self._cores):
            return True
        pause_ns = self._pause_ns // _SOON if goes_on else self._pause_ns
        return not self._running and now_ns >= max(self._beside.stop, self._began_ns + pause_ns)

    def is_beside(self, seen_ns: int) -> bool:
        """Tell whether a stall that was seen then may be that of the last analysis."""
        return seen_ns in self._beside

    def leaves(self, seen_ns: int, now_ns: int) -> bool:
        """Tell whether a stall that was seen then is no reason for an analysis: it may be that of a second one."""
        return self._was_second and now_ns >= self._beside.stop and self.is_beside(seen_ns)
