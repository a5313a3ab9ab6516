"""Claims and verdicts: in full under their experiment, as counts near a report's end, as findings last."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from headway.lab.judging.findings import Finding
from headway.lab.judging.verdicts import Verdict
from headway.lab.kept.results import Run
from headway.report.lab.claimed import Claimed, Outcome, claimed, counted, letters
from headway.report.layout import bold, indented

__all__ = ["STYLES", "no_findings", "render_claims", "render_counts", "render_findings", "render_sources"]

STYLES = {
    "supported": "green",
    "refuted": "red",
    "mixed": "magenta",
    "at the limit": "cyan",
    "inconclusive": "yellow",
    "not measured": "dim",
}


def render_claims(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield each claim with its source, the published ratios, the outcomes by interpreter, and the reasons."""
    for one in claimed(run, verdicts):
        yield from _claim(one)


def _claim(one: Claimed) -> Iterator[RenderableType]:
    beside = f"; published ratio {one.published}" if one.published else ""
    yield Text("")
    yield indented(Text(one.text, style="bold") + Text(f"  [{one.source}{beside}]", style="not bold dim"))
    for outcome in one.outcomes:
        yield indented(_outcome(outcome), 4)


def _outcome(one: Outcome) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=12)
    grid.add_column()
    grid.add_row(Text(one.outcome, style=STYLES[one.outcome]), Text(one.figures))
    if one.sentence:
        grid.add_row("", Text(one.sentence, style="dim"))
    return grid


def render_counts(run: Run, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield the numbers of claims by outcome, reasons to doubt the run, and the names of claims that did not hold."""
    counts = counted(run, verdicts)
    yield bold(f"Verdicts on this machine: {counts.summary}")
    for doubt in counts.doubts:
        yield Text(f"  ! {doubt}", style="yellow")
    for outcome in counts.named:
        yield indented(_outcome(outcome))


def render_sources(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield the texts for the letters of sources that claims use."""
    shown = letters(verdicts)
    if shown:
        yield bold("Sources")
        grid = RichTable.grid(padding=(0, 1))
        for letter, text in shown:
            grid.add_row(Text(f"{letter}:", style="dim"), Text(text, style="dim"))
        yield indented(grid)


def no_findings(verdicts: Sequence[Verdict]) -> Text:
    """Return the line that stands in place of findings; a run of benchmarks has no verdicts either."""
    return Text("  none beyond the verdicts above" if verdicts else "  none", style="dim")


def render_findings(found: Sequence[Finding], verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield the run's findings by experiment, each with its evidence and the advice that follows."""
    yield bold("Findings on this machine")
    if not found:
        yield no_findings(verdicts)
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
