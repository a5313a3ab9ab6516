"""A run's page has what the terminal shows, and plots of the measured values."""

import io
import json
import re
from dataclasses import asdict, replace

import pytest
from rich.console import Console
from synthetic import make_cell, make_interpreter

from headway.lab.experiments import experiment
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import Run
from headway.lab.kept.settings import SESSION
from headway.report import render_run
from headway.report.figures import Table
from headway.report.html import lab_page, render_page
from headway.report.html.plots import cells_of, plots_of

NAMES = ("phase", "until_s", "busy_s")
FREE = make_interpreter("3.13.5", free_threaded=True)


def texts(value):
    """Yield every text of a page."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts(one)


def shown(run):
    """Return a run's report for the terminal."""
    console = Console(file=io.StringIO(), width=400)
    console.print(render_run(run))
    return console.file.getvalue()  # type: ignore[attr-defined]


def cell(name, series, setting="", placement="free", **params):
    return make_cell(name, series, "3.13.0", placement, setting=setting, params=params)


@pytest.fixture
def countdown(make_run) -> Run:
    cells = [
        (
            cell("countdown", f"{n} thread{'s' * (n > 1)}", threads=n, n=800),
            {"work_s": [[1.0 + n / 100 + i / 50] for i in range(5)]},
        )
        for n in (1, 2, 4, 8)
    ]
    return make_run(cells)


def test_the_page_says_all_that_the_terminal_says(countdown):
    """Every word of the terminal's report with a digit in it is in the page's data."""
    page = " ".join(texts(json.loads(json.dumps(asdict(lab_page(countdown))))))

    said = {word.strip(",;:()[]") for word in shown(countdown).split() if re.search(r"\d", word)}
    assert len(said) > 20
    assert {word for word in said if word not in page} == set()


def test_a_swept_parameter_gives_lines_with_the_ideal(countdown):
    """A swept parameter gives one line, with its label without the count, and the ideal of divided work."""
    countdown_experiment = experiment("countdown")
    first, *others = plots_of(countdown, countdown_experiment)

    assert (first.kind, first.x, first.ideal, first.unit) == ("lines", "threads", "divided", "s")
    assert [plot.kind for plot in others] == ["dots"]
    cells = cells_of(countdown, countdown_experiment)
    assert [(one.line, one.x) for one in cells] == [("", 1.0), ("", 2.0), ("", 4.0), ("", 8.0)]
    assert cells[0].metrics["work_s"].values == (1.01, 1.03, 1.05, 1.07, 1.09)


def test_two_swept_parameters_give_a_heat_map(make_run):
    """The switch interval is one axis, and the threads are the other."""
    cells = [
        (cell("countdown-switch-interval", f"{n} threads", words, threads=n, switch_interval_s=s), {"work_s": [[1.0]]})
        for n in (1, 2)
        for words, s in (("5 ms", 0.005), ("1 ms", 0.001), ("10 us", 1e-5))
    ]
    run = make_run(cells)

    first, *_ = plots_of(run, experiment("countdown-switch-interval"))
    assert (first.kind, first.x, first.y) == ("heat", "threads", "switch interval")
    assert {(one.x, one.y) for one in cells_of(run, experiment("countdown-switch-interval"))} == {
        (n, s) for n in (1.0, 2.0) for s in (0.005, 0.001, 1e-5)
    }


def test_a_point_without_a_line_keeps_its_whole_name(make_run):
    """A point of `2 threads, 1 MiB, disk` is not on the line of `serial, ..., disk`."""
    sizes = (("4 KiB", 4096), ("64 KiB", 65536), ("1 MiB", 1 << 20))
    cells = [
        (cell("file-io", series, f"{words}, disk", size_bytes=size), {"work_s": [[1.0]]})
        for series in ("serial", "threads")
        for words, size in sizes
    ]
    alone = cell("file-io", "2 threads", "1 MiB, disk", size_bytes=1 << 20)
    run = make_run([*cells, (alone, {"work_s": [[1.0]]})])

    lines = {one.line for one in cells_of(run, experiment("file-io"))}
    assert lines == {"serial, disk", "threads, disk", "2 threads, 1 MiB, disk"}


def test_latencies_give_percentiles_and_cores_their_share(make_run):
    """The percentiles go from the lowest to the largest latency."""
    names = ("p50", "p90", "p99", "p999", "max")
    metrics = {f"latency_{name}_s": [[0.001 * (place + 1)]] for place, name in enumerate(names)}
    cells = [
        (cell("convoy", "threads", f"{cpu} CPU tasks", "split", cpu=cpu), {"requests_per_s": [[100.0]], **metrics})
        for cpu in (0, 1, 2)
    ]
    plots = plots_of(make_run(cells), experiment("convoy"))

    (one,) = [plot for plot in plots if plot.kind == "percentiles"]
    assert one.metrics == tuple(f"latency_{name}_s" for name in names)
    assert next(plot for plot in plots).better == "more"


def test_a_test_session_has_histograms_of_its_rounds(make_run):
    """A session has histograms of all rounds of all launches; the lab's own runs show only launches, as points."""
    cells = [(cell("sleep", "serial"), {"work_s": [[1.0, 1.1], [1.2, 1.3]]})]
    lab, session = make_run(cells), make_run(cells, size=SESSION)

    assert next(plot.kind for plot in plots_of(session, experiment("sleep"))) == "histogram"
    assert cells_of(session, experiment("sleep"))[0].samples == (1.0, 1.1, 1.2, 1.3)
    assert "histogram" not in [plot.kind for plot in plots_of(lab, experiment("sleep"))]
    assert cells_of(lab, experiment("sleep"))[0].samples == ()


def test_the_course_is_the_launches_mean(make_run):
    """The course is the launches' mean, without phases that are too short even together, and without failed launches."""
    run = make_run([(cell("sleep", "serial"), {"work_s": [[1.0], [1.0]]})])
    courses = [
        [("set-up", 0.01, 0.01), ("timed", 0.41, 0.4), ("timed", 1.01, 1.2)],
        [("set-up", 0.03, 0.03), ("timed", 0.63, 0.5), ("timed", 1.03, 0.4)],
    ]
    (key, result), *_ = run.results.items()
    launches = tuple(
        replace(
            one,
            launch=replace(
                one.launch, facts={"course": [dict(zip(NAMES, stretch, strict=True)) for stretch in course]}
            ),
        )
        for one, course in zip(result.launches, courses, strict=True)
    )
    failed = replace(launches[0], launch=replace(launches[0].launch, status="failed"))
    run.results[key] = replace(result, launches=(*launches, failed))

    (found,) = cells_of(run, experiment("sleep"))
    assert [(one.phase, one.until_s, one.cores) for one in found.course] == [
        ("set-up", pytest.approx(0.02), None),
        ("timed", pytest.approx(0.52), pytest.approx(0.9)),
        ("timed", pytest.approx(1.02), pytest.approx(1.6)),
    ]


@pytest.fixture
def broken(make_run):
    """Return a function that makes a run with a launch that failed for each reason."""

    def broken(*reasons):
        run = make_run([(cell("sleep", "serial"), {"work_s": [[1.0]]})])
        ((key, result),) = run.results.items()
        (one,) = result.launches
        failed = [replace(one, launch=Launch(status="failed", reason=reason)) for reason in reasons]
        run.results[key] = replace(result, launches=(one, *failed))
        return run

    return broken


def test_reasons_of_failed_launches_are_printable(broken):
    """The reason has the last line of a program's stderr, which may hold anything."""
    run = broken("exit code 1: \x1b]0;title\x07")

    assert "\x1b" not in shown(run)
    assert lab_page(run).failures == (r"1 x sleep, serial, free, 3.13.0: exit code 1: \x1b]0;title\x07",)


@pytest.mark.parametrize(
    ("kinds", "ending"),
    [
        (20, "1 x sleep"),
        (21, "... and 1 more kind (1 launch): `headway report --json` has them"),
        (23, "... and 3 more kinds (3 launches): `headway report --json` has them"),
    ],
)
def test_failed_launches_that_are_left_out_are_counted(broken, kinds, ending):
    """The twenty most frequent kinds of failures are told; terminal and page say how many more there are."""
    run = broken("again", "again", *(f"exit code {number}" for number in range(1, kinds)))

    assert lab_page(run).failures[0].startswith("2 x")
    assert lab_page(run).failures[-1].startswith(ending)
    assert lab_page(run).failures[-1] in shown(run)


def test_a_value_of_nought_has_no_level(make_run):
    """A value of 0 has no level, because it has no logarithm and JSON has no infinity."""
    run = make_run([(cell("race", "lock, 5 ms", threads=4, k=10), {"lost": [[0.0], [0.0]]})])
    (found,) = cells_of(run, experiment("race"))

    assert (found.metrics["lost"].level, found.metrics["lost"].low) == (None, None)
    json.dumps(asdict(lab_page(run)), allow_nan=False)


def test_a_single_launch_has_no_interval(make_run):
    """A single launch has no interval on the page, because its half-width is infinite."""
    run = make_run([(cell("sleep", "serial"), {"work_s": [[1.0]]})])
    (found,) = cells_of(run, experiment("sleep"))

    assert (found.metrics["work_s"].level, found.metrics["work_s"].high) == (1.0, None)


def test_the_page_asks_nothing_of_a_network(countdown):
    """The page has no address but those in the data, and a policy that forbids all requests."""
    page = render_page(lab_page(countdown))

    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", page)
    assert not re.search(r"@import|url\(", page)


def test_names_are_only_text(make_run):
    """Text that would end the data's element is escaped there."""
    page = lab_page(make_run([(cell("sleep", "serial"), {"work_s": [[1.0]]})]))
    hostile = "</script><img src=x onerror=alert(1)><!--\u2028"
    page = replace(page, title=hostile, costs=Table(hostile, (hostile,), ((hostile,),)))

    drawn = render_page(page)
    data = re.search(r'id="data">(.*?)</script>', drawn, re.DOTALL)[1]
    assert "<" not in data
    assert json.loads(data)["costs"]["caption"] == hostile
    assert drawn.count("<img") == 0
