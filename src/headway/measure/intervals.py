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
from typing import Any, Final

from headway.lab import stats
from headway.measure.measured import percentile

__all__ = [
    "MOOD",
    "ORDER",
    "binomial_quantile",
    "blocks",
    "far_apart",
    "level",
    "parts",
    "percentile_of_calls",
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


_FAR_APART = 1.5
"""The factor, beyond `MOOD` and both intervals, from which on a ratio is another one, and no noise."""


def far_apart(before: tuple[stats.Interval, stats.Interval], now: stats.Interval) -> bool:
    """Tell whether the ratio of two benchmarks in turns is another one than that of their levels before.

    Levels that were measured one after the other bound no drift between them, so only a large difference tells: that of
    the whole interval of the one ratio to that of the other one, beyond `MOOD` and a wide margin.

    Args:
        before: The levels of both, measured one after the other.
        now: The ratio of the first to the second in turns.
    """
    one, other = before
    # A level that nothing bounds may be any: its bounds are 0 and infinity.
    low = one.low / other.high if other.high > 0 else 0.0
    high = one.high / other.low if other.low > 0 else math.inf
    far = _FAR_APART * (1 + MOOD)
    return now.low > far * high or far * now.high < low


ORDER: Final = "order statistics"
"""The method of an interval between two of the calls."""

_SCALES = (6, 12, 24, 48, 96, 192)
"""The numbers of blocks over which calls are looked at: a burst is seen best in blocks that are longer than itself."""

_TAILS = (1.0, 1 / 2, 1 / 4)
"""The parts of the calls beyond a percentile that are looked at: a burst has the largest of them in a row."""

_LEAST_IN_TAIL = 8


def percentile_of_calls(
    by_launch: Sequence[Sequence[float]], share: float, *, of_launches: bool = False
) -> tuple[stats.Interval, float]:
    """Return a percentile of all calls with its interval, and how many times as many calls would bound it.

    The interval is that of order statistics, which is distribution-free: the number of calls below the percentile is
    binomial (Conover, Practical Nonparametric Statistics, 3.2). That is true of independent calls. Slow calls come in
    bursts, and so many calls are worth fewer independent ones (see `_alike_calls`). If these are too few for a bound,
    that bound is 0 or infinity. Over launches the interval also spans Student's over their percentiles.

    Args:
        by_launch: The durations of the calls of each process, in the order in which the calls began.
        share: The share of calls that do not exceed the percentile, between 0 and 1.
        of_launches: Processes are the values, even if only one is left, which bounds nothing.

    Returns:
        The interval, and the factor; it is 1 if the calls suffice.
    """
    ordered = sorted(value for one in by_launch for value in one)
    interval, times = _of_order(by_launch, ordered, share)
    if not of_launches:
        return interval, times
    over = stats.level_interval([percentile(one, share) for one in by_launch])
    return replace(interval, low=min(over.low, interval.low), high=max(over.high, interval.high)), times


def _of_order(
    by_launch: Sequence[Sequence[float]], ordered: Sequence[float], share: float
) -> tuple[stats.Interval, float]:
    count, tail = len(ordered), (1 - stats.CONFIDENCE) / 2

    def ranks(alike: float) -> tuple[float, float]:
        """Return the ranks of both bounds as shares of the calls: 0 or more than 1 where there is no bound."""
        worth = math.floor(count / alike)
        low, high = (binomial_quantile(one, worth, share) for one in (tail, 1 - tail))
        return (low / worth, (high + 1) / worth) if worth else (0.0, math.inf)

    rare = 1 - share if share >= 0.5 else share
    parts_of_rare = [one * rare for one in _TAILS if one == 1 or one * rare * count >= _LEAST_IN_TAIL]
    alike = _alike_calls(by_launch, [1 - one if share >= 0.5 else one for one in parts_of_rare])
    # The calls at a bound may come in longer bursts than those at the percentile.
    alike = max(alike, _alike_calls(by_launch, [one for one in ranks(alike) if 0 < one < 1]))
    low, high = ranks(alike)
    bounds = (
        ordered[max(1, math.floor(low * count)) - 1] if low > 0 else 0.0,
        ordered[min(count, math.ceil(high * count)) - 1] if high <= 1 else math.inf,
    )
    # With so many independent calls, the largest one is beyond the percentile, and the least one below it.
    needed = alike * math.log(tail) / math.log(1 - rare)
    return stats.Interval(percentile(ordered, share), *bounds, ORDER), max(1.0, needed / count)


def _alike_calls(by_launch: Sequence[Sequence[float]], shares: Sequence[float]) -> float:
    """Return how many calls are worth one independent call, 1 or more: the largest over some percentiles and lengths.

    The calls of a block that are beyond a percentile are counted. The variance of these counts, over that of
    independent calls, is the factor by which fewer calls would tell as much. Few blocks know that variance badly, so
    the factor is larger by the square of Student's quantile over the normal one. Each process has its own percentile
    here: the differences between processes are no bursts.
    """
    import numpy as np

    found = 1.0
    launches = [np.asarray(one) for one in by_launch]
    for share in shares:
        limits = [percentile(one, share) for one in by_launch]
        # Equal calls may be on either side.
        for beyond in (np.greater_equal, np.greater):
            counted = [beyond(one, limit) for one, limit in zip(launches, limits, strict=True)]
            for blocks_of_each in dict.fromkeys(max(2, one // len(launches)) for one in _SCALES):
                found = max(found, _excess(counted, blocks_of_each))
    return found


def _excess(counted: Sequence[Any], blocks_of_each: int) -> float:
    """Return the variance of the numbers of marked calls in blocks, over that of independent calls."""
    import numpy as np

    squares, expected, freedom = 0.0, 0.0, 0
    for marked in counted:
        if len(marked) < 2 * blocks_of_each:
            continue
        of_blocks = np.add.reduceat(
            marked, [at * len(marked) // blocks_of_each for at in range(blocks_of_each)], dtype=int
        )
        rate = float(marked.mean())
        squares += float(((of_blocks - of_blocks.mean()) ** 2).sum())
        expected += (blocks_of_each - 1) * len(marked) / blocks_of_each * rate * (1 - rate)
        freedom += blocks_of_each - 1
    if expected == 0:
        return 1.0
    return squares / expected * (stats.student_quantile(freedom) / stats.student_quantile(_MANY)) ** 2


_MANY = 10**9
"""Degrees of freedom at which Student's distribution is the normal one."""


def binomial_quantile(probability: float, count: int, share: float) -> int:
    """Return the least number whose cumulative probability is at least `probability`, as `scipy.stats.binom.ppf` does.

    `scipy.stats` itself takes a second to import.
    """
    from scipy.special import bdtr, bdtrik

    found = bdtrik(probability, count, share)
    number = max(0, math.ceil(found)) if math.isfinite(found) else 0
    return number - 1 if number > 0 and bdtr(number - 1, count, share) >= probability else number
