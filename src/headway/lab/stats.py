"""Statistics over launches: intervals of ratios, bimodality, outliers and steady state.

The process launch is the unit of replication (Kalibera and Jones 2013, arXiv 2007.10899). Samples inside a launch share
its hash seed, memory layout and placement, so they tell the level of that launch and nothing about the next one.

numpy and scipy are imported inside functions: a lab starts its first launch before it needs either.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

__all__ = [
    "CONFIDENCE",
    "Interval",
    "Method",
    "Outliers",
    "bimodal",
    "exp",
    "half_width_factor",
    "launch_value",
    "level_interval",
    "neighbour_ratios",
    "outliers",
    "paired_ratio_interval",
    "ratio_interval",
    "steady_state",
    "student_quantile",
]

CONFIDENCE = 0.95
"""Coverage of an interval over a number of launches that is fixed beforehand."""


Method = Literal[
    "student",
    "paired t",
    "welch",
    "one launch",
    "blocks of rounds",
    "blocks of rounds in turns",
    "order statistics",
    "sessions",
    "not measured",
]
"""How an interval was found:

- "student": Student's t on logs of values; for a share of time, on the values themselves.
- "paired t": Student's t on logs of block-wise ratios.
- "welch": Welch's t on logs.
- "one launch": not at all, as one launch bounds nothing.
- "blocks of rounds", "blocks of rounds in turns": Student's t over blocks of one process's rounds, or of their ratios to
  neighbours in time (`measure.intervals`).
- "order statistics": between two of the calls (`measure.intervals`).
- "sessions": with the drift between stored sessions (`measure.baseline`).
- "not measured": not at all, as nothing was to be measured (`measure.decision.Figure`).
"""


@final
@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        value: The estimate: a ratio, or a level in the metric's unit.
        low: Lower bound; 0 where one launch cannot bound it.
        high: Upper bound; infinity where one launch cannot bound it.
        method: How it was found.
        confidence: Coverage of the bounds for one look (see `lab.sequential` for runs that look again and again).
    """

    value: float
    low: float
    high: float
    method: Method
    confidence: float = CONFIDENCE

    @property
    def half_width(self) -> float:
        """The larger relative distance from the value to a bound: 0.05 reads as plus or minus 5 %."""
        if math.isnan(self.value):
            return self.value  # it was not to be measured, and passes every limit
        if self.value <= 0 or math.isinf(self.high):
            return math.inf
        return max(self.high / self.value, self.value / self.low if self.low > 0 else math.inf) - 1


@functools.lru_cache(maxsize=4096)
def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the half-width of a two-sided interval of Student's t, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def half_width_factor(launches: int, confidence: float = CONFIDENCE) -> float:
    """Return the factor from a standard deviation (of logs) to the half-width of a Student interval over `launches`."""
    return student_quantile(launches - 1, confidence) / math.sqrt(launches)


def launch_value(samples: Sequence[float]) -> float:
    """Return the value of one launch: the median of its samples. Raises statistics.StatisticsError for no samples."""
    return statistics.median(samples)


def neighbour_ratios(top: Sequence[float], bottom: Sequence[float]) -> list[float]:
    """Return the ratios of samples of the same turn, of two cells that took turns in one process.

    In a turn each cell that takes part has one sample, so the two samples of a pair are less than one turn of all cells
    apart, and a slow moment of the machine mostly slows both. Raises ValueError if one side has more samples.
    """
    return [one / other for one, other in zip(top, bottom, strict=True)]


def _on_logs(top: Sequence[float], bottom: Sequence[float] | None, confidence: float) -> tuple[float, float, float]:
    """Return (difference of log means, low, high); `bottom` None means the level of `top` alone."""
    variances: list[tuple[float, int]] = []
    difference = 0.0
    for sign, values in ((1, top), (-1, bottom)):
        if values is None:
            continue
        logs = [math.log(value) for value in values]
        difference += sign * statistics.fmean(logs)
        variances.append((statistics.variance(logs) / len(logs), len(logs) - 1))
    error_squared = sum(variance for variance, _ in variances)
    if error_squared == 0:
        return difference, difference, difference
    if bottom is None:
        freedom = float(len(top) - 1)
    else:
        # Welch-Satterthwaite degrees of freedom.
        freedom = error_squared**2 / sum(variance**2 / degrees for variance, degrees in variances)
    reach = student_quantile(freedom, confidence) * math.sqrt(error_squared)
    return difference, difference - reach, difference + reach


def _interval(top: Sequence[float], bottom: Sequence[float] | None, method: Method, confidence: float) -> Interval:
    groups = [values for values in (top, bottom) if values is not None]
    if any(not values for values in groups):
        raise ValueError("an interval needs at least one launch a side")
    if any(value <= 0 for values in groups for value in values):
        raise ValueError("an interval over logs needs positive values")
    if any(len(values) < 2 for values in groups):
        means = [math.exp(statistics.fmean(math.log(value) for value in values)) for values in groups]
        value = means[0] / means[1] if bottom is not None else means[0]
        return Interval(value, 0.0, math.inf, "one launch", confidence)
    value, low, high = map(exp, _on_logs(top, bottom, confidence))
    return Interval(value, low, high, method, confidence)


def exp(value: float) -> float:
    """Return e to the power of `value`, or infinity if a float cannot hold it, as from two launches far apart."""
    return math.exp(value) if value < _LARGEST_LOG else math.inf


_LARGEST_LOG = 709.0


def ratio_interval(top: Sequence[float], bottom: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Return the ratio of geometric means of two groups of launch values, with its interval: Welch's t on logs.

    A bootstrap over launches is not used: from ten launches on it covered 86 % where it said 95 (docs/decisions/014).

    Raises:
        ValueError: A side is empty, or a value is not positive.
    """
    return _interval(top, bottom, "welch", confidence)


def paired_ratio_interval(pairs: Sequence[tuple[float, float]], *, confidence: float = CONFIDENCE) -> Interval:
    """Return the geometric mean of block-wise ratios, with its interval: Student's t on log ratios.

    Compared launches of one block ran next to each other, so a slow second of the machine slowed both. Pairing removes
    this effect (randomised complete blocks).

    Args:
        pairs: (top, bottom) launch values of each block.
        confidence: Coverage of the interval.

    Raises:
        ValueError: No pair, or a value is not positive.
    """
    if any(value <= 0 for pair in pairs for value in pair):
        raise ValueError("an interval over logs needs positive values")
    return _interval([top / bottom for top, bottom in pairs], None, "paired t", confidence)


def level_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Return the geometric mean of launch values with its interval: Student's t on logs."""
    return _interval(values, None, "student", confidence)


def bimodal(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the two centres if launch values fall into two groups, else None.

    Values fall into two groups if the best split leaves at least two launches on each side, the centres differ by a
    quarter or more, and the gap between the groups is at least three times as wide (in logs) as the wider group. At
    least five launches are needed. Closed-loop latency without placement is the known case: one setting has two levels.
    """
    if len(values) < 5 or min(values) <= 0:
        return None
    logs = sorted(math.log(value) for value in values)
    gaps = [(logs[i] - logs[i - 1], i) for i in range(2, len(logs) - 1)]
    gap, split = max(gaps)
    below, above = logs[:split], logs[split:]
    spread = max(below[-1] - below[0], above[-1] - above[0])
    centres = statistics.median(below), statistics.median(above)
    if centres[1] - centres[0] < math.log(1.25) or gap < 3 * spread:
        return None
    return math.exp(centres[0]), math.exp(centres[1])


@final
@dataclass(frozen=True)
class Outliers:
    """The number of values outside Tukey's fences. Outliers are counted and never dropped.

    Attributes:
        mild: Values beyond 1.5 interquartile ranges from the quartiles, up to 3.
        severe: Values beyond 3 interquartile ranges.
    """

    mild: int
    severe: int


def outliers(values: Sequence[float]) -> Outliers:
    """Count the outliers of `values`; fewer than four values have none."""
    if len(values) < 4:
        return Outliers(0, 0)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    distances = [max(low - value, value - high) for value in values]
    severe = sum(distance > 3 * (high - low) for distance in distances)
    mild = sum(distance > 1.5 * (high - low) for distance in distances) - severe
    return Outliers(mild, severe)


_STEADY_MINIMUM = 10
_STEADY_TOLERANCE = 0.02


def _clipped(values: Sequence[float], place: int) -> float:
    """Return the value at `place`, clipped to 1.5 interquartile ranges from the quartiles of the nine values around it.

    It is one of the nine; at the ends there are fewer.
    """
    near = values[max(0, place - 4) : place + 5]
    low, _, high = statistics.quantiles(near, n=4, method="inclusive")
    reach = 1.5 * (high - low)
    return min(max(values[place], low - reach), high + reach)


def _segments(values: Sequence[float]) -> list[tuple[int, int]]:
    """Split `values` where their level changes: binary segmentation, least squares, a BIC-like penalty.

    The noise is estimated from the differences of neighbours, which a change of level hardly affects. It is at least
    half of the tolerance, so that a clock's resolution does not count as a change. Single spikes are first clipped to
    Tukey's inner fences of their neighbourhood, because least squares would split them off.
    """
    import numpy as np

    data = np.array([_clipped(values, place) for place in range(len(values))])
    differences = float(np.median(np.abs(np.diff(data)))) / 0.9539  # MAD of differences -> sigma of normal noise.
    noise = max(differences, _STEADY_TOLERANCE / 2 * float(np.median(np.abs(data))))
    penalty = 3 * noise**2 * math.log(len(data))
    sums = np.concatenate(([0.0], np.cumsum(data)))

    def cut(start: int, end: int) -> list[tuple[int, int]]:
        if end - start < 4:
            return [(start, end)]
        places = np.arange(start + 2, end - 1)
        left = (sums[places] - sums[start]) ** 2 / (places - start)
        right = (sums[end] - sums[places]) ** 2 / (end - places)
        gains = left + right - (sums[end] - sums[start]) ** 2 / (end - start)
        best = int(np.argmax(gains))
        if gains[best] <= penalty:
            return [(start, end)]
        place = int(places[best])
        return cut(start, place) + cut(place, end)

    return cut(0, len(data))


def steady_state(samples: Sequence[float]) -> str:
    """Name the course of one launch's samples, after Barrett et al. 2017 ("Virtual machine warmup blows hot and cold").

    Returns:
        "flat", "warm-up" (the launch got faster and stayed so), "slowdown" (it got slower and stayed so), "no steady
        state" (the level still changes in the last fifth, or returns to the first level), or "too few samples" below
        ten. Changes under 2 % count as none.
    """
    if len(samples) < _STEADY_MINIMUM:
        return "too few samples"
    levels = [(end, statistics.median(samples[start:end])) for start, end in _segments(samples)]
    merged = [levels[0]]
    for end, level in levels[1:]:
        if _near(level, merged[-1][1]):
            merged[-1] = (end, merged[-1][1])
        else:
            merged.append((end, level))
    first, last = merged[0][1], merged[-1][1]
    if len(merged) == 1:
        return "flat"
    if merged[-2][0] > 0.8 * len(samples) or _near(first, last):
        return "no steady state"
    return "warm-up" if last < first else "slowdown"


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _STEADY_TOLERANCE * max(abs(one), abs(other))
