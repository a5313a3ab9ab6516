"""The budget of a request, and the values that are refused."""

import re
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.lab.experiments import experiments
from headway.lab.launching.request import Request, budget_s, check

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


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"seed": "1"}, "the seed is '1', expected a whole number"),
        ({"seed": True}, "the seed is True, expected a whole number"),
        ({"launches": "3"}, "the number of launches is '3', expected a whole number: more than 0 and at most 10000"),
        ({"launches": 2.5}, "the number of launches is 2.5, expected a whole number: more than 0 and at most 10000"),
        ({"budget_s": "10"}, "the budget in seconds is '10', expected a number: more than 0 and at most 604800"),
        ({"budget_s": 0}, "the budget in seconds is 0, expected more than 0 and at most 604800"),
        ({"budget_s": float("nan")}, "the budget in seconds is nan, expected more than 0 and at most 604800"),
        ({"limit_s": [1]}, "the time limit in seconds is [1], expected a number: more than 0 and at most 604800"),
        ({"memory_limit_bytes": 1.5}, "the memory limit in bytes is 1.5, expected a whole number: more than 0"),
        ({"experiments": "countdown"}, "experiments is 'countdown', expected a list of texts"),
        ({"experiments": [1]}, "experiments is [1], expected a list of texts"),
        ({"interpreters": "3.13"}, "interpreters is '3.13', expected a list of texts"),
        ({"models": 1}, "models is 1, expected a list of texts"),
        ({"store": "results.sqlite"}, "the store is 'results.sqlite', expected a path"),
        ({"redis_url": None}, "the URL of the Redis is None, expected a text"),
        ({"size": "huge"}, "the size is `huge`"),
        ({"placement": "apart"}, "the placement is `apart`"),
    ],
)
def test_a_value_that_no_run_can_have_is_refused(values, told):
    """A wrong type is told like a value out of its range: it would be found when the run is stored, or read."""
    with pytest.raises(UsageError, match="^" + re.escape(told)):
        check(Request(**values))


def test_values_of_all_documented_types_are_accepted():
    """Any collection of names, whole numbers for seconds, and a seed of any size."""
    check(Request(experiments=("countdown",), interpreters={"3.13": 1}, models={"threads"}, seed=-1, limit_s=3))
    check(Request(budget_s=5, store=Path("results.sqlite"), redis_url="redis://localhost", memory_limit_bytes=1))
