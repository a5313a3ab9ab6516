"""The GIL of this process as metrics: for Prometheus (the extra `prometheus`) and OpenTelemetry (the extra `otel`).

    prometheus_client.REGISTRY.register(headway.live.metrics.GilCollector())
    headway.live.metrics.instrument()

OpenTelemetry's histograms come from `headway.live.otel_exporter`. Names follow OpenTelemetry's rules for runtimes
(`cpython.*`, units s and {handoff}); Prometheus' names are derived from these.

In a process that is watched (`headway watch`, `headway.watch()`, $HEADWAY_WATCH) the event loops' delay and the stalls by
cause are there, too. They are the watcher's counts of this process (`headway.live.own_counts`).

The first scrape starts the counting if this process is not recorded already. Threads are grouped by role
(`headway.live.roles`). A scrape reads our own memory, asks the watcher if there is one, and never waits for another thread.
After fork() the child's counters begin at 0; the instruments' go on from the parent's, as those of OpenTelemetry's SDK do.
"""

import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from headway.errors import HeadwayError, RecordingError
from headway.live.own_counts import OwnCounts
from headway.live.recording import gil_times
from headway.live.roles import (
    BOUNDS_S,
    HANDOFFS,
    HISTOGRAMS,
    MAX_ROLES,
    REASONS,
    TIMES,
    Histogram,
    Roles,
    RoleTotals,
    Time,
    cumulative,
    normalised,
    series,
)
from headway.live.watch import Watch, WatchEndedError
from headway.live.watchers_counts import DELAY, DELAY_NAME, STALL_TIME, STALLS, Counts, all_kinds, laps_below

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from prometheus_client import Metric

__all__ = ["Counting", "GilCollector", "instrument"]

_LOG = logging.getLogger("headway.gil")
_ATTEMPTS: Final = 3  # at a recording that another one is just replacing
_BOUNDS: Final = tuple(map(repr, BOUNDS_S))
_OLD: Final = "the next release removes it; pass old_names=False to drop it now"


class Counting:
    """The totals of this process, updated on demand. Any thread may call it."""

    _all: ClassVar[weakref.WeakSet["Counting"]] = weakref.WeakSet()

    def __init__(self, role: Callable[[str], str] | None, max_roles: int, *, goes_on: bool = False) -> None:
        """Begin with empty totals.

        Args:
            role: As for `Roles`; None: `normalised`.
            max_roles: As for `Roles`.
            goes_on: A forked child goes on from its parent's totals: else its totals begin at 0.

        Raises:
            ValueError: `max_roles` is below 1.
        """
        if max_roles < 1:
            raise ValueError(f"max_roles is {max_roles}, expected at least 1")
        self._role = role or normalised
        self._max_roles = max_roles
        self._goes_on = goes_on
        self._has_said = False
        self.has_gil = True
        """Whether threads need the GIL to run, as of the last totals."""
        self._reset()
        self._all.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()  # protects the other attributes
        self._watch: Watch | None = None
        self.since_ns = time.time_ns()
        """The start of these totals (time.time_ns())."""
        self._roles = Roles(self._role, self._max_roles)

    @classmethod
    def after_fork(cls) -> None:
        """Reset all counting in a forked child, where no other thread is left to release a lock."""
        for one in list(cls._all):
            one._begin_in_child()  # noqa: SLF001 its own class

    def _begin_in_child(self) -> None:
        roles, since_ns = self._roles, self.since_ns
        self._reset()
        if self._goes_on:
            roles.begin_in_child()
            self._roles, self.since_ns = roles, since_ns

    def totals(self) -> dict[tuple[int, str], RoleTotals]:
        """Return the totals by GIL and role, as of now.

        Raises:
            RecordingError: This interpreter cannot be recorded.
            NativeError: The native library is missing or does not fit.
        """
        with self._lock:
            for attempt in range(1, _ATTEMPTS + 1):
                gil_times()  # starts the counting if it is not on
                try:
                    if self._watch is None:
                        self._watch = Watch(os.getpid())
                    snapshot = self._watch.snapshot()
                    self._roles.add(snapshot.start_ns, (*snapshot.exited, *snapshot.threads))
                    self.has_gil = snapshot.has_gil
                    break
                except RecordingError as error:
                    if self._watch is not None:
                        self._watch.close()
                        self._watch = None
                    if attempt == _ATTEMPTS and not isinstance(error, WatchEndedError):
                        raise
            return {key: one.copy() for key, one in self._roles.totals.items()}

    def totals_if_any(self) -> dict[tuple[int, str], RoleTotals] | None:
        """Return the totals, or None if there can be none here; the log says once why.

        The metrics of a program must not fail for ours.
        """
        try:
            return self.totals()
        except (HeadwayError, OSError) as error:  # an OSError: no descriptor is left, say
            if not self._has_said:
                self._has_said = True
                why = error.message if isinstance(error, HeadwayError) else error
                _LOG.warning("there are no metrics of the GIL: %s", why)
            return None


os.register_at_fork(after_in_child=Counting.after_fork)


def _warn_of_old_names(names: str) -> None:
    warnings.warn(f"{names}: these names are old, {_OLD}", DeprecationWarning, stacklevel=3)


class GilCollector:
    """A collector for prometheus_client: `REGISTRY.register(GilCollector())`."""

    def __init__(
        self, role: Callable[[str], str] | None = None, *, max_roles: int = MAX_ROLES, old_names: bool = True
    ) -> None:
        """Prepare the collector; counting starts with the first scrape.

        Args:
            role: Maps a thread's name to its role; by default `headway.live.roles.normalised`.
            max_roles: The largest number of roles, including `other`.
            old_names: Export the metrics' old names, too (`python_gil_*`), with a DeprecationWarning.
        """
        self._counting = Counting(role, max_roles)
        self._own_counts = OwnCounts()
        self._old_names = old_names
        if old_names:
            _warn_of_old_names("python_gil_*")

    def describe(self) -> Iterable["Metric"]:
        """Return the metrics without samples, so that registering starts no counting."""
        return [*self._families({}), *_watched_families(None)]

    def collect(self) -> Iterator["Metric"]:
        """Yield the metrics as of now; before each next metric, threads that wait for the GIL can run.

        Where this process cannot be recorded there are none, and the log (`headway.gil`) says so once. Where no watcher
        counts this process, its event loops' delay and its stalls are left out.
        """
        totals = self._counting.totals_if_any()
        if totals is None:
            return
        for family in self._families(totals):
            yield family
            time.sleep(0)
        counts = self._own_counts.now()
        if counts is not None:
            yield from _watched_families(counts)

    def _families(self, totals: dict[tuple[int, str], RoleTotals]) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for shown in HISTOGRAMS:
            yield _histogram(shown, totals)
        for shown_time in TIMES:
            times = CounterMetricFamily(shown_time.prometheus_name, shown_time.what, labels=["gil", "role"])
            for (gil, role), one in totals.items():
                times.add_metric([str(gil), role], shown_time.of(one))
            yield times
        handoffs = CounterMetricFamily("cpython_gil_handoffs", HANDOFFS, labels=["gil", "role", "reason"])
        for (gil, role), one in totals.items():
            for reason in REASONS:
                handoffs.add_metric([str(gil), role, reason], getattr(one, reason))
        yield handoffs
        enabled = GaugeMetricFamily("cpython_gil_enabled", "1: threads need the GIL to run; 0: they do not.")
        if totals:
            enabled.add_metric([], float(self._counting.has_gil))
        yield enabled
        if self._old_names:
            yield from _old_families(_by_role(totals))


def _histogram(shown: Histogram, totals: dict[tuple[int, str], RoleTotals]) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(shown.prometheus_name, shown.what, labels=["gil", "role"])
    for one in series(shown.which, totals.items()):
        family.add_metric([str(one.gil), one.role], _prometheus(one.buckets), sum_value=one.sum_s)
    return family


def _watched_families(counts: Counts | None) -> "list[Metric]":
    """Return the metrics that a watcher counts of this process, by the names that the watcher itself serves them with."""
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    delay = HistogramMetricFamily(f"{DELAY_NAME.replace('.', '_')}_seconds", DELAY)
    labels = ["kind", "cause"]
    stalls = CounterMetricFamily("headway_stalls", STALLS, labels=labels)
    times = CounterMetricFamily("headway_stalls_seconds", STALL_TIME, labels=labels)
    if counts is not None:
        below = [(repr(bound), float(count)) for bound, count in laps_below(counts.laps)]
        delay.add_metric([], [*below, ("+Inf", float(sum(counts.laps)))], sum_value=counts.laps_ns / 1e9)
        for key, (number, time_s) in all_kinds(counts.stalls):
            stalls.add_metric(key, number)
            times.add_metric(key, time_s)
    return [delay, stalls, times]


def _by_role(totals: dict[tuple[int, str], RoleTotals]) -> dict[str, RoleTotals]:
    """Return the totals of all GILs by role."""
    found: dict[str, RoleTotals] = {}
    for (_, role), one in totals.items():
        found.setdefault(role, RoleTotals()).add(one)
    return found


def _old_families(totals: dict[str, RoleTotals]) -> "list[Metric]":
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    old = "Old name: see cpython_gil_"
    hold = CounterMetricFamily("python_gil_hold_seconds", f"{old}hold_time_seconds_total.", labels=["role"])
    wait = CounterMetricFamily("python_gil_wait_seconds", f"{old}wait_time_seconds_total.", labels=["role"])
    handovers = CounterMetricFamily("python_gil_handovers", f"{old}handoffs_total.", labels=["role", "kind"])
    waits = HistogramMetricFamily("python_gil_wait_duration_seconds", f"{old}wait_duration_seconds.", labels=["role"])
    for role, one in totals.items():
        hold.add_metric([role], one.hold_ns / 1e9)
        wait.add_metric([role], one.wait_ns / 1e9)
        handovers.add_metric([role, "voluntary"], one.voluntary)
        handovers.add_metric([role, "forced"], one.forced)
        waits.add_metric([role], _prometheus(one.wait_buckets), sum_value=one.ended_wait_ns / 1e9)
    return [hold, wait, handovers, waits]


def _prometheus(buckets: list[int]) -> list[tuple[str, float]]:
    below = (count for _, count in cumulative(buckets))
    return [*zip(_BOUNDS, map(float, below), strict=True), ("+Inf", float(sum(buckets)))]


def instrument(
    meter_provider: "MeterProvider | None" = None,
    *,
    role: Callable[[str], str] | None = None,
    max_roles: int = MAX_ROLES,
    old_names: bool = True,
) -> None:
    """Make the OpenTelemetry instruments cpython.gil.hold.time, .wait.time, .handoffs and .enabled.

    In a process that is watched, headway.stalls and headway.stall.time have data, too: the number and the time of stalls,
    with the attributes headway.stall.kind and headway.stall.cause.

    OpenTelemetry has no observable histogram, so the histograms are no instruments: see
    `headway.live.otel_exporter`.

    Args:
        meter_provider: The provider; by default the global one.
        role: Maps a thread's name to its role; by default `headway.live.roles.normalised`.
        max_roles: The largest number of roles, including `other`.
        old_names: Make the old instrument cpython.gil.handovers, too, and give the two times their old attribute
            `role`, and the hand-offs theirs, `reason`, with a DeprecationWarning.
    """
    from opentelemetry.metrics import Observation, get_meter

    from headway import __version__

    # The SDK's memory of the last values is forked, too: with delta temporality a child that began at 0 would send
    # negative values.
    counting = Counting(role, max_roles, goes_on=True)
    own_counts = OwnCounts(goes_on=True)

    def stalls(which: int) -> Callable[["CallbackOptions"], Iterable["Observation"]]:
        def observed(_: "CallbackOptions") -> Iterable["Observation"]:
            counts = own_counts.now()
            return [
                Observation(counted[which], {"headway.stall.kind": kind, "headway.stall.cause": cause})
                for (kind, cause), counted in (all_kinds(counts.stalls) if counts is not None else ())
            ]

        return observed

    def handoffs(_: "CallbackOptions") -> Iterable["Observation"]:
        found = []
        for (gil, name), one in (counting.totals_if_any() or {}).items():
            for reason in REASONS:
                # Not below `cpython.gil`: by OpenTelemetry's rules the name of an attribute is no namespace.
                attributes: dict[str, int | str] = {"cpython.gil": gil, "thread.role": name}
                attributes["cpython.handoff.reason"] = reason
                if old_names:
                    attributes["reason"] = reason
                found.append(Observation(getattr(one, reason), attributes))
        return found

    def enabled(_: "CallbackOptions") -> Iterable["Observation"]:
        return [] if counting.totals_if_any() is None else [Observation(int(counting.has_gil))]

    def times(shown: Time) -> Callable[["CallbackOptions"], Iterable["Observation"]]:
        def observed(_: "CallbackOptions") -> Iterable["Observation"]:
            found = []
            for (gil, name), one in (counting.totals_if_any() or {}).items():
                attributes: dict[str, int | str] = {"cpython.gil": gil, "thread.role": name}
                if old_names:
                    attributes["role"] = name
                found.append(Observation(shown.of(one), attributes))
            return found

        return observed

    meter = get_meter("headway", __version__, meter_provider)
    for shown in TIMES:
        meter.create_observable_counter(shown.name, [times(shown)], "s", shown.what)
    meter.create_observable_counter("cpython.gil.handoffs", [handoffs], "{handoff}", HANDOFFS)
    meter.create_observable_gauge("cpython.gil.enabled", [enabled], "1", "1: threads need the GIL to run.")
    meter.create_observable_counter("headway.stalls", [stalls(0)], "{stall}", STALLS)
    meter.create_observable_counter("headway.stall.time", [stalls(1)], "s", STALL_TIME)
    if not old_names:
        return
    _warn_of_old_names(
        "cpython.gil.handovers, and the attributes `role` of cpython.gil.hold.time and .wait.time, and `reason` of"
        " cpython.gil.handoffs"
    )

    def old(_: "CallbackOptions") -> Iterable["Observation"]:
        return [
            Observation(getattr(one, kind), {"role": name, "kind": kind})
            for name, one in _by_role(counting.totals_if_any() or {}).items()
            for kind in REASONS
        ]

    meter.create_observable_counter("cpython.gil.handovers", [old], "{handover}", "Old name.")
