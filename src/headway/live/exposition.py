"""Gives a watcher's counts, over all processes that it watches or has watched, in Prometheus' text format.

Needs no prometheus_client: the watcher uses only the standard library.
"""

import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from headway.live.ring import Ring
from headway.live.roles import HANDOFFS, HISTOGRAMS, OTHER, REASONS, TIMES, Roles, RoleTotals, cumulative, series
from headway.live.watchers_counts import (
    DELAY,
    DELAY_NAME,
    STALL_TIME,
    STALLS,
    EndedStalls,
    Stalls,
    add_stalls,
    all_kinds,
    laps_below,
)

__all__ = ["ServiceTotals", "Totals", "exposition"]

_MOST_SERIES: Final = 100
"""The largest number of series by role, over all processes that a service ever had."""
_CUT: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


@final
@dataclass
class Totals:
    """The counts so far; none of them ever decreases, except `processes`."""

    stalls: Stalls = field(default_factory=dict)
    roles: dict[tuple[int, str], RoleTotals] = field(default_factory=dict)
    """Totals by GIL and role."""
    laps: list[int] = field(default_factory=list)
    """[i] counts event loops' laps with bit length i in ns."""
    laps_ns: int = 0
    processes: int = 0
    """The number of processes that are watched now."""

    def _add_laps(self, lengths: Sequence[int], lengths_ns: int) -> None:
        more = len(lengths) - len(self.laps)
        self.laps = [a + b for a, b in zip(self.laps + [0] * more, lengths, strict=True)]
        self.laps_ns += lengths_ns

    def add(self, roles: dict[tuple[int, str], RoleTotals], lengths: Sequence[int], lengths_ns: int) -> None:
        """Add the counts of one process."""
        for key, one in roles.items():
            self.roles.setdefault(key, RoleTotals()).add(one)
        self._add_laps(lengths, lengths_ns)


@final
class ServiceTotals:
    """Adds up a service's processes, including those that have ended. Any thread may call it."""

    def __init__(self) -> None:
        """Begin with empty totals."""
        self._lock = threading.Lock()  # protects the other attributes
        self._ended = Totals()
        self._stalls: Stalls = {}
        self._roles: dict[Ring, Roles] = {}
        self._names: set[tuple[int, str]] = set()
        """The keys of the first _MOST_SERIES series; later roles count as `other`."""
        self._over: weakref.WeakSet[Ring] = weakref.WeakSet()

    def _read(self, ring: Ring, now_ns: int) -> dict[tuple[int, str], RoleTotals]:
        roles = self._roles.setdefault(ring, Roles())
        roles.add(0, ring.counters(now_ns))
        found: dict[tuple[int, str], RoleTotals] = {}
        for (gil, role), one in roles.totals.items():
            key = (gil, role)
            if key not in self._names and len(self._names) >= _MOST_SERIES:
                key = (gil, OTHER)
            self._names.add(key)
            found.setdefault(key, RoleTotals()).add(one)
        return found

    def add_stalls(self, stalls: EndedStalls) -> None:
        """Add stalls that are over."""
        with self._lock:
            add_stalls(self._stalls, stalls)

    def end(self, ring: Ring, now_ns: int) -> None:
        """Keep the counts of a process that has ended; its ring may be closed after this."""
        with self._lock:
            self._ended.add(self._read(ring, now_ns), ring.laps.lengths, ring.laps.lengths_ns)
            del self._roles[ring]
            self._over.add(ring)

    def now(self, rings: Iterable[Ring], now_ns: int) -> Totals:
        """Return the totals up to now."""
        found = Totals()
        with self._lock:
            found.add(self._ended.roles, self._ended.laps, self._ended.laps_ns)
            found.stalls = dict(self._stalls)
            for ring in rings:
                if ring not in self._over:
                    found.add(self._read(ring, now_ns), ring.laps.lengths, ring.laps.lengths_ns)
                    found.processes += not ring.gone  # one that has ended stays until its report is done
        return found


def _labels(**labels: object) -> str:
    words = (f'{name}="{"".join(_CUT.get(one, one) for one in str(value))}"' for name, value in labels.items())
    return ",".join(words)


def _head(name: str, kind: str, what: str) -> Iterator[str]:
    yield f"# HELP {name} {what}"
    yield f"# TYPE {name} {kind}"


def _histogram(name: str, labels: str, below: Iterable[tuple[float, int]], count: int, sum_s: float) -> Iterator[str]:
    comma = "," if labels else ""
    for bound, below_it in below:
        yield f'{name}_bucket{{{labels}{comma}le="{bound!r}"}} {below_it}'
    yield f'{name}_bucket{{{labels}{comma}le="+Inf"}} {count}'
    braces = f"{{{labels}}}" if labels else ""
    yield f"{name}_sum{braces} {sum_s!r}"
    yield f"{name}_count{braces} {count}"


def exposition(totals: Totals) -> Iterator[str]:
    """Yield the lines of Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats)."""
    stalls = all_kinds(totals.stalls)
    yield from _head("headway_stalls_total", "counter", STALLS)
    for (kind, cause), (count, _) in stalls:
        yield f"headway_stalls_total{{{_labels(kind=kind, cause=cause)}}} {count}"
    yield from _head("headway_stalls_seconds_total", "counter", STALL_TIME)
    for (kind, cause), (_, sum_s) in stalls:
        yield f"headway_stalls_seconds_total{{{_labels(kind=kind, cause=cause)}}} {sum_s!r}"
    yield from _head("headway_watched_processes", "gauge", "Number of processes that are watched now.")
    yield f"headway_watched_processes {totals.processes}"
    name = f"{DELAY_NAME.replace('.', '_')}_seconds"
    yield from _head(name, "histogram", DELAY)
    yield from _histogram(name, "", laps_below(totals.laps), sum(totals.laps), totals.laps_ns / 1e9)
    roles = sorted(totals.roles.items())
    for shown in HISTOGRAMS:
        yield from _head(shown.prometheus_name, "histogram", shown.what)
        for each in series(shown.which, roles):
            labels, below = _labels(gil=each.gil, role=each.role), cumulative(each.buckets)
            yield from _histogram(shown.prometheus_name, labels, below, sum(each.buckets), each.sum_s)
    for time in TIMES:
        yield from _head(time.prometheus_name, "counter", time.what)
        for (gil, role), one in roles:
            yield f"{time.prometheus_name}{{{_labels(gil=gil, role=role)}}} {time.of(one)!r}"
    name = "cpython_gil_handoffs_total"
    yield from _head(name, "counter", HANDOFFS)
    for (gil, role), one in roles:
        for reason in REASONS:
            yield f"{name}{{{_labels(gil=gil, role=role, reason=reason)}}} {getattr(one, reason)}"
