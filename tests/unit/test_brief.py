"""The short report of a run: each experiment when it is done, and the last screen."""

import io

import pytest
from rich.console import Console
from synthetic import make_cell, make_interpreter

from headway.lab.experiments import experiment
from headway.lab.judging.findings import Finding
from headway.report.lab.brief import figures, render_decided, render_end, render_experiment, telling

GIL, FREE = make_interpreter("3.15.2"), make_interpreter("3.13.5", free_threaded=True)


def lines_of(rendered, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(rendered)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def cell(name, series, values, interpreter=GIL, metric="work_s", **changes):
    made = make_cell(name, series, interpreter.id, **{"model": series, **changes})
    return made, {metric: [[value] for value in values]}


@pytest.fixture
def run(make_run):
    cells = [
        cell("cpu-bound", series, [level * noise for noise in (1.0, 1.001, 0.999)], interpreter)
        for interpreter in (GIL, FREE)
        for series, level in (("serial", 0.02), ("threads", 0.02 if interpreter is GIL else 0.01), ("asyncio", 0.02))
    ]
    return make_run(cells, [FREE, GIL])


def test_an_experiment_is_its_question_its_figures_and_its_claims(run):
    """An experiment has a line for its question, one for its figures, and one for each claim.

    Of several lines of figures, the first is shown if there are many claims. A claim's line has its verdict and figure.
    """
    lines = lines_of(render_experiment(run, experiment("cpu-bound")))

    assert lines[0] == "cpu-bound: Which model makes four CPU-bound tasks faster?"
    assert lines[1] == "  3.15, work time: serial 20 ms; threads x 1.00; asyncio x 1.00"
    assert len(lines) == 2 + len(experiment("cpu-bound").claims)
    assert (
        list(figures(run, experiment("cpu-bound")))[1]
        == "3.13t, work time: serial 20 ms; threads x 0.50; asyncio x 1.00"
    )
    (claim,) = [line for line in lines if "threads are not faster than serial under a GIL" in line]
    assert claim.startswith("  supported ")
    assert ": 1.00 [" in claim


@pytest.mark.parametrize(
    ("launches", "shown"),
    [
        ([0.04], "1 with one launch"),
        ([0.04, 0.08], "threads x 2.83, very uncertain"),
        ([0.04, 0.06, 0.03], "threads x 2.08 [0.87-4.94]"),
        ([0.05, 0.051, 0.049, 0.05], "threads x 2.50"),
    ],
)
def test_a_ratio_is_shown_as_far_as_it_is_known(make_run, launches, shown):
    """One launch gives no ratio, a wide interval stands beside its ratio, and ends that are no figures do not."""
    cells = [
        cell("cpu-bound", "serial", [0.02 * (1 + 0.001 * n) for n, _ in enumerate(launches)]),
        cell("cpu-bound", "threads", launches),
    ]
    (line,) = figures(make_run(cells, [GIL], launches=len(launches)), experiment("cpu-bound"))

    assert line == f"3.15, work time: serial 20 ms; {shown}"


def test_swept_settings_stand_in_a_line_for_each_series(make_run):
    """Each series of a sweep has a line, on the newest interpreter with a GIL."""
    cells = [
        cell("convoy", "threads", [rate] * 3, metric="requests_per_s", setting=f"{tasks} CPU tasks")
        for tasks, rate in ((0, 60_000.0), (2, 70.0))
    ]

    assert list(figures(make_run(cells, [GIL]), experiment("convoy"))) == [
        "threads on 3.15: 0 CPU tasks 60,000/s; 2 CPU tasks 70/s"
    ]


def test_a_sweep_of_single_launches_has_no_line(make_run):
    """A line without a figure says nothing."""
    cells = [
        cell("countdown", "1 thread", [0.02] * 3),
        *(cell("countdown", f"{count} threads", [0.02]) for count in (2, 4)),
    ]
    rendered = lines_of(render_experiment(make_run(cells, [GIL]), experiment("countdown")))

    assert rendered[1] == "  3.15, work time: 1 thread 20 ms; 2 with one launch"
    alone = lines_of(render_experiment(make_run(cells[1:], [GIL]), experiment("countdown")))
    assert "one launch" not in "".join(alone)


def test_open_claims_of_a_run_that_goes_on_are_counted(make_run):
    """A claim that gets more launches has its line once it is decided, or in the last screen."""
    cells = [cell("cpu-bound", name, [1.0, 1.1, 1.05]) for name in ("serial", "asyncio")]
    cells.append(cell("cpu-bound", "threads", [0.1, 9.0, 1.0]))
    run = make_run(cells, [GIL])
    ended = lines_of(render_experiment(run, experiment("cpu-bound")))
    goes_on = lines_of(render_experiment(run, experiment("cpu-bound"), goes_on=True))
    open_ = [line for line in ended if line.startswith("  inconclusive")]

    assert open_
    count = f"{len(open_)} claim{'s' if len(open_) > 1 else ''}"
    left = f"  open          {count}; further launches follow while there is time"
    assert goes_on == [*(line for line in ended if line not in open_), left]


def test_counts_have_no_ratios(make_run):
    """Lost increments are shown as numbers, with or without a baseline."""
    cells = [
        cell("race", label, [value] * 2, metric="lost", params={"threads": 4, "k": 9})
        for label, value in (("lock, 5 ms", 3.0), ("+= 1, 5 ms", 9.0))
    ]

    assert list(figures(make_run(cells, [GIL]), experiment("race"))) == ["3.15, lost: lock, 5 ms 3; += 1, 5 ms 9"]


def test_where_nothing_succeeded_that_is_said(make_run):
    """An experiment without a successful launch says so instead of figures."""
    assert list(figures(make_run([cell("sleep", "serial", [])], [GIL]), experiment("sleep"))) == ["no launch succeeded"]


def test_claims_that_were_decided_later_are_told_with_their_experiment(run):
    """Only the claims that were decided later are shown, with their experiment."""
    (line,) = lines_of(render_decided(run, experiment("cpu-bound"), frozenset({"cpu-bound/asyncio-equal"})))

    assert line.startswith("  supported     cpu-bound: asyncio is equal to serial")


def test_an_interval_that_says_nothing_is_not_shown(make_run):
    """An interval without information is not shown, because its ends would look like figures."""
    cells = [cell("cpu-bound", "serial", [1.0, 1.0]), cell("cpu-bound", "threads", [0.1, 9.0])]

    text = "\n".join(lines_of(render_experiment(make_run(cells, [GIL]), experiment("cpu-bound"))))
    assert ": 0.95, very uncertain" in text


def test_the_last_screen_fits_one(run):
    """The last screen has counts, open claims, findings, and where the rest is, in at most fifty lines."""
    lines = lines_of(render_end(run, ["the page is there"]))

    assert len(lines) <= 50
    assert any(line.startswith("Verdicts on this machine: ") and "decided" in line for line in lines)
    assert "Findings on this machine" in lines
    assert lines[-1] == "the page is there"


def test_an_open_claim_says_that_one_launch_tells_no_number(make_run):
    """One launch has no interval, from which the number of launches would follow."""
    cells = [cell("cpu-bound", series, [1.0]) for series in ("serial", "threads")]
    text = "\n".join(lines_of(render_end(make_run(cells, [GIL]), []), width=1000))

    assert "(one launch tells no number)" in text


def found(name, claim="", advice=""):
    return Finding(name, claim, f"{name} {claim}", "-", advice=advice)


def test_findings_with_advice_come_first_one_of_each_experiment():
    """Five findings are chosen: one with advice of each experiment, then second ones, then those without advice.

    A finding that follows from no claim takes a place that is left.
    """
    several = [
        found("a"),
        found("a", "a/1", "do"),
        found("a", "a/2", "do"),
        found("b", "b/1"),
        *(found(name, f"{name}/1", "do") for name in "cd"),
    ]

    assert [one.claim for one in telling(several)] == ["a/1", "c/1", "d/1", "b/1", "a/2"]
    of_no_claim = found("e", "")
    assert telling([of_no_claim, *several])[-1].claim == "a/2"
    assert telling([of_no_claim, *several[1:3]])[-1] is of_no_claim
    assert len(telling([found(name, name, "do") for name in "abcdefg"])) == 5
