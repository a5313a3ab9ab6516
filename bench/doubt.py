"""The statistics that decide in the programs of bench/ whether a target is missed beyond doubt."""

import statistics
from collections.abc import Sequence

from scipy.special import bdtr, stdtrit  # scipy.stats takes a second or two to import

from headway.lab.stats import launch_value
from headway.measure.intervals import binomial_quantile

__all__ = ["is_above_zero", "is_more_often", "median_interval"]

CERTAIN = 0.995
"""The probability with which a truth at the very limit of a target is not called a miss."""


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median with its distribution-free 95 % interval (order statistics, sign test)."""
    ordered = sorted(values)
    outside = binomial_quantile(0.025, len(ordered), 0.5)
    return launch_value(ordered), ordered[max(0, outside - 1)], ordered[min(len(ordered) - 1, len(ordered) - outside)]


def is_more_often(count: int, total: int, share: float) -> bool:
    """Return whether `count` of `total` independent cases are more than a true share of `share` gives by chance."""
    return bool(count > 0 and bdtr(count - 1, total, share) > CERTAIN)


def is_above_zero(values: Sequence[float]) -> bool:
    """Return whether the mean of independent values is above 0 beyond doubt (Student's t)."""
    if len(values) < 2:
        return False
    error = statistics.stdev(values) / len(values) ** 0.5
    return bool(statistics.fmean(values) > stdtrit(len(values) - 1, CERTAIN) * error)
