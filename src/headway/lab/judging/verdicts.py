"""The verdicts of a run: each claim's outcome, with its evidence.

A verdict on a ratio, a level or an error of predictions follows from its interval alone (counts and orders have none):

- supported: the whole interval is on the claim's side of its threshold;
- refuted: the whole interval is on the other side;
- at the limit: the interval lies close around the threshold;
- inconclusive: the interval crosses the threshold and is wider.

If a claim has several comparisons, one that is refuted refutes the claim, and one that is inconclusive leaves it open. A
refuted claim is a finding about this machine, not an error.

A claim about each of several interpreters is also judged by its mean over them, which shows more from few launches than
any one interpreter can. A claim is mixed if the mean supports it and a single interpreter refutes it: the interpreters
differ.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from headway.lab.design import ONE_WORKER, Claim, Comparison, Count, Errors, Experiment, Level, Order
from headway.lab.judging.evidence import (
    NEAR,
    TOO_MANY,
    Evidence,
    Outcome,
    combined,
    comparisons,
    counted,
    decisive_first,
    launches_needed,
    levels,
    pooled,
)
from headway.lab.judging.figures import number, ratio
from headway.lab.judging.foretold import errors, orders
from headway.lab.kept.results import Run
from headway.lab.published import published_ratio

__all__ = ["DECIDED", "ORDER", "Verdict", "by_claim", "judge", "speaking"]

ORDER: tuple[Outcome, ...] = ("supported", "refuted", "mixed", "at the limit", "inconclusive", "not measured")
"""Outcomes from the best-founded to the least, as reports list them."""

DECIDED = frozenset({"supported", "refuted", "mixed", "at the limit"})
"""Outcomes that more launches are not expected to change."""


@final
@dataclass(frozen=True)
class Verdict:
    """A claim on one interpreter (or once, for claims about C or about pairs of interpreters).

    Attributes:
        claim: The claim.
        experiment: The experiment's name.
        interpreter: An interpreter's id; "all" for the mean over the interpreters that the claim is about; "native" for
            the limits in C; "any" for a claim that one interpreter is enough for; "pair" for a claim about two
            interpreters.
        outcome: The verdict's outcome.
        evidence: All the evidence, the deciding piece first.
        sentence: The reason in one sentence.
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


def _sentence(outcome: Outcome, claim: Claim, evidence: Sequence[Evidence]) -> str:
    if not evidence:
        return "this run does not include the cells that the claim needs"
    one = evidence[0]
    if one.why_not:
        return f"{one.what}: {one.why_not}"
    if one.interval is None and one.count is None:
        return f"no launch of {one.what} succeeded"
    if one.interval is None:
        found = f"{one.count:,.0f} counted over {one.launches} launches per cell"
        if outcome == "inconclusive" and one.launches:
            return f"{one.what}: too few launches to decide"
        if outcome == "inconclusive":
            return f"{found}, but a cell has no successful launch"
        return f"{found}: {claim.why}" if outcome == "supported" else f"{found}, expected {one.relation}"
    measured = f"{one.what} is {number(one.interval.value)}"
    if outcome == "supported":
        return f"{measured}, and its whole interval is {one.relation}: {claim.why}"
    if outcome == "at the limit":
        return f"{measured}, within {NEAR:.0%} of the limit of the claim ({one.relation})"
    if outcome == "refuted":
        return f"{measured}, and its whole interval contradicts the claim ({one.relation})"
    if one.launches < 2:
        return (
            f"{measured} from one launch, which has no interval: use `--launches`, or `--resume` after an interruption"
        )
    crossing = f"{measured}, but its interval crosses the threshold ({one.relation})"
    launches = launches_needed(piece for piece in evidence if piece.outcome == "inconclusive")
    if launches is None or launches >= TOO_MANY:
        return f"{crossing}: too close for more launches to decide"
    return f"{crossing}: about {launches} launches would decide if nothing else changes"


def _single(run: Run, experiment: Experiment, claim: Claim, interpreter: str) -> Verdict:
    """Judge the claim on one interpreter."""
    evidence: list[Evidence] = []
    for piece in claim.evidence(run.machine):
        if isinstance(piece, Count):
            evidence.extend(counted(run, experiment, piece, interpreter))
        elif isinstance(piece, Level):
            evidence.extend(levels(run, experiment, piece, interpreter))
        elif isinstance(piece, Errors):
            evidence.extend(errors(run, experiment, piece, interpreter))
        elif isinstance(piece, Order):
            evidence.extend(orders(run, experiment, piece, interpreter))
        else:
            evidence.extend(comparisons(run, experiment, piece, interpreter))
    outcome = combined(evidence)
    ordered = decisive_first(evidence, outcome)
    return Verdict(claim, experiment.name, interpreter, outcome, ordered, _sentence(outcome, claim, ordered))


def _mean(run: Run, experiment: Experiment, claim: Claim, singles: Sequence[Verdict]) -> Verdict | None:
    """Judge the mean over interpreters; None if the single verdicts must speak for the claim.

    That is so if the claim has other pieces than ratios, and if the mean leaves a piece unmeasured and refutes none.
    """
    evidence: list[Evidence] = []
    for piece in claim.evidence(run.machine):
        if not isinstance(piece, Comparison):
            return None
        evidence.extend(pooled(run, experiment, piece, [single.interpreter for single in singles]))
    outcome = combined(evidence)
    if not evidence or (outcome != "refuted" and any(one.outcome == "not measured" for one in evidence)):
        return None
    ordered = decisive_first(evidence, outcome)
    sentence = _sentence(outcome, claim, ordered)
    against = [run.names[single.interpreter] for single in singles if single.outcome == "refuted"]
    if outcome == "supported" and against:
        outcome = "mixed"
        sentence = f"{ordered[0].what} agrees on average, but not on {', '.join(against)}: interpreters differ"
    return Verdict(claim, experiment.name, "all", outcome, ordered, sentence)


def _seen(one: Evidence) -> str:
    return ratio(one.interval) if one.interval is not None else f"{one.count or 0:,.0f}"


def _any(run: Run, experiment: Experiment, claim: Claim, interpreters: Sequence[str]) -> Verdict:
    """Judge a claim that one interpreter is enough for; the claim is not refuted if no interpreter has shown it yet."""
    singles = [_single(run, experiment, claim, interpreter) for interpreter in interpreters]
    shown = [single for single in singles if single.outcome == "supported"]
    evidence = tuple(one for single in shown or singles for one in single.evidence)
    if shown:
        counts = ", ".join(f"{run.names[one.interpreter]} {_seen(one.evidence[0])}" for one in shown)
        return Verdict(claim, experiment.name, "any", "supported", evidence, f"seen on {counts}: {claim.why}")
    measured = [one for one in evidence if one.outcome != "not measured"]
    if not measured:
        return Verdict(
            claim, experiment.name, "any", "not measured", evidence, _sentence("not measured", claim, evidence)
        )
    reason = f"not seen on {', '.join(run.names[single.interpreter] for single in singles)}, which does not rule it out"
    return Verdict(claim, experiment.name, "any", "inconclusive", tuple(measured), reason)


def _pair(run: Run, experiment: Experiment, claim: Claim) -> Verdict:
    """Judge a claim that compares two interpreters, which it names by their short names."""
    by_name = {one.name: key for key, one in reversed(run.interpreters.items())}
    pieces = [piece for piece in claim.evidence(run.machine) if isinstance(piece, Comparison)]
    needed = {name for piece in pieces for name in (piece.top_interpreter, piece.bottom_interpreter)}
    if not needed <= by_name.keys():
        reason = f"the claim needs the interpreters {' and '.join(sorted(needed))} in one run"
        return Verdict(claim, experiment.name, "pair", "not measured", (), reason)
    resolved = [
        replace(
            piece,
            top_interpreter=by_name[piece.top_interpreter],
            bottom_interpreter=by_name[piece.bottom_interpreter],
        )
        for piece in pieces
    ]
    return _single(run, experiment, replace(claim, evidence=lambda _: resolved), "pair")


def _speaks_of(run: Run, claim: Claim) -> list[str]:
    """Return the ids of the run's interpreters that the claim is about."""
    return [
        key
        for key, interpreter in run.interpreters.items()
        if claim.where == "all" or (claim.where == "gil") == interpreter.gil_enabled
    ]


def _each(run: Run, experiment: Experiment, claim: Claim, interpreters: Sequence[str]) -> list[Verdict]:
    """Judge the claim on every interpreter that the run has cells of, and by their mean, which comes first."""
    singles = [_single(run, experiment, claim, interpreter) for interpreter in interpreters]
    singles = [single for single in singles if single.evidence]
    if not singles:
        left_out = [one.reason for one in run.settings.skipped if one.experiment == experiment.name]
        reason = f"cells were left out: {left_out[0]}" if left_out else _sentence("not measured", claim, ())
        return [Verdict(claim, experiment.name, "any", "not measured", (), reason)]
    mean = _mean(run, experiment, claim, singles)
    return [mean, *singles] if mean is not None else singles


def judge(run: Run, experiments: Sequence[Experiment] | None = None) -> list[Verdict]:
    """Return a verdict for every claim, by claim and interpreter, of the given experiments or of all in the run.

    A claim that this run cannot judge gets one verdict, "not measured", that states the missing part.
    """
    verdicts: list[Verdict] = []
    for experiment in run.experiments() if experiments is None else experiments:
        for claim in experiment.claims:
            interpreters = _speaks_of(run, claim)
            if not claim.evidence(run.machine):
                ends = f"the sweep of the experiment ends below the size that {run.machine.physical_cores} physical cores need"
                reason = "the claim needs two cores" if len(run.machine.cores) < 2 else ends
                verdicts.append(Verdict(claim, experiment.name, "any", "not measured", (), reason))
            elif claim.scope == "native":
                verdicts.append(_single(run, experiment, claim, ONE_WORKER))
            elif claim.scope == "pair":
                verdicts.append(_pair(run, experiment, claim))
            elif not interpreters:
                reason = "the claim needs " + (
                    "a free-threaded one" if claim.where == "free-threaded" else "one with a GIL"
                )
                verdicts.append(Verdict(claim, experiment.name, "any", "not measured", (), f"{reason} in the run"))
            elif claim.scope == "any":
                verdicts.append(_any(run, experiment, claim, interpreters))
            else:
                verdicts.extend(_each(run, experiment, claim, interpreters))
    return verdicts


def by_claim(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """Group verdicts by claim, in order."""
    grouped: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        grouped.setdefault(verdict.claim.id, []).append(verdict)
    return grouped


def speaking(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict that speaks for a claim: over all interpreters, else the least favourable single one."""
    for verdict in verdicts:
        if verdict.interpreter == "all":
            return verdict
    for outcome in ("refuted", "inconclusive", "at the limit", "supported", "not measured"):
        for verdict in verdicts:
            if verdict.outcome == outcome:
                return verdict
    return verdicts[0]
