"""A run of the lab as a page: the same texts and tables as on the terminal, and cells for plots."""

from headway.lab.design import Experiment
from headway.lab.judging.assessed import assess
from headway.lab.kept.results import Run
from headway.report.html import schema
from headway.report.html.plots import cells_of, plots_of
from headway.report.lab.claimed import claimed, counted, failed, heading, legend, letters, warnings
from headway.report.lab.notes import experiment_notes, left_out
from headway.report.lab.published_tables import published_tables
from headway.report.lab.tables import costs_table, experiment_tables

__all__ = ["lab_page"]


def lab_page(run: Run, compared: schema.Compared | None = None) -> schema.LabPage:
    """Return a run as a page's data.

    Args:
        run: The run.
        compared: The run beside an earlier one, or None.
    """
    assessed = assess(run)
    claims = claimed(run, assessed.verdicts)
    measured = {result.cell.interpreter for result in run.results.values()}
    return schema.LabPage(
        kind="lab",
        title=f"Run {run.id}",
        version=run.settings.version,
        heading=heading(run),
        legend=legend(run),
        warnings=warnings(run),
        cores=len(run.machine.cores),
        interpreters=tuple(
            schema.Interpreter(key, run.names[key], one.version, one.free_threaded)
            for key, one in run.interpreters.items()
            if key in measured
        ),
        counts=counted(run, assessed.verdicts),
        findings=tuple(
            schema.Finding(one.experiment, one.claim, one.text, one.evidence, one.advice) for one in assessed.findings
        ),
        experiments=tuple(_experiment(run, one, claims) for one in run.experiments()),
        costs=costs_table(run),
        sources=letters(assessed.verdicts),
        failures=failed(run),
        left_out=tuple(left_out(run)),
        compared=compared,
    )


def _experiment(run: Run, one: Experiment, claims: tuple[schema.Claimed, ...]) -> schema.LabExperiment:
    return schema.LabExperiment(
        name=one.name,
        question=one.question,
        method=one.method,
        included=one.included,
        tables=tuple(experiment_tables(run, one)),
        notes=tuple(experiment_notes(run, one)),
        published=tuple(published_tables(run, one)),
        claims=tuple(claim for claim in claims if claim.experiment == one.name),
        baseline=one.baseline,
        plots=plots_of(run, one),
        cells=cells_of(run, one),
    )
