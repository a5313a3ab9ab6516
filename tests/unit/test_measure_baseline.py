"""Stored sessions: their contents, and the drift that a ratio to them includes."""

import json
import math
import random
import sys
import time
import types
from dataclasses import replace

import pytest

from headway.errors import UsageError
from headway.lab.stats import Interval
from headway.measure import baseline, intervals, seen
from headway.measure.against import Revision
from headway.measure.baseline import DRIFT, PROCESS, Stored, summary
from headway.measure.bench import Bench
from headway.measure.children import Launched
from headway.measure.journal import Entry, Journal, Options
from headway.measure.measured import Measured
from headway.measure.result import Figure, Result
from headway.pytest_options import Asked
from headway.report import benchmarks
from headway.report.benchmarks import Shown, benchmark_tables, regressions, session_to_json


def session(level, mood=1.0, seed=1, rounds=50):
    """Return what a session measured of a benchmark that computes, on a machine that is slower than usual by `mood`."""
    noise = random.Random(seed)
    beside = [mood * 0.01 * math.exp(noise.gauss(0, 0.01)) for _ in range(rounds)]
    values = [mood * level * math.exp(noise.gauss(0, 0.01)) for _ in range(rounds)]
    return Measured(values_s=tuple(values), calls=10, reference_s=tuple(beside), computed=1.02)


def result(level, **changes):
    return Result(name="it", model="serial", launches=(session(level, **changes),))


def stored(*sessions):
    """Return sessions as they are read from their file."""
    entries = [{"f": [Entry(Result(name="it", model="serial", launches=(one,)), "f", "it")]} for one in sessions]
    values = {"sessions": [session_to_json(one, None) for one in entries]}
    return Stored.from_json("base", json.loads(json.dumps(values)))


@pytest.fixture(autouse=True)
def _no_repository(monkeypatch):
    monkeypatch.setattr("headway.report.benchmarks.commit_info", lambda _folder: {})


def test_a_slower_machine_is_no_regression():
    """A slower machine is no regression, because it makes the reference slower, too."""
    found = stored(session(0.001)).ratio(Entry(result(0.001, mood=1.3, seed=2), "f", "it"))

    assert found.low < 1 < found.high
    assert found.high < 1.11


@pytest.mark.parametrize("computed", [None, 0.01, 0.5])
@pytest.mark.parametrize("speed", [0.5, 0.77, 1.3, 2.0])
def test_code_that_waits_is_no_regression_on_another_machine(speed, computed):
    """Waiting takes as long on a machine of another speed, and the ratio to the reference claims nothing.

    The other machine's session has another share in which it computed.
    """
    waits = replace(session(0.001), computed=computed)
    took = (computed or 0) * speed + 1 - (computed or 0)
    there = None if computed is None else computed * speed / took
    one = replace(session(0.001 * took, seed=2), computed=there)
    faster = replace(one, reference_s=tuple(speed * value for value in one.reference_s))
    now = Entry(Result(name="it", model="serial", launches=(faster,)), "f", "it")
    found = stored(waits).ratio(now)

    assert found.low < 1 < found.high
    assert found.value == pytest.approx(1, abs=0.01)
    assert regressions({"f": [now]}, stored(waits), 1.0) == ([], 1)


def test_another_python_or_cpu_is_told():
    """A warning names the Python and the CPU of stored sessions, if this session has others."""
    earlier = stored(session(0.001))
    (python,), (cpu,) = earlier.pythons, earlier.cpus

    assert earlier.apart(f"{python}.99", cpu) == []
    told = earlier.apart("2.7.18", "Z80")
    assert told[0].startswith(f"! base was measured with another Python ({python}; now 2.7): ")
    assert told[1].startswith(f"! base was measured with another CPU ({cpu}; now Z80): ")


def test_a_real_difference_is_one():
    """A difference of ten percent is a regression beyond a limit of five."""
    earlier = stored(session(0.001))
    groups = {"f": [Entry(result(0.0011, mood=0.8, seed=2), "f", "it")]}
    told, compared = regressions(groups, earlier, 1.05)

    assert compared == 1
    assert told[0].startswith("f: it takes 1.10 [")
    assert regressions(groups, earlier, 1.2) == ([], 1)
    # Three percent more exceed the limit, but not beyond doubt.
    nearly = {"f": [Entry(result(0.00103, seed=2), "f", "it")]}
    assert regressions(nearly, earlier, 1.01) == ([], 1)


def test_a_benchmark_that_no_launch_measured_fails_the_comparison_unless_it_is_new():
    """A benchmark whose launches all crash now, and did not before, is told beside one that is compared."""
    gone = Result(name="it", model="serial", why_not="no launch measured it", failed=("exit code -11",) * 6)
    fine = Entry(result(0.001, seed=2), "f", "it")
    crashed, new = Entry(gone, "f", "it"), Entry(gone, "f", "other")
    earlier = stored(session(0.001))

    assert regressions({"f": [fine, crashed, new]}, earlier, 1.05) == (
        ["f: it could not be compared with base: exit code -11"],
        1,
    )


def test_a_launch_that_is_left_of_several_is_no_comparison():
    """A benchmark of which one pair of launches is left is told as well, although it has a ratio."""
    pair = replace(session(0.001), beside="pair")
    now = replace(result(0.001), launches=(pair,), failed=("exit code 3",))
    other = Revision("HEAD", {"key": replace(now, failed=())})
    told, compared = regressions({"f": [Entry(now, "f", "it", key="key")]}, other, 1.05)

    assert (told, compared) == (["f: it could not be compared with HEAD: exit code 3"], 0)


def test_a_launch_that_is_left_of_several_is_not_compared_with_stored_sessions():
    """A benchmark whose other launches crashed has a finite interval, which stored sessions give it, and is told."""
    stored_there = [result(0.001, seed=seed).launches[0] for seed in range(6)]
    now = replace(result(0.001, seed=9), failed=("exit code -11",) * 5)
    earlier = stored(*stored_there)
    told, compared = regressions({"f": [Entry(now, "f", "it")]}, earlier, 1.05)

    assert math.isfinite(earlier.ratio(Entry(now, "f", "it")).high)
    assert (told, compared) == (["f: it could not be compared with base: exit code -11"], 0)


def test_a_test_that_ran_again_is_one_stored_session():
    """The last result of a key counts in a session that has it twice; two sessions stay two."""
    twice = [Entry(result(level), "f", label, key="key") for level, label in ((0.002, "it"), (0.001, "it (2)"))]
    values = {"sessions": [session_to_json({"f": twice}, None)] * 2}
    found = Stored.from_json("base", json.loads(json.dumps(values))).known["key"]

    assert [len(one) for one in found.sessions] == [1, 1]
    assert all(launch.values_s[0] < 0.0015 for one in found.sessions for launch in one)


def test_launches_that_never_took_turns_fail_the_comparison():
    """A benchmark that each tree measured, but in no pair of launches, has no ratio, and the session is not green."""
    one = replace(session(0.001), beside="first pair")
    other = Revision("HEAD", {"key": replace(result(0.001), launches=(replace(one, beside="second pair"),))})
    now = Entry(replace(result(0.001), launches=(one,)), "f", "it", key="key")

    assert regressions({"f": [now]}, other, 1.05) == (
        ["f: it could not be compared with HEAD: no launch measured both"],
        0,
    )
    assert regressions({"f": [replace(now, key="new")]}, other, 1.05) == ([], 0)


def test_an_open_load_has_a_ratio_to_a_stored_one():
    """The stretches of an open load are compared as rounds are, each with the reference that ran beside the load."""
    journal = Journal(test="it", group="f", reference=lambda: sum(range(100)))
    now = Bench(journal, Options(seconds=0.01)).open(time.sleep, 0.002, rate=100, seconds=0.2)
    (one,) = now.launches
    earlier = stored(one)
    entry = Entry(now, "f", "it")

    assert len(one.values_s) == len(one.reference_s) == 5
    assert earlier.has(entry)
    assert earlier.ratio(entry).value == pytest.approx(1)


def test_several_sessions_tell_how_they_drift():
    """Sessions that differ by more than usual widen the interval, and sessions that agree narrow it."""
    noise = random.Random(3)
    wild = [session(0.001 * math.exp(noise.gauss(0, 0.1)), seed=place) for place in range(8)]
    calm = [session(0.001, seed=place) for place in range(8)]
    now = result(0.001, seed=99)
    widths = [stored(*one).ratio(Entry(now, "f", "it")).half_width for one in ([calm[0]], wild, calm)]

    assert widths[1] > widths[0] > widths[2]
    assert widths[0] == pytest.approx(math.expm1(2.042 * math.sqrt(2 * (DRIFT**2 + PROCESS**2))), rel=0.01)


def test_launches_tell_how_processes_differ():
    """The launches of all sessions together show how processes differ."""

    def launched(deviation, seed):
        noise = random.Random(seed)
        levels = [0.001 * math.exp(noise.gauss(0, deviation)) for _ in range(5)]
        return Result(
            name="it", model="serial", launches=tuple(session(one, seed=place) for place, one in enumerate(levels))
        )

    widths = []
    for deviation in (0.002, 0.05):
        before = {"f": [Entry(launched(deviation, 1), "f", "it")]}
        values = json.loads(json.dumps({"sessions": [session_to_json(before, None)]}))
        widths.append(Stored.from_json("base", values).ratio(Entry(launched(deviation, 2), "f", "it")).half_width)

    assert widths[0] == pytest.approx(math.expm1(2.306 * math.sqrt(2) * DRIFT), rel=0.1)
    assert widths[1] > 2 * widths[0]


def test_a_session_of_fewer_launches_than_the_stored_ones_is_less_certain():
    """A session of one launch says less than one of six, also if many stored sessions tell how sessions differ."""
    noise = random.Random(5)

    def launched(count):
        levels = [0.001 * math.exp(noise.gauss(0, PROCESS)) for _ in range(count)]
        return tuple(session(one, seed=noise.random()) for one in levels)

    known = baseline.Known(tuple(launched(6) for _ in range(10)))
    low_and_high = [known.ratio(Result(name="it", model="serial", launches=launched(1))) for _ in range(200)]

    # Without the single process's own deviation, 48 intervals would miss 1.
    assert sum(one.low < 1 < one.high for one in low_and_high) > 180


def test_benchmarks_of_one_label_are_found_by_their_tests():
    """Benchmarks that share a label are compared each with itself, also if the tests run in another order."""
    levels = {"t::a: parse": 0.001, "t::b: parse": 0.1}

    def entries(*keys):
        labels = ("parse", "parse (2)")
        return [Entry(result(levels[key]), "f", label, key=key) for key, label in zip(keys, labels, strict=False)]

    values = json.loads(json.dumps(session_to_json({"f": entries(*levels)}, None)))
    before = Stored.from_json("base", values)
    for now in (*entries(*levels), *entries(*reversed(levels)), *entries("t::b: parse")):
        assert before.ratio(now).value == pytest.approx(1, abs=0.01)
    assert before.ratio(Entry(result(0.001), "f", "parse", key="t::c: parse")) is None
    # Files of an earlier version have no keys.
    for one in values["groups"]["f"]:
        del one["key"]
    old = Stored.from_json("base", values)
    assert [old.ratio(now).value for now in entries(*levels)] == [pytest.approx(1, abs=0.01)] * 2


def test_benchmarks_of_one_label_are_found_in_another_revision():
    """Two tests whose benchmarks share a name are compared each with its own results in the other tree."""
    revision, nows = Revision("main"), []
    for test, level in (("a", 0.001), ("b", 0.1)):
        here, there = (
            Result(name="parse", model="serial", launches=(replace(session(level), beside=test),)) for _ in range(2)
        )
        journal = Journal(test=test, group="f", entries={"parse": Entry(here, "f", "parse")})
        revision.take(journal, Launched({"parse": there.launches}))
        nows += journal.keyed()

    assert [revision.ratio(now).value for now in nows] == [1, 1]


def test_without_a_reference_there_is_no_ratio():
    """A session without a reference, as `--headway-json` writes it, gives no ratio."""
    bare = replace(session(0.001), reference_s=())

    assert stored(bare).ratio(Entry(result(0.001), "f", "it")) is None
    assert stored(session(0.001)).ratio(Entry(result(0.001), "f", "other")) is None


def test_what_is_stored_of_a_session_is_small():
    """A stored session is small for any number of calls, and keeps its levels and ratios."""
    full = replace(session(0.001, rounds=1000), latencies_s=(0.001,) * 100_000, lags_s=(0.1,) * 1000)
    kept = Measured.from_json(json.loads(json.dumps(summary(full))))

    assert len(json.dumps(summary(full))) < 2000
    assert kept.values_s == tuple(intervals.blocks(full.values_s))
    before = [mine / theirs for mine, theirs in zip(full.values_s, full.reference_s, strict=True)]
    after = [mine / theirs for mine, theirs in zip(kept.values_s, kept.reference_s, strict=True)]
    assert sorted(after)[6] == pytest.approx(sorted(before)[500], rel=0.01)


@pytest.mark.parametrize("text", ["5", "five%", "-5%", "nan%", "inf%", ""])
def test_a_limit_is_a_percentage(text):
    """A limit that is no percentage is refused before anything runs."""
    with pytest.raises(UsageError, match="is not a limit"):
        baseline.limit_of(text)


def test_a_limit_in_percent_is_a_factor():
    """A limit in percent is a factor of the earlier time."""
    assert baseline.limit_of("5%") == 1.05


def test_ratios_stand_only_beside_what_took_turns():
    """Ratios are shown only for benchmarks that took turns."""
    one, other = (Entry(result(level), "f", name) for level, name in ((0.001, "a"), (0.002, "b")))
    (table,) = benchmark_tables({"f": [one, other]})
    assert not [heading for heading in table.columns if heading.startswith("ratio")]


def test_tables_are_as_they_are_wanted():
    """Tables have the columns, the order and the unit that were asked for."""
    entries = [Entry(result(level), "f", name) for level, name in ((0.002, "b"), (0.001, "c"), (0.003, "a"))]

    def labels(how):
        return [row[0] for row in benchmark_tables({"f": entries}, None, how)[0].rows]

    assert [labels(Shown(order=order)) for order in ("time", "name", "given")] == [
        list("cba"),
        list("abc"),
        list("bca"),
    ]
    (table,) = benchmark_tables({"f": entries}, None, Shown(columns=("time",), unit="us"))
    assert table.columns == ("benchmark", "time per call")
    assert all(" us ±" in row[1] for row in table.rows)


@pytest.mark.parametrize(
    ("level", "shown"),
    [(0.05, "50,000 us"), (1.0, "1,000,000 us"), (0.000_999_96, "1,000 us"), (0.000_123_46, "123.5 us")],
)
def test_times_in_a_unit_of_choice_are_written_out(level, shown):
    """A unit that makes large figures shows them with all digits before the point, and not with an exponent."""
    launch = replace(session(level), values_s=(level,) * 5)
    entry = Entry(Result(name="it", model="serial", launches=(launch,)), "f", "a")
    (table,) = benchmark_tables({"f": [entry]}, None, Shown(columns=("time",), unit="us"))

    assert table.rows[0][1].split(" ±")[0] == shown


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.00009, 0.00011, "100 us ±11%"),
        (0.00005, 0.0002, "100 us [50 us - 200 us]"),
        (0.0, math.inf, "100 us"),
    ],
)
def test_a_time_in_a_given_unit_has_its_interval_too(low, high, text):
    """A wide interval is shown in the unit that was asked for; without it the figure would look exact."""
    assert benchmarks._time(Interval(0.0001, low, high, "student"), "us") == text


def test_a_figure_of_what_was_not_to_be_measured_is_below_and_above_everything():
    """A figure that was not to be measured passes every limit, so that such a session fails no test."""
    figure = Result(name="it", model="serial", why_not="`--headway-disable`", provisional=True).percentile_s(0.99)

    assert isinstance(figure, Figure)
    assert figure < 1
    assert figure > 1
    assert 1 <= figure <= 1
    assert 2 * figure + 1 < 0
    assert 1 / figure > 5
    assert abs(figure - figure) < 0.001
    assert -figure > 0
    assert round(figure) < round(figure, 2)
    assert figure**2 < 1
    assert 2**figure % 3 > 5
    assert 7 // figure < 0


def test_a_percentile_may_be_asserted():
    """A percentile can be asserted with an interval, of one launch and of several; the figure is the interval's value."""
    noise = random.Random(1)
    calls = [math.exp(noise.gauss(0, 0.3)) / 100 for _ in range(20_000)]

    def load(*latencies):
        launches = tuple(Measured(values_s=(0.01,), calls=10, latencies_s=tuple(one)) for one in latencies)
        return Result(name="it", model="threads", launches=launches)

    few, many, launches = load(calls[:400]), load(calls), load(calls[:1000], calls[1000:2000], calls[2000:3000])
    for one in (few, many, launches):
        assert one.percentile(0.9).interval.method == "order statistics"
        assert one.percentile(0.9).value_s == one.percentile_s(0.9)
        assert one.percentile(0.9).below(0.02)
        assert not one.percentile(0.9).below(0.0146)
        assert one.percentile(0.9).above(0.01)
        # A limit in seconds needs 10 % of room beyond the interval.
        within = one.percentile(0.9).interval
        assert not one.percentile(0.9).below(1.09 * within.high)
        assert one.percentile(0.9).below(1.11 * within.high)
        assert not one.percentile(0.9).above(within.low / 1.09)
        assert one.percentile(0.9).above(within.low / 1.11)
    assert few.percentile(0.999).interval.high == math.inf
    assert not few.percentile(0.999).below(1.0)
    # Launches of few calls agree in what none of them shows.
    agreed = load(*([0.01] * 400,) * 2)
    assert agreed.percentile(0.9).below(0.02)
    assert agreed.percentile(0.999).interval.high == math.inf
    # It needs 3,688 independent calls; six blocks of calls that differ know little of bursts.
    for one, times in ((few, "15.9"), (agreed, "4.7")):
        told = f"; too few calls or bursts to bound it; about {times} times as many would ("
        assert told in repr(one.percentile(0.999).below(1.0))
    # All their calls together are enough, and the launches' own differences still count.
    together = load(*([0.01] * 400,) * 20, [0.03] * 400).percentile(0.99)
    assert together.interval.method == "order statistics"
    assert together.interval.low < 0.01
    assert together.interval.high == 0.03
    with pytest.raises(UsageError, match="not a share of calls"):
        few.percentile(99)


def test_a_limit_in_seconds_allows_for_the_sessions_mood():
    """A limit in seconds allows for a session's level, which none of its rounds shows."""
    one = result(0.001)

    assert one.takes_less_than(0.0012)
    assert not one.takes_less_than(0.00105)
    assert one.interval.half_width < 0.02


def test_what_looks_at_every_line_is_named():
    """A trace function is named by its module, and a tool of sys.monitoring by its name."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert __name__.partition(".")[0] in seen.tracing_tools()
    finally:
        sys.settrace(before)


def trace(_frame, _event, _argument):
    return None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"groups": {"f', "it is cut off or damaged: Unterminated string"),
        (b"\xff", "it is cut off or damaged: 'utf-8' codec"),
        (b"{}", "it has no 'groups'"),
        (b"[]", "its values have another form"),
        (b'{"groups": {"f": [{"label": 7, "model": "serial", "tasks": 1, "launches": []}]}}', "7 is not a name"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, content, why):
    """A damaged file is told from one that has something else in it, and the user is told what to do."""
    (tmp_path / ".headway").mkdir()
    (tmp_path / ".headway" / "base.json").write_bytes(content)
    with pytest.raises(UsageError, match=f"base.json holds no results of Headway: {why}") as error:
        asked(tmp_path).stored("compare", "base")
    assert "store the session again" in error.value.hint


def test_a_folder_is_no_stored_session(tmp_path):
    """A folder that is called as a stored session is told, and is not among the names that are stored."""
    (tmp_path / ".headway" / "folder.json").mkdir(parents=True)
    (tmp_path / ".headway" / "base.json").write_text("{}")
    with pytest.raises(UsageError, match=r"folder\.json is a folder"):
        asked(tmp_path).stored("compare", "folder")
    with pytest.raises(UsageError, match=r"stored names are base$"):
        asked(tmp_path).stored("compare", "other")


def asked(folder):
    parameters = types.SimpleNamespace(dir=folder)
    return Asked(types.SimpleNamespace(rootpath=folder, invocation_params=parameters, option=types.SimpleNamespace()))
