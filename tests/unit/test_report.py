"""Tables and text of a run."""

import io
import math

import pytest
from rich.console import Console
from synthetic import make_cell, make_interpreter

from headway.lab import stats
from headway.lab.compare import compare
from headway.lab.experiments import experiment
from headway.report import (
    costs_table,
    experiment_tables,
    render_comparison,
    render_run,
    run_to_json,
    run_to_pyperf,
)
from headway.report.tables import amount, number, ratio, seconds


def text_of(rendered, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(rendered)
    return console.file.getvalue()


def cell(label, values, **metrics):
    return make_cell("cpu-bound", label, "3.13.0", params={"n": 1, "tasks": 4}), {
        "work_s": [[value] for value in values],
        **metrics,
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2.5e-9, "2.5 ns"), (0.0000123, "12.3 us"), (0.0456, "45.6 ms"), (7.0, "7 s"), (123.4, "123 s")],
)
def test_times_are_shown_in_their_unit(value, shown):
    """Nanoseconds to seconds, three digits."""
    assert seconds(value) == shown


def test_counts_are_not_shown_as_times():
    """A count of lost increments has no unit."""
    assert (amount(80_700, "lost"), amount(0.5, "s")) == ("80,700", "500 ms")


def test_ratios_are_shown_with_their_bounds():
    """Two digits below ten, fewer above; no interval from one launch."""
    assert ratio(stats.Interval(0.5, 0.4, 0.6251, "welch")) == "0.50 [0.40-0.63]"
    assert ratio(stats.Interval(0.5, 0.0, math.inf, "one launch")) == "0.50"
    assert [number(value) for value in (9.99, 13.31, 2508.7)] == ["9.99", "13.3", "2,509"]


def test_the_table_has_the_baseline_as_a_time_and_the_rest_as_ratios(make_run):
    """Rows are interpreters, the baseline comes first, a variant in two modes is marked."""
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
    """Where every launch of the baseline failed, times are not passed off as ratios to it."""
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
    """Verdicts carry the published ratio beside ours, and the letters of sources are spelled out."""
    text = text_of(render_run(make_run([cell("serial", [1.0, 1.0]), cell("threads", [1.3, 1.3])])))

    assert "published ratio 1.28 (A1), 1.77 (A5)" in text
    assert "Checking Python's GIL" in text
    assert "INCOMPLETE: 4 of 10 launches" in text


def test_an_incomplete_run_has_no_false_complete_json(make_run):
    """JSON says how much of the run is there, with no infinity in it."""
    run = make_run([cell("serial", [1.0]), cell("threads", [1.3])])
    found = run_to_json(run)

    assert found["complete"] is False
    (evidence,) = next(one for one in found["verdicts"] if one["claim"] == "cpu-bound/threads-not-faster")["evidence"]
    assert evidence["ratio"]["high"] is None


def test_pyperf_gets_times_only(make_run):
    """Counts have no place in a pyperf suite."""
    race = make_cell("race", "+= 1, 5 ms", "3.13.0", params={"threads": 4, "k": 10})
    run = make_run([cell("serial", [1.0, 2.0]), (race, {"lost": [[1], [2]]})])

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
