"""The winning series, and the values of a parameter at which the order of series reverses.

An example is the size at which threads begin to pay, and the size at which they stop. The module has only data;
`lab.judging.findings` has the words.

A curve is one series against its baseline on one interpreter, by size. It crosses 1 between two sizes whose whole
intervals lie on opposite sides of 1. Sizes between them whose intervals contain 1 widen the bracket and decide nothing.
The size of a crossing is interpolated between the two measured sizes, linearly on logs of both.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from headway.lab import stats
from headway.lab.coordinates import without
from headway.lab.design import ONE_WORKER, Cell, Experiment, Variant
from headway.lab.judging.evidence import NEAR
from headway.lab.kept.results import CellResult, Run

__all__ = ["Crossing", "Curve", "Point", "Winner", "curves", "roughly", "sized", "winners"]


@final
@dataclass(frozen=True)
class Point:
    """A series against its baseline at one size.

    Attributes:
        size: The value of the swept parameter.
        ratio: The series over the baseline, as in the table.
        side: 1 where the whole interval shows the series better, -1 where it shows it worse, 0 where the interval
            decides neither.
    """

    size: float
    ratio: stats.Interval
    side: int


@final
@dataclass(frozen=True)
class Crossing:
    """One reversal of the order.

    Attributes:
        low, high: The measured points between which the order reverses.
        about: The size at which the order reverses, interpolated between the two.
    """

    low: Point
    high: Point
    about: float


@final
@dataclass(frozen=True)
class Curve:
    """A series against its baseline by size.

    Attributes:
        series, baseline: The two series that are compared.
        setting: The cells' settings apart from the size: "tmpfs"; "" where there are none.
        interpreter: The interpreter's id.
        points: The points by size, smallest first.
    """

    series: str
    baseline: str
    setting: str
    interpreter: str
    points: tuple[Point, ...]

    def crossings(self) -> list[Crossing]:
        """Return every reversal of the order, smallest size first."""
        decided = [point for point in self.points if point.side]
        return [
            Crossing(low, high, _between(low, high))
            for low, high in itertools.pairwise(decided)
            if low.side != high.side
        ]


def _between(low: Point, high: Point) -> float:
    """Return the size at which a line through both points, on logs, passes 1."""
    start, end = math.log(low.ratio.value), math.log(high.ratio.value)
    return float(low.size * (high.size / low.size) ** (start / (start - end)))


def curves(run: Run, experiment: Experiment) -> Iterator[Curve]:
    """Yield the curve of every series that has two sizes or more; none for an experiment without a sweep."""
    if not experiment.sweep:
        return
    results = [one for one in _in_python(run, experiment) if one.cell.variant.params.get(experiment.sweep, 0) > 0]
    baselines = {_row(one.cell): one for one in results if one.cell.series == experiment.baseline}
    several = len({one.cell.placement for one in results}) > 1
    settings = _settings(results, experiment.sweep)
    grouped: dict[tuple[str, ...], list[Point]] = {}
    for one in results:
        cell, baseline = one.cell, baselines.get(_row(one.cell))
        ratio = one.ratio_to(baseline, experiment.metric) if baseline is not None and baseline is not one else None
        if ratio is not None:
            key = (cell.series, cell.placement, cell.interpreter, *settings[cell.label])
            point = Point(float(cell.variant.params[experiment.sweep]), ratio, _side(ratio, experiment))
            grouped.setdefault(key, []).append(point)
    for (series, placement, interpreter, words, _), points in grouped.items():
        if len(points) > 1:
            setting = ", ".join(filter(None, (words, placement if several else "")))
            ordered = tuple(sorted(points, key=lambda point: point.size))
            yield Curve(series, experiment.baseline, setting, interpreter, ordered)


def _in_python(run: Run, experiment: Experiment) -> list[CellResult]:
    return [one for one in run.of(experiment.name) if one.cell.interpreter != ONE_WORKER]


def _row(cell: Cell) -> tuple[str, str, str]:
    """Return the coordinates that a cell shares with the baseline it is compared with."""
    return cell.placement, cell.setting, cell.interpreter


def _settings(results: Sequence[CellResult], sweep: str) -> dict[str, tuple[str, str]]:
    """Return, by label, the coordinates of the curve that a cell is on: its setting without the size, and parameters.

    A setting with a part that names the size ("1 MiB, disk") names everything else that matters. Other parameters may
    then differ between the sizes of one curve (there are fewer of the largest files); series and baseline change alike.
    If no part of it is the size's alone, all other parameters tell the curves apart, and those that differ name them.
    """
    variants = {one.cell.label: one.cell.variant for one in results}
    kept = without(variants.values(), sweep)
    sizes = Counter((parts, variants[label].params[sweep]) for label, parts in kept.items())
    several = {parts for (parts, _), count in sizes.items() if count > 1}
    found: dict[str, tuple[str, str]] = {}
    left: list[Variant] = []
    for label, parts in kept.items():
        one = variants[label]
        if (len(parts), parts[:1]) == (len(one.setting), (one.series,)) and parts not in several:
            found[label] = (", ".join(parts[1:]), "")
        else:
            left.append(one)
    found.update(_by_parameters(left, sweep))
    return found


def _by_parameters(variants: Sequence[Variant], sweep: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each label with the parameters that differ between the curves, as words, and with all but the size."""
    curves_of: dict[str, list[Variant]] = {}
    for one in variants:
        others = sorted((name, repr(value)) for name, value in one.params.items() if name != sweep)
        curves_of.setdefault(repr(others), []).append(one)
    drawn = [some[0].params for some in curves_of.values() if len({one.params[sweep] for one in some}) > 1]
    names = sorted({name for params in drawn for name in params} - {sweep})
    differing = [name for name in names if len({repr(params.get(name)) for params in drawn}) > 1]
    for rest, some in curves_of.items():
        for one in some:
            yield one.label, (", ".join(f"{name} {one.params[name]}" for name in differing if name in one.params), rest)


def roughly(value: float, parameter: str) -> str:
    """Return an interpolated value of a sweep as text with two digits, which is more than an interpolation knows."""
    factor = 1
    if parameter.endswith("bytes"):
        factor = next((one for one in (2**30, 2**20, 2**10) if value >= one), 1)
    scaled = value / factor
    return sized(round(scaled, 1 - math.floor(math.log10(scaled))) * factor, parameter) if scaled > 0 else "0"


def sized(value: float, parameter: str) -> str:
    """Return a value of a sweep as text: bytes as `64 KiB` or `1 MiB`, anything else as a number."""
    if not parameter.endswith("bytes"):
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}" if value < 1000 * factor else f"{value / factor:,.0f} {unit}"
    return f"{value:.0f} B"


def _side(ratio: stats.Interval, experiment: Experiment) -> int:
    more, less = ratio.low > 1, ratio.high < 1
    return (more - less) if experiment.unit.endswith("per_s") else (less - more)


@final
@dataclass(frozen=True)
class Winner:
    """The fastest series of one setting, over all interpreters of a kind.

    Attributes:
        setting: The setting as text, with the placement where there are several.
        free_threaded: The kind of interpreters.
        series: The fastest series; "" where none is shown to be faster than the baseline.
        ratio: The series' mean ratio to the baseline; None without a winner.
        interpreters: The ids of the interpreters behind the ratio.
        like: Series that are shown to be faster than the baseline, too, and that the run cannot tell apart from the
            winner.
        unclear: Series of which the run shows neither that they are slower than the winner, or the baseline where there
            is no winner, nor that they are faster than the baseline.
    """

    setting: str
    free_threaded: bool
    series: str
    ratio: stats.Interval | None
    interpreters: tuple[str, ...]
    like: tuple[str, ...]
    unclear: tuple[str, ...]


def winners(run: Run, experiment: Experiment) -> Iterator[Winner]:
    """Yield the fastest model by setting and kind of interpreter, if an experiment compares models with serial work.

    Only series that do the same work as the baseline count: their parameters agree. Single launches give no winner,
    because they have no intervals.
    """
    if (experiment.unit, experiment.compares, experiment.shows, experiment.sweep) != ("s", "variants", "ratios", ""):
        return
    results = [one for one in _in_python(run, experiment) if one.values(experiment.metric) and _is_model(one.cell)]
    if not {"serial"} < {one.cell.variant.model for one in results}:
        return
    several = len({one.cell.placement for one in results}) > 1
    for placement, setting in dict.fromkeys((one.cell.placement, one.cell.setting) for one in results):
        words = ", ".join([setting] * bool(setting) + [placement] * several)
        here = [one for one in results if (one.cell.placement, one.cell.setting) == (placement, setting)]
        for free_threaded in (False, True):
            kind = [one for one in here if run.interpreters[one.cell.interpreter].gil_enabled != free_threaded]
            won = _winner(run, experiment, kind)
            if won is not None:
                yield Winner(words, free_threaded, *won)


def _is_model(cell: Cell) -> bool:
    return cell.variant.model == cell.series or cell.variant.model.startswith(f"{cell.series}-")


_Won = tuple[str, stats.Interval | None, tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _winner(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> _Won | None:
    """Return (series, ratio, interpreters, like, unclear); None where nothing can be compared."""
    by_series: dict[str, dict[str, CellResult]] = {}
    for one in results:
        by_series.setdefault(one.cell.series, {})[one.cell.interpreter] = one
    baselines = by_series.pop(experiment.baseline, {})
    ratios: dict[str, tuple[stats.Interval, tuple[str, ...]]] = {}
    for series, cells in by_series.items():
        same = {key: one for key, one in cells.items() if key in baselines and _same_work(one, baselines[key])}
        ratio = _mean_ratio(run, same, baselines, experiment.metric)
        if ratio is not None and not math.isinf(ratio.high):
            ratios[series] = (ratio, tuple(same))
    if not ratios:
        return None
    quicker = {series: ratio for series, (ratio, _) in ratios.items() if ratio.high < 1}
    if not quicker:
        return "", None, tuple(baselines), (), tuple(one for one in ratios if ratios[one][0].low < 1 / (1 + NEAR))

    def against(series: str, other: str) -> stats.Interval | None:
        return _mean_ratio(run, by_series[series], by_series[other], experiment.metric)

    def beaten(series: str) -> bool:
        found = (against(other, series) for other in ratios if other != series)
        return any(one is not None and one.high < 1 for one in found)

    # Mean ratios may be over other interpreters, so the least one may be of a series that another one beats.
    best = min(quicker, key=lambda series: (beaten(series), quicker[series].value))
    like = []
    # A wide interval that contains 1 may lie about the winner's, too.
    for series, (ratio, _) in ratios.items():
        between = against(series, best)
        apart = not between.low <= 1 <= between.high if between is not None else ratio.low > quicker[best].high
        if series != best and not apart:
            like.append(series)
    unclear = tuple(series for series in like if series not in quicker)
    return best, quicker[best], ratios[best][1], tuple(one for one in like if one in quicker), unclear


def _same_work(one: CellResult, baseline: CellResult) -> bool:
    """Whether the parameters that both have agree: one sum is not a faster way of doing three sums."""
    theirs = baseline.cell.variant.params
    return all(theirs[name] == value for name, value in one.cell.variant.params.items() if name in theirs)


def _mean_ratio(
    run: Run, tops: dict[str, CellResult], bottoms: dict[str, CellResult], metric: str
) -> stats.Interval | None:
    """Return the mean ratio over the interpreters that both have, or the ratio of the only one."""
    pairs = [(top, bottoms[key]) for key, top in tops.items() if key in bottoms]
    if len(pairs) == 1:
        return pairs[0][0].ratio_to(pairs[0][1], metric)
    return run.pooled_ratio(pairs, metric) if pairs else None
