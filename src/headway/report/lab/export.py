"""A run as JSON: every cell with its raw samples, statistics, verdicts and findings; or as a pyperf suite."""

from collections.abc import Iterable
from typing import Any

from headway.errors import UsageError
from headway.lab import stats
from headway.lab.judging.assessed import assess
from headway.lab.judging.compare import Difference
from headway.lab.judging.evidence import TOO_MANY, Evidence
from headway.lab.judging.findings import Finding
from headway.lab.judging.foretold import off
from headway.lab.judging.verdicts import Verdict
from headway.lab.kept.results import CellResult, Run
from headway.report.figures import interval_to_json
from headway.report.lab.comparison import changed_between

__all__ = ["comparison_to_json", "run_to_json", "run_to_pyperf", "verdict_to_json"]


def _interval(interval: stats.Interval | None) -> dict[str, Any] | None:
    return None if interval is None else interval_to_json(interval, method=interval.method)


def _evidence(one: Evidence) -> dict[str, Any]:
    return {
        "outcome": one.outcome,
        "what": one.what,
        "ratio": _interval(one.interval),
        "count": one.count,
        "expected": one.relation,
        "launches": one.launches,
        "launches_to_decide": None if one.launches_to_decide == TOO_MANY else one.launches_to_decide,
    }


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict with its evidence and the published ratios.

    Fields:
        claim, text, source: The claim's id, its words, and the publication that it is from.
        published: The published ratios, each with its source.
        experiment: The experiment's name.
        interpreter: An interpreter's id, or "all", "any", "pair" or "native" for claims that are not about one.
        verdict: The outcome.
        sentence: The reason in one sentence.
        evidence: All the evidence, the deciding piece first: `outcome`, `what`, `ratio`, `count`, `expected`, `launches`, and
            `launches_to_decide`, which is null where too many would be needed.
    """
    return {
        "claim": verdict.claim.id,
        "text": verdict.claim.text,
        "source": verdict.claim.source,
        "published": [{"source": source, "ratio": value} for source, value in verdict.published()],
        "experiment": verdict.experiment,
        "interpreter": verdict.interpreter,
        "verdict": verdict.outcome,
        "sentence": verdict.sentence,
        "evidence": [_evidence(one) for one in verdict.evidence],
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "experiment": one.experiment,
        "claim": one.claim,
        "text": one.text,
        "evidence": one.evidence,
        "holds_on": list(one.holds_on),
        "fails_on": list(one.fails_on),
        "advice": one.advice,
    }


def cell_to_json(result: CellResult) -> dict[str, Any]:
    """Return a cell with its figures and launches.

    Fields:
        experiment, label, series, setting: The place of the cell in its experiment.
        model, params: The concurrency model and its parameters.
        interpreter: The interpreter's id.
        placement: The placement of the launches on cores.
        metrics: By metric: its `level` with an interval, the `launch_values` and what is odd about them (`two_modes`,
            `outlying_launches`), and for a series of rounds its `steady_states`.
        prediction: The prediction that was made before the launches, with `off_by` for each figure; null: there is none.
        utilisation: The mean share of the cores' time that was used; null: unknown.
        launches: Every launch: `block`, `status`, `reason`, `wall_s`, `facts`, `samples` and `stderr`.
    """
    metrics = {}
    for metric in result.metrics():
        values = result.values(metric)
        found = stats.outliers(values)
        metrics[metric] = {
            "level": _interval(result.level(metric)),
            "launch_values": values,
            "two_modes": stats.bimodal(values),
            "outlying_launches": {"mild": found.mild, "severe": found.severe},
            "steady_states": result.steady_states(metric),
        }
    cell = result.cell
    return {
        "experiment": cell.experiment,
        "label": cell.label,
        "series": cell.series,
        "setting": cell.setting,
        "model": cell.variant.model,
        "params": dict(cell.variant.params),
        "interpreter": cell.interpreter,
        "placement": cell.placement,
        "metrics": metrics,
        "prediction": _prediction(result),
        "utilisation": result.mean_utilisation(),
        "launches": [
            {
                "block": one.block,
                "status": one.launch.status,
                "reason": one.launch.reason,
                "wall_s": one.launch.wall_s,
                "facts": one.launch.facts,
                "samples": one.launch.samples,
                "stderr": one.launch.stderr,
            }
            for one in result.launches
        ],
    }


def _prediction(result: CellResult) -> dict[str, Any] | None:
    """Return a cell's prediction, with the error of each figure where that is known."""
    if result.prediction is None:
        return None
    found = {metric: off(result, metric) for metric in result.prediction.figures}
    return {
        "written_at": result.prediction.written_at,
        **result.prediction.to_json(),
        "off_by": {metric: _interval(one.factor) for metric, one in found.items() if one is not None},
    }


def run_to_json(run: Run) -> dict[str, Any]:
    """Return the whole run as JSON values. Times are in seconds; a metric's unit is in its name.

    Fields:
        run: The run's id.
        started_at, ended_at: UTC, ISO 8601; `ended_at` is null while the run goes on, or if it was cut short.
        complete: Whether all launches are done.
        settings: The settings, with the machine, the doctor's checks and the interpreters.
        cells: The measured cells.
        verdicts: The claims' verdicts.
        findings: What the verdicts mean for users: `text`, `advice`, `evidence`, the `experiment` and `claim`, and the
            interpreters in `holds_on` and `fails_on`.
        unknown_experiments: Experiments of the run that this version of Headway lacks, each with its number of launches.
        skipped: Requested cells that could not run, with the reason.
    """
    assessed = assess(run)
    return {
        "run": run.id,
        "started_at": run.header.started_at,
        "ended_at": run.header.ended_at,
        "complete": run.header.complete,
        "settings": run.settings.to_json(),
        "cells": [cell_to_json(result) for result in run.results.values()],
        "verdicts": [verdict_to_json(verdict) for verdict in assessed.verdicts],
        "findings": [_finding(one) for one in assessed.findings],
        "unknown_experiments": [{"experiment": name, "launches": launches} for name, launches in run.unknown.items()],
        "skipped": [dict(one.__dict__) for one in run.settings.skipped],
    }


def run_to_pyperf(run: Run) -> dict[str, Any]:
    """Return the timed cells as a pyperf suite (format 1.0): one benchmark per cell, one run per launch.

    The suite loads in pyperf 2.10 (`pyperf compare_to`). Counts and rates do not fit the format and are left out.

    Raises:
        UsageError: No cell is timed; pyperf loads no suite without a benchmark.
    """
    benchmarks = []
    for experiment in run.experiments():
        if experiment.unit != "s":
            continue
        for result in run.of(experiment.name):
            launches = result.samples(experiment.metric)
            if not launches:
                continue
            cell = result.cell
            name = f"{cell.experiment}, {cell.label}, {cell.placement}, {run.names[cell.interpreter]}"
            benchmarks.append(
                {
                    "metadata": {
                        "name": name,
                        "unit": "second",
                        "loops": 1,
                        "python_version": run.interpreters[cell.interpreter].version
                        if cell.interpreter in run.interpreters
                        else "none (C)",
                        "cpu_model_name": run.machine.cpu,
                        "hw_run": run.id,
                        "hw_model": cell.variant.model,
                        "hw_placement": cell.placement,
                    },
                    "runs": [{"metadata": {"date": run.header.started_at}, "values": samples} for samples in launches],
                }
            )
    if not benchmarks:
        raise UsageError(
            f"no cell of the run {run.id} has a time, so there is nothing for pyperf",
            hint="its counts and rates are in `headway report RUN --json`",
        )
    return {"version": "1.0", "benchmarks": benchmarks}


def comparison_to_json(before: Run, after: Run, differences: Iterable[Difference]) -> dict[str, Any]:
    """Return two runs side by side as JSON values: the ratio is after over before.

    Fields:
        before, after: The ids of the runs.
        changed: A sentence for each difference between the runs other than time: the machine, versions, volumes.
        unknown_experiments: Experiments of both runs that this version of Headway lacks.
        cells: For each cell its name in `cell`, the `metric`, the levels `before` and `after`, their `ratio`, and the `verdict`:
            "less", "more", "no difference", "inconclusive", "one launch" or "not comparable".
    """
    return {
        "before": before.id,
        "after": after.id,
        "changed": list(changed_between(before, after)),
        "unknown_experiments": [name for name in before.unknown if name in after.unknown],
        "cells": [
            {
                "cell": one.before.cell.key,
                "metric": one.metric,
                "before": _interval(one.before.level(one.metric)),
                "after": _interval(one.after.level(one.metric)),
                "ratio": _interval(one.ratio),
                "verdict": one.outcome,
            }
            for one in differences
        ],
    }
