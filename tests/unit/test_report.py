"""Tables and text of a run, in one file because all of them read the same few runs on paper."""

import io
import math
import re
from dataclasses import replace

import pytest
from drawn_tables import headings
from rich.console import Console
from synthetic import make_cell, make_interpreter

from headway.lab import stats
from headway.lab.design import ONE_WORKER, Claim, Comparison, Experiment, Level, Published, above, below, both_kinds
from headway.lab.experiments import experiment
from headway.lab.judging.compare import compare
from headway.lab.kept.launched import Launch
from headway.lab.plan import Skipped, cell_from_json, cell_to_json
from headway.report import (
    Table,
    costs_table,
    experiment_tables,
    published_tables,
    render_comparison,
    render_run,
    render_table,
    run_to_json,
    run_to_pyperf,
)
from headway.report.figures import level, metric_words, unit_of
from headway.report.lab.claimed import counted, heading
from headway.report.lab.matching import answers, column_key, in_row, published_amount, same_thing
from headway.report.lab.notes import left_out
from headway.report.lab.tables import amount, number, ratio, seconds
from headway.report.layout import indented


def text_of(rendered, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(rendered)
    return console.file.getvalue()  # type: ignore[attr-defined]


def cell(label, values, **metrics):
    return make_cell("cpu-bound", label, "3.13.0", params={"n": 1, "tasks": 4}, series=label), {
        "work_s": [[value] for value in values],
        **metrics,
    }


GIL = make_interpreter("3.15.2")
FREE = make_interpreter("3.13.5", free_threaded=True)


@pytest.fixture
def declare(monkeypatch):
    """Return a function that makes an experiment on paper the only one."""

    def declare(*claims, **changes):
        values = {"name": "paper", "question": "Why?", "method": "-", "included": "-", "baseline": "serial"}
        one = Experiment(**{**values, "variants": lambda _: [], "claims": claims, **changes})
        monkeypatch.setattr("headway.lab.kept.results.experiments", lambda: (one,))
        return one

    return declare


def paper(series, metrics, interpreter=GIL, *, setting="", placement="free", name="paper", **changes):
    """Return a cell of the experiment on paper: every launch of a metric gives one value."""
    where = getattr(interpreter, "id", interpreter)
    made = make_cell(name, series, where, placement, setting=setting, **changes)
    return made, {metric: [[value] for value in values] for metric, values in metrics.items()}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.5e-9, "2.5 ns"),
        (0.0000123, "12.3 us"),
        (0.0009996, "1 ms"),
        (0.0456, "45.6 ms"),
        (-0.5, "-500 ms"),
        (7.0, "7 s"),
        (123.4, "123 s"),
        (999.6, "1,000 s"),
        (12345.6, "12,346 s"),
    ],
)
def test_times_are_shown_in_their_unit(value, shown):
    """Times from nanoseconds to seconds have three digits."""
    assert seconds(value) == shown


def test_counts_are_not_shown_as_times():
    """A count of lost increments has no unit."""
    assert (amount(80_700, "lost"), amount(0.5, "s")) == ("80,700", "500 ms")


def test_ratios_are_shown_with_their_bounds():
    """Ratios have two digits below ten and fewer above, and no interval from one launch."""
    assert ratio(stats.Interval(0.5, 0.4, 0.6251, "welch")) == "0.50 [0.40-0.63]"
    assert ratio(stats.Interval(0.5, 0.0, math.inf, "one launch")) == "0.50"
    assert ratio(stats.Interval(1.0012, 1.0009, 1.0021, "welch")) == "1.001 [1.001-1.002]"
    assert ratio(stats.Interval(0.25012, 0.25004, 0.25017, "welch")) == "0.2501 [0.2500-0.2502]"
    assert ratio(stats.Interval(0.25, 0.25, 0.25, "welch")) == "0.25 [0.25-0.25]"
    assert [number(value) for value in (9.99, 13.31, 2508.7)] == ["9.99", "13.3", "2,509"]


def test_the_table_has_the_baseline_as_a_time_and_the_rest_as_ratios(make_run):
    """Rows are interpreters, the baseline comes first, and a variant in two modes is marked."""
    run = make_run(
        [
            cell("serial", [0.02] * 6),
            cell("threads", [0.02, 0.02, 0.06, 0.02, 0.06, 0.06]),
            cell("asyncio", [0.02] * 6),
        ],
        launches=6,
    )

    (table,) = experiment_tables(run, experiment("cpu-bound"))

    assert table.columns == ("", "serial", "threads", "asyncio")
    name, serial, threads, asyncio = table.rows[0]
    assert (name, serial, asyncio) == ("3.13", "20 ms", "1.00 [1.00-1.00]")
    assert threads.endswith("!")


def test_without_a_baseline_there_are_no_ratios(make_run):
    """Times are not shown as ratios to a baseline of which every launch failed."""
    run = make_run([cell("serial", []), cell("threads", [0.02, 0.03])])

    (table,) = experiment_tables(run, experiment("cpu-bound"))

    assert table.rows == (("3.13", "-"),)


def test_start_up_is_kept_apart(make_run):
    """Interpreter start, pool start-up with its size, and pickling have a table of their own."""
    apart = {"pool_start_s": [[0.1], [0.1]], "workers": [[4], [4]], "pickle_s": [[1e-5], [1e-5]]}
    apart["interpreter_start_s"] = [[0.015], [0.015]]
    run = make_run([cell("serial", [1.0, 1.0], interpreter_start_s=[[0.015], [0.015]])])
    assert costs_table(run) is None
    made = make_cell("cpu-bound", "processes-spawn", "3.13.0", model="processes-spawn")
    run = make_run([(made, {"work_s": [[1.0], [1.0]], **apart})])

    table = costs_table(run)

    assert table.columns == ("", "interpreter", "spawn", "pickling")
    assert table.rows == (("3.13", "15 ms", "100 ms", "10 us"),)
    assert "4 workers" in table.caption


def test_the_whole_report_names_sources_and_published_ratios(make_run):
    """Verdicts have the published ratio beside ours, and the letters of sources are spelled out."""
    text = text_of(render_run(make_run([cell("serial", [1.0, 1.0]), cell("threads", [1.3, 1.3])])))

    assert "published ratio 1.28 (A1), 1.77 (A5)" in text
    assert "Checking Python's GIL" in text
    assert "INCOMPLETE: 4 of 10 launches" in text


def test_the_heading_tells_the_launches_of_a_run_with_a_budget(make_run):
    """With a budget, only telling cells have several launches from the start."""
    run = make_run([cell("serial", [1.0] * 3)])
    run = replace(run, header=replace(run.header, settings=replace(run.settings, launches=3, budget_s=60.0)))

    assert "3 of each telling cell, 1 of each other, and more for open claims" in heading(run)[-1]


def test_an_incomplete_run_has_no_false_complete_json(make_run):
    """The JSON says how much of the run is there, and has no infinity in it."""
    run = make_run([cell("serial", [1.0]), cell("threads", [1.3])])
    found = run_to_json(run)

    assert found["complete"] is False
    (evidence,) = next(one for one in found["verdicts"] if one["claim"] == "cpu-bound/threads-not-faster")["evidence"]
    assert evidence["ratio"]["high"] is None


def test_pyperf_gets_times_only(make_run):
    """Counts and rates are left out of a pyperf suite."""
    race = make_cell("race", "+= 1, 5 ms", "3.13.0", params={"threads": 4, "k": 10})
    rate = paper("threads", {"requests_per_s": [1.0]}, make_interpreter(), name="convoy")
    run = make_run([cell("serial", [1.0, 2.0]), (race, {"lost": [[1], [2]]}), rate])

    suite = run_to_pyperf(run)

    assert [one["metadata"]["name"] for one in suite["benchmarks"]] == ["cpu-bound, serial, free, 3.13"]
    assert [one["values"] for one in suite["benchmarks"][0]["runs"]] == [[1.0], [2.0]]


def test_a_comparison_says_what_else_changed(make_run):
    """Patches of an interpreter match by the short name, and the report says that they differ."""
    before = make_run([cell("serial", [1.0, 1.0, 1.0])])
    newer = make_interpreter("3.13.5")
    moved = make_cell("cpu-bound", "serial", newer.id, params={"n": 1, "tasks": 4})
    after = make_run([(moved, {"work_s": [[2.0], [2.0], [2.0]]})], [newer])

    differences = compare(before, after)

    assert [one.outcome for one in differences] == ["more"]
    assert "CPython 3.13 differed: 3.13.0, then 3.13.5" in text_of(render_comparison(before, after, differences))


def test_one_launch_a_side_tells_no_difference_and_no_equality(make_run):
    """A ratio of single launches has no interval, and the comparison says so instead of "no difference"."""
    before, after = make_run([cell("serial", [1.0])]), make_run([cell("serial", [10.0])])

    differences = compare(before, after)

    assert [one.outcome for one in differences] == ["one launch"]
    assert ": 1 one launch" in text_of(render_comparison(before, after, differences))


@pytest.mark.parametrize(
    ("after", "outcome"), [([1.0, 1.01, 0.99, 1.0], "no difference"), ([0.3, 2.5, 1.4, 0.6], "inconclusive")]
)
def test_a_wide_interval_is_no_equality(make_run, after, outcome):
    """A cell that may take a third or three times as long does not make no difference."""
    runs = make_run([cell("serial", [1.0, 1.0, 1.01, 0.99])]), make_run([cell("serial", after)])

    assert [one.outcome for one in compare(*runs)] == [outcome]


def test_a_metrics_unit_stands_in_its_name():
    """The name of a rate ends in `_s` too, and is not taken for a time."""
    names = ("work_s", "requests_per_s", "bytes_per_s", "file_1_bytes_per_s", "rss_bytes", "gil_share", "lost")

    assert [unit_of(name) for name in names] == ["s", "per_s", "bytes_per_s", "bytes_per_s", "bytes", "share", "count"]
    assert [metric_words(name) for name in ("one_way_s", "requests_per_s", "lost")] == [
        "one way time",
        "requests per second",
        "lost",
    ]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (38_612.0, "per_s", "38,600/s"),
        (4.98, "per_s", "4.98/s"),
        (927e6, "bytes_per_s", "927 MB/s"),
        (999.9e6, "bytes_per_s", "1 GB/s"),
        (3 * 2**20, "bytes", "3 MiB"),
        (0.234, "share", "23.4 %"),
        (0.5, "count", "0.5"),
        (2.0, "count", "2"),
    ],
)
def test_amounts_are_shown_with_their_unit(value, unit, shown):
    """Amounts have three digits, in the unit that fits."""
    assert amount(value, unit) == shown


def test_a_level_has_its_half_width():
    """The half-width is in percent, a wide interval is shown by both ends, and a single launch has none."""
    assert level(stats.Interval(38_600.0, 37_500.0, 39_700.0, "student"), "per_s") == "38,600/s ±2.9%"
    assert level(stats.Interval(1.0, 0.4, 2.0, "student"), "s") == "1 s [400 ms - 2 s]"
    assert level(stats.Interval(1.0, 1e-20, 1e20, "student"), "s") == "1 s, very uncertain"
    assert level(stats.Interval(1.0, 0.0, math.inf, "one launch"), "s") == "1 s"


def test_ratios_refer_to_the_baseline_of_their_setting(make_run, declare):
    """Each setting and interpreter has a row of ratios to its own baseline, and "-" if that is missing."""
    one = declare()
    cells = [
        paper("threads", {"work_s": [0.5, 0.5]}, setting="1 MiB"),
        paper("serial", {"work_s": [1.0, 1.0]}, setting="1 MiB"),
        paper("serial", {"work_s": [1.0, 1.0]}, FREE, setting="1 MiB"),
        paper("serial", {"work_s": [8.0, 8.0]}, setting="10 MiB"),
        paper("threads", {"work_s": [16.0, 16.0]}, setting="10 MiB"),
        paper("threads", {"work_s": [16.0, 16.0]}, setting="none"),
    ]

    (table,) = experiment_tables(make_run(cells, [GIL, FREE]), one)

    assert (table.columns, table.names) == (("", "", "serial", "threads"), 2)
    assert table.rows == (
        ("1 MiB", "3.15", "1 s", "0.50 [0.50-0.50]"),
        ("1 MiB", "3.13t", "1 s", "-"),
        ("10 MiB", "3.15", "8 s", "2.00 [2.00-2.00]"),
        ("none", "3.15", "-", "-"),
    )
    assert table.caption == "serial: work time; others: ratio to it [interval], less is better"


def test_placements_are_groups_of_rows(make_run, declare):
    """Several placements are groups of rows, with the setting."""
    one = declare()
    cells = [
        paper("serial", {"work_s": [1.0]}, setting="pipes", placement=placement, group=placement)
        for placement in ("split", "same")
    ]

    (table,) = experiment_tables(make_run(cells, [GIL], launches=1), one)

    assert [row[:2] for row in table.rows] == [("pipes, same", "3.15"), ("pipes, split", "3.15")]


def test_cells_of_older_versions_are_their_own_series(make_run, declare):
    """The label of a cell of an older version is its series, and it has no setting."""
    made, metrics = paper("small, 1 thread", {"work_s": [1.0]})
    stored = {key: value for key, value in cell_to_json(made).items() if key not in {"series", "setting", "needs"}}

    (table,) = experiment_tables(make_run([(cell_from_json(stored), metrics)], [GIL]), declare())

    assert table.columns == ("", "small, 1 thread")


def test_rates_are_levels_or_ratios_of_which_more_is_better(make_run, declare):
    """The caption says in which direction to read rates, and a rate of 0 is a rate."""
    cells = [
        paper("serial", {"requests_per_s": [38_600.0, 38_600.0]}),
        paper("threads", {"requests_per_s": [193.0, 193.0]}),
        paper("stuck", {"requests_per_s": [0.0, 0.0]}),
        paper("broken", {"requests_per_s": []}),
    ]
    run = make_run(cells[:3], [GIL])
    rate = {"metric": "requests_per_s", "unit": "per_s"}

    (ratios,) = experiment_tables(run, declare(**rate))
    (levels,) = experiment_tables(run, declare(shows="levels", **rate))

    assert ratios.rows == (("3.15", "38,600/s", "0.0050 [0.0050-0.0050]", "-"),)
    assert ratios.caption.endswith("ratio to it [interval], more is better")
    assert levels.rows == (("3.15", "38,600/s ±0.0%", "193/s ±0.0%", "0/s"),)
    assert levels.caption == "requests per second [± half of the interval], more is better"


def test_further_metrics_have_tables_of_levels(make_run, declare):
    """Rows and columns without the metric are left out, and so is a metric that no cell has."""
    one = declare(besides=(("rss_bytes", "memory at the end"), ("never_s", "nobody has it")))
    cells = [
        paper("serial", {"work_s": [1.0, 1.0]}, setting="small"),
        paper("threads", {"work_s": [1.0, 1.0]}, setting="large"),
        paper("processes", {"work_s": [1.0, 1.0], "rss_bytes": [2**20, 2**20]}, setting="large"),
    ]

    _, besides = experiment_tables(make_run(cells, [GIL]), one)

    assert besides.caption == "memory at the end"
    assert besides.columns == ("", "", "processes")
    assert besides.rows == (("large", "3.15", "1 MiB ±0.0%"),)


def test_further_metrics_of_one_series_share_a_table(make_run, declare):
    """Further metrics of one series have a column each, in their order."""
    one = declare(besides=(("a_bytes_per_s", "first file"), ("b_bytes_per_s", "second file"), ("c_s", "nobody's")))
    cells = [
        paper("serial", {"work_s": [1.0]}),
        paper("dd", {"work_s": [1.0], "a_bytes_per_s": [1e6], "b_bytes_per_s": [2e6]}),
    ]

    _, besides = experiment_tables(make_run(cells, [GIL], launches=1), one)

    assert (besides.columns, besides.rows) == (("", "first file", "second file"), (("3.15", "1 MB/s", "2 MB/s"),))


def with_facts(run, facts):
    """Return the run with facts on every launch."""
    for key, result in run.results.items():
        launches = tuple(
            replace(one, launch=Launch(status="ok", samples=one.launch.samples, facts=facts, wall_s=1.0))
            for one in result.launches
        )
        run.results[key] = replace(result, launches=launches)
    return run


@pytest.mark.parametrize(
    ("own_s", "server", "others", "told"),
    [
        (0.5, "", 1.0, ["other programs kept 1.00 of 2 cores busy"]),
        (1.9, "", 0.1 / 1.5, []),
        (2.5, "", 0.0, []),
        (0.5, "redis", None, []),
    ],
)
def test_cpu_time_of_other_programs_is_told(make_run, declare, own_s, server, others, told):
    """The machine's CPU time in the timed parts, less that of the launch's own processes, is that of other programs."""
    declare()
    course = [
        {"phase": "warm-up", "until_s": 1.0, "busy_s": 9.0},
        {"phase": "timed", "until_s": 2.0, "busy_s": 1.5},
        {"phase": "timed", "until_s": 2.5, "busy_s": 0.5},
    ]
    facts = {"timed_s": 1.5, "course": course, "own_busy_s": own_s}
    run = with_facts(make_run([paper("serial", {"work_s": [1.0]}, server=server)], [GIL]), facts)

    doubts = [one for one in counted(run, ()).doubts if "other programs" in one]
    assert run.cores_of_others == (None if others is None else pytest.approx(others))
    assert [one.partition(" during the launches")[0] for one in doubts] == told


def test_with_a_redis_server_the_cores_are_shown(make_run, declare):
    """Each series of a Redis server has a row with its busiest cores and their sum; other servers have no table."""
    one = declare()
    shares = {str(core): 0.01 * core for core in range(12)}
    facts = {"timed_s": 1.0, "utilisation": shares, "voluntary_switches": 1, "involuntary_switches": 0}
    served = make_run([paper("serial", {"work_s": [1.0]}, server="redis")], [GIL])
    alone = make_run([paper("serial", {"work_s": [1.0]}, server="http")], [GIL])

    _, busy = experiment_tables(with_facts(served, facts), one)

    assert busy.columns == ("", "", *(f"core {core}" for core in range(4, 12)), "all cores")
    assert busy.rows == (("3.15", "serial", *(f"{core} %" for core in range(4, 12)), "0.7"),)
    assert busy.caption.endswith("other programs' included; the 8 busiest of 12")
    assert len(experiment_tables(with_facts(alone, facts), one)) == 1


def test_limits_in_c_are_levels_in_their_unit(make_run, declare):
    """Limits in C have a table of their own, by placement."""
    one = declare(metric="requests_per_s", unit="per_s")
    cells = [paper("C client", {"requests_per_s": [5e4, 5e4]}, ONE_WORKER, placement="split")]

    (table,) = experiment_tables(make_run(cells, [GIL]), one)

    assert table.rows == (("C client", "50,000/s ±0.0%"),)


CLAIM = Claim(
    id="paper/threads",
    text="threads are slower",
    evidence=lambda _: [Comparison(top="threads", bottom="serial", relation=above(1))],
    source="A1",
    published=(Published("A1", "threads", "serial"),),
    where="gil",
)


def test_published_ratios_stand_beside_the_measured(make_run, declare):
    """Published ratios are shown for the newest interpreter with a GIL and the newest without, with the setting below."""
    old = make_interpreter("3.12.0")
    cells = [
        paper(series, {"work_s": [value, value]}, one)
        for one, ratio_ in ((old, 9.0), (GIL, 1.2), (FREE, 0.5))
        for series, value in (("serial", 1.0), ("threads", ratio_))
    ]

    (table,) = published_tables(make_run(cells, [old, GIL, FREE]), declare(CLAIM))

    assert table.columns == ("", "", "published", "3.15", "3.13t")
    assert table.rows == (("A1", "threads / serial", "1.28", "1.20 [1.20-1.20]", "0.50 [0.50-0.50]"),)
    assert "A1: 4 tasks, each 10_000_000 increments of an int; pool size 4" in table.caption


def test_an_inverse_and_what_was_not_measured_are_left_out(make_run, declare):
    """The inverse of a ratio is left out, and a claim without measurements makes no table."""
    turned = replace(
        CLAIM,
        evidence=lambda _: [Comparison(top="serial", bottom="threads", relation=below(1))],
        published=(Published("A1", "serial", "threads"),),
    )
    run = make_run([paper("serial", {"work_s": [1.0, 1.0]}), paper("threads", {"work_s": [1.2, 1.2]})], [GIL])

    (table,) = published_tables(run, declare(CLAIM, turned))

    assert [row[1] for row in table.rows] == ["threads / serial"]
    assert published_tables(make_run([paper("serial", {"work_s": [1.0]})], [GIL]), declare(CLAIM)) == []


def test_several_settings_of_a_source_are_told_apart(make_run, declare):
    """Several settings of a source have letters with the author's words; a figure is matched with our nearest setting."""
    pieces = [
        Comparison(top=f"threads, {size}", bottom=f"serial, {size}", relation=below(1))
        for size in ("10 MiB, disk", "100 MiB, disk")
    ]
    one = replace(
        CLAIM,
        evidence=lambda _: pieces,
        published=tuple(Published("A3", "threads", "serial", setting=size) for size in (" 10 MiB", "100 MiB")),
    )
    cells = [
        paper(series, {"work_s": [value, value]}, setting=size)
        for size, ratio_ in (("10 MiB, disk", 0.5), ("100 MiB, disk", 2.0))
        for series, value in (("serial", 1.0), ("threads", ratio_))
    ]

    (table,) = published_tables(make_run(cells, [GIL]), declare(one))

    assert table.rows == (
        ("A3 a", "threads / serial, 10 MiB, disk", "0.23", "0.50 [0.50-0.50]"),
        ("A3 b", "threads / serial, 100 MiB, disk", "2.05", "2.00 [2.00-2.00]"),
    )


def test_published_grids_are_measured_in_the_same_shape(make_run, declare):
    """A published grid by switch interval and threads has the same shape; parts without a counterpart are left out."""
    cells = [
        paper(
            series,
            {"requests_per_s": [value, value]},
            setting=setting,
            name="convoy-switch-interval",
            params={"switch_interval_s": interval_s},
        )
        for setting, interval_s in (("5 ms", 0.005), ("7 ms", 0.007))
        for series, value in (("0 CPU threads", 24_000.0), ("1 CPU thread", 190.0))
    ]
    one = declare(name="convoy-switch-interval", metric="requests_per_s", unit="per_s", shows="levels")

    (table,) = published_tables(make_run(cells, [GIL]), one)

    assert table.columns == ("interval", "", "0 CPU threads", "1 CPU thread", "cpu 2", "cpu 4")
    assert table.rows == (("5 ms", "3.15", "24,000/s (30,000/s)", "190/s (100/s)", "- (50/s)", "- (30/s)"),)
    assert "compare shapes and not values" in table.caption


def test_published_files_are_matched_with_a_metric_each(make_run, declare):
    """Rows are the settings' names, and columns the files of one cell."""
    metrics = {f"file_{number}_bytes_per_s": [number * 1e8] * 2 for number in range(1, 6)}
    cells = [paper("dd", metrics, setting="tmpfs, concurrent", name="disk-baseline")]

    (table,) = published_tables(make_run(cells, [GIL]), declare(name="disk-baseline", metric="work_s"))

    assert table.rows[0][:4] == ("tmpfs, concurrent", "3.15", "100 MB/s (794 MB/s)", "200 MB/s (643 MB/s)")


def test_names_of_authors_and_of_cells_are_matched():
    """The matching distinguishes counts of threads from counts of CPU-bound ones, and respects numbers."""
    assert [column_key(name) for name in ("1 thread", "8 threads", "0 CPU threads", "2 CPU tasks", "C atomic")] == [
        "threads_1",
        "threads_8",
        "cpu_0",
        "cpu_2",
        "c_atomic",
    ]
    assert same_thing("processes", "processes-spawn")
    assert same_thing("asyncio_gather", "asyncio")
    assert not same_thing("threads_1", "16 threads")
    assert not same_thing("cpu_1", "1 thread")
    made, _ = paper("x", {}, setting="tmpfs, sequential", params={"switch_interval_s": 0.1 / 10})
    assert in_row({"interval": 0.01}, made)
    assert not in_row({"interval": 0.1}, made)
    assert in_row({"run": "tmpfs, sequential"}, made)
    assert not in_row({"size": 1}, made)


def test_levels_are_matched_by_parts_of_their_setting():
    """The nearest setting has the fewest other parts; without a common name it is the only piece."""
    cells = {
        made.label: made
        for made, _ in (paper("threads", {}, setting=words) for words in ("1 CPU task", "1 CPU task, 0.5 ms"))
    }
    pieces = [Level(label=label, relation=below(1), metric="of_bound") for label in cells]

    assert answers(Published("C3", "cpu_1"), "1-byte messages", pieces, cells) == pieces[:1]
    assert answers(Published("C3", "cpu_4"), "1-byte messages", pieces, cells) == []
    assert answers(Published("C3", "cpu_4"), "1-byte messages", pieces[1:], cells) == pieces[1:]


def test_published_figures_are_shown_in_our_units():
    """Published figures are shown in our units, and an unknown unit is kept."""
    assert published_amount(608.6, "ms") == "609 ms"
    assert published_amount(53.5, "MB/s per file") == "53.5 MB/s"
    assert published_amount(30, "parsecs") == "30 parsecs"


WIDE = Table(
    "caption",
    ("", "", *(f"series-number-{number}" for number in range(8))),
    tuple(("10 MiB, disk", f"3.{row}", *[f"{row}.00 [0.90-1.10]"] * 8) for row in range(4)),
    names=2,
)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
def test_wide_tables_lose_no_figure(width):
    """A wide table that is split or folded has every figure in full, and no line that is too long."""
    text = text_of(render_table(WIDE), width)

    assert max(map(len, text.splitlines())) <= width
    assert text.count("[0.90-1.10]") == 32
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_a_table_of_many_columns_and_few_rows_is_turned():
    """A table of many columns and few rows is turned if it does not fit."""
    table = replace(WIDE, rows=WIDE.rows[:1])

    turned, whole = ([line.split() for line in text_of(render_table(table), width).splitlines()] for width in (80, 200))

    assert ["series-number-7", "0.00", "[0.90-1.10]"] in turned
    assert ["10", "MiB,", "disk", "3.0", *["0.00", "[0.90-1.10]"] * 8] in whole


@pytest.mark.parametrize("width", range(96, 134, 3))
def test_headings_are_broken_between_words(width):
    """Where the figures need all room, headings and row names are broken between words, and no figure is cut."""
    heads = ("held", "of the time", "waited", "of the time", "holds", "forced", "waits", "hold p99", "hold max")
    figures = ("7.15 ms", "95 %", "-", "0 %", "18", "-", "-", "6.41 ms", "6.44 ms")
    table = Table("", ("", *heads, *heads[3:7]), (("MainThread [32505]", *figures, *figures[3:7]),), names=1)
    words = text_of(render_table(table), width).split()

    assert {*" ".join((*heads, *figures)).split(), "MainThread", "[32505]"} <= {one.strip(",") for one in words}


@pytest.mark.parametrize(
    "figures", [("13.2 us ±24%", "617 us ±1.1%"), ("13.24 us ±24%", "6 us ±1.1%"), ("1/ 3/ 3", "10/ 3/ 3")]
)
def test_figures_with_half_widths_and_counts_are_flush_right(figures):
    """A figure with its half-width and counts are flush right, and so is their heading, broken or not."""
    table = Table("", ("", "time per call", "model"), tuple((f"row {one}", one, "serial") for one in figures), names=1)
    text = text_of(render_table(table), 200)
    places = {line.rindex(end) + len(end) for line, end in zip(text.rstrip().splitlines()[-2:], figures, strict=True)}

    assert len(places) == 1
    assert headings(text) == {"time per call", "model"}


def test_the_parts_of_a_split_table_have_no_empty_rows():
    """A row without figures in a part's columns is left out there, and stays in a whole table."""
    full, half = ["1.00 [0.90-1.10]"] * 8, ["1.00 [0.90-1.10]"] * 4 + ["-"] * 4
    rows = tuple((f"row {row}", "3.15", *(half if row == 5 else full)) for row in range(10))
    split, whole = (text_of(render_table(replace(WIDE, rows=rows)), width) for width in (100, 200))

    assert (split.count("row 4"), split.count("row 5"), whole.count("row 5")) == (2, 1, 1)


def test_a_setting_is_shown_once_per_group():
    """A setting is shown once, and the rows below it leave it blank."""
    assert text_of(render_table(WIDE), 200).count("10 MiB, disk") == 1


def test_verdicts_stand_under_their_experiment_and_findings_at_the_end(make_run):
    """The report ends with the counts, the undecided claims by name, and the machine's findings."""
    run = make_run([cell("serial", [1.0, 1.0, 1.0]), cell("threads", [0.2, 1.3, 3.0])], launches=3)
    text, short = text_of(render_run(run)), text_of(render_run(run, tables=False))

    parts = ("cpu-bound: Which model", "threads are not faster than serial", "Verdicts on this machine: 5 claims")
    places = [text.index(part) for part in (*parts, "Sources", "Findings on this machine")]
    assert places == sorted(places)
    assert "inconclusive cpu-bound/threads-not-faster" in text
    assert "Which model" not in short
    assert "threads are not faster than serial" in short
    assert "Findings on this machine" in short


def test_advice_stands_below_its_finding(make_run, declare):
    """A finding's advice is below it, with the evidence and the claim that it follows from."""
    one = replace(CLAIM, says="Threads take {ratio}.", advice="Use fewer.")
    declare(one)
    run = make_run([paper("serial", {"work_s": [1.0, 1.0]}), paper("threads", {"work_s": [1.2, 1.2]})], [GIL])

    end = text_of(render_run(run)).partition("Findings on this machine")[2]

    assert "- Threads take 1.20 [1.20-1.20]." in end
    assert "(paper/threads)" in end
    assert "-> Use fewer." in end


def test_interpreters_that_quick_size_spares_are_named(make_run, declare):
    """Interpreters are named if quick size leaves them out, not if the experiment cannot run on them."""
    declare(quick_on=both_kinds)
    old = make_interpreter("3.12.0")
    cells = [paper("serial", {"work_s": [1.0]}, one) for one in (GIL, FREE)]

    spared = text_of(render_run(make_run(cells, [old, GIL, FREE])))
    missing = text_of(render_run(make_run(cells[:1], [GIL, FREE])))

    assert (
        "quick size measures this on 3.15 and 3.13t; `--standard` or `--interpreter` measures the others"
        in " ".join(spared.split())
    )
    assert "quick size measures" not in missing


@pytest.mark.parametrize("besides", [False, True])
def test_the_mark_of_two_modes_is_explained(make_run, declare, besides):
    """A cell whose launches fall into two groups is marked, and a line above the tables says what the mark means."""
    declare(besides=(("first_s", "first"),))
    calm, torn = [1.0, 1.01, 1.0, 1.02, 1.01], [1.0, 1.01, 5.0, 5.01, 5.0]
    metrics = {"work_s": calm if besides else torn, "first_s": torn if besides else calm}
    runs = [make_run([paper("serial", one)], [GIL]) for one in (metrics, dict.fromkeys(metrics, calm))]
    marked, plain = (text_of(render_run(run)) for run in runs)

    assert " !" not in plain
    assert "! after a figure" not in plain
    assert re.search(r"[s\]] !", marked)
    assert "! after a figure: its launches have two modes, so a mean misleads" in marked


def test_what_was_left_out_is_grouped_by_reason(make_run):
    """Few variants that were left out are named, many are a count, and each has its place."""
    run = make_run([cell("serial", [1.0])], [make_interpreter("3.13.0"), FREE])
    skipped = [Skipped("http", "asyncio", FREE.id, "no aiohttp")]
    skipped += [Skipped("files", f"{number} threads", ONE_WORKER, "no space") for number in range(6)]

    header = replace(run.header, settings=replace(run.settings, skipped=tuple(skipped)))

    assert list(left_out(replace(run, header=header))) == [
        "left out: asyncio (http) on 3.13t: no aiohttp",
        "left out: 6 variants of files: no space",
    ]


@pytest.mark.parametrize("width", [90, 100, 110, 118, 125, 140])
def test_names_give_way_before_figures(width):
    """A figure is whole on a line from 90 columns on, also if only the names make room for it."""
    figures = [f"{i}5.2 us / {i}2.1 us / 4.6{i} ms" for i in range(9)]
    names = ["TCP, 1 client", "TCP, 100 requests/s offered", "UDP, 8 KiB"]
    rows = [(name, "3.15", *figures[3 * i : 3 * i + 3]) for i, name in enumerate(names)]
    table = Table("latency", ("", "", "alone", "beside 1 CPU thread", "beside 1 bz2 thread"), tuple(rows), 2)
    console = Console(width=width, file=io.StringIO(), highlight=False)

    console.print(indented(render_table(table)))

    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert [figure for figure in figures if figure not in drawn] == []
    assert max(map(len, drawn.splitlines())) <= width
