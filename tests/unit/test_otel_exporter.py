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
from headway.live.watchers_counts import Counts

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


@pytest.fixture
def delayed(monkeypatch):
    """Return a function that exports, with a temporality, the laps that its watcher counts of this process, if any."""

    def make(temporality):
        kept = Kept(preferred_temporality={Instrument: temporality})
        exporter = GilExporter(kept)
        monkeypatch.setattr(exporter._counting, "totals_if_any", lambda: {(0, "web"): RoleTotals()})

        def export(counts, since_ns=1):
            exporter._own_counts.since_ns = since_ns
            monkeypatch.setattr(exporter._own_counts, "now", lambda: counts)
            exporter.export(NONE)
            return kept.found.get("asyncio.eventloop.delay")

        return export

    return make


def laps(lengths_ns):
    counts = [0] * 40
    for length_ns in lengths_ns:
        counts[min(39, length_ns.bit_length())] += 1
    return Counts(7, counts, sum(lengths_ns), {})


MS = 1_000_000


@pytest.mark.parametrize(("temporality", "counts"), [(CUMULATIVE, [1, 3, 3]), (DELTA, [1, 2, None])])
def test_event_loops_delay_is_exported(delayed, temporality, counts):
    """The histogram is as the exporter prefers it; an export without an answer leaves it out, and loses nothing."""
    export = delayed(temporality)
    first = export(laps([3 * MS]))
    assert export(None) is None
    second = export(laps([3 * MS, 300 * MS, 2]))
    third = export(laps([3 * MS, 300 * MS, 2]))
    points = [None if one is None else one.data_points[0] for one in (first, second, third)]

    assert [None if one is None else one.count for one in points] == counts
    assert {one.aggregation_temporality for one in (first, second)} == {temporality}
    point = points[1]
    by_bound = dict(zip([*point.explicit_bounds, None], point.bucket_counts, strict=True))
    assert {bound: count for bound, count in by_bound.items() if count} == {
        2**20 / 1e9: 1,
        2**29 / 1e9: 1,
        **({} if temporality is DELTA else {2**22 / 1e9: 1}),
    }
    assert point.attributes == {}
    assert point.sum == pytest.approx(0.303 if temporality is CUMULATIVE else 0.3, abs=1e-6)
    assert point.min <= 2e-9
    assert 2**28 / 1e9 <= point.max == pytest.approx(0.3, rel=0.02)
    assert point.start_time_unix_nano == (points[0].time_unix_nano if temporality is DELTA else 1)


def test_laps_longer_than_all_bounds_are_exported(delayed):
    """A loop that stood still for ten minutes is in the last bucket, and its length is the longest."""
    (point,) = delayed(CUMULATIVE)(laps([600_000 * MS])).data_points

    assert point.bucket_counts[-1] == point.count == 1
    assert point.max == pytest.approx(600)


def test_a_process_without_a_loop_has_no_delay(delayed):
    """A watched process whose threads have no event loop exports no empty histogram."""
    assert delayed(CUMULATIVE)(laps([])) is None


def test_a_forked_child_exports_its_own_delay(delayed):
    """With delta, too, the first export of a child has the child's laps since the fork."""
    export = delayed(DELTA)
    export(laps([3 * MS, 3 * MS]))
    (point,) = export(laps([3 * MS]), since_ns=5).data_points

    assert (point.count, point.start_time_unix_nano) == (1, 5)
