"""The budget of a request."""

import pytest

from headway.lab.experiments import experiments
from headway.lab.launching.request import Request, budget_s

ALL = len(experiments())


@pytest.mark.parametrize(
    ("waited_s", "left_s"), [(0.0, 600.0), (30.0, 600.0), (100.0, 530.0), (330.0, 300.0), (5000.0, 300.0)]
)
def test_building_interpreters_for_long_counts(waited_s, left_s):
    """`make lab` ends about when it says it does, and measures for half of its time at least."""
    assert budget_s(Request(), ALL, waited_s) == left_s


@pytest.mark.parametrize("request_", [Request(budget_s=50.0), Request(launches=5), Request(size="standard")])
def test_a_number_that_is_given_stays(request_):
    """A budget that the user gives is for launches alone, and a number of launches has no budget."""
    assert budget_s(request_, ALL, 500.0) == request_.budget_s


def test_a_part_of_the_experiments_has_a_part_of_the_time():
    """One experiment has a minute, as less would decide nothing."""
    assert budget_s(Request(), 1) == 60.0
    assert budget_s(Request(), ALL // 2) == pytest.approx(300.0, rel=0.1)
