"""Evidence from predictions: their errors, and whether they put series in the measured order.

A prediction is compared with the level over all launches of its cell. The interval of its error follows from the
level's interval, so a claim about errors is decided in the same way as any other claim.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import final

from headway.lab import stats
from headway.lab.design import Errors, Experiment, Order
from headway.lab.judging.evidence import NOT_LAUNCHED, OF_ZERO, Evidence, Outcome, judged
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult, Run

__all__ = ["Off", "errors", "off", "orders"]


@final
@dataclass(frozen=True)
class Off:
    """The error of a prediction.

    Attributes:
        level: The measured level.
        factor: The larger of measured and predicted over the smaller, with the interval that follows from the level's.
        launches: Launches behind the level.
    """

    level: stats.Interval
    factor: stats.Interval
    launches: int


def off(result: CellResult, metric: str, *, least: int = 0) -> Off | None:
    """Return the error of a cell's prediction of a metric; None without a prediction, or without a usable launch.

    Args:
        result: The cell's results.
        metric: The predicted metric.
        least: Launches that answered fewer requests per sample are not used.
    """
    span = result.prediction.figures.get(metric) if result.prediction is not None else None
    values = [
        stats.launch_value(one.launch.samples[metric])
        for one in result.ok
        if metric in one.launch.samples and _answered(one.launch, result.cell.variant.warmups) >= least
    ]
    if span is None or span.median <= 0 or not values or min(values) <= 0:
        return None
    level = stats.level_interval(values, confidence=result.confidence)
    return Off(level, _factor(level, span.median), len(values))


def _answered(launch: Launch, warmups: int) -> float:
    """Return the number of requests that each sample of a launch answered; infinity where it is not recorded.

    A launch records one number, of its warm-ups and its samples together. They last equally long.
    """
    details = launch.facts.get("details")
    requests = details.get("requests") if isinstance(details, dict) else None
    repetitions = warmups + len(launch.samples.get("requests_per_s", ()))
    return requests / max(1, repetitions) if isinstance(requests, int | float) else math.inf


def _factor(level: stats.Interval, predicted: float) -> stats.Interval:
    """Return the factor between a level and its prediction, with the ends that the level's interval allows."""
    low = level.low / predicted
    high = level.high / predicted
    ends = [one if one >= 1 else 1 / one if one > 0 else math.inf for one in (low, high)]
    value = level.value / predicted
    least = 1.0 if low <= 1 <= high else min(ends)
    return stats.Interval(max(value, 1 / value), least, max(ends), level.method, level.confidence)


def _cells(run: Run, experiment: Experiment, labels: tuple[str, ...], interpreter: str) -> list[CellResult]:
    """Return the cells of an interpreter that have predictions, or will have them."""
    return [
        one
        for one in run.of(experiment.name)
        if one.cell.interpreter == interpreter
        and one.cell.label not in experiment.anchors
        and (not labels or one.cell.label in labels)
    ]


def errors(run: Run, experiment: Experiment, piece: Errors, interpreter: str) -> Iterator[Evidence]:
    """Yield the evidence of the median error; nothing if the run has no such cell.

    The lower end of its interval is the median of the lower ends of the cells' intervals, and the upper end likewise. If
    every cell's interval contains the cell's true error, this interval contains the median of the true errors.
    """
    results = [
        one for one in _cells(run, experiment, piece.labels, interpreter) if piece.placement in {"", one.cell.placement}
    ]
    if not results:
        return
    found = [one for result in results if (one := off(result, piece.metric, least=piece.least)) is not None]
    where = f", {piece.placement}" if piece.placement else ""
    what = f"median factor of error of {piece.metric.replace('_', ' ')}{where}, {len(found)} of {len(results)} cells"
    interval = None
    if found:
        value, low, high = (
            statistics.median(getattr(one.factor, name) for one in found) for name in ("value", "low", "high")
        )
        interval = stats.Interval(value, low, high, found[0].factor.method, found[0].factor.confidence)
    launches = min((one.launches for one in found), default=0)
    # A stored prediction does not change with further launches of the anchors.
    anchors = tuple(
        one.cell.key
        for one in run.of(experiment.name)
        if one.cell.label in experiment.anchors and one.cell.interpreter == interpreter
    )
    cells = tuple(one.cell.key for one in results)
    without = "no cell has both a prediction and a usable launch"
    why_not = _why_not(results, piece.metric, without) if interval is None else ""
    yield replace(judged(what, piece.relation, interval, launches, cells, why_not=why_not), rests_on=anchors)


def _why_not(results: Sequence[CellResult], metric: str, otherwise: str) -> str:
    """Return the reason why launches say nothing about predictions; "" if all of them failed."""
    values = [value for one in results for value in one.values(metric)]
    if not values:
        return "" if any(one.launches for one in results) else NOT_LAUNCHED
    predicted = [one for one in results if one.prediction is not None and metric in one.prediction.figures]
    if not predicted:
        return "there is no prediction to compare with"
    if min(values) <= 0:
        return OF_ZERO
    return otherwise


def _most(right: int, told: int) -> float:
    """Return the upper end of Wilson's 95 % interval for a share (E. B. Wilson, JASA 22, 1927)."""
    z_squared = 1.96**2
    middle = right + z_squared / 2
    return (middle + math.sqrt(z_squared * (right * (told - right) / told + z_squared / 4))) / (told + z_squared)


def orders(run: Run, experiment: Experiment, piece: Order, interpreter: str) -> Iterator[Evidence]:
    """Yield the evidence of the order; nothing if the run has no such cell.

    After few launches only pairs that lie far apart are told apart, which any prediction puts in the right order. The
    evidence therefore supports the order only if the measurement tells apart at least half of the pairs. It refutes the
    order if the upper end of Wilson's interval for the share in the right order is below the share that is claimed.
    """
    results = _cells(run, experiment, piece.labels, interpreter)
    if not results:
        return
    told = wrong = 0
    launches = []
    for one, other in combinations(results, 2):
        if (one.cell.placement, one.cell.setting) != (other.cell.placement, other.cell.setting):
            continue
        predicted = [side.prediction.figures.get(piece.metric) for side in (one, other) if side.prediction is not None]
        ratio = one.ratio_to(other, piece.metric)
        if len(predicted) < 2 or predicted[0] is None or predicted[1] is None or ratio is None:
            continue
        launches.append(one.launches_with(other, piece.metric))
        if ratio.low > 1 or ratio.high < 1:
            told += 1
            wrong += (predicted[0].median > predicted[1].median) != (ratio.value > 1)
    outcome: Outcome = "not measured" if not launches else "inconclusive"
    if told and _most(told - wrong, told) < piece.share:
        outcome = "refuted"
    elif 2 * told >= len(launches) > 0 and (told - wrong) / told >= piece.share:
        outcome = "supported"
    what = f"pairs in the wrong order by {piece.metric.replace('_', ' ')}, of {told} pairs with a measured difference"
    relation = f"at most {1 - piece.share:.0%} of {told}"
    cells = tuple(one.cell.key for one in results)
    if not launches:
        why_not = _why_not(results, piece.metric, "no two cells have both a prediction and a usable launch")
        yield Evidence(outcome, what, None, relation, None, 0, None, cells, why_not)
        return
    yield Evidence(outcome, what, None, relation, wrong, min(launches), None, cells)
