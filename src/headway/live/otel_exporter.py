"""Adds OpenTelemetry histograms of waits, of holds and of stopped worlds to the metrics that a program exports.

    PeriodicExportingMetricReader(GilExporter(OTLPMetricExporter()))

The SDK's own histogram would need a call for each wait and hold, of which there may be a million a second. The recorder
counts them already, and this exporter adds the counts to each export. Needs the SDK (opentelemetry-sdk).

The SDK calls an exporter only if an instrument has data: a program without instruments of its own must call
`headway.live.metrics.instrument()`, or nothing is exported.
"""

import time
from collections.abc import Callable
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
from headway.live.roles import BOUNDS_S, HISTOGRAMS, MAX_ROLES, RoleTotals, Series, cumulative, series

__all__ = ["GilExporter"]


def _point(one: Series, since_ns: int, until_ns: int) -> HistogramDataPoint:
    """Return a histogram's data point; its minimum and maximum are bounds, as lengths are counted and not kept."""
    count, below = sum(one.buckets), [count for _, count in cumulative(one.buckets)]
    least_s, most_s = one.extremes_s
    return HistogramDataPoint(
        attributes={"cpython.gil": one.gil, "thread.role": one.role},
        start_time_unix_nano=since_ns,
        time_unix_nano=until_ns,
        count=count,
        sum=one.sum_s,
        bucket_counts=[b - a for a, b in zip([0, *below], [*below, count], strict=True)],
        explicit_bounds=list(BOUNDS_S),
        min=least_s,
        max=most_s,
    )


class GilExporter(MetricExporter):
    """Adds our histograms (`headway.live.roles.HISTOGRAMS`) to the metrics that another exporter sends.

    All are in seconds, with the attributes `cpython.gil` (0 is the main interpreter's) and `thread.role`. They are
    cumulative, or delta if the other exporter prefers that for histograms.
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
        self._since_ns = 0
        """The start of the totals of the last export."""
        self._exported_ns = 0
        self._exported: dict[tuple[str, int, str], Series] = {}
        """The series of the last export, if the next one has the difference; by histogram, GIL and role."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> MetricExportResult:
        """Export these metrics together with ours, or alone where this process cannot be recorded."""
        totals = self._counting.totals_if_any()
        if totals is None:
            return self._exporter.export(metrics_data, timeout_millis, **more)
        # The OTLP exporter sends only one of two scopes with the same name, and the instruments' scope is `headway`.
        ours = ScopeMetrics(InstrumentationScope("headway.live", __version__), self._metrics(totals), "")
        resources = [
            ResourceMetrics(one.resource, [*one.scope_metrics, ours], one.schema_url)
            for one in metrics_data.resource_metrics
        ]
        return self._exporter.export(MetricsData(resource_metrics=resources), timeout_millis, **more)

    def _metrics(self, totals: dict[tuple[int, str], RoleTotals]) -> list[Metric]:
        if self._since_ns != self._counting.since_ns:  # this is a forked child, whose totals began at 0
            self._since_ns, self._exported_ns, self._exported = self._counting.since_ns, 0, {}
        now_ns = time.time_ns()
        is_delta = self._temporality is AggregationTemporality.DELTA
        since_ns = (is_delta and self._exported_ns) or self._counting.since_ns
        self._exported_ns = now_ns

        def points(which: str) -> list[HistogramDataPoint]:
            found = list(series(which, totals.items()))
            shown = self._new_in(which, found) if is_delta else found
            return [_point(one, since_ns, now_ns) for one in shown]

        return [
            Metric(one.name, one.what, "s", Histogram(found, self._temporality))
            for one in HISTOGRAMS
            if (found := points(one.which))
        ]

    def _new_in(self, which: str, found: list[Series]) -> list[Series]:
        """Return what series have more than at the last export, without those that have nothing more."""
        new = []
        for one in found:
            key = which, one.gil, one.role
            before = self._exported.get(key)
            self._exported[key] = one._replace(buckets=list(one.buckets))  # the totals go on in the same list
            if before is not None:
                buckets = [b - a for a, b in zip(before.buckets, one.buckets, strict=True)]
                one = one._replace(buckets=buckets, sum_s=one.sum_s - before.sum_s)  # noqa: PLW2901
            if any(one.buckets):
                new.append(one)
        return new

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Send all pending metrics."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        """Shut the wrapped exporter down."""
        self._exporter.shutdown(timeout_millis, **more)
