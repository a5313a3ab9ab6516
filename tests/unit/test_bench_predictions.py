"""The judging of bench/predictions.py: errors, groups, coverage, order and the naive laws, on made-up figures."""

import math

import predictions
import predictions_judged as judged
import published_cases
import pytest
from predictions_judged import Cell, Outcome, Span

from headway.sim import machine
from headway.sim.replay.measured import Measured
from headway.sim.whatif import RolePrediction


def outcome(value, launches, low=None, high=None, bound=judged.RATE_BOUND):
    """Return a prediction with its launches."""
    return Outcome(Span(value, low or 0.9 * value, high or 1.1 * value), tuple(launches), bound)


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(2, 1, 2), (1, 2, 2), (3, 3, 1), (0, 0, 1), (0, 5, math.inf), (5, 0, math.inf)]
)
def test_an_error_is_a_factor_either_way(one, other, expected):
    """A prediction of twice as much is as wrong as one of half as much."""
    assert judged.factor(one, other) == expected


def test_a_cell_is_judged_by_its_error_where_its_launches_keep_together():
    """A cell is judged by its error if all its launches are within 6 % of their median."""
    steady = outcome(110, (98, 100, 103))
    rough = outcome(110, (80, 100, 103))

    assert (steady.steady, steady.actual, round(steady.error, 3)) == (True, 100, 1.1)
    assert not rough.steady
    assert rough.spread == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(80, 125, True), (95, 125, False), (80, 115, False), (10, 1000, False)],
)
def test_coverage_is_to_hold_every_launch_and_not_to_be_too_wide(low, high, expected):
    """A range covers the launches if it holds every one, and is at most twice as wide in logarithms."""
    assert outcome(100, (85, 100, 120), low, high).covers is expected


def test_launches_that_are_all_alike_are_covered_by_no_range_of_some_width():
    """A range of any width does not cover equal launches, and neither does one without a lower end."""
    assert not outcome(100, (100, 100)).covers
    assert not outcome(100, (0, 100)).covers


def test_the_interval_holds_the_median_launch():
    """The interval must hold the median launch, whatever the others are."""
    assert outcome(100, (50, 105, 400)).held
    assert not outcome(100, (50, 115, 400)).held


@pytest.mark.parametrize("law", [judged.amdahl, judged.usl])
def test_a_law_goes_through_its_points(law):
    """Both laws are exact for figures that follow Amdahl's law, between the points and beyond."""

    def rate(threads):
        return 100 * threads / (1 + 0.3 * (threads - 1))

    points = [(threads, rate(threads)) for threads in (2, 4, 7)]

    assert [law(points, threads) for threads in (2, 3, 5, 12)] == pytest.approx([rate(one) for one in (2, 3, 5, 12)])


def test_only_the_universal_law_knows_of_costs_that_grow_with_pairs():
    """The universal law is exact for costs that grow with pairs of threads, and Amdahl's is not."""

    def rate(threads):
        return 100 * threads / (1 + 0.1 * (threads - 1) + 0.05 * threads * (threads - 1))

    points = [(threads, rate(threads)) for threads in (2, 4, 7)]

    assert judged.usl(points, 5) == pytest.approx(rate(5))
    assert judged.amdahl(points, 5) != pytest.approx(rate(5), rel=0.01)


def test_a_law_that_gives_no_rate_gives_none():
    """A law that fits no curve, because a rate grows faster than its threads, gives 0."""
    assert judged.amdahl([(2, 1.0), (4, 10.0), (7, 100.0)], 20) == 0


def test_order_is_of_pairs_whose_launches_do_not_overlap():
    """Two cells whose launches overlap do not count for the order."""
    wrong, told = judged.order(
        {"none": (1.0, (10, 11)), "fair": (3.0, (50, 60)), "priority": (4.0, (20, 55)), "other": (0.5, (12, 13))}
    )

    assert (wrong, told) == (1, 5)


def test_the_summary_tells_both_groups_and_the_laws():
    """The summary has figures for each group and for the laws."""
    cells = [
        Cell("echo", "fair", outcome(100, (99, 100, 101)), outcome(10, (9, 10, 10.5), bound=judged.P99_BOUND)),
        Cell("echo", "4 compute", outcome(150, (99, 100, 101)), None, {"Amdahl's law": 400.0}),
        Cell("queue", "fair", outcome(100, (70, 100, 140), 60, 150), None),
        Cell("queue", "1 core", None, None),
    ]

    found = judged.summary(cells, 1, 4)

    assert found["cells"] == 4
    assert found["cells without a prediction"] == 1
    assert (found["rate, steady cells"], found["rate, other cells"]) == (2, 1)
    assert found["rate, steady: median factor of error"] == pytest.approx(1.25)
    assert found["rate, steady: largest factor of error"] == pytest.approx(1.5)
    assert found["rate, other: share covered"] == 1
    assert found["p99, steady: share within 1.25"] == 1
    assert found["p99, other: share covered"] is None
    assert found["share of pairs in the right order"] == 0.75
    assert found["their median factor of error"] == pytest.approx(1.5)
    assert found["the same by Amdahl's law"] == pytest.approx(4)


def test_losses_stand_first():
    """Cells without a prediction come first, then those with the largest error."""
    cells = [Cell("a", "x", outcome(100, (100, 100)), None), Cell("b", "x", outcome(300, (100, 100)), None)]
    cells.append(Cell("c", "x", None, None, outside=("no such role",)))

    assert [one.program for one in judged.losses_first(cells)] == ["c", "b", "a"]
    lines = predictions.table(cells).splitlines()
    assert lines[2].strip() == "outside the model: no such role"
    assert "x 3.00 off" in lines[3]


def test_there_are_sixty_cells_and_none_is_its_program_unchanged():
    """There are sixty cells or more, none repeats its unchanged program, and options choose among them."""
    found = predictions.cells()

    assert len(found) >= 60
    assert len(set(found)) == len(found)
    assert ("sleepers, 2 compute", "2 compute") not in found
    assert len(predictions.chosen(predictions.options_of(["--cells", "7"]))) == 7
    assert len(predictions.chosen(predictions.options_of(["--quick"]))) == 6
    assert {program for program, _ in predictions.chosen(predictions.options_of(["--only", "hashlib"]))} == {"hashlib"}


def test_predictions_are_in_the_unit_of_the_program():
    """A predicted rate is the model's change times the traced program's rate, and the p99 is that of a turn."""
    seen = Measured(5_000, 1_000.0, 0.01, 1e5, 2e6, 0.1, 0.1)
    role = RolePrediction("main", seen, Span(2_100, 1_900, 2_300), None, Span(3e6, 2e6, 4e6), None, {})
    traced, after = {"rate": 200, "pieces": 500}, [{"rate": one, "pieces": 900} for one in (390, 400, 410)]

    found = predictions.rate_outcome(role, traced, after)

    assert found.predicted.value == pytest.approx(420)
    assert found.error == pytest.approx(1.05)
    assert predictions.rate_outcome(None, traced, after) is None
    assert predictions.rate_outcome(role, traced, [*after, {"rate": 0, "pieces": 0}]) is None
    tail = predictions.p99_outcome(role, [2.4e6, 2.5e6, 2.6e6])
    assert (tail.predicted.value, tail.error) == (pytest.approx(0.003), pytest.approx(1.2))
    assert predictions.p99_outcome(role, [2.4e6, None, 2.6e6]) is None
    assert predictions.p99_outcome(role, []) is None


# ---- published_cases ----


@pytest.mark.parametrize(("figure", "expected"), [("pieces", 376), ("left", 48), ("lost", 52)])
def test_a_published_figure_is_told_in_its_unit(figure, expected):
    """A figure of work is a share of the work that the spinning thread does alone."""
    case = published_cases.Case("rustypot", 0.005, figure, "")

    assert published_cases.figure(case, {"pieces": 376.0, "work": 24.0}, 50.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("place", "low", "high"),
    [(0, 550, 650), (1, 300, 400), (3, 140, 155), (4, 95, 100), (5, 25, 50), (8, 0, 5)],
)
def test_the_scenarios_have_the_mechanisms_that_were_published(place, low, high):
    """The scenarios show the published mechanisms, with the preset's costs; deviations are named in their files."""
    case = published_cases.CASES[place]
    costs = machine.load(machine.PRESET)

    (told,) = published_cases.simulated(case, costs, 1, 2)

    assert low < published_cases.figure(case, told, 1.0) < high
