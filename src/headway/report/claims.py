"""Claims and what the run says of them: in full under their experiment, as counts near a report's end, as findings last."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from headway.lab.figures import number
from headway.lab.findings import Finding, figure, speaking
from headway.lab.published import sources
from headway.lab.results import Run
from headway.lab.verdicts import ORDER, Verdict, by_claim
from headway.report.layout import bold, indented

__all__ = ["render_claims", "render_counts", "render_findings", "render_sources"]

_STYLES = {"supported": "green", "refuted": "red", "inconclusive": "yellow", "not measured": "dim"}


def render_claims(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield each claim with its source, the published ratios, the outcomes by interpreter, and why."""
    for group in by_claim(verdicts).values():
        yield from _claim(run, group)


def _measured(run: Run, verdict: Verdict) -> str:
    """`3.13 1.02 [0.98-1.07]`: the deciding figure of a verdict."""
    name = run.names.get(verdict.interpreter, "")
    one = verdict.deciding
    return f"{name} {figure(one)}".strip() if one is not None else name


def _claim(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    first = verdicts[0]
    published = ", ".join(dict.fromkeys(f"{number(value)} ({source})" for source, value in first.published()))
    beside = f"; published ratio {published}" if published else ""
    whole = speaking(verdicts)
    yield Text("")
    claim = Text(first.claim.text, style="bold") + Text(f"  [{first.claim.source}{beside}]", style="not bold dim")
    yield indented(claim)
    if whole in verdicts and whole.interpreter == "all":
        yield indented(_outcome(whole.outcome, f"over all: {_measured(run, whole)}", whole.sentence), 4)
    singles = [verdict for verdict in verdicts if verdict.interpreter != "all"]
    for outcome in ORDER:
        group = [verdict for verdict in singles if verdict.outcome == outcome]
        if not group:
            continue
        figures = ", ".join(filter(None, (_measured(run, verdict) for verdict in group)))
        # Below a verdict over all, single interpreters need no sentence unless they say something else.
        sentence = (
            "" if whole.interpreter == "all" and outcome in (whole.outcome, "inconclusive") else group[0].sentence
        )
        yield indented(_outcome(outcome, figures, sentence), 4)


def _outcome(outcome: str, figures: str, sentence: str) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=12)
    grid.add_column()
    grid.add_row(Text(outcome, style=_STYLES[outcome]), Text(figures))
    if sentence:
        grid.add_row("", Text(sentence, style="dim"))
    return grid


def render_counts(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield how many claims came out how, what to hold against the run, and by name the claims that did not hold."""
    claims = by_claim(verdicts)
    outcomes = {name: speaking(group).outcome for name, group in claims.items()}
    counts = Counter(outcomes.values())
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ORDER if counts[outcome])
    yield bold(f"Verdicts on this machine: {len(claims)} claims ({summary})")
    if not run.header.complete:
        yield Text(f"  ! INCOMPLETE: {run.header.done} of {run.header.planned} launches", style="yellow")
    for check in run.doctor:
        if check.status == "warning" and check.name in {"load", "steal", "cpu-quota"}:
            warning = f"  ! {check.name} when the run began: {check.fact}; intervals cannot tell its share"
            yield Text(warning, style="yellow")
    for outcome in ("refuted", "inconclusive"):
        names = [name for name, one in outcomes.items() if one == outcome]
        if names:
            yield indented(_outcome(outcome, ", ".join(names), ""))


def render_sources(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield what the letters behind claims stand for."""
    letters = {match for verdict in verdicts for match in re.findall(r"\b([A-Z])\d*\b", verdict.claim.source)}
    shown = [(letter, text) for letter, text in sources().items() if letter in letters]
    if shown:
        yield bold("Sources")
        grid = RichTable.grid(padding=(0, 1))
        for letter, text in shown:
            grid.add_row(Text(f"{letter}:", style="dim"), Text(text, style="dim"))
        yield indented(grid)


def render_findings(found: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield what the run tells, each finding with its evidence and the advice that follows, by experiment."""
    yield bold("What this machine tells you")
    if not found:
        yield Text("  nothing beyond the verdicts above", style="dim")
    for position, one in enumerate(found):
        if position == 0 or found[position - 1].experiment != one.experiment:
            yield indented(Text(one.experiment, style="bold"))
        grid = RichTable.grid(padding=(0, 1))
        reference = f" ({one.claim})" if one.claim else ""
        grid.add_row("-", Text(one.text))
        grid.add_row("", Text(f"{one.evidence}{reference}", style="dim"))
        if one.advice:
            grid.add_row("", Text(f"-> {one.advice}", style="green"))
        yield indented(grid, 4)
