"""Metrics by role: names, totals that never decrease, and the text for Prometheus."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
from live_image import make_slots, make_snapshot
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    InMemoryMetricReader,
    PeriodicExportingMetricReader,
)
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from headway.errors import NativeError
from headway.live import metrics, slots
from headway.live.exposition import ServiceTotals, Totals, exposition
from headway.live.otel_exporter import GilExporter
from headway.live.own_counts import OwnCounts
from headway.live.roles import OTHER, Roles, RoleTotals, cumulative, normalised, series
from headway.live.watchers_counts import Counts
from headway.traces.analysis.stall_model import Cause, StallKind


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("MainThread", "MainThread"),
        ("ThreadPoolExecutor-0_3", "ThreadPoolExecutor-0"),
        ("Thread-7 (worker)", "worker"),
        ("Thread-7", "Thread"),
        ("Dummy-3", "Dummy"),
        ("asyncio_4", "asyncio"),
        ("worker-12", "worker"),
        ("thread 4711", "thread"),
        ("7", "7"),
    ],
)
def test_roles_are_names_without_numbers(name, role):
    """Numbers in a thread's name are not part of its role."""
    assert normalised(name) == role


def add(roles, snapshot):
    roles.add(snapshot.start_ns, (*snapshot.exited, *snapshot.threads))


def totals(roles):
    return {role: (one.hold_ns, one.wait_ns, one.voluntary, one.forced) for (_, role), one in roles.totals.items()}


def test_threads_of_one_role_add_up():
    """A role has the sum of its threads, and a hold in progress does not count as a release."""
    roles = Roles(normalised, 20)
    add(
        roles,
        make_snapshot(
            100,
            {"serial": 1, "name": "w-1", "hold_ns": 5, "holds": 4, "forced": 1, "wait_ns": 2},
            {"serial": 2, "name": "w-2", "hold_ns": 5, "holds": 4, "state": "holding", "since_ns": 90},
        ),
    )

    assert totals(roles) == {"w": (20, 2, 6, 1)}


def test_totals_stay_when_a_thread_goes():
    """A thread that ended leaves its totals to its role, and the next thread in its slot adds to them."""
    roles = Roles(normalised, 20)
    add(roles, make_snapshot(100, {"serial": 1, "name": "w-1", "hold_ns": 50, "holds": 3}))
    add(roles, make_snapshot(200, {"serial": 1, "name": "w-1", "hold_ns": 70, "holds": 5, "state": "exited"}))
    add(roles, make_snapshot(300, {"serial": 2, "name": "w-2", "hold_ns": 1, "holds": 1}))
    add(roles, make_snapshot(400))

    assert totals(roles) == {"w": (71, 0, 6, 0)}


def test_totals_never_go_back():
    """A torn reading, a new name and another recording decrease nothing, and nothing is counted twice."""
    roles = Roles(normalised, 20)
    for hold, name, start in [(50, "a", 1), (40, "a", 1), (55, "a", 1), (60, "b", 1), (10, "a", 2)]:
        add(roles, make_snapshot(100, {"serial": 1, "name": name, "hold_ns": hold}, start_ns=start))

    assert {role: one[0] for role, one in totals(roles).items()} == {"a": 65, "b": 5}


def test_a_thread_that_one_reading_lacks_is_not_counted_twice():
    """A slot may change each time that it is read; a thread that two readings lack has ended."""
    roles = Roles()
    here, gone = {"serial": 1, "name": "w", "hold_ns": 50, "holds": 3}, ()
    for threads in ([here], gone, [here | {"hold_ns": 60}]):
        add(roles, make_snapshot(100, *threads))
    assert totals(roles)["w"][0] == 60
    for _ in range(2):
        add(roles, make_snapshot(100))
    assert not roles._seen


def test_a_bucket_that_goes_back_counts_nothing():
    """A slot that is read while another thread clears it adds nothing, and a bucket that wraps around adds its rise."""
    roles = Roles()
    for held, waited in [(5, 2**32 - 1), (0, 3)]:
        threads = {"serial": 1, "name": "w", "holds_of": {20: held}, "waits_of": {20: waited}}
        add(roles, make_snapshot(100, threads))

    one = roles.totals[0, "w"]
    assert (one.hold_buckets[20], one.wait_buckets[20]) == (5, 2**32 + 3)


def test_a_slot_that_changes_is_read_again(monkeypatch):
    """A thread that takes over a slot as it is read leaves no half of the thread before it."""
    data = bytearray(make_slots({"serial": 1, "holds_of": {20: 5}}, slot_count=1).tobytes())
    whole = slots.thread_counters

    def torn(*place):
        if slots.SLOT_HEAD.unpack_from(data)[1] == 1:
            data[:] = make_slots({"serial": 2, "holds_of": {20: 1}}, slot_count=1).tobytes()
            return replace(whole(*place), serial=1)
        return whole(*place)

    monkeypatch.setattr(slots, "thread_counters", torn)
    found = slots.steady_counters(data, 0, 100)

    assert found is not None
    assert (found.serial, found.hold_buckets[20]) == (2, 1)
    assert slots.steady_counters(bytes(len(data)), 0, 100) is None


def test_there_are_only_so_many_roles():
    """Threads beyond the allowed number of roles are `other`, which is one of the allowed."""
    roles = Roles(lambda name: name, 3)
    add(roles, make_snapshot(100, *({"serial": n, "name": f"n{n}", "hold_ns": 1} for n in range(1, 8))))

    assert {role: one[0] for role, one in totals(roles).items()} == {"n1": 1, "n2": 1, OTHER: 5}


def test_the_histograms_are_cumulative():
    """Buckets have bounds in seconds and include all smaller ones; sums leave out what is in progress."""
    roles = Roles(normalised, 20)
    waiting = {"wait_ns": 900, "state": "waiting", "since_ns": 0, "waits_of": {10: 2, 11: 1, 35: 1}}
    add(roles, make_snapshot(1000, {"serial": 1, "name": "w", "holds_of": {34: 3}, **waiting}))
    one = roles.totals[0, "w"]

    bounds = dict(cumulative(one.wait_buckets))
    assert (one.wait_ns, one.ended_wait_ns) == (1900, 900)
    assert (bounds[1.024e-06], bounds[4.096e-06], bounds[17.179869184]) == (2, 3, 3)
    assert sum(one.wait_buckets) == 4
    assert dict(cumulative(one.hold_buckets))[4.294967296] == 0
    assert dict(cumulative(one.hold_buckets))[17.179869184] == 3


@pytest.mark.parametrize(
    ("counted", "sum_s", "least_s", "most_s"),
    [
        ({}, 0.0, 0.0, 0.0),
        ({"waits_of": {20: 1}}, 0.0007, 0.000524288, 0.0007),
        ({"waits_of": {20: 1, 35: 1}}, 60.0007, 0.000524288, 60.000175712),
        ({"waits_of": {35: 2}}, 60.0, 17.179869184, 42.820130816),
        ({"waits_of": {20: 2}}, 0.0001, 0.000524288, 0.000524288),
        ({"worlds_of": {0: 1, 1: 2}}, 4e-6, 0.0, 2.976e-6),
        ({"worlds_of": {15: 1}}, 300.0, 17.179869184, 300.0),
    ],
    ids=["none", "one", "one and longer than all bounds", "two longer", "torn", "stopped world", "longest of worlds"],
)
def test_the_shortest_and_the_longest_have_bounds(counted, sum_s, least_s, most_s):
    """A length is within its bucket, the last one has no end, and the longest is not above what the total leaves."""
    roles = Roles()
    lengths = {"world_ns": round(sum_s * 1e9)} if "worlds_of" in counted else {"wait_ns": round(sum_s * 1e9)}
    add(roles, make_snapshot(1000, {"serial": 1, "name": "w", **lengths, **counted}))
    (one,) = series("world" if "worlds_of" in counted else "wait", roles.totals.items())

    assert one.extremes_s == pytest.approx((least_s, most_s))


def test_stopped_worlds_have_coarser_bounds():
    """The buckets of stop-the-world are those between the histogram's bounds; roles without a pause have no series."""
    roles = Roles(normalised, 20)
    stopped = {"world_ns": 3000, "worlds_of": {0: 2, 1: 1, 12: 3, 13: 4, 15: 5}}
    add(roles, make_snapshot(1000, {"serial": 1, "name": "w", **stopped}, {"serial": 2, "name": "other"}))
    (found,) = series("world", roles.totals.items())
    bounds = dict(cumulative(found.buckets))

    assert (found.gil, found.role, found.sum_s) == (0, "w", 3e-06)
    assert (bounds[1.024e-06], bounds[4.096e-06], bounds[16.384e-06]) == (2, 3, 3)
    assert (bounds[4.294967296], bounds[17.179869184], sum(found.buckets)) == (3, 6, 15)
    assert {one.role for one in series("wait", roles.totals.items())} == {"w", "other"}


def test_gils_are_told_apart():
    """The threads of one pool in two interpreters with own GILs are two series."""
    roles = Roles()
    threads = [{"serial": n, "name": "w", "gil": n % 2, "hold_ns": n} for n in range(1, 5)]
    add(roles, make_snapshot(100, *threads))

    assert {key: one.hold_ns for key, one in roles.totals.items()} == {(1, "w"): 4, (0, "w"): 6}


class Counted:
    """A ring with counters."""

    def __init__(self, *threads, laps=()):
        self.snapshot = make_snapshot(100, *threads)
        self.gone = False
        self.laps = SimpleNamespace(lengths=[0] * 21 + list(laps), lengths_ns=sum(laps))

    def counters(self, _now_ns):
        return self.snapshot.threads


def test_a_service_has_the_sum_of_its_processes_the_ended_ones_too():
    """A service's totals do not decrease when a worker ends, whose ring is not read again."""
    first = Counted({"serial": 1, "name": "w", "hold_ns": 7, "holds_of": {20: 1}}, laps=[2])
    second = Counted({"serial": 1, "name": "w", "hold_ns": 5}, laps=[1, 4])
    service = ServiceTotals()
    service.now([first, second], 100)
    service.end(first, 100)
    del first.snapshot
    found = service.now([first, second], 100)

    assert {key: one.hold_ns for key, one in found.roles.items()} == {(0, "w"): 12}
    assert (found.laps[21:], found.laps_ns, found.processes) == ([3, 4], 7, 1)
    second.gone = True  # its last stalls are still analysed
    assert service.now([first, second], 100).processes == 0


def test_a_service_has_so_many_series():
    """Threads of other names are `other` from the hundredth series on, and nothing is lost."""
    service = ServiceTotals()
    for worker in range(30):
        ring = Counted(*({"serial": n, "name": f"w{worker}x{n}y", "hold_ns": 1} for n in range(1, 9)))
        service.now([ring], 100)
        service.end(ring, 100)
    found = service.now([], 100)

    assert len(found.roles) == 101
    assert sum(one.hold_ns for one in found.roles.values()) == 240
    assert found.roles[0, OTHER].hold_ns == 140


def test_the_text_is_what_prometheus_reads():
    """All samples come back from the text, also with quotes and line ends in labels, and each has its type."""
    totals = Totals(stalls={('a "b"\n', "GIL"): (2, 0.5)}, laps=[0] * 22 + [3], laps_ns=9_000_000, processes=1)
    roles = Roles()
    add(roles, make_snapshot(100, {"serial": 1, "name": "w\\", "holds": 3, "forced": 1, "holds_of": {12: 3}}))
    totals.roles = roles.totals
    families = {one.name: one for one in parse("\n".join(exposition(totals)) + "\n")}

    (stall,) = (one for one in families["headway_stalls"].samples if one.value)
    assert (stall.labels, stall.value) == ({"kind": 'a "b"\n', "cause": "GIL"}, 2)
    hold = families["cpython_gil_hold_duration_seconds"]
    assert hold.type == "histogram"
    assert [one.value for one in hold.samples if one.labels.get("le") in ("1.024e-06", "4.096e-06", "+Inf")] == [
        0,
        3,
        3,
    ]
    assert {one.labels["reason"]: one.value for one in families["cpython_gil_handoffs"].samples} == {
        "voluntary": 2,
        "forced": 1,
    }
    delay = families["asyncio_eventloop_delay_seconds"]
    assert delay.samples[-1].value in (3, 0.009)
    assert "without a core before that step does not count" in delay.documentation


def test_stalls_are_counted_from_zero():
    """Each kind and cause of stall is there before its first stall, which Prometheus sees as an increase then."""
    families = {one.name: one for one in parse("\n".join(exposition(Totals())) + "\n")}

    for name in ("headway_stalls", "headway_stalls_seconds"):
        found = {(one.labels["kind"], one.labels["cause"]): one.value for one in families[name].samples}
        assert found == {(kind.value, cause.value): 0 for kind in StallKind for cause in Cause}


def test_a_hold_in_progress_counts():
    """A thread that has held the GIL for a minute has that minute in its time, and none yet in its histogram."""
    roles = Roles()
    add(roles, make_snapshot(61 * 10**9, {"serial": 1, "name": "w", "holds": 1, "state": "holding", "since_ns": 10**9}))
    text = "\n".join(exposition(Totals(roles=roles.totals))) + "\n"
    found = {one.name: one.value for family in parse(text) for one in family.samples if one.labels.get("role") == "w"}

    assert found["cpython_gil_hold_time_seconds_total"] == 60
    assert found["cpython_gil_wait_time_seconds_total"] == found["cpython_gil_hold_duration_seconds_sum"] == 0


def test_old_names_stay_for_one_release():
    """Old names are given with a warning, unless they are switched off."""
    with pytest.warns(DeprecationWarning, match="python_gil_"):
        both = {one.name for one in metrics.GilCollector().describe()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = {one.name for one in metrics.GilCollector(old_names=False).describe()}

    assert new == {
        "cpython_gil_wait_duration_seconds",
        "cpython_gil_hold_duration_seconds",
        "cpython_stop_the_world_duration_seconds",
        "cpython_gil_hold_time_seconds",
        "cpython_gil_wait_time_seconds",
        "cpython_gil_handoffs",
        "cpython_gil_enabled",
        "asyncio_eventloop_delay_seconds",
        "headway_stalls",
        "headway_stalls_seconds",
    }
    assert both - new == {
        "python_gil_hold_seconds",
        "python_gil_wait_seconds",
        "python_gil_handovers",
        "python_gil_wait_duration_seconds",
    }


@pytest.mark.parametrize(("old_names", "more"), [(True, {"reason"}), (False, set())])
def test_the_attributes_of_opentelemetry_have_namespaces(monkeypatch, old_names, more):
    """The old attribute of hand-offs stays for one release, with a warning."""
    monkeypatch.setattr(metrics.Counting, "totals", lambda _: {(0, "w"): RoleTotals(voluntary=3, forced=1)})
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        metrics.instrument(provider, old_names=old_names)
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    (points,) = [one.data.data_points for one in scope.metrics if one.name == "cpython.gil.handoffs"]
    provider.shutdown()

    assert [set(one.attributes) for one in points] == [
        {"cpython.gil", "thread.role", "cpython.handoff.reason"} | more
    ] * 2
    assert {one.attributes["cpython.handoff.reason"]: one.value for one in points} == {"voluntary": 3, "forced": 1}
    assert len(warned) == old_names


@pytest.fixture
def held(monkeypatch):
    """Return a list whose last item is the time in ns that this process's one thread has held the GIL."""
    times = [50]

    def snapshot():
        return make_snapshot(100, {"serial": 1, "name": "w", "hold_ns": times[-1]}, start_ns=3)

    monkeypatch.setattr(metrics, "gil_times", lambda: None)
    monkeypatch.setattr(metrics, "Watch", lambda _: SimpleNamespace(snapshot=snapshot))
    return times


def test_a_forked_child_counts_from_zero(held):
    """A child has its own totals, and the time from which they count."""
    counting = metrics.Counting(None, 20)
    since_ns = counting.since_ns
    counting.totals()
    metrics.Counting.after_fork()
    held.append(7)

    assert {role: one.hold_ns for (_, role), one in counting.totals().items()} == {"w": 7}
    assert counting.since_ns > since_ns


def test_opentelemetry_s_counters_go_on_in_a_forked_child(held):
    """The SDK of a child remembers its parent's values, and with delta temporality it would send negative ones."""
    reader = InMemoryMetricReader(preferred_temporality={ObservableCounter: AggregationTemporality.DELTA})
    provider = MeterProvider([reader])
    metrics.instrument(provider, old_names=False)

    def hold_times():
        (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
        (data,) = [one.data for one in scope.metrics if one.name == "cpython.gil.hold.time"]
        return [point.value for point in data.data_points]

    found = hold_times()
    metrics.Counting.after_fork()
    held.append(7)
    found += hold_times()
    provider.shutdown()

    assert found == [pytest.approx(50e-9), pytest.approx(7e-9)]


COUNTED = Counts(5, [0] * 22 + [3] + [0] * 17, 9_000_000, {("event loop", "GIL"): (2, 0.5)})


def test_opentelemetry_has_the_stalls_of_a_watched_process(held, monkeypatch):
    """Each kind and cause has its number and its time, from 0 on, under attributes with namespaces."""
    monkeypatch.setattr(OwnCounts, "now", lambda _: COUNTED)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    metrics.instrument(provider, old_names=False)
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    provider.shutdown()
    by_name = {one.name: one for one in scope.metrics}

    for name, unit, value in (("headway.stalls", "{stall}", 2), ("headway.stall.time", "s", 0.5)):
        points = {
            (one.attributes.pop("headway.stall.kind"), one.attributes.pop("headway.stall.cause")): one
            for one in by_name[name].data.data_points
        }
        assert by_name[name].unit == unit
        assert {key: one.value for key, one in points.items() if one.value} == {("event loop", "GIL"): value}
        assert set(points) == {(kind.value, cause.value) for kind in StallKind for cause in Cause}
        assert not any(one.attributes for one in points.values())


def test_prometheus_has_the_counts_of_a_watched_process_as_its_watcher_serves_them(held, monkeypatch):
    """Names, labels, bounds and figures are the watcher's own, for this process alone."""
    monkeypatch.setattr(OwnCounts, "now", lambda _: COUNTED)
    registry = CollectorRegistry()
    registry.register(metrics.GilCollector(old_names=False))
    served = "\n".join(exposition(Totals(COUNTED.stalls, laps=list(COUNTED.laps), laps_ns=COUNTED.laps_ns))) + "\n"

    def ours(text):
        return {
            (one.name, *sorted(one.labels.items())): one.value
            for family in parse(text)
            for one in family.samples
            if one.name.startswith(("asyncio", "headway_stalls"))
        }

    found = ours(generate_latest(registry).decode())
    assert found == ours(served)
    assert found["headway_stalls_total", ("cause", "GIL"), ("kind", "event loop")] == 2
    assert found["asyncio_eventloop_delay_seconds_count",] == 3


def test_a_process_that_is_not_watched_has_no_metrics_of_stalls(held, monkeypatch):
    """No figures are better than zeros: nobody has looked for stalls."""
    monkeypatch.setattr(OwnCounts, "now", lambda _: None)
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    registry.register(metrics.GilCollector(old_names=False))
    provider = MeterProvider([reader])
    metrics.instrument(provider, old_names=False)
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    provider.shutdown()

    assert "cpython.gil.hold.time" in {one.name for one in scope.metrics}
    assert not any(one.data.data_points for one in scope.metrics if one.name.startswith("headway"))
    text = generate_latest(registry).decode()
    assert "cpython_gil_hold_time_seconds_total" in text
    assert "headway_stalls" not in text
    assert "asyncio_eventloop" not in text


def test_no_role_at_all_is_an_error():
    """A limit of no roles is an error."""
    with pytest.raises(ValueError, match="max_roles is 0"):
        metrics.GilCollector(max_roles=0)


@pytest.fixture(params=[NativeError("the native library is missing"), OSError("no descriptor is left")], ids=str)
def cannot_count(request, monkeypatch):
    """Nothing of this process can be recorded, for the reason that is returned."""

    def totals(_):
        raise request.param

    monkeypatch.setattr(metrics.Counting, "totals", totals)
    return str(request.param)


def test_prometheus_scrapes_the_program_where_nothing_can_be_recorded(cannot_count, caplog):
    """A scrape has the program's own metrics, and the log says once why ours are missing."""
    registry = CollectorRegistry()
    Counter("orders", "Orders.", registry=registry).inc()
    registry.register(metrics.GilCollector(old_names=False))

    for _ in range(2):
        assert b"orders_total 1.0" in generate_latest(registry)

    assert caplog.messages == [f"there are no metrics of the GIL: {cannot_count}"]


def test_opentelemetry_sends_the_program_s_metrics_where_nothing_can_be_recorded(cannot_count, caplog, tmp_path):
    """The wrapped exporter gets the program's own metrics, and no callback fails."""
    with (tmp_path / "sent").open("w+") as sent:
        exporter = GilExporter(ConsoleMetricExporter(out=sent))
        provider = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)])
        metrics.instrument(provider, old_names=False)
        provider.get_meter("shop").create_counter("orders").add(1)
        provider.shutdown()
        sent.seek(0)
        text = sent.read()

    assert '"orders"' in text
    assert "cpython.gil" not in text
    assert set(caplog.messages) == {f"there are no metrics of the GIL: {cannot_count}"}
