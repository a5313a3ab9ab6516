"""Judge the figures of predictions.py: errors, groups, coverage, order, and the predictions of two laws."""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

RATE_BOUND, P99_BOUND = 1.06, 1.25
"""Factors. A cell whose own launches keep within the bound is judged by its error, another by coverage."""
LEAST_PIECES = 300
"""The 99th percentile of fewer says more about luck than about a program."""
MOST_TIMES_AS_WIDE = 2.0


@dataclasses.dataclass(frozen=True)
class Span:
    """A prediction with its 80 % interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Span":
        """Return the prediction multiplied by a factor, for instance in another unit."""
        return Span(self.value * factor, self.low * factor, self.high * factor)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A prediction, with the launches that it predicts."""

    predicted: Span
    launches: tuple[float, ...]
    bound: float

    @property
    def actual(self) -> float:
        """The median launch."""
        return statistics.median(self.launches)

    @property
    def error(self) -> float:
        """The factor between predicted and actual, 1 or more."""
        return factor(self.predicted.value, self.actual)

    @property
    def spread(self) -> float:
        """The greatest distance of a launch from the median launch, as a factor."""
        return max(factor(one, self.actual) for one in self.launches)

    @property
    def steady(self) -> bool:
        """Whether the launches stay within the bound; the prediction then must do so, too."""
        return self.spread <= self.bound

    @property
    def held(self) -> bool:
        """Whether the interval holds the median launch."""
        return self.predicted.low <= self.actual <= self.predicted.high

    @property
    def covers(self) -> bool:
        """Whether the interval holds every launch, and is at most twice as wide as the launches."""
        low, high = min(self.launches), max(self.launches)
        if low <= 0 or self.predicted.low <= 0:
            return False
        wide = math.log(self.predicted.high / self.predicted.low)
        return (
            self.predicted.low <= low
            and high <= self.predicted.high
            and wide <= MOST_TIMES_AS_WIDE * math.log(high / low)
        )


@dataclasses.dataclass(frozen=True)
class Cell:
    """A program with a change. `laws`: each naive law's prediction of the rate, for cells with other thread counts."""

    program: str
    change: str
    rate: Outcome | None
    p99: Outcome | None
    laws: Mapping[str, float] = dataclasses.field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The names of the program and the change."""
        return f"{self.program}, {self.change}"


def factor(one: float, other: float) -> float:
    """Return the larger over the smaller; infinite if one is 0 and the other is not."""
    low, high = sorted((one, other))
    return high / low if low > 0 else math.inf if high > 0 else 1.0


# ---- naive peers ----
def amdahl(points: Sequence[tuple[int, float]], threads: int) -> float:
    """Return the rate with this many threads by Amdahl's law through the first and the last of three points.

    X(N) = a N / (1 + s (N - 1)), a straight line of N / X over N - 1.
    """
    (first, at_first), (last, at_last) = points[0], points[-1]
    slope = (last / at_last - first / at_first) / (last - first)
    return _rate(threads, first / at_first + slope * (threads - first))


def usl(points: Sequence[tuple[int, float]], threads: int) -> float:
    """Return the rate with this many threads by the Universal Scalability Law through three points.

    X(N) = a N / (1 + s (N - 1) + k N (N - 1)), a parabola of N / X over N, here in Lagrange's form.
    """
    total = 0.0
    for number, rate in points:
        weight = math.prod((threads - other) / (number - other) for other, _ in points if other != number)
        total += weight * number / rate
    return _rate(threads, total)


def _rate(threads: int, per_rate: float) -> float:
    """Return N / (N / X); 0 if the law gives no rate at all."""
    return threads / per_rate if per_rate > 0 else 0.0


# ---- order ----
def order(of_changes: Mapping[str, tuple[float, Sequence[float]]]) -> tuple[int, int]:
    """Return (pairs in the wrong order, pairs that the measurement tells apart) of a program's policies.

    Args:
        of_changes: Policy -> its prediction, and its launches. A pair is told apart if the launches of one do not
            overlap those of the other.
    """
    told = wrong = 0
    for (guess, launches), (other_guess, others) in itertools.combinations(of_changes.values(), 2):
        if min(launches) > max(others) or max(launches) < min(others):
            told += 1
            wrong += (guess > other_guess) != (min(launches) > max(others))
    return wrong, told


# ---- the whole ----
def summary(cells: Sequence[Cell], wrong: int, told: int) -> dict[str, float | int | None]:
    """Return the figures that are compared with the targets; None for a figure without data."""
    rates = [one.rate for one in cells if one.rate is not None]
    p99s = [one.p99 for one in cells if one.p99 is not None]
    steady, rough = [one for one in rates if one.steady], [one for one in rates if not one.steady]
    tails, loose = [one for one in p99s if one.steady], [one for one in p99s if not one.steady]
    scaled = [one for one in cells if one.laws and one.rate is not None]

    def share(of: Sequence[bool]) -> float | None:
        return sum(of) / len(of) if of else None

    def median_of(values: Sequence[float]) -> float | None:
        return statistics.median(values) if values else None

    found: dict[str, float | int | None] = {
        "cells": len(cells),
        "cells without a prediction": len(cells) - len(rates),
        "rate, steady cells": len(steady),
        "rate, steady: median factor of error": median_of([one.error for one in steady]),
        "rate, steady: largest factor of error": max((one.error for one in steady), default=None),
        "rate, all: median factor of error": median_of([one.error for one in rates]),
        "rate, other cells": len(rough),
        "rate, other: share covered": share([one.covers for one in rough]),
        "p99, steady cells": len(tails),
        "p99, steady: share within 1.25": share([one.error <= P99_BOUND for one in tails]),
        "p99, other cells": len(loose),
        "p99, other: share covered": share([one.covers for one in loose]),
        "share of 80 % intervals that hold the rate": share([one.held for one in rates]),
        "share of 80 % intervals that hold the p99": share([one.held for one in p99s]),
        "pairs of policies told apart": told,
        "share of pairs in the right order": share([True] * (told - wrong) + [False] * wrong),
        "cells with another number of threads": len(scaled),
        "their median factor of error": median_of([one.rate.error for one in scaled if one.rate is not None]),
    }
    for law in sorted({law for one in scaled for law in one.laws}):
        errors = [factor(one.laws[law], one.rate.actual) for one in scaled if law in one.laws and one.rate is not None]
        found[f"the same by {law}"] = median_of(errors)
    return found


def losses_first(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells by the error of their rate, the worst first; cells without a prediction come before them."""
    return sorted(cells, key=lambda one: -one.rate.error if one.rate is not None else -math.inf)
