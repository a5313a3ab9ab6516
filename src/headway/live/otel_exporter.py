"""Adds OpenTelemetry histograms of waits, holds, stopped worlds and event loops' delay to the metrics of a program.

    PeriodicExportingMetricReader(GilExporter(OTLPMetricExporter()))

The SDK's own histogram would need a call for each wait and hold, of which there may be a million a second. The recorder
counts them already, and this exporter adds the counts to each export. Needs the SDK (opentelemetry-sdk).

Event loops' delay is there in a process that is watched: the watcher counts it (`headway.live.own_counts`).

The SDK calls an exporter only if an instrument has data: a program without instruments of its own must call
`headway.live.metrics.instrument()`, or nothing is exported.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from headway import __version__
from headway.live.metrics import Counting
from headway.live.own_counts import OwnCounts
from headway.live.roles import HISTOGRAMS, MAX_ROLES, RoleTotals, Series, cumulative, series
from headway.live.watchers_counts import DELAY, DELAY_NAME, laps_below

__all__ = ["GilExporter"]


def _point(
    one: Series, below: Sequence[tuple[float, int]], attributes: dict[str, int | str], times_ns: tuple[int, int]
) -> HistogramDataPoint:
    """Return a histogram's data point; its minimum and maximum are bounds, as lengths are counted and not kept.

    Args:
        one: The lengths.
        below: The number of them below each of the histogram's bounds.
        attributes: The point's attributes.
        times_ns: Begin and end of the time in which they were counted.
    """
    count, counts = sum(one.buckets), [count for _, count in below]
    least_s, most_s = one.extremes_s
    return HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=times_ns[0],
        time_unix_nano=times_ns[1],
        count=count,
        sum=one.sum_s,
        bucket_counts=[b - a for a, b in zip([0, *counts], [*counts, count], strict=True)],
        explicit_bounds=[bound for bound, _ in below],
        min=least_s,
        max=most_s,
    )


class _Exported:
    """Series of totals as the last export had them, of which the next export has all, or with delta what is new."""

    def __init__(self, *, is_delta: bool) -> None:
        self._is_delta = is_delta
        self._since_ns = 0
        """The start of the totals of the last export."""
        self._until_ns = 0
        self._series: dict[tuple[str, int, str], Series] = {}
        """By histogram, GIL and role; only with delta."""

    def begin(self, since_ns: int) -> tuple[int, int]:
        """Begin an export of totals that count since `since_ns`; return begin and end of what it has."""
        if self._since_ns != since_ns:  # this is a forked child, whose totals began at 0
            self._since_ns, self._until_ns, self._series = since_ns, 0, {}
        begin_ns = (self._is_delta and self._until_ns) or since_ns
        self._until_ns = time.time_ns()
        return begin_ns, self._until_ns

    def of(self, which: str, found: list[Series]) -> list[Series]:
        """Return a histogram's series; with delta what they have more than at the last export, if that is anything."""
        if not self._is_delta:
            return found
        new = []
        for one in found:
            key = which, one.gil, one.role
            before = self._series.get(key)
            self._series[key] = one._replace(buckets=list(one.buckets))  # the totals go on in the same list
            if before is not None:
                buckets = [b - a for a, b in zip(before.buckets, one.buckets, strict=True)]
                one = one._replace(buckets=buckets, sum_s=one.sum_s - before.sum_s)  # noqa: PLW2901
            if any(one.buckets):
                new.append(one)
        return new


class GilExporter(MetricExporter):
    """Adds our histograms to the metrics that another exporter sends.

    All are in seconds. Those of `headway.live.roles.HISTOGRAMS` have the attributes `cpython.gil` (0 is the main
    interpreter's) and `thread.role`; `asyncio.eventloop.delay` has none, and is there in a process that is watched. They
    are cumulative, or delta if the other exporter prefers that for histograms.
    """

    def __init__(
        self, exporter: MetricExporter, *, role: Callable[[str], str] | None = None, max_roles: int = MAX_ROLES
    ) -> None:
        """Prepare the exporter; the first export starts the counting.

        Args:
            exporter: The exporter that sends the metrics: an OTLPMetricExporter, ConsoleMetricExporter, ...
            role: Maps a thread's name to its role; by default `headway.live.roles.normalised`.
            max_roles: The largest number of roles, including `other`.
        """
        super().__init__(
            preferred_temporality=exporter._preferred_temporality,  # noqa: SLF001 readers read it from an exporter
            preferred_aggregation=exporter._preferred_aggregation,  # noqa: SLF001
        )
        self._exporter = exporter
        self._counting = Counting(role, max_roles)
        preferred = exporter._preferred_temporality or {}  # noqa: SLF001
        self._temporality = preferred.get(Instrument, AggregationTemporality.CUMULATIVE)
        self._own_counts = OwnCounts()
        is_delta = self._temporality is AggregationTemporality.DELTA
        # Each has its own times: one may be left out of an export that has the other.
        self._exported, self._exported_delay = _Exported(is_delta=is_delta), _Exported(is_delta=is_delta)

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> MetricExportResult:
        """Export these metrics together with ours, or alone where this process cannot be recorded."""
        totals = self._counting.totals_if_any()
        if totals is None:
            return self._exporter.export(metrics_data, timeout_millis, **more)
        found = [*self._metrics(totals), *self._delay()]
        # The OTLP exporter sends only one of two scopes with the same name, and the instruments' scope is `headway`.
        ours = ScopeMetrics(InstrumentationScope("headway.live", __version__), found, "")
        resources = [
            ResourceMetrics(one.resource, [*one.scope_metrics, ours], one.schema_url)
            for one in metrics_data.resource_metrics
        ]
        return self._exporter.export(MetricsData(resource_metrics=resources), timeout_millis, **more)

    def _metrics(self, totals: dict[tuple[int, str], RoleTotals]) -> list[Metric]:
        times_ns = self._exported.begin(self._counting.since_ns)

        def points(which: str) -> list[HistogramDataPoint]:
            return [
                _point(one, cumulative(one.buckets), {"cpython.gil": one.gil, "thread.role": one.role}, times_ns)
                for one in self._exported.of(which, list(series(which, totals.items())))
            ]

        return [
            Metric(one.name, one.what, "s", Histogram(found, self._temporality))
            for one in HISTOGRAMS
            if (found := points(one.which))
        ]

    def _delay(self) -> list[Metric]:
        """Return the histogram of event loops' delay, if a watcher counts it and there is a loop."""
        counts = self._own_counts.now()
        if counts is None or not any(counts.laps):
            return []
        times_ns = self._exported_delay.begin(self._own_counts.since_ns)
        found = self._exported_delay.of(DELAY_NAME, [Series(0, "", list(counts.laps), counts.laps_ns / 1e9)])
        points = [_point(one, laps_below(one.buckets), {}, times_ns) for one in found]
        return [Metric(DELAY_NAME, DELAY, "s", Histogram(points, self._temporality))] if points else []

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Send all pending metrics."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        """Shut the wrapped exporter down."""
        self._exporter.shutdown(timeout_millis, **more)
