"""What the run says of each claim: supported, refuted or inconclusive, with the evidence.

A verdict follows from intervals alone: supported when the whole interval is on the claim's side of its threshold,
refuted when it is wholly on the other, inconclusive when it crosses it. A claim of several comparisons is as good as
its worst. A claim that fails here is a finding about this machine, not an error.

A claim about each of several interpreters is also judged by its mean over them, which says more from few launches than
any one interpreter can; what single interpreters say stands below it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, final

from headway.lab import stats
from headway.lab.design import ONE_WORKER, Claim, Comparison, Count, Experiment, Relation
from headway.lab.published import published_ratio
from headway.lab.results import Run

__all__ = ["ORDER", "Evidence", "Outcome", "Verdict", "by_claim", "judge"]

Outcome = Literal["supported", "refuted", "inconclusive", "not measured"]
ORDER: tuple[Outcome, ...] = ("supported", "refuted", "inconclusive", "not measured")
"""From the best-founded to the least, as reports list them."""

_TOO_MANY = 1_000
"""So many launches are no advice: the truth then lies at the threshold."""


@final
@dataclass(frozen=True)
class Evidence:
    """One comparison or count behind a verdict.

    Attributes:
        outcome: What it says by itself.
        what: "threads / serial", with the placement where there are several.
        interval: The measured ratio with its interval; None for a count.
        relation: What the claim says of it, in words.
        count: The sum, for a count.
        launches: Launches on the side with fewer.
        launches_to_decide: About how many would decide an inconclusive comparison, if the estimate and the spread
            stay; None where that cannot be told.
    """

    outcome: Outcome
    what: str
    interval: stats.Interval | None
    relation: str
    count: float | None
    launches: int
    launches_to_decide: int | None = None


@final
@dataclass(frozen=True)
class Verdict:
    """A claim on one interpreter (or once, for claims about C or about pairs of interpreters).

    Attributes:
        claim: The claim.
        experiment: The experiment's name.
        interpreter: An interpreter's id; "all" for the mean over those the claim speaks of; "native" for the C limits;
            "any" for a claim that one interpreter is enough for; "pair" for a claim about two interpreters.
        outcome: The verdict.
        evidence: Everything looked at, the deciding piece first.
        sentence: Why, in one sentence.
    """

    claim: Claim
    experiment: str
    interpreter: str
    outcome: Outcome
    evidence: tuple[Evidence, ...]
    sentence: str

    @property
    def deciding(self) -> Evidence | None:
        """The piece of evidence that the verdict follows from."""
        return self.evidence[0] if self.evidence else None

    def published(self) -> list[tuple[str, float]]:
        """Return (source, the author's ratio) for each published figure."""
        return [(one.source, published_ratio(one)) for one in self.claim.published]


def _outcome(relation: Relation, interval: stats.Interval) -> Outcome:
    if relation.contains(interval.low, interval.high):
        return "supported"
    if relation.excludes(interval.low, interval.high):
        return "refuted"
    return "inconclusive"


def _launches_to_decide(relation: Relation, interval: stats.Interval, launches: int) -> int | None:
    """Scale the interval's half-width with 1/sqrt(launches) until it ends at the nearest threshold."""
    distance = min(abs(math.log(interval.value / limit)) for limit in relation.limits)
    if math.isinf(interval.half_width) or distance == 0:
        return None
    needed = launches * (math.log1p(interval.half_width) / distance) ** 2
    return math.ceil(needed) if needed < _TOO_MANY else None


def _not_measured(what: str, relation: str) -> Evidence:
    return Evidence("not measured", what, None, relation, None, 0)


def _compare(
    run: Run, experiment: Experiment, comparison: Comparison, interpreter: str, placements: Sequence[str]
) -> Iterable[Evidence]:
    """Yield the evidence of one comparison at every placement measured."""
    metric = comparison.metric or experiment.metric
    top_interpreter = comparison.top_interpreter or interpreter
    bottom_interpreter = comparison.bottom_interpreter or interpreter
    across = comparison.top_interpreter != ""
    wanted = [comparison.placement] if comparison.placement else placements
    for placement in wanted:
        top = run.find(experiment.name, comparison.top, top_interpreter, placement)
        bottom = run.find(experiment.name, comparison.bottom, bottom_interpreter, placement)
        what = (
            f"{run.names.get(top_interpreter, top_interpreter)} / {run.names.get(bottom_interpreter, bottom_interpreter)}"
            if across
            else f"{comparison.top} / {comparison.bottom}"
        )
        if len(wanted) > 1:
            what += f", {placement}"
        interval = top.ratio_to(bottom, metric) if top is not None and bottom is not None else None
        if top is None or bottom is None or interval is None:
            yield _not_measured(what, str(comparison.relation))
            continue
        launches = min(len(top.by_block(metric)), len(bottom.by_block(metric)))
        outcome = _outcome(comparison.relation, interval)
        more = _launches_to_decide(comparison.relation, interval, launches) if outcome == "inconclusive" else None
        yield Evidence(outcome, what, interval, str(comparison.relation), None, launches, more)


def _counted(run: Run, experiment: Experiment, count: Count, interpreter: str) -> Evidence:
    results = [
        result
        for result in run.of(experiment.name)
        if result.cell.label in count.labels and result.cell.interpreter == interpreter
    ]
    samples = [value - count.less for result in results for launch in result.samples(count.metric) for value in launch]
    what = " and ".join(count.labels)
    relation = "0 in every sample" if count.expect == "none" else "more than 0 in some sample"
    if not samples:
        return _not_measured(what, relation)
    launches = min(len(result.ok) for result in results)
    none = all(value == 0 for value in samples)
    outcome: Outcome = "supported" if none == (count.expect == "none") else "refuted"
    return Evidence(outcome, what, None, relation, sum(samples), launches)


def _combined(evidence: Sequence[Evidence]) -> Outcome:
    """As good as the worst: one refuted comparison refutes the claim, one undecided one leaves it open."""
    outcomes = {one.outcome for one in evidence}
    if not evidence or outcomes == {"not measured"}:
        return "not measured"
    if "refuted" in outcomes:
        return "refuted"
    return "supported" if outcomes == {"supported"} else "inconclusive"


def _distance(one: Evidence) -> float:
    """Sorts evidence of equal outcome: the nearest to its threshold first."""
    return one.interval.half_width if one.interval is not None else 0.0


def _sentence(outcome: Outcome, claim: Claim, evidence: Sequence[Evidence]) -> str:
    if outcome == "not measured":
        return "the run has no launches to judge it by"
    one = evidence[0]
    if one.interval is None and one.count is None:
        return f"{one.what} has no launches, so the claim stays open"
    if one.interval is None:
        found = f"{one.count:,.0f} counted over {one.launches} launches a cell"
        return f"{found}: {claim.why}" if outcome == "supported" else f"{found}, expected {one.relation}"
    measured = f"{one.what} is {one.interval.value:.2f}"
    if outcome == "supported":
        return f"{measured}, {one.relation} with its whole interval: {claim.why}"
    if outcome == "refuted":
        return f"{measured}, and its whole interval is outside {one.relation}"
    if one.launches < 2:
        return f"{measured} from one launch, which has no interval: use `--launches`"
    crossing = f"{measured}, but its interval crosses the threshold ({one.relation})"
    if one.launches_to_decide is None:
        return f"{crossing}: too close to it for more launches to decide"
    return f"{crossing}: about {one.launches_to_decide} launches would decide if nothing else changes"


def _verdict(run: Run, experiment: Experiment, claim: Claim, interpreter: str) -> Verdict:
    placements = list(dict.fromkeys(result.cell.placement for result in run.of(experiment.name)))
    evidence: list[Evidence] = []
    for piece in claim.evidence(run.machine):
        if isinstance(piece, Count):
            evidence.append(_counted(run, experiment, piece, interpreter))
        else:
            evidence.extend(_compare(run, experiment, piece, interpreter, placements))
    # A comparison that this run left out by choice (a placement, a model) does not weigh on the others.
    measured = [one for one in evidence if one.outcome != "not measured"] or evidence
    outcome = _combined(measured)
    measured.sort(key=lambda one: (one.outcome != outcome, -_distance(one)))
    return Verdict(claim, experiment.name, interpreter, outcome, tuple(measured), _sentence(outcome, claim, measured))


def _any(run: Run, experiment: Experiment, claim: Claim, interpreters: Sequence[str]) -> Verdict:
    """One interpreter that shows it is enough."""
    verdicts = [_verdict(run, experiment, claim, interpreter) for interpreter in interpreters]
    shown = [verdict for verdict in verdicts if verdict.outcome == "supported"]
    if not shown:
        outcome: Outcome = _combined([one for verdict in verdicts for one in verdict.evidence])
        evidence = tuple(one for verdict in verdicts for one in verdict.evidence)
        return Verdict(claim, experiment.name, "any", outcome, evidence, _sentence(outcome, claim, evidence))
    counts = ", ".join(f"{run.names[one.interpreter]} {one.evidence[0].count or 0:,.0f}" for one in shown)
    evidence = tuple(one for verdict in shown for one in verdict.evidence)
    return Verdict(claim, experiment.name, "any", "supported", evidence, f"seen on {counts}: {claim.why}")


def _pair(run: Run, claim: Claim) -> Claim | None:
    """Replace the short names in a claim on pairs by the run's ids; None where the run lacks one of them."""
    by_name = {one.name: key for key, one in reversed(run.interpreters.items())}
    pieces = []
    for piece in claim.evidence(run.machine):
        if not isinstance(piece, Comparison) or not {piece.top_interpreter, piece.bottom_interpreter} <= set(by_name):
            return None
        pieces.append(
            Comparison(
                top=piece.top,
                bottom=piece.bottom,
                relation=piece.relation,
                metric=piece.metric,
                top_interpreter=by_name[piece.top_interpreter],
                bottom_interpreter=by_name[piece.bottom_interpreter],
            )
        )
    return Claim(**{**claim.__dict__, "evidence": lambda _: pieces})


def _pooled(run: Run, experiment: Experiment, claim: Claim, interpreters: Sequence[str]) -> Verdict | None:
    """Judge the mean over interpreters; None where the claim counts, or fewer than two interpreters have figures."""
    pieces = claim.evidence(run.machine)
    evidence: list[Evidence] = []
    for piece in pieces:
        if isinstance(piece, Count):
            return None
        metric = piece.metric or experiment.metric
        for placement in dict.fromkeys(result.cell.placement for result in run.of(experiment.name)):
            pairs = []
            for interpreter in interpreters:
                top = run.find(experiment.name, piece.top, interpreter, placement)
                bottom = run.find(experiment.name, piece.bottom, interpreter, placement)
                if top is not None and bottom is not None and top.ok and bottom.ok:
                    pairs.append((top, bottom))
            interval = run.pooled_ratio(pairs, metric) if len(pairs) > 1 else None
            if interval is None:
                continue
            launches = min(len(result.ok) for pair in pairs for result in pair)
            outcome = _outcome(piece.relation, interval)
            more = _launches_to_decide(piece.relation, interval, launches) if outcome == "inconclusive" else None
            what = f"{piece.top} / {piece.bottom}" + (f", {placement}" if placement != "free" else "")
            evidence.append(Evidence(outcome, what, interval, str(piece.relation), None, launches, more))
    if not evidence:
        return None
    outcome = _combined(evidence)
    evidence.sort(key=lambda one: (one.outcome != outcome, -_distance(one)))
    return Verdict(claim, experiment.name, "all", outcome, tuple(evidence), _sentence(outcome, claim, evidence))


def _speaks_of(run: Run, claim: Claim) -> list[str]:
    """Return the ids of the run's interpreters that the claim speaks of."""
    chosen = []
    for key, interpreter in run.interpreters.items():
        with_gil = interpreter.gil_enabled
        if claim.where == "all" or (claim.where == "gil") == with_gil:
            chosen.append(key)
    return chosen


def judge(run: Run) -> list[Verdict]:
    """Return a verdict for every claim of the run's experiments, by claim and interpreter.

    A claim that speaks of no interpreter of the run gets one verdict, "not measured", that says which it needs.
    """
    verdicts: list[Verdict] = []
    for experiment in run.experiments():
        for claim in experiment.claims:
            interpreters = _speaks_of(run, claim)
            if claim.scope == "native":
                verdicts.append(_verdict(run, experiment, claim, ONE_WORKER))
            elif claim.scope == "pair":
                resolved = _pair(run, claim)
                if resolved is None:
                    needs = {p.top_interpreter for p in claim.evidence(run.machine) if isinstance(p, Comparison)}
                    needs |= {p.bottom_interpreter for p in claim.evidence(run.machine) if isinstance(p, Comparison)}
                    reason = f"it needs the interpreters {' and '.join(sorted(needs))} in one run"
                    verdicts.append(Verdict(claim, experiment.name, "pair", "not measured", (), reason))
                else:
                    verdicts.append(_verdict(run, experiment, resolved, "pair"))
            elif not interpreters:
                kind = "a free-threaded interpreter" if claim.where == "free-threaded" else "an interpreter with a GIL"
                reason = f"the run has no {kind.split(' ', 1)[1]}"
                verdicts.append(Verdict(claim, experiment.name, "any", "not measured", (), reason))
            elif claim.scope == "any":
                verdicts.append(_any(run, experiment, claim, interpreters))
            else:
                pooled = _pooled(run, experiment, claim, interpreters)
                verdicts.extend([pooled] if pooled is not None else [])
                verdicts.extend(
                    verdict
                    for verdict in (_verdict(run, experiment, claim, interpreter) for interpreter in interpreters)
                    if verdict.outcome != "not measured" or _planned(run, experiment, verdict)
                )
    return verdicts


def _planned(run: Run, experiment: Experiment, verdict: Verdict) -> bool:
    """Whether the run has any cell of the experiment on the verdict's interpreter: else there is nothing to say."""
    return any(result.cell.interpreter == verdict.interpreter for result in run.of(experiment.name))


def by_claim(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """Group verdicts by claim, in order."""
    grouped: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        grouped.setdefault(verdict.claim.id, []).append(verdict)
    return grouped
