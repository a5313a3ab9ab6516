"""Statistics over launches: intervals of ratios, two modes, outliers, steady state.

The process launch is the unit of replication (Kalibera and Jones 2013, arXiv 2007.10899): samples inside a launch
share its hash seed, memory layout and placement, so they tell the launch's own level and nothing about the next one.

numpy and scipy are imported where they are used: a lab starts its first launch before it needs either.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

__all__ = [
    "CONFIDENCE",
    "FEW_LAUNCHES",
    "Interval",
    "Outliers",
    "bimodal",
    "half_width_factor",
    "launch_value",
    "level_interval",
    "outliers",
    "paired_ratio_interval",
    "ratio_interval",
    "steady_state",
]

CONFIDENCE = 0.95
"""Coverage of every interval."""

FEW_LAUNCHES = 10
"""Below this many launches a side: Student's or Welch's t on logs. A bootstrap of five covers less than it says."""

_RESAMPLES = 9_999


@final
@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        value: The estimate: a ratio, or a level in the metric's unit.
        low: Lower bound at `CONFIDENCE`; 0 where one launch cannot bound it.
        high: Upper bound; infinity where one launch cannot bound it.
        method: "student" (Student's t on logs), "paired t" (the same on block-wise ratios), "welch" (Welch's t on logs), "bca" (BCa
            bootstrap over launches or blocks) or "one launch".
    """

    value: float
    low: float
    high: float
    method: str

    @property
    def half_width(self) -> float:
        """The larger relative distance from the value to a bound: 0.05 reads as plus or minus 5 %."""
        if self.value <= 0 or math.isinf(self.high):
            return math.inf
        return max(self.high / self.value, self.value / self.low if self.low > 0 else math.inf) - 1


def half_width_factor(launches: int) -> float:
    """Return by what a standard deviation (of logs) becomes the half-width of a Student interval over `launches`."""
    from scipy.special import stdtrit

    return float(stdtrit(launches - 1, (1 + CONFIDENCE) / 2)) / math.sqrt(launches)


def launch_value(samples: Sequence[float]) -> float:
    """Return what one launch says: the median of its samples. Raises statistics.StatisticsError for none."""
    return statistics.median(samples)


def _welch(top: Sequence[float], bottom: Sequence[float] | None) -> tuple[float, float, float]:
    """Return (difference of log means, low, high); `bottom` None means the level of `top` alone (Student's t)."""
    from scipy.special import stdtrit

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
    # Welch-Satterthwaite degrees of freedom.
    freedom = error_squared**2 / sum(variance**2 / degrees for variance, degrees in variances)
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(error_squared)
    return difference, difference - reach, difference + reach


def _bca(top: Sequence[float], bottom: Sequence[float] | None, seed: int) -> tuple[float, float, float] | None:
    """Return (difference of log means, low, high) by the BCa bootstrap over launches; None where it is degenerate."""
    import warnings

    import numpy as np
    from scipy.stats import bootstrap

    groups = [np.log(np.asarray(values, dtype=float)) for values in (top, bottom) if values is not None]
    if any(np.ptp(group) == 0 for group in groups):
        return None

    def difference(*samples: "np.ndarray", axis: int = -1) -> "np.ndarray":
        means: list[np.ndarray] = [np.mean(sample, axis=axis) for sample in samples]
        return means[0] - means[1] if len(means) == 2 else means[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bootstrap(
            groups,
            difference,
            n_resamples=_RESAMPLES,
            vectorized=True,
            confidence_level=CONFIDENCE,
            method="BCa",
            rng=np.random.default_rng(seed),
        )
    low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    if math.isnan(low) or math.isnan(high):
        return None
    return float(difference(*groups)), low, high


def _interval(top: Sequence[float], bottom: Sequence[float] | None, seed: int, small_sample: str) -> Interval:
    groups = [values for values in (top, bottom) if values is not None]
    if any(not values for values in groups):
        raise ValueError("an interval needs at least one launch a side")
    if any(value <= 0 for values in groups for value in values):
        raise ValueError("an interval over logs needs positive values")
    if any(len(values) < 2 for values in groups):
        means = [math.exp(statistics.fmean(math.log(value) for value in values)) for values in groups]
        value = means[0] / means[1] if bottom is not None else means[0]
        return Interval(value, 0.0, math.inf, "one launch")
    method = "bca" if min(map(len, groups)) >= FEW_LAUNCHES else small_sample
    found = _bca(top, bottom, seed) if method == "bca" else None
    if found is None:
        method, found = small_sample, _welch(top, bottom)
    value, low, high = map(math.exp, found)
    return Interval(value, low, high, method)


def ratio_interval(top: Sequence[float], bottom: Sequence[float], *, seed: int = 0) -> Interval:
    """Return the ratio of geometric means of two groups of launch values, with its confidence interval.

    Welch's t on logs below `FEW_LAUNCHES` launches on either side, else a BCa bootstrap over launches with `seed`.

    Raises:
        ValueError: A side is empty, or a value is not positive.
    """
    return _interval(top, bottom, seed, "welch")


def paired_ratio_interval(pairs: Sequence[tuple[float, float]], *, seed: int = 0) -> Interval:
    """Return the geometric mean of block-wise ratios, with its confidence interval.

    Launches of one block that are compared ran next to each other, so what slowed the machine for a second slowed
    both: pairing takes that out (randomised complete blocks). Student's t on log ratios below `FEW_LAUNCHES` blocks,
    else a BCa bootstrap over blocks.

    Args:
        pairs: (top, bottom) launch values of each block.
        seed: For the bootstrap.

    Raises:
        ValueError: No pair, or a value is not positive.
    """
    if any(value <= 0 for pair in pairs for value in pair):
        raise ValueError("an interval over logs needs positive values")
    return _interval([top / bottom for top, bottom in pairs], None, seed, "paired t")


def level_interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """Return the geometric mean of launch values with its confidence interval: Student's t on logs, or BCa likewise."""
    return _interval(values, None, seed, "student")


def bimodal(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the two centres where launch values fall into two groups, else None.

    Flagged when the best split in two leaves at least two launches on each side, the centres differ by a quarter or
    more, and the gap between the groups is three times as wide (in logs) as the wider group. Five launches at least.
    Closed-loop latency without placement is the known case: one setting, two answers.
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
    """How many values lie outside Tukey's fences; they are counted and never dropped.

    Attributes:
        mild: Beyond 1.5 interquartile ranges from the quartiles, up to 3.
        severe: Beyond 3.
    """

    mild: int
    severe: int


def outliers(values: Sequence[float]) -> Outliers:
    """Count the outliers of `values`; none among fewer than four."""
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
    """Return the value at `place`, no further from the quartiles of its nine neighbours than 1.5 times their range."""
    near = values[max(0, place - 4) : place + 5]
    low, _, high = statistics.quantiles(near, n=4, method="inclusive")
    reach = 1.5 * (high - low)
    return min(max(values[place], low - reach), high + reach)


def _segments(values: Sequence[float]) -> list[tuple[int, int]]:
    """Split `values` where their level changes: binary segmentation, least squares, a BIC-like penalty.

    Noise is taken from the differences of neighbours, which a change of level hardly touches; but no less than a half
    of the tolerance, so that a clock's grain is no change. Single spikes are clipped to Tukey's inner fences of their
    neighbourhood first, because least squares would cut them out.
    """
    import numpy as np

    data = np.array([_clipped(values, place) for place in range(len(values))])
    differences = float(np.median(np.abs(np.diff(data)))) / 0.9539  # MAD of differences -> sigma of a normal sample.
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
        "flat", "warm-up" (it got faster and stayed so), "slowdown" (it got slower and stayed so), "no steady state"
        (it still changes in the last fifth, or comes back to where it began), or "too few samples" below ten. Changes
        under 2 % count as none.
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
