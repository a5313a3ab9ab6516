"""Claims with a run's outcomes, and the run's other texts, as plain data: shared by the terminal and the page."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from headway.lab import stats
from headway.lab.design import Experiment
from headway.lab.judging.figures import number
from headway.lab.judging.findings import figure
from headway.lab.judging.verdicts import ORDER, Verdict, by_claim, speaking
from headway.lab.kept.results import Run
from headway.lab.kept.settings import ADVICE
from headway.lab.published import sources
from headway.printable import printable
from headway.traces.analysis import words

__all__ = [
    "Claimed",
    "Counted",
    "Outcome",
    "claimed",
    "counted",
    "failed",
    "heading",
    "legend",
    "letters",
    "not_shown",
    "warnings",
]

_MOST_FAILURES = 20
_COSTS = ("pool_start_s", "pickle_s")
_BUSY = 0.1
"""The share of the machine from which on its use by other programs is told."""

_PLACEMENTS = {
    "free": "free: placed by the system",
    "split": "split: each side (server and client) on its own cores",
    "same": "same: all on one core",
}


@final
@dataclass(frozen=True)
class Outcome:
    """The outcome of a claim on some interpreters.

    Attributes:
        outcome: "supported", "refuted", "mixed", "at the limit", "inconclusive" or "not measured".
        figures: The deciding figure of each interpreter, with its interval.
        sentence: The reason; "" if it has been given already.
    """

    outcome: str
    figures: str
    sentence: str


@final
@dataclass(frozen=True)
class Claimed:
    """A claim and its outcomes.

    Attributes:
        id: A unique id, "experiment/words".
        experiment: The experiment's name.
        text: The claim in one line.
        source: The origin of the claim.
        published: The author's ratios, each with its source; "" without any.
        outcome: The outcome of the whole claim.
        outcomes: The outcome over all interpreters, if there is one, then those by interpreter.
    """

    id: str
    experiment: str
    text: str
    source: str
    published: str
    outcome: str
    outcomes: tuple[Outcome, ...]


@final
@dataclass(frozen=True)
class Counted:
    """The numbers of claims by outcome.

    Attributes:
        summary: `91 claims (58 supported, ...)`, or `no claims`.
        doubts: Reasons to doubt the run as a whole.
        named: By outcome, the ids of claims that did not hold.
    """

    summary: str
    doubts: tuple[str, ...]
    named: tuple[Outcome, ...]


def heading(run: Run) -> tuple[str, ...]:
    """Return lines on what was measured, where and how."""
    machine, settings = run.machine, run.settings
    measured = {result.cell.interpreter for result in run.results.values()}
    names = [f"{run.names[key]} ({one.version})" for key, one in run.interpreters.items() if key in measured]
    lines = [
        f"{machine.cpu}, {len(machine.cores)} cores ({machine.physical_cores} physical), Linux {machine.kernel}, {machine.system}",
        "CPython " + ", ".join(names),
    ]
    used = _used(run)
    places = [f"{name} {one['type']} at {one['folder']}" for name, one in settings.volumes.items() if name in used]
    if places:
        lines.append("files: " + ", ".join(places))
    if settings.redis:
        lines.append(f"Redis: {settings.redis['server']}, {settings.redis['whose']}")
    state = "" if run.header.complete else f", INCOMPLETE: {run.header.launches}"
    if settings.size == ADVICE:
        lines.append(f"advice on a function, {words.number(run.header.done, 'launch', 'launches')}{state}")
        return tuple(lines)
    if settings.declared:
        lines.append(f"benchmarks of pytest, {words.number(settings.launches, 'launch', 'launches')} of each{state}")
        return tuple(lines)
    launches = (
        f"{settings.launches} launches per cell"
        if settings.budget_s is None
        else f"{run.header.done} launches: {settings.launches} of each telling cell, 1 of each other, and more for open claims"
    )
    lines.append(f"size {settings.size}, {launches}, in shuffled blocks, seed {settings.seed}{state}")
    return tuple(lines)


def legend(run: Run) -> tuple[str, ...]:
    """Return lines on how to read the rest."""
    lines = []
    if any(experiment.claims for experiment in run.experiments()):
        lines.append(
            "each claim is followed by its verdict and, by interpreter, a ratio [interval] or a count over all samples"
        )
    if run.settings.budget_s is None:
        lines.append(f"intervals: {run.settings.confidence:.0%}")
    elif run.settings.declared:
        lines.append(
            f"the run looked at its figures after every round, so each interval is one of {run.settings.confidence:.2%}: where "
            "nothing differs, all looks at one comparison together decide for a given side in 5 % of cases at most"
        )
    else:
        lines.append(
            "the run checked the claims after every launch, and gave no more launches to those that were decided or "
            f"expected to need too many, so each interval is one of {run.settings.confidence:.2%}: if the truth is a claim's "
            "threshold, all checks of one comparison together decide for a given side in 5 % of cases at most"
        )
    placements = {result.cell.placement for result in run.results.values()}
    if placements - {"free"}:
        lines.append("; ".join(text for name, text in _PLACEMENTS.items() if name in placements))
    if any(_has_two_modes(run, experiment) for experiment in run.experiments()):
        lines.append("! after a figure: its launches have two modes, so a mean misleads")
    return tuple(lines)


def _has_two_modes(run: Run, experiment: Experiment) -> bool:
    """Tell whether the launches of a cell have two modes, in a metric that a table of the experiment or the costs show."""
    besides = (metric for metrics, _ in experiment.besides for metric in metrics.split())
    metrics = {experiment.metric, *besides, *_COSTS}
    return any(stats.bimodal(result.values(metric)) for result in run.of(experiment.name) for metric in metrics)


def _used(run: Run) -> set[str]:
    return {name for result in run.results.values() for name in result.cell.variant.space}


def warnings(run: Run) -> tuple[str, ...]:
    """Return the interpreters that were passed over, and the warnings of the checks at the beginning of the run."""
    used = _used(run)
    checks = (
        f"{check.name}: {check.fact}"
        for check in run.settings.doctor
        if check.status == "warning" and (used or check.name != "page-cache")
    )
    return (*(f"passed over: {printable(line)}" for line in run.settings.passed_over), *checks)


def not_shown(run: Run) -> tuple[str, ...]:
    """Return a line for each experiment of the run that this Headway does not have."""
    return tuple(
        f"{words.number(count, 'launch', 'launches')} of `{printable(name)}` {'is' if count == 1 else 'are'} not shown: "
        "this Headway has no such experiment"
        for name, count in run.unknown.items()
    )


def claimed(run: Run, verdicts: Sequence[Verdict]) -> tuple[Claimed, ...]:
    """Return each claim with its source, the published ratios, the outcomes by interpreter, and the reasons."""
    return tuple(_claimed(run, group) for group in by_claim(verdicts).values())


def _measured(run: Run, verdict: Verdict) -> str:
    """Return the deciding figure of a verdict: `3.13 1.02 [0.98-1.07]`."""
    name = run.names.get(verdict.interpreter, "")
    one = verdict.deciding
    return f"{name} {figure(one)}".strip() if one is not None else name


def _claimed(run: Run, verdicts: Sequence[Verdict]) -> Claimed:
    claim, whole = verdicts[0].claim, speaking(verdicts)
    published = dict.fromkeys(f"{number(value)} ({source})" for source, value in verdicts[0].published())
    return Claimed(
        id=claim.id,
        experiment=verdicts[0].experiment,
        text=claim.text,
        source=claim.source,
        published=", ".join(published),
        outcome=whole.outcome,
        outcomes=tuple(_outcomes(run, verdicts, whole)),
    )


def _outcomes(run: Run, verdicts: Sequence[Verdict], whole: Verdict) -> Iterator[Outcome]:
    if whole in verdicts and whole.interpreter == "all":
        yield Outcome(whole.outcome, f"over all: {_measured(run, whole)}", whole.sentence)
    singles = [verdict for verdict in verdicts if verdict.interpreter != "all"]
    for outcome in ORDER:
        group = [verdict for verdict in singles if verdict.outcome == outcome]
        if not group:
            continue
        figures = ", ".join(filter(None, (_measured(run, verdict) for verdict in group)))
        # Below a verdict over all, single interpreters need no sentence, unless theirs says something else.
        sentence = (
            "" if whole.interpreter == "all" and outcome in (whole.outcome, "inconclusive") else group[0].sentence
        )
        yield Outcome(outcome, figures, sentence)


def counted(run: Run, verdicts: Sequence[Verdict]) -> Counted:
    """Return the numbers of claims by outcome, reasons to doubt the run, and the names of claims that did not hold."""
    claims = by_claim(verdicts)
    outcomes = {name: speaking(group).outcome for name, group in claims.items()}
    counts = Counter(outcomes.values())
    doubts = [
        f"{check.name} at the start of the run: {check.fact}; the intervals do not include its effect"
        for check in run.settings.doctor
        if check.status == "warning" and check.name in {"load", "steal", "cpu-quota"}
    ]
    count = len(run.machine.cores)
    if run.cores_of_others is not None and run.cores_of_others > _BUSY * count:
        doubts.append(
            f"other programs kept {number(run.cores_of_others)} of {words.number(count, 'core')} busy during the launches: a"
            " verdict may be about what they left"
        )
    not_begun = [one.name for one in run.experiments() if not any(result.launches for result in run.of(one.name))]
    if run.header.complete and not_begun:
        doubts.insert(0, f"the time was up before {', '.join(not_begun)} began; a longer `--budget` helps")
    doubts[:0] = not_shown(run)
    if not run.header.complete:
        doubts.insert(0, f"INCOMPLETE: {run.header.launches}")
    named = [
        Outcome(outcome, ", ".join(names), "")
        for outcome in ("refuted", "mixed", "at the limit", "inconclusive")
        if (names := [name for name, one in outcomes.items() if one == outcome])
    ]
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ORDER if counts[outcome])
    # Benchmarks of pytest have no claims: their assertions are judged in the tests.
    return Counted(
        f"{words.number(len(claims), 'claim')} ({summary})" if claims else "no claims", tuple(doubts), tuple(named)
    )


def letters(verdicts: Sequence[Verdict]) -> tuple[tuple[str, str], ...]:
    """Return the texts for the letters of sources that claims use."""
    used = {match for verdict in verdicts for match in re.findall(r"\b([A-Z])\d*\b", verdict.claim.source)}
    return tuple((letter, text) for letter, text in sources().items() if letter in used)


def failed(run: Run) -> tuple[str, ...]:
    """Return the failed launches with their reasons; launches with the same reason are counted together."""
    failures = Counter(printable(f"{one.key.replace('|', ', ')}: {one.launch.reason}") for one in run.failures)
    told = failures.most_common(_MOST_FAILURES)
    lines = [f"{count} x {failure}" for failure, count in told]
    if len(told) < len(failures):
        kinds = words.number(len(failures) - len(told), "more kind")
        launches = words.number(len(run.failures) - sum(count for _, count in told), "launch", "launches")
        lines.append(f"... and {kinds} ({launches}): `headway report --json` has them")
    return tuple(lines)
