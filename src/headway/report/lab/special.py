"""Special tables: counts, interpreters against each other, the limits in C, and the costs of starting."""

import statistics
from collections.abc import Sequence

from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.kept.results import CellResult, Run
from headway.report.figures import (
    EMPTY,
    Table,
    metric_words,
    number,
    ratio,
    seconds,
    shown_level,
    unit_of_experiment,
)

__all__ = ["across_interpreters", "costs_table", "counts_table", "in_c"]


def _interpreters(run: Run, results: Sequence[CellResult]) -> list[str]:
    there = {result.cell.interpreter for result in results}
    return [key for key in run.interpreters if key in there]


def counts_table(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """Return a row per variant and a column per interpreter: mean counts per sample, and last the largest possible."""
    interpreters = _interpreters(run, results)
    rows = []
    for label in dict.fromkeys(result.cell.label for result in results):
        of_label = [result for result in results if result.cell.label == label]
        by_interpreter = {result.cell.interpreter: result for result in of_label}
        cells = []
        for key in interpreters:
            result = by_interpreter.get(key)
            samples = [value for launch in result.samples(experiment.metric) for value in launch] if result else []
            cells.append(f"{statistics.fmean(samples):,.0f}" if samples else EMPTY)
        if experiment.out_of is not None:
            cells.append(f"{experiment.out_of(of_label[0].cell.variant.params):,.0f}")
        rows.append((label, *cells))
    last = ("of",) if experiment.out_of is not None else ()
    words = "; the last column is the largest possible number" if last else ""
    return Table(
        f"mean of {metric_words(experiment.metric)} per sample{words}",
        ("", *(run.names[key] for key in interpreters), *last),
        tuple(rows),
        names=1,
    )


def across_interpreters(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """Return a row per interpreter: the metric, its ratio to the oldest interpreter's, and those of its parts."""
    by_interpreter = {one.cell.interpreter: one for one in results if one.cell.series == experiment.baseline}
    interpreters = _interpreters(run, results)
    first = by_interpreter.get(interpreters[0])
    unit = unit_of_experiment(experiment)
    rows = []
    for key in interpreters:
        result = by_interpreter.get(key)
        cells = ["+".join(run.interpreters[key].optimised) or "plain"]
        cells.append(shown_level(result, experiment.metric, unit, plain=True))
        cells.append("1" if result is first else _ratio(result, first, experiment.metric, plain=False))
        cells += [_ratio(result, first, metric, plain=True) for metric in experiment.parts]
        rows.append((run.names[key], *cells))
    caption = (
        f"{metric_words(experiment.metric)}, and ratios to {run.names[interpreters[0]]}: less is faster; `--json` has the "
        "intervals of the parts"
    )
    parts = (metric_words(metric).removesuffix(" time") for metric in experiment.parts)
    return Table(caption, ("", "build", "time", "all", *parts), tuple(rows), names=1)


def _ratio(result: CellResult | None, first: CellResult | None, metric: str, *, plain: bool) -> str:
    interval = result.ratio_to(first, metric) if result is not None and first is not None else None
    if interval is None:
        return EMPTY
    return number(interval.value) if plain else ratio(interval)


def in_c(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """Return a row per variant in C and a column per placement: the level itself."""
    labels = list(dict.fromkeys(result.cell.label for result in results))
    placements = list(dict.fromkeys(result.cell.placement for result in results))
    rows = []
    for label in labels:
        cells = [run.find(experiment.name, label, ONE_WORKER, placement) for placement in placements]
        unit = unit_of_experiment(experiment)
        rows.append((label, *(shown_level(cell, experiment.metric, unit) for cell in cells)))
    what = metric_words(experiment.metric)
    columns = ("", *(placements if len(placements) > 1 else (what,)))
    return Table(f"{what} in C, without Python: the limit [± half of the interval]", columns, tuple(rows), names=1)


def costs_table(run: Run) -> Table | None:
    """Return the costs that are kept out of the figures: interpreter start, each model's pool start-up, pickling.

    The costs are from the first experiment of the run that measured a model; None if no launch has started a pool.
    """
    models: dict[str, dict[str, CellResult]] = {}
    starts: dict[str, list[float]] = {}
    for result in run.results.values():
        if result.cell.interpreter == ONE_WORKER or result.cell.experiment in run.unknown:
            continue
        starts.setdefault(result.cell.interpreter, []).extend(result.values("interpreter_start_s"))
        if result.samples("pool_start_s") and result.cell.variant.workload != "ping-pong":
            models.setdefault(result.cell.variant.model, {}).setdefault(result.cell.interpreter, result)
    # The asyncio pools are left out: each is a loop and a pool that have columns of their own.
    names = [model for model in models if model not in {"serial", "asyncio-threads", "asyncio-processes"}]
    if not names:
        return None
    rows = []
    for interpreter in run.interpreters:
        if not starts.get(interpreter):
            continue
        pickled = next((cells[interpreter] for cells in models.values() if _pickles(cells.get(interpreter))), None)
        rows.append(
            (
                run.names[interpreter],
                seconds(statistics.median(starts[interpreter])),
                *(shown_level(models[model].get(interpreter), "pool_start_s", "s", plain=True) for model in names),
                shown_level(pickled, "pickle_s", "s", plain=True),
            )
        )
    sizes = sorted(
        {int(count) for cells in models.values() for one in cells.values() for count in one.values("workers")}
    )
    workers = f" ({' or '.join(map(str, sizes))} {'worker' if sizes == [1] else 'workers'})" if sizes else ""
    caption = (
        f"not part of any figure above: the start of the interpreter, the start of the model's pool{workers}, and pickling "
        "its tasks once"
    )
    columns = ("", "interpreter", *(name.replace("processes-", "") for name in names), "pickling")
    return Table(caption, columns, tuple(rows), names=1)


def _pickles(result: CellResult | None) -> bool:
    return result is not None and bool(result.samples("pickle_s"))
