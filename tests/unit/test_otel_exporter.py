"""The histograms that are added to an exporter's metrics: cumulative, or only what is new, as the exporter prefers."""

import time

import pytest
from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
)
from opentelemetry.sdk.resources import Resource

from headway.live.otel_exporter import GilExporter
from headway.live.roles import RoleTotals

CUMULATIVE, DELTA = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA
NONE = MetricsData([ResourceMetrics(Resource({}), [], "")])


class Kept(MetricExporter):
    """Keeps the metrics of the last export."""

    def export(self, metrics_data, timeout_millis=0, **_):
        self.found = {
            one.name: one.data
            for resource in metrics_data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
        }
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis=0):
        return True

    def shutdown(self, timeout_millis=0, **_):
        pass


@pytest.fixture
def exported(monkeypatch):
    """Return a function that exports the totals as they are now, by an exporter with a temporality."""

    def make(temporality):
        totals = {(0, "web"): RoleTotals()}
        kept = Kept(preferred_temporality=None if temporality is None else {Instrument: temporality})
        exporter = GilExporter(kept)
        monkeypatch.setattr(exporter._counting, "totals_if_any", lambda: totals)

        def export(since_ns=1):
            exporter._counting.since_ns = since_ns
            exporter.export(NONE)
            return kept.found

        return totals[0, "web"], export

    return make


def hold(totals, bucket, count, sum_ns):
    totals.hold_buckets[bucket] += count
    totals.ended_hold_ns += sum_ns


@pytest.mark.parametrize("temporality", [None, CUMULATIVE])
def test_all_holds_since_the_start(exported, temporality):
    """Without a preference, too, each export has the totals since counting began."""
    totals, export = exported(temporality)
    hold(totals, 12, 3, 6_000)
    export()
    hold(totals, 20, 1, 800_000)
    found = export()["cpython.gil.hold.duration"]
    (point,) = found.data_points

    assert found.aggregation_temporality is CUMULATIVE
    assert (point.count, point.start_time_unix_nano) == (4, 1)
    assert point.sum == pytest.approx(806e-6)


def test_holds_since_the_last_export(exported):
    """With delta, an export has what is new, from the last export on, and no point of a role without anything new."""
    totals, export = exported(DELTA)
    hold(totals, 12, 3, 6_000)
    first = export()["cpython.gil.hold.duration"]
    between_ns = time.time_ns()
    hold(totals, 20, 1, 800_000)
    second = export()["cpython.gil.hold.duration"]
    third = export()

    assert {one.aggregation_temporality for one in (first, second)} == {DELTA}
    assert [one.data_points[0].count for one in (first, second)] == [3, 1]
    (point,) = second.data_points
    assert point.sum == pytest.approx(800e-6)
    assert sum(point.bucket_counts) == 1
    assert point.min > 1e-4
    assert first.data_points[0].start_time_unix_nano == 1
    assert first.data_points[0].time_unix_nano == point.start_time_unix_nano <= between_ns <= point.time_unix_nano
    assert "cpython.gil.hold.duration" not in third


def test_a_forked_child_exports_its_own_holds(exported):
    """With delta, the first export of a child whose totals began at 0 has these, and not their difference to its parent's."""
    totals, export = exported(DELTA)
    hold(totals, 12, 3, 6_000)
    export()
    totals.hold_buckets[12], totals.ended_hold_ns = 1, 2_000
    (point,) = export(since_ns=5)["cpython.gil.hold.duration"].data_points

    assert (point.count, point.start_time_unix_nano) == (1, 5)
    assert point.sum == pytest.approx(2e-6)
