"""Adds up, by role, how the threads of a process have used its GILs: for metrics.

A role is a thread's name without its number, so that a pool of any size is one series. Totals never decrease, though
threads end: each reading adds what every thread has done since the reading before. The time between the last reading
and a thread's end is missing if another thread has reused its slot since (slots of threads that ended are reused
first).

Needs no numpy, because the watcher adds up roles, too.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headway.live.slots import BUCKETS, WORLD_BUCKETS, ThreadCounters

__all__ = [
    "BOUNDS_S",
    "HANDOFFS",
    "HISTOGRAMS",
    "MAX_ROLES",
    "OTHER",
    "REASONS",
    "TIMES",
    "Histogram",
    "RoleTotals",
    "Roles",
    "Series",
    "Time",
    "cumulative",
    "normalised",
    "series",
]

OTHER: Final = "other"
"""The role of threads whose own role would exceed the limit."""
MAX_ROLES: Final = 20


class Histogram(NamedTuple):
    """A histogram of all kinds of metrics."""

    which: str
    """Its buckets are `RoleTotals.{which}_buckets`."""
    name: str
    """OpenTelemetry's name of it."""
    what: str

    @property
    def prometheus_name(self) -> str:
        """Prometheus' name of it."""
        return f"{self.name.replace('.', '_')}_seconds"


HISTOGRAMS: Final = (
    Histogram("wait", "cpython.gil.wait.duration", "Single waits for the GIL that ended; without a GIL, for locks."),
    Histogram("hold", "cpython.gil.hold.duration", "Single holds of the GIL that ended; without a GIL there are none."),
    Histogram(
        "world",
        "cpython.stop_the_world.duration",
        "Single waits of a thread that a free-threaded interpreter had stopped, or that waited for others to stop.",
    ),
)


class Time(NamedTuple):
    """A counter of seconds of all kinds of metrics, in which a hold or a wait counts while it goes on."""

    which: str
    """It is `RoleTotals.{which}_ns`."""
    name: str
    """OpenTelemetry's name of it."""
    what: str

    @property
    def prometheus_name(self) -> str:
        """Prometheus' name of it."""
        return f"{self.name.replace('.', '_')}_seconds_total"

    def of(self, totals: "RoleTotals") -> float:
        """Return a role's time in seconds."""
        return float(getattr(totals, f"{self.which}_ns") / 1e9)


TIMES: Final = (
    Time("hold", "cpython.gil.hold.time", "Time of holds of the GIL, also of those in progress; without a GIL 0."),
    Time(
        "wait",
        "cpython.gil.wait.time",
        "Time of waits for the GIL, without a GIL for locks, also of those in progress.",
    ),
)
REASONS: Final = ("voluntary", "forced")
"""The reasons of a release; RoleTotals counts each."""
HANDOFFS: Final = "Releases of the GIL: voluntary, or forced on another thread's request."

_POWERS: Final = range(10, 35, 2)
BOUNDS_S: Final = tuple(2**power / 1e9 for power in _POWERS)
"""The histograms' bounds in seconds: 1 us to 17 s, by powers of four, because holds of seconds are of most interest."""
_BUCKET_MASK: Final = 0xFFFFFFFF  # buckets are 32-bit counters, which wrap around
_BACK: Final = 1 << 31
"""A difference from which on a bucket has gone back: its slot was read while another thread took it over."""
_SUMS: Final = ("hold_ns", "wait_ns", "voluntary", "forced", "ended_hold_ns", "ended_wait_ns", "world_ns")
_BUCKETS: Final = tuple(f"{one.which}_buckets" for one in HISTOGRAMS)


def normalised(name: str) -> str:
    """Return the role of a thread's name: the name without the thread's number.

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
    """The totals of all threads of one role at one GIL; none of them ever decreases."""

    hold_ns: int = 0
    """The time of all holds, including those in progress."""
    wait_ns: int = 0
    """The time of all waits, including those in progress."""
    voluntary: int = 0
    """The number of releases without a request."""
    forced: int = 0
    ended_hold_ns: int = 0
    """The total time of the holds in `hold_buckets`."""
    ended_wait_ns: int = 0
    """The total time of the waits in `wait_buckets`."""
    hold_buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    wait_buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    world_ns: int = 0
    """The total time of the waits for stop-the-world in `world_buckets`."""
    world_buckets: list[int] = field(default_factory=lambda: [0] * WORLD_BUCKETS)

    def copy(self) -> "RoleTotals":
        """Return an independent copy."""
        found = RoleTotals()
        found.add(self)
        return found

    def add(self, other: "RoleTotals") -> None:
        """Add another role's totals."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _BUCKETS:
            setattr(self, name, [a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True)])


def _of(thread: ThreadCounters) -> dict[str, int]:
    releases = thread.holds - (thread.state == "holding")
    return {
        "hold_ns": thread.hold_ns,
        "wait_ns": thread.wait_ns,
        "voluntary": releases - thread.forced,
        "forced": thread.forced,
        "ended_hold_ns": thread.hold_ns - (thread.state_ns if thread.state == "holding" else 0),
        "ended_wait_ns": thread.wait_ns - (thread.state_ns if thread.state == "waiting" else 0),
        "world_ns": thread.world_ns,
    }


@dataclass
class _Seen:
    """The highest counters of one thread that were ever read."""

    sums: dict[str, int] = field(default_factory=dict)
    buckets: dict[str, Sequence[int]] = field(default_factory=dict)


class Roles:
    """Adds up the counters of one process by role."""

    def __init__(self, role: Callable[[str], str] = normalised, max_roles: int = MAX_ROLES) -> None:
        """Begin with empty totals.

        Args:
            role: Maps a thread's name to its role.
            max_roles: The largest number of roles, including `other`.
        """
        self._role = role
        self._max_roles = max_roles
        self._recording = -1
        self._seen: dict[int, _Seen] = {}
        self._present: set[int] = set()
        """The serials of the last reading."""
        self._names: set[str] = set()
        self.totals: dict[tuple[int, str], RoleTotals] = {}
        """Totals by the GIL's index (0 is the main interpreter's) and role."""

    def add(self, recording: int, threads: Iterable[ThreadCounters]) -> None:
        """Add what each thread has done since the last call.

        Args:
            recording: Identifies the recording: in another one, threads have other serials.
            threads: All threads, including those that have ended.
        """
        if recording != self._recording:
            self._recording = recording
            self._seen = {}
        serials = set()
        for thread in threads:
            serials.add(thread.serial)
            self._add(thread)
        # A reading lacks a thread whose slot changed each time that it was read, as at the end of the thread.
        kept = serials | self._present
        self._seen = {serial: seen for serial, seen in self._seen.items() if serial in kept}
        self._present = serials

    def begin_in_child(self) -> None:
        """Keep the totals in a forked child, whose threads and recording are others."""
        self._recording = -1
        self._seen = {}

    def _add(self, thread: ThreadCounters) -> None:
        seen = self._seen.setdefault(thread.serial, _Seen())
        totals = self._totals_of(thread)
        for name, value in _of(thread).items():
            more = value - seen.sums.get(name, 0)
            if more > 0:
                setattr(totals, name, getattr(totals, name) + more)
                seen.sums[name] = value
        for name in _BUCKETS:
            sums, new = getattr(totals, name), getattr(thread, name)
            old = seen.buckets.get(name)
            if old is None:
                sums[:] = [count + b for count, b in zip(sums, new, strict=True)]
            elif new != old:  # most threads of a large pool have not changed
                rises = [(b - a) & _BUCKET_MASK for a, b in zip(old, new, strict=True)]
                sums[:] = [count + (rise if rise < _BACK else 0) for count, rise in zip(sums, rises, strict=True)]
            seen.buckets[name] = new

    def _totals_of(self, thread: ThreadCounters) -> RoleTotals:
        role = self._role(thread.name)
        if role not in self._names and len(self._names) >= self._max_roles - (OTHER not in self._names):
            role = OTHER
        self._names.add(role)
        return self.totals.setdefault((thread.gil, role), RoleTotals())


class Series(NamedTuple):
    """One histogram of one role at one GIL."""

    gil: int
    role: str
    buckets: list[int]
    """[i] counts lengths below 2^i ns that no earlier bucket counts; the last one also counts all longer ones."""
    sum_s: float
    """The total of all lengths."""
    coarse: bool = False
    """Whether only the buckets at BOUNDS_S, and the last one, are used."""

    def least_ns(self, bucket: int) -> int:
        """Return the length that no length in a bucket is below."""
        if not self.coarse:
            return 1 << (bucket - 1) if bucket else 0
        before = max((power for power in _POWERS if power < bucket), default=0)
        return 1 << before if before else 0

    @property
    def extremes_s(self) -> tuple[float, float]:
        """Bounds of the shortest and of the longest length, each at most one bucket off; (0, 0) without lengths."""
        used = [bucket for bucket, count in enumerate(self.buckets) if count]
        if not used:
            return 0.0, 0.0
        least_s = self.least_ns(used[-1]) / 1e9
        # The last bucket has no upper end, but the longest length is at most what the others leave of the total.
        others_s = sum(self.buckets[bucket] * self.least_ns(bucket) for bucket in used) / 1e9 - least_s
        longest_s = self.sum_s - others_s
        if used[-1] < BUCKETS - 1:
            longest_s = min(longest_s, 2 ** used[-1] / 1e9)
        return self.least_ns(used[0]) / 1e9, max(least_s, longest_s)


def series(which: str, totals: Iterable[tuple[tuple[int, str], RoleTotals]]) -> Iterator[Series]:
    """Yield one of HISTOGRAMS for each role; that of stop-the-world only for roles that were ever stopped."""
    for (gil, role), one in totals:
        if which == "wait":
            yield Series(gil, role, one.wait_buckets, one.ended_wait_ns / 1e9)
        elif which == "hold":
            yield Series(gil, role, one.hold_buckets, one.ended_hold_ns / 1e9)
        elif any(one.world_buckets):
            wide = [0] * BUCKETS
            for i, count in enumerate(one.world_buckets):
                wide[min(_POWERS.start + i * _POWERS.step, BUCKETS - 1)] += count
            yield Series(gil, role, wide, one.world_ns / 1e9, coarse=True)


def cumulative(buckets: Sequence[int]) -> list[tuple[float, int]]:
    """Return (bound, count below it) for each of BOUNDS_S; a bucket's lengths are below its bound, not at it."""
    below = list(itertools.accumulate(buckets))
    return [(bound, below[power]) for power, bound in zip(_POWERS, BOUNDS_S, strict=True)]
