"""The stopping rule of a run with a budget, and the confidence that its intervals need.

A run with a budget looks at its claims after every launch from the third on, and launches no more for claims that are
decided. A 95 % interval that is looked at again and again misses the truth in more than 5 % of cases: in 36 % over 98
looks. Each look therefore takes an interval of `LOOK_CONFIDENCE`. That is Pocock's rule (1977, Biometrika 64) with
Student's t: the same confidence at every look.

A decision is false if the whole interval is on one side of the claim's threshold and the truth is not. The worst case is
a truth exactly at the threshold. There the chance that any look decides for a given side is 5 % with normal noise, and
less with heavier tails. (It is 10 % for both sides together.) The confidence was found by simulation (`bench/sequential_rule.py`), and checked against
whole labs with known truth (`bench/simulated_labs.py`).
"""

from headway.lab import stats

__all__ = ["FIRST_LOOK", "LOOK_CONFIDENCE", "MOST_LAUNCHES", "confidence_of"]

FIRST_LOOK = 3
"""Launches of each telling cell (`lab.plan`) before the first look; the other cells have one."""

MOST_LAUNCHES = 100
"""The most launches that a claim gets; the error is stated for this many looks."""

LOOK_CONFIDENCE = 0.9911
"""Coverage of the interval of each look, so that all looks at one comparison together miss on one side in 5 % of cases."""


def confidence_of(*, sequential: bool) -> float:
    """Return the coverage of each interval of a run; in a sequential run, of each look."""
    return LOOK_CONFIDENCE if sequential else stats.CONFIDENCE
