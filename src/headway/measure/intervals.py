"""Intervals from the rounds of one process, and from several processes.

The rounds of one process are no replicates: neighbours are alike, an interrupted round is much longer, and the state of
the process (its layout, the machine's current speed) is in all of them. Two functions are therefore compared between
rounds that were neighbours in time, in blocks of rounds: the median of a block withstands one interruption. With
several processes, each process gives one value. The method was chosen with sessions in which nothing differs, and with
known effects (docs/concepts/evidence-in-tests.md).
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headway.lab import stats
from headway.measure.measured import percentile

__all__ = [
    "MOOD",
    "ORDER",
    "binomial_quantile",
    "blocks",
    "level",
    "parts",
    "percentile_of_calls",
    "percentile_of_launches",
    "ratio_in_turns",
    "reach",
    "with_mood",
]

MOOD = 0.10
"""The error, as a share, that the level of a whole session may have, whatever its own rounds say."""

_BLOCKS = 12
"""The number of blocks, each of at least so many rounds that one interruption does not move the median."""

_LEAST_IN_BLOCK = 3


def blocks(values: Sequence[float], of: Callable[[Sequence[float]], float] = statistics.median) -> list[float]:
    """Return the medians of blocks of neighbours (or another value `of` each), or too few values as they are."""
    count = min(_BLOCKS, len(values) // _LEAST_IN_BLOCK)
    return list(values) if count < 4 else [of(one) for one in parts(values, count)]


def parts(values: Sequence[float], count: int) -> list[Sequence[float]]:
    """Return `count` parts of neighbours, whose lengths differ by one at most; there are as many values or more."""
    edges = [place * len(values) // count for place in range(count + 1)]
    return [values[begin:end] for begin, end in itertools.pairwise(edges)]


_MOST_ALIKE = 0.8

_ROUNDS_ALIKE = 0.3
"""How much single rounds are taken to be alike at least: so few of them cannot tell it, and neighbours mostly are."""


def reach(of_blocks: Sequence[float], *, single_rounds: bool = False) -> float:
    """Return the half-width of Student's interval of the mean of one process's blocks, of which there are two or more.

    If successive blocks are alike, fewer of them are independent, and the interval is wider. The variance of a mean of
    values with lag-1 autocorrelation r is (1 + r) / (1 - r) times the variance without autocorrelation (Law, Simulation
    Modeling and Analysis, 4.4).

    Args:
        of_blocks: The blocks' values.
        single_rounds: Each block is one round, as there are too few rounds for blocks.
    """
    usual = stats.half_width_factor(len(of_blocks)) * statistics.stdev(of_blocks)
    alike = max(_alike(of_blocks), _ROUNDS_ALIKE if single_rounds else 0.0)
    return usual * math.sqrt((1 + alike) / (1 - alike))


def _alike(of_blocks: Sequence[float]) -> float:
    """Return the correlation of successive blocks, from 0 to `_MOST_ALIKE`; 0 for too few blocks."""
    mean = statistics.fmean(of_blocks)
    rests = [one - mean for one in of_blocks]
    squares = sum(one * one for one in rests)
    if len(of_blocks) < _BLOCKS // 2 or squares == 0:
        return 0.0
    # An estimate of the correlation from n values is too small by about 1/n.
    alike = sum(one * other for one, other in itertools.pairwise(rests)) / squares + 1 / len(of_blocks)
    return min(max(alike, 0.0), _MOST_ALIKE)


def _of_blocks(values: Sequence[float], method: stats.Method) -> stats.Interval:
    """Return the geometric mean of one process's rounds, with Student's interval over blocks of them."""
    of_blocks = blocks(values)
    if len(of_blocks) < 2:
        return replace(stats.level_interval(of_blocks), method=method)
    logs = [math.log(one) for one in of_blocks]
    mean, half = statistics.fmean(logs), reach(logs, single_rounds=len(of_blocks) == len(values))
    return stats.Interval(stats.exp(mean), stats.exp(mean - half), stats.exp(mean + half), method)


def level(values: Sequence[float]) -> stats.Interval:
    """Return the time of a call from the rounds of one process, with its interval."""
    return _of_blocks(values, "blocks of rounds")


def ratio_in_turns(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], *, of_launches: bool = False
) -> stats.Interval:
    """Return the ratio of two benchmarks that took turns, with its interval.

    Args:
        pairs: For each process, the rounds of both benchmarks: equally many, and neighbours in time.
        of_launches: Processes are the values, even if only one is left, which bounds nothing. Otherwise the interval
            of one process is over its rounds.

    Raises:
        ValueError: There is no pair, or a value is not positive.
    """
    ratios = [stats.neighbour_ratios(tops, bottoms) for tops, bottoms in pairs]
    if len(ratios) == 1 and not of_launches:
        return _of_blocks(ratios[0], "blocks of rounds in turns")
    return stats.paired_ratio_interval([(stats.launch_value(one), 1.0) for one in ratios])


def with_mood(interval: stats.Interval) -> stats.Interval:
    """Return the interval of a level, widened by the change of the machine's speed from one session to the next."""
    return replace(interval, low=interval.low / (1 + MOOD), high=interval.high * (1 + MOOD))


ORDER: Final = "order statistics"
"""The method of an interval between two of the calls."""

_BEYOND = 5
"""The least number of values beyond a percentile; with fewer, it is hardly more than the largest value."""


def percentile_of_calls(latencies_s: Sequence[float], share: float) -> tuple[stats.Interval, int]:
    """Return a percentile of one process's calls with its interval, and the number of values behind it.

    Successive calls are alike, so the interval is Student's over the percentiles of blocks of neighbours, if a block
    has enough calls beyond the percentile. With fewer calls it is the distribution-free interval of their order
    statistics: the number of calls below the percentile is binomial (Conover, Practical Nonparametric Statistics, 3.2).
    If the calls are too few for a bound, that bound is 0 or infinity.
    """
    count = len(latencies_s)
    if count * min(share, 1 - share) >= _BLOCKS * _BEYOND:
        values = [percentile(one, share) for one in parts(latencies_s, _BLOCKS)]
        return stats.level_interval(values), _BLOCKS
    return _of_order(latencies_s, share), count


def percentile_of_launches(by_launch: Sequence[Sequence[float]], share: float) -> stats.Interval:
    """Return a percentile of the calls of several processes, with its interval.

    The interval is Student's over launches. If a launch has too few calls beyond the percentile, its value is hardly
    more than its largest call, and launches agree in what none of them shows. The interval then also spans that of the
    order statistics of all calls. A single process bounds nothing.
    """
    over = stats.level_interval([percentile(one, share) for one in by_launch])
    if len(by_launch) < 2 or min(map(len, by_launch)) * min(share, 1 - share) >= _BEYOND:
        return over
    of_order = _of_order([value for one in by_launch for value in one], share)
    return replace(of_order, low=min(over.low, of_order.low), high=max(over.high, of_order.high))


def _of_order(latencies_s: Sequence[float], share: float) -> stats.Interval:
    count = len(latencies_s)
    ordered, tail = sorted(latencies_s), (1 - stats.CONFIDENCE) / 2
    low, high = binomial_quantile(tail, count, share), binomial_quantile(1 - tail, count, share) + 1
    bounds = ordered[low - 1] if low >= 1 else 0.0, ordered[high - 1] if high <= count else math.inf
    return stats.Interval(percentile(ordered, share), *bounds, ORDER)


def binomial_quantile(probability: float, count: int, share: float) -> int:
    """Return the least number whose cumulative probability is at least `probability`, as `scipy.stats.binom.ppf` does.

    `scipy.stats` itself takes a second to import.
    """
    from scipy.special import bdtr, bdtrik

    found = bdtrik(probability, count, share)
    number = max(0, math.ceil(found)) if math.isfinite(found) else 0
    return number - 1 if number > 0 and bdtr(number - 1, count, share) >= probability else number
