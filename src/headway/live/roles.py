"""What the threads of a process have done with its GILs, added up by role: for metrics.

A role is a thread's name without its number, so that a pool of any size is one series. Totals never go back, though
threads end: each reading adds what every thread has done since the one before. Missing is what a thread did between the
last reading and its end, where another thread has taken its place in the counters since (places of threads that ended
are taken first).

Without numpy: the watcher adds up, too.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headway.live.slots import BUCKETS, ThreadCounters

__all__ = [
    "BOUNDS_S",
    "HANDOFFS",
    "HISTOGRAMS",
    "MAX_ROLES",
    "OTHER",
    "REASONS",
    "RoleTotals",
    "Roles",
    "cumulative",
    "normalised",
]

OTHER: Final = "other"
"""The role of threads whose own would be one too many."""
MAX_ROLES: Final = 20

HISTOGRAMS: Final = {
    "wait": "Single waits for the GIL that ended.",
    "hold": "Single holds of the GIL that ended.",
}
"""What there is a histogram of, in all kinds of metrics, and how it is described: see `RoleTotals.lengths`."""
REASONS: Final = ("voluntary", "forced")
"""Of a release; RoleTotals counts each."""
HANDOFFS: Final = "Releases of the GIL: voluntary, or forced on another thread's request."

_POWERS: Final = range(10, 35, 2)
BOUNDS_S: Final = tuple(2**power / 1e9 for power in _POWERS)
"""Of the histograms, in seconds: 1 us to 17 s, by powers of four. A hold of seconds is what one looks for."""
_BUCKET_MASK: Final = 0xFFFFFFFF  # buckets are 32-bit counters, which wrap around
_SUMS: Final = ("hold_ns", "wait_ns", "voluntary", "forced", "ended_hold_ns", "ended_wait_ns")


def normalised(name: str) -> str:
    """Return the role that a thread's name stands for: the name without what numbers the thread.

    `ThreadPoolExecutor-0_3` is `ThreadPoolExecutor-0`, `Thread-7 (worker)` is `worker`, `asyncio_4` is `asyncio`,
    `Dummy-3` is `Dummy`, `worker-12` is `worker`; other names stay.
    """
    target = re.fullmatch(r"Thread-\d+ \((.+)\)", name)
    if target:
        return target[1]
    pooled = re.fullmatch(r"(.+?)_\d+", name)
    if pooled:
        return pooled[1]
    numbered = re.fullmatch(r"(.+?)[- #]?\d+", name)
    return numbered[1] if numbered else name


@dataclass
class RoleTotals:
    """What all threads of one role have done with one GIL; nothing of it ever goes down."""

    hold_ns: int = 0
    """With the holds in progress."""
    wait_ns: int = 0
    """With the waits in progress."""
    voluntary: int = 0
    """Releases that nobody had asked for."""
    forced: int = 0
    ended_hold_ns: int = 0
    """Of the holds in `hold_buckets`."""
    ended_wait_ns: int = 0
    """Of the waits in `wait_buckets`."""
    hold_buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    wait_buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def lengths(self, which: str) -> tuple[list[int], float]:
        """Return one of HISTOGRAMS: [i] counts lengths with bit length i in ns, and the sum of all in s."""
        if which == "wait":
            return self.wait_buckets, self.ended_wait_ns / 1e9
        return self.hold_buckets, self.ended_hold_ns / 1e9

    def copy(self) -> "RoleTotals":
        """Return the same, which does not change."""
        return replace(self, hold_buckets=self.hold_buckets.copy(), wait_buckets=self.wait_buckets.copy())

    def add(self, other: "RoleTotals") -> None:
        """Add what others have done."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, more in ((self.hold_buckets, other.hold_buckets), (self.wait_buckets, other.wait_buckets)):
            mine[:] = [a + b for a, b in zip(mine, more, strict=True)]


def _of(thread: ThreadCounters) -> dict[str, int]:
    releases = thread.holds - (thread.state == "holding")
    return {
        "hold_ns": thread.hold_ns,
        "wait_ns": thread.wait_ns,
        "voluntary": releases - thread.forced,
        "forced": thread.forced,
        "ended_hold_ns": thread.hold_ns - (thread.state_ns if thread.state == "holding" else 0),
        "ended_wait_ns": thread.wait_ns - (thread.state_ns if thread.state == "waiting" else 0),
    }


@dataclass
class _Seen:
    """The most that was ever seen of one thread's counters."""

    sums: dict[str, int] = field(default_factory=dict)
    hold_buckets: Sequence[int] = (0,) * BUCKETS
    wait_buckets: Sequence[int] = (0,) * BUCKETS


class Roles:
    """Adds up the counters of one process."""

    def __init__(self, role: Callable[[str], str] = normalised, max_roles: int = MAX_ROLES) -> None:
        """Begin with nothing.

        Args:
            role: Gives a thread's role by its name.
            max_roles: How many there may be at most, the last of which is `other`.
        """
        self._role = role
        self._max_roles = max_roles
        self._recording = -1
        self._seen: dict[int, _Seen] = {}
        self._names: set[str] = set()
        self.totals: dict[tuple[int, str], RoleTotals] = {}
        """By the GIL's index (0 is the main interpreter's) and role."""

    def add(self, recording: int, threads: Iterable[ThreadCounters]) -> None:
        """Add what each thread has done since the last time.

        Args:
            recording: Which recording these are of: in another one, threads have other serials.
            threads: All that there are, those that ended too.
        """
        if recording != self._recording:
            self._recording = recording
            self._seen = {}
        serials = set()
        for thread in threads:
            serials.add(thread.serial)
            self._add(thread)
        self._seen = {serial: seen for serial, seen in self._seen.items() if serial in serials}

    def _add(self, thread: ThreadCounters) -> None:
        seen = self._seen.setdefault(thread.serial, _Seen())
        totals = self._totals_of(thread)
        for name, value in _of(thread).items():
            more = value - seen.sums.get(name, 0)
            if more > 0:
                setattr(totals, name, getattr(totals, name) + more)
                seen.sums[name] = value
        for sums, old, new in (
            (totals.hold_buckets, seen.hold_buckets, thread.hold_buckets),
            (totals.wait_buckets, seen.wait_buckets, thread.wait_buckets),
        ):
            if new != old:  # most threads of a large pool have done nothing
                sums[:] = [count + ((b - a) & _BUCKET_MASK) for count, a, b in zip(sums, old, new, strict=True)]
        seen.hold_buckets, seen.wait_buckets = thread.hold_buckets, thread.wait_buckets

    def _totals_of(self, thread: ThreadCounters) -> RoleTotals:
        role = self._role(thread.name)
        if role not in self._names and len(self._names) >= self._max_roles - (OTHER not in self._names):
            role = OTHER
        self._names.add(role)
        return self.totals.setdefault((thread.gil, role), RoleTotals())


def cumulative(buckets: Sequence[int]) -> list[tuple[float, int]]:
    """Return how many were below each of BOUNDS_S; a bucket's lengths are below its bound, not at it."""
    below = list(itertools.accumulate(buckets))
    return [(bound, below[power]) for power, bound in zip(_POWERS, BOUNDS_S, strict=True)]
