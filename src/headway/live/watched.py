"""One watched process, and the state of the reports on its stalls."""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final

from headway.live.allowance import Allowance
from headway.live.ring import Ring
from headway.live.told import Told
from headway.live.watchers_counts import Counts, Stalls

__all__ = ["AGAIN_NS", "MANY", "RARELY_NS", "Doubt", "Watched", "counts_of"]

AGAIN_NS: Final = 2_000_000_000
"""The shortest pause between two reports of a process."""
RARELY_NS: Final = 60_000_000_000
"""The longest pause, if reports find nothing; a third of it if reports are many."""
MANY: Final = 20
"""The number of reports that are remembered: so many in ten minutes are many."""
_GATHER_NS: Final = 200_000_000
"""The time from the end of a stall to its report: more stalls may follow."""
_GOES_ON_NS: Final = 300_000_000
"""The time by which a stall in progress must exceed its limit to be reported."""
_SOON_NS: Final = 500_000_000
"""The shortest pause before the report of a stall in progress."""


@final
@dataclass
class Doubt:
    """A possible stall as the reason of a report. The more such reports find nothing, the later is the next one."""

    seen_ns: int = 0
    """When a possible stall was first seen that is in no report; 0: there is none."""
    not_before_ns: int = 0
    pause_ns: int = AGAIN_NS
    was_reason: bool = False
    """Whether such a stall was among the reasons of the last report."""

    def see(self, now_ns: int) -> None:
        """Note that something may have stalled."""
        self.seen_ns = self.seen_ns or now_ns

    def is_due(self, now_ns: int, gather_ns: int) -> bool:
        """Tell whether it is the reason of a report now, so long after it was seen."""
        return self.seen_ns > 0 and now_ns >= max(self.seen_ns + gather_ns, self.not_before_ns)

    def begin(self, now_ns: int) -> None:
        """Note that a report begins."""
        self.was_reason, self.seen_ns = self.seen_ns > 0, 0
        if self.was_reason:
            self.not_before_ns = now_ns + self.pause_ns

    def learn(self, *, found: bool, not_before_ns: int) -> None:
        """Note whether the report has found a stall; `not_before_ns` is the time of the next one then.

        The pause after a report may have been that of a process without stalls, up to a minute: by then the ring may have
        lost the end of a stall that goes on.
        """
        if found:
            self.pause_ns, self.not_before_ns = AGAIN_NS, min(self.not_before_ns, not_before_ns)
        elif self.was_reason:
            self.pause_ns = min(RARELY_NS, 2 * self.pause_ns)


@final
@dataclass
class Watched:
    """A ring, and the state of the stalls in it."""

    ring: Ring
    copied_ns: int = 0
    reported_ns: int = 0
    over_ns: int = 0
    """When an unreported stall of a loop was over; 0: there is none."""
    open_ns: int = 0
    """When a stall in progress was first seen; 0: there is none."""
    is_told: bool = False
    """Whether the stall in progress is reported."""
    waits: Doubt = field(default_factory=Doubt)
    """Long waits for the GIL; those of CPU-bound threads are no stalls."""
    jobs: Doubt = field(default_factory=Doubt)
    """Late laps of a pool's threads; those that are in no request are no stalls."""
    not_before_ns: int = 0
    pause_ns: int = AGAIN_NS
    asked: bool = False
    """Whether a recording is requested, stall or not."""
    is_left: bool = False
    """Whether a stall waits for the next report, and is no reason for one: see live.allowance."""
    told: Told = field(default_factory=Told)
    grown_ns: int = 0
    """When a stall that goes on is to be reported again; 0: none is."""
    told_ns: deque[int] = field(default_factory=lambda: deque(maxlen=MANY))
    since_ns: int = field(default_factory=time.monotonic_ns)
    """When the watch of this process began."""
    lost_children: int = 0
    """The number of its children that are known not to be watched."""
    stalls: Stalls = field(default_factory=dict)
    """The stalls of this process that are over."""

    @property
    def doubts(self) -> tuple[Doubt, Doubt]:
        """The possible stalls of each kind."""
        return self.waits, self.jobs

    @property
    def seen_ns(self) -> tuple[int, ...]:
        """When the stalls and the possible stalls were seen that are in no report."""
        return tuple(seen_ns for seen_ns in (self.over_ns, *(one.seen_ns for one in self.doubts)) if seen_ns)

    @property
    def is_cut_off(self) -> bool:
        """Whether the process was killed in something that had taken too long already."""
        if not self.ring.gone or self.ring.finished:
            return False
        return self.ring.laps.open_loops + self.ring.laps.open_pools > 0

    @property
    def has_more(self) -> bool:
        """Whether there may be more to tell of the process than its reports up to now have told."""
        return bool(self.seen_ns) or self.is_left or self.told.has_unended or self.is_cut_off

    def is_due(self, now_ns: int, allowance: Allowance) -> bool:
        """Tell whether a report that nobody has asked for is to be made now."""
        sure = self.over_ns and now_ns - self.over_ns >= _GATHER_NS
        goes_on = self.open_ns and now_ns - self.open_ns >= _GOES_ON_NS and not self.is_told
        doubtful = any(doubt.is_due(now_ns, _GATHER_NS) for doubt in self.doubts)
        has_grown = self.grown_ns and now_ns >= self.grown_ns
        if now_ns >= self.not_before_ns and (sure or doubtful or has_grown) and allowance.allows(now_ns):
            return True
        soon_ns = self.not_before_ns - self.pause_ns + _SOON_NS * self.pause_ns // AGAIN_NS
        return bool(goes_on) and now_ns >= soon_ns and allowance.allows(now_ns, goes_on=True)

    def copy(self, now_ns: int, *, hurry: bool = False) -> None:
        """Copy new events, and note which stalls they end and begin."""
        before = self.ring.laps
        self.ring.copy(now_ns, hurry=hurry)
        after = self.ring.laps
        if after.late_loops != before.late_loops:
            self.over_ns = self.over_ns or now_ns
        if after.late_pools != before.late_pools or after.open_pools > before.open_pools:
            self.jobs.see(now_ns)
        more = after.open_loops > before.open_loops
        self.open_ns = (now_ns if more else self.open_ns or now_ns) if after.open_loops else 0
        self.is_told = self.is_told and after.open_loops > 0 and not more


def counts_of(watched: Iterable[Watched], pid: int) -> bytes:
    """Return the counts of a process that asks for its own; b"": it is not watched, or its stalls cannot be told."""
    for one in watched:
        if one.ring.pid == pid and one.ring.tells and not one.ring.gone:
            return Counts(one.since_ns, one.ring.laps.lengths, one.ring.laps.lengths_ns, one.stalls).to_json()
    return b""
