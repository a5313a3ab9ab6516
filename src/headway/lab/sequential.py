"""When a run has launched enough of something: the rule, and what it does to intervals.

A run with a budget looks at its claims after every launch from the third on, and gives no more launches to what is decided.
A 95 % interval that is looked at again and again misses the truth more often than in 5 % of cases: over 98 looks in 36 %. So each
look takes an interval of `LOOK_CONFIDENCE`. That is Pocock's rule (1977, Biometrika 64) with Student's t: the same confidence at
every look. A claim is decided falsely where an interval lies beyond the truth on one side, past the claim's threshold; the confidence
is so high that the chance for any look to do so is 5 % with normal noise, and less with heavier tails, for a truth that is just at the
threshold. (Both sides together miss in 10 %.) It was found by simulation (`bench/sequential_rule.py`), and held against whole labs
with known truth (`bench/simulated_labs.py`).
"""

from headway.lab import stats

__all__ = ["FIRST_LOOK", "LOOK_CONFIDENCE", "MOST_LAUNCHES", "confidence_of"]

FIRST_LOOK = 3
"""Launches of every cell before the first look."""

MOST_LAUNCHES = 100
"""No claim gets more: the error is stated for so many looks."""

LOOK_CONFIDENCE = 0.9911
"""Coverage of the interval of each look, so that all of them together miss on one side in 5 % of cases."""


def confidence_of(*, sequential: bool) -> float:
    """Return the coverage of each interval of a run, looked at once."""
    return LOOK_CONFIDENCE if sequential else stats.CONFIDENCE
