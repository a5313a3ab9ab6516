"""Figures in words: as many digits as tell something."""

import math

from headway.lab import stats

__all__ = ["number", "ratio"]


def number(value: float) -> str:
    """Return a ratio with as many digits as tell something: `0.0033`, `0.52`, `13.3`, `2,509`."""
    if 0 < value < 0.1:
        return f"{value:#.2g}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ratio(interval: stats.Interval) -> str:
    """Return a ratio with its interval: `0.52 [0.49-0.55]`; without one where a single launch cannot tell."""
    if math.isinf(interval.high):
        return number(interval.value)
    return f"{number(interval.value)} [{number(interval.low)}-{number(interval.high)}]"
