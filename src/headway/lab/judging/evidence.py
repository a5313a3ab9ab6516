"""The evidence behind verdicts: a ratio against a threshold, a count against zero."""

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

from headway.lab import stats
from headway.lab.design import Comparison, Count, Experiment, Level, Relation
from headway.lab.kept.results import CellResult, Run

__all__ = [
    "NEAR",
    "NOT_LAUNCHED",
    "OF_ZERO",
    "TOO_MANY",
    "Evidence",
    "Outcome",
    "combined",
    "comparisons",
    "counted",
    "decisive_first",
    "judged",
    "launches_needed",
    "launches_within",
    "levels",
    "pooled",
]

Outcome = Literal["supported", "refuted", "at the limit", "mixed", "inconclusive", "not measured"]
"""The outcome of a claim, or of one piece of evidence alone. "at the limit": the figure is known, and so near the
claim's threshold that the side does not matter (`NEAR`). "mixed": the mean over interpreters supports the claim, and
one of them by itself refutes it."""

NEAR = 0.05
"""An interval that contains a threshold, and lies within this share of it, is at the limit."""

NOT_LAUNCHED = "a cell was not launched"

OF_ZERO = "a launch measured 0, so there is no ratio and no interval"

TOO_MANY = 1_000
"""The estimate of the launches that are needed stops here. A claim that needs more is too close to its threshold."""


@final
@dataclass(frozen=True)
class Evidence:
    """One comparison or count behind a verdict.

    Attributes:
        outcome: The outcome of this piece alone; "not measured" where every launch of a cell failed, none has run yet,
            or a launch gave 0, which has no ratio.
        what: The measured thing, as "threads / serial", with the placement where there are several.
        interval: The measured ratio or level with its interval; None for a count.
        relation: The range that the claim states, as text.
        count: The sum, for a count.
        launches: Launches (or blocks, where launches are paired) behind the figure.
        launches_to_decide: About how many launches would decide an inconclusive comparison, if the estimate and the
            spread stay as they are; `TOO_MANY` for more than that; None where no estimate is possible.
        cells: Keys of the cells behind the figure.
        rests_on: Keys of cells that must be launched before these, and whose further launches change no figure.
        why_not: The reason why there is no interval; "" if there is one, and if all launches of a cell failed.
        margin: How far the whole interval lies from the nearest threshold, as a logarithm; 0 if it contains one, or if
            the relation or the interval is none.
    """

    outcome: Outcome
    what: str
    interval: stats.Interval | None
    relation: str
    count: float | None
    launches: int
    launches_to_decide: int | None = None
    cells: tuple[str, ...] = ()
    why_not: str = ""
    margin: float = 0.0
    rests_on: tuple[str, ...] = ()


def _margin(relation: Relation, interval: stats.Interval) -> float:
    """Return the distance of an interval from the nearest threshold, as a logarithm; 0 if it contains one."""
    ends = [math.log(end) if end > 0 else -math.inf for end in (interval.low, interval.high)]
    limits = [math.log(one) for one in relation.limits]
    return min((max(ends[0] - one, one - ends[1], 0.0) for one in limits), default=0.0)


def _launches_to_decide(relation: Relation, interval: stats.Interval, launches: int, most: int) -> int | None:
    """Return the number of launches after which the interval excludes the nearest threshold, or is within `NEAR` of it.

    Returns None if no estimate is possible, as for a share of 0, which has no logarithm.
    """
    if not relation.limits or launches < 2 or interval.value <= 0:
        return None
    distance = min(abs(math.log(interval.value / limit)) for limit in relation.limits)
    return launches_within(max(distance, math.log1p(NEAR) - distance), interval, launches, most)


def launches_within(wanted: float, interval: stats.Interval, launches: int, most: int = TOO_MANY) -> int | None:
    """Return the number of launches after which the interval's half-width (in logs) is below `wanted`, `most` at most.

    It falls with 1/sqrt(launches) and with the quantile of Student's t. Returns None if no estimate is possible.
    """
    if math.isinf(interval.half_width) or launches < 2:
        return None
    spread = math.log1p(interval.half_width) / stats.half_width_factor(launches, interval.confidence)
    numbers = range(launches + 1, max(most, launches + 1))
    found = bisect.bisect_left(
        numbers, True, key=lambda more: spread * stats.half_width_factor(more, interval.confidence) < wanted
    )
    return numbers[found] if found < len(numbers) else max(most, launches + 1)


def _is_at_limit(relation: Relation, interval: stats.Interval) -> bool:
    return any(limit / (1 + NEAR) < interval.low and interval.high < limit * (1 + NEAR) for limit in relation.limits)


def judged(
    what: str,
    relation: Relation,
    interval: stats.Interval | None,
    launches: int,
    cells: tuple[str, ...] = (),
    *,
    why_not: str = "",
    most: int = TOO_MANY,
) -> Evidence:
    """Return the evidence of an interval over launches of some cells for a relation; "not measured" for None.

    The estimate of the launches that would decide stops at `most`.
    """
    outcome: Outcome = "inconclusive"
    more = None
    if interval is None:
        outcome, launches = "not measured", 0
    elif relation.contains(interval.low, interval.high):
        outcome = "supported"
    elif relation.excludes(interval.low, interval.high):
        outcome = "refuted"
    elif _is_at_limit(relation, interval):
        outcome = "at the limit"
    else:
        more = _launches_to_decide(relation, interval, launches, most)
    margin = _margin(relation, interval) if interval is not None else 0.0
    return Evidence(outcome, what, interval, str(relation), None, launches, more, cells, why_not, margin)


def _why_not(results: Sequence[CellResult], launches: int) -> str:
    """Return the reason why `launches` usable launches of some cells give no interval; "" if all of one cell failed."""
    if launches > 0:
        return OF_ZERO
    return "" if all(one.launches for one in results) else NOT_LAUNCHED


def _places(run: Run, experiment: Experiment, comparison: Comparison | Level) -> list[str]:
    measured = dict.fromkeys(result.cell.placement for result in run.of(experiment.name))
    return [place for place in measured if comparison.placement in {"", place}]


def comparisons(run: Run, experiment: Experiment, comparison: Comparison, interpreter: str) -> Iterator[Evidence]:
    """Yield the evidence of one comparison at every placement of the run.

    Yields nothing if the run was not asked for one of the cells, and "not measured" if it was but no launch succeeded.
    """
    metric = comparison.metric or experiment.metric
    tops, bottoms = comparison.top_interpreter or interpreter, comparison.bottom_interpreter or interpreter
    places = _places(run, experiment, comparison)
    for place in places:
        top = run.find(experiment.name, comparison.top, tops, place)
        bottom = run.find(experiment.name, comparison.bottom, bottoms, comparison.bottom_placement or place)
        if top is None or bottom is None:
            continue
        what = (
            f"{comparison.top} / {comparison.bottom}"
            if tops == bottoms
            else f"{run.names[tops]} / {run.names[bottoms]}"
            if comparison.top == comparison.bottom
            else f"{comparison.top} on {run.names[tops]} / {comparison.bottom}"
        )
        if comparison.bottom_placement:
            what += f", {place} / {comparison.bottom_placement}"
        elif len(places) > 1:
            what += f", {place}"
        interval = top.ratio_to(bottom, metric)
        launches = top.launches_with(bottom, metric)
        why_not = _why_not((top, bottom), launches) if interval is None else ""
        yield judged(what, comparison.relation, interval, launches, (top.cell.key, bottom.cell.key), why_not=why_not)


def pooled(run: Run, experiment: Experiment, comparison: Comparison, interpreters: Sequence[str]) -> Iterator[Evidence]:
    """Yield the evidence of the mean over interpreters at every placement.

    Yields nothing if the run was not asked for one of the cells, and "not measured" if there is no mean over at least two.
    """
    metric = comparison.metric or experiment.metric
    places = _places(run, experiment, comparison)
    for place in places:
        asked: list[tuple[CellResult, CellResult]] = []
        for interpreter in interpreters:
            top = run.find(experiment.name, comparison.top, interpreter, place)
            bottom = run.find(experiment.name, comparison.bottom, interpreter, comparison.bottom_placement or place)
            if top is not None and bottom is not None:
                asked.append((top, bottom))
        if not asked:
            continue
        pairs = [pair for pair in asked if all(one.by_block(metric) for one in pair)]
        interval = run.pooled_ratio(pairs, metric) if len(pairs) > 1 else None
        where = f"{place} / {comparison.bottom_placement}" if comparison.bottom_placement else place
        several = len(places) > 1 or comparison.bottom_placement
        what = f"{comparison.top} / {comparison.bottom}" + (f", {where}" if several else "")
        blocks = [set(top.ratios(bottom, metric)) for top, bottom in pairs]
        launches = len(set.intersection(*blocks)) if blocks else 0
        cells = tuple(result.cell.key for pair in pairs for result in pair)
        yield judged(what, comparison.relation, interval, launches, cells)


def levels(run: Run, experiment: Experiment, level: Level, interpreter: str) -> Iterator[Evidence]:
    """Yield the evidence of one level at every placement of the run; nothing if the run has no such cell."""
    places = _places(run, experiment, level)
    for place in places:
        result = run.find(experiment.name, level.label, interpreter, place)
        if result is None:
            continue
        what = f"{level.metric.replace('_', ' ')} of {level.label}" + (f", {place}" if len(places) > 1 else "")
        interval, launches = result.level(level.metric), len(result.by_block(level.metric))
        why_not = _why_not((result,), launches) if interval is None else ""
        yield judged(what, level.relation, interval, launches, (result.cell.key,), why_not=why_not)


def counted(run: Run, experiment: Experiment, count: Count, interpreter: str) -> Iterator[Evidence]:
    """Yield the evidence of one count; nothing if the run was not asked for any of its cells.

    A cell without a successful launch may hide an event that the other cells did not show. The count is then
    inconclusive, unless the other cells show the event.
    """
    results = [
        result
        for result in run.of(experiment.name)
        if result.cell.label in count.labels and result.cell.interpreter == interpreter
    ]
    if not results:
        return
    samples = [value - count.less for result in results for launch in result.samples(count.metric) for value in launch]
    what = " and ".join(result.cell.label for result in results)
    relation = "0 in every sample" if count.expect == "none" else "more than 0 in some sample"
    cells = tuple(result.cell.key for result in results)
    if not samples:
        yield Evidence("not measured", what, None, relation, None, 0, None, cells, _why_not(results, 0))
        return
    launches = min(len(result.samples(count.metric)) for result in results)
    seen = any(value != 0 for value in samples)
    if seen:
        outcome: Outcome = "supported" if count.expect == "some" else "refuted"
    elif launches == 0:
        outcome = "inconclusive"
    else:
        outcome = "supported" if count.expect == "none" else "refuted"
    yield Evidence(outcome, what, None, relation, sum(samples), launches, None, cells)


def combined(evidence: Sequence[Evidence]) -> Outcome:
    """Return the outcome of all pieces together.

    One refuted piece refutes the claim; one undecided or unmeasured piece leaves it open.
    """
    outcomes = {one.outcome for one in evidence}
    if outcomes <= {"not measured"}:
        return "not measured"
    if "refuted" in outcomes:
        return "refuted"
    if outcomes <= {"supported", "at the limit"}:
        return "at the limit" if "at the limit" in outcomes else "supported"
    return "inconclusive"


def launches_needed(pieces: Iterable[Evidence]) -> int | None:
    """Return about how many launches decide all of these pieces; None if that is not known of one, or there is none."""
    needs = [one.launches_to_decide for one in pieces]
    return max((one for one in needs if one is not None), default=None) if None not in needs else None


def decisive_first(evidence: Sequence[Evidence], outcome: Outcome) -> tuple[Evidence, ...]:
    """Return the evidence with the deciding piece first, one with this outcome.

    A supported claim rests on the piece that is nearest to its threshold, a refuted one on the piece that is farthest
    from it. An open claim waits for the piece with the widest interval. If no piece has this outcome, a piece that was
    not measured comes first.
    """

    def rank(one: Evidence) -> tuple[bool, bool, float, float]:
        width = one.interval.half_width if one.interval is not None else 0.0
        away = -one.margin if outcome == "refuted" else one.margin
        return one.outcome != outcome, one.outcome != "not measured", away, -width

    return tuple(sorted(evidence, key=rank))
