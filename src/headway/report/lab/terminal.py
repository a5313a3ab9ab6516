"""A run for the terminal, through rich: readable at 80 columns and without colour.

Each experiment has its question, its tables, published figures, and its claims. The counts of verdicts follow, then
launches that failed and cells that were left out, and last the findings.
"""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from headway.lab.design import Experiment
from headway.lab.judging.assessed import assess
from headway.lab.judging.verdicts import Verdict
from headway.lab.kept.results import Run
from headway.report.lab.claimed import failed, heading, legend, warnings
from headway.report.lab.claims import render_claims, render_counts, render_findings, render_sources
from headway.report.lab.notes import experiment_notes, left_out
from headway.report.lab.published_tables import published_tables
from headway.report.lab.tables import costs_table, experiment_tables
from headway.report.layout import bold, indented, render_table

__all__ = ["render_run"]


def _header(run: Run) -> Iterator[RenderableType]:
    yield Text(f"Run {run.id}", style="bold")
    yield from map(Text, heading(run))
    yield from (Text(line, style="dim") for line in legend(run))
    yield from (Text(f"! {line}", style="yellow") for line in warnings(run))


def _measured(run: Run, experiment: Experiment) -> Iterator[RenderableType]:
    """Yield an experiment's question, tables and notes."""
    yield bold(f"{experiment.name}: {experiment.question}")
    for position, table in enumerate(experiment_tables(run, experiment)):
        yield from [Text("")] * (position > 0)
        yield indented(render_table(table))
    yield indented(Text(f"In the figure: {experiment.included}", style="dim"))
    for note in experiment_notes(run, experiment):
        yield indented(Text(note))
    for table in published_tables(run, experiment):
        yield Text("")
        yield indented(render_table(table))


def _experiments(run: Run, verdicts: Sequence[Verdict], *, tables: bool) -> Iterator[RenderableType]:
    for experiment in run.experiments():
        claimed = [verdict for verdict in verdicts if verdict.experiment == experiment.name]
        if tables:
            yield from _measured(run, experiment)
        elif claimed:
            yield bold(experiment.name)
        yield from render_claims(run, claimed)


def _failures(run: Run) -> Iterator[RenderableType]:
    if run.failures:
        yield bold(f"Failed launches: {len(run.failures)}")
        yield from (Text(f"  {line}", style="red") for line in failed(run))
        yield Text("  their stderr is in `headway report --json`", style="dim")
    if run.settings.skipped:
        cells = "1 cell" if len(run.settings.skipped) == 1 else f"{len(run.settings.skipped)} cells"
        yield bold(f"Not run here: {cells}")
        for line in left_out(run):
            yield indented(Text(line, style="dim"))


def render_run(run: Run, *, tables: bool = True) -> RenderableType:
    """Return a whole run for the terminal: machine, experiments with verdicts, costs kept apart, failures, findings.

    Args:
        run: The run.
        tables: False leaves out everything but the verdicts, failures and findings.
    """
    assessed = assess(run)
    verdicts = assessed.verdicts
    parts: list[RenderableType] = [*_header(run), *_experiments(run, verdicts, tables=tables)]
    costs = costs_table(run) if tables else None
    if costs is not None:
        parts += [bold("Start-up and pickling"), indented(render_table(costs))]
    parts += render_counts(run, verdicts)
    parts += render_sources(verdicts)
    parts += _failures(run)
    parts += render_findings(assessed.findings, verdicts)
    return Group(*parts)
