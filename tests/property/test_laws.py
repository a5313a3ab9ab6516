"""Laws that hold for all inputs."""

import math

from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_interpreter, make_machine

from headway.lab import stats
from headway.lab.design import Relation, above, below, between
from headway.lab.experiments import experiments
from headway.lab.plan import make_plan
from headway.report.lab.tables import seconds

times_s = st.floats(min_value=1e-9, max_value=1e4)
few = st.lists(times_s, min_size=2, max_size=9)


@given(few, few)
def test_an_interval_holds_its_estimate(top, bottom):
    """An interval and its estimate are positive, and low <= value <= high."""
    found = stats.ratio_interval(top, bottom)

    assert 0 < found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)


@given(few, few)
def test_turning_a_ratio_round_turns_its_interval_round(top, bottom):
    """Bottom / top has the reciprocal interval of top / bottom."""
    one, other = stats.ratio_interval(top, bottom), stats.ratio_interval(bottom, top)

    assert math.isclose(one.value * other.value, 1, rel_tol=1e-6)
    assert math.isclose(math.log(one.low), -math.log(other.high), rel_tol=1e-6, abs_tol=1e-6)


@given(few, few, st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_does_not_matter(top, bottom, factor):
    """Milliseconds and seconds give the same ratio and interval."""
    one = stats.ratio_interval(top, bottom)
    other = stats.ratio_interval([value * factor for value in top], [value * factor for value in bottom])

    assert math.isclose(math.log(one.low), math.log(other.low), rel_tol=1e-6, abs_tol=1e-6)
    assert math.isclose(math.log(one.high), math.log(other.high), rel_tol=1e-6, abs_tol=1e-6)


@given(st.lists(st.tuples(times_s, times_s), min_size=2, max_size=9), st.lists(times_s, min_size=9, max_size=9))
def test_pairs_do_not_see_what_slows_both(pairs, drift):
    """Scaling both sides of each block by the block's own factor changes nothing."""
    slowed = [(top * slow, bottom * slow) for (top, bottom), slow in zip(pairs, drift, strict=False)]
    one, other = stats.paired_ratio_interval(pairs), stats.paired_ratio_interval(slowed)

    assert math.isclose(math.log(one.low), math.log(other.low), rel_tol=1e-6, abs_tol=1e-6)
    assert math.isclose(math.log(one.high), math.log(other.high), rel_tol=1e-6, abs_tol=1e-6)


@given(st.lists(times_s, min_size=5, max_size=30), st.randoms(use_true_random=False))
def test_two_modes_do_not_depend_on_the_order(values, shuffler):
    """The order of launches does not change the flag, and the centres lie among the values."""
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    found = stats.bimodal(values)

    assert found == stats.bimodal(shuffled)
    if found is not None:
        assert min(values) * 0.999 <= found[0] < found[1] <= max(values) * 1.001


@given(st.lists(times_s, min_size=0, max_size=40))
def test_outliers_are_never_more_than_half(values):
    """The quartiles keep half of the values inside the fences."""
    found = stats.outliers(values)

    assert 0 <= found.mild + found.severe <= len(values) / 2


@given(st.lists(times_s, min_size=1, max_size=200))
def test_every_course_has_a_name(samples):
    """Every sequence of samples gets one of the five names."""
    names = {"flat", "warm-up", "slowdown", "no steady state", "too few samples"}
    assert stats.steady_state(samples) in names


relations = st.one_of(
    times_s.map(below), times_s.map(above), st.tuples(times_s, times_s).map(sorted).map(lambda pair: between(*pair))
)


@given(relations, times_s, times_s)
def test_an_interval_is_never_both_inside_and_outside(relation: Relation, one, other):
    """A relation contains an interval, excludes it, or neither, but never both; an interval without width is decided."""
    low, high = sorted((one, other))

    assert not (relation.contains(low, high) and relation.excludes(low, high))
    assert relation.contains(low, low) != relation.excludes(low, low)


@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=1, max_value=4), st.integers(1, 8))
def test_every_plan_launches_every_cell_once_a_block(seed, launches, cores):
    """A plan for any seed, launches and cores has each cell once a block, and experiments one after the other."""
    made = make_plan(
        experiments(), [make_interpreter()], make_machine(cores), size="quick", seed=seed, launches=launches
    )
    order = made.order()

    assert len(order) == launches * len(made.cells) == len({(block, cell.key) for block, cell in order})
    names = list(dict.fromkeys(cell.experiment for cell in made.cells))
    places = [(names.index(cell.experiment), block) for block, cell in order]
    assert places == sorted(places)


@given(st.floats(min_value=1e-12, max_value=1e6))
def test_shown_times_read_back(value_s):
    """A time shown in its unit is within 0.6 % of the true value."""
    number, unit = seconds(value_s).split()
    factor = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]

    assert math.isclose(float(number.replace(",", "")) * factor, value_s, rel_tol=0.006)
