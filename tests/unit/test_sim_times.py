"""Distributions as quantiles."""

import math

import pytest

from headway.sim.times import POINTS, Times


@pytest.mark.parametrize(
    ("times", "mean", "tolerance"),
    [
        (Times.constant(5.0), 5.0, 0.0),
        (Times("uniform", (2.0, 6.0)), 4.0, 1e-9),
        (Times("exponential", (8.0,)), 8.0, 0.01),
        (Times("lognormal", (10.0, 0.5)), 10 * math.exp(0.125), 0.01),
        (Times("lognormal", (10.0, 1.5)), 10 * math.exp(1.125), 0.02),
        (Times("quantiles", (0.0, 1.0, 10.0)), 3.0, 1e-9),
    ],
)
def test_quantiles_rise_and_keep_the_mean(times, mean, tolerance):
    """The quantiles rise, and their mean is that of the distribution."""
    quantiles = times.quantiles()

    assert list(quantiles) == sorted(quantiles)
    assert times.mean() == pytest.approx(mean, rel=tolerance + 1e-12)
    assert times.is_constant == (times.shape == "constant")


def test_medians_stay():
    """The middle quantile is the median."""
    assert Times("exponential", (8.0,)).quantiles()[POINTS // 2] == pytest.approx(8 * math.log(2))
    assert Times("lognormal", (10.0, 1.5)).quantiles()[POINTS // 2] == pytest.approx(10.0)


def test_what_has_no_width_is_constant():
    """A distribution that always gives the same value is a constant."""
    assert Times("uniform", (3.0, 3.0)).is_constant
    assert Times("lognormal", (3.0, 0.0)).quantiles() == (3.0,)
    assert not Times("quantiles", (3.0, 4.0)).is_constant
