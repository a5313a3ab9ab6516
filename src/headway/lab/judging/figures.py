"""Figures as text, with as many digits as carry information."""

import math

from headway.lab import stats

__all__ = ["UNCERTAIN", "number", "ratio", "tells_nothing"]

UNCERTAIN = "very uncertain"
"""The words in place of an interval that tells nothing."""
_WIDE = 1e3


def number(value: float) -> str:
    """Return a ratio with as many digits as carry information: `0.0033`, `0.52`, `13.3`, `2,509`."""
    if 0 < value < 0.1:
        return f"{value:#.2g}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def tells_nothing(interval: stats.Interval) -> bool:
    """Tell whether an interval, such as that of two launches that differ, is so wide that its ends are no figures."""
    return interval.low * _WIDE < interval.high


def ratio(interval: stats.Interval) -> str:
    """Return a ratio with its interval: `0.52 [0.49-0.55]`; without an interval for a single launch.

    A ratio whose ends would read alike gets more digits: `1.0012 [1.0004-1.0020]`.
    """
    if math.isinf(interval.high):
        return number(interval.value)
    ends = (interval.value, interval.low, interval.high)
    texts = [number(one) for one in ends]
    decimals = 2
    while texts[1] == texts[2] and interval.low < interval.high and decimals < _MOST_DECIMALS:
        decimals += 1
        texts = [f"{one:.{decimals}f}" for one in ends]
    return f"{texts[0]} [{texts[1]}-{texts[2]}]"


_MOST_DECIMALS = 6
