"""One watched process, and the state of the reports on its stalls."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, final

from headway.live.ring import Ring
from headway.live.told import Told

__all__ = ["AGAIN_NS", "MANY", "Watched"]

AGAIN_NS: Final = 2_000_000_000
"""The shortest pause between two reports of a process."""
MANY: Final = 20
"""The number of reports that are remembered: so many in ten minutes are many."""


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
    doubtful_ns: int = 0
    """When a possible stall was seen; waits of CPU-bound threads and jobs of a pool's threads are none."""
    not_before_ns: int = 0
    doubtful_not_before_ns: int = 0
    doubtful_pause_ns: int = AGAIN_NS
    pause_ns: int = AGAIN_NS
    asked: bool = False
    """Whether a recording is requested, stall or not."""
    is_left: bool = False
    """Whether a stall waits for the next report, and is no reason for one: see live.allowance."""
    told: Told = field(default_factory=Told)
    grown_ns: int = 0
    """When a stall that goes on is to be reported again; 0: none is."""
    told_ns: deque[int] = field(default_factory=lambda: deque(maxlen=MANY))

    @property
    def is_cut_off(self) -> bool:
        """Whether the process was killed in something that had taken too long already."""
        if not self.ring.gone or self.ring.finished:
            return False
        return self.ring.laps.open_loops + self.ring.laps.open_pools > 0

    def copy(self, now_ns: int, *, hurry: bool = False) -> None:
        """Copy new events, and note which stalls they end and begin."""
        before = self.ring.laps
        self.ring.copy(now_ns, hurry=hurry)
        after = self.ring.laps
        if after.late_loops != before.late_loops:
            self.over_ns = self.over_ns or now_ns
        if after.late_pools != before.late_pools or after.open_pools > before.open_pools:
            self.doubtful_ns = self.doubtful_ns or now_ns
        more = after.open_loops > before.open_loops
        self.open_ns = (now_ns if more else self.open_ns or now_ns) if after.open_loops else 0
        self.is_told = self.is_told and after.open_loops > 0 and not more
