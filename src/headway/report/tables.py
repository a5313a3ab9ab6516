"""The tables of a run as plain data: titles, columns and cells of text. Rendering is somebody else's work."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headway.lab import stats
from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.experiments.speed import KERNELS
from headway.lab.results import CellResult, Run

__all__ = ["Table", "amount", "costs_table", "experiment_tables", "number", "ratio", "seconds"]

_EMPTY = "-"


@final
@dataclass(frozen=True)
class Table:
    """A table to show.

    Attributes:
        caption: What its figures are.
        columns: Headings; the first is of the row names.
        rows: Cells of text, as many per row as there are columns.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def seconds(value_s: float) -> str:
    """Return a time in the unit that fits it: `12.3 ms`."""
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if abs(value_s) < limit:
            return f"{value_s * factor:.3g} {unit}"
    return f"{value_s:.3g} s"


def amount(value: float, unit: str) -> str:
    """Return a value of an experiment's metric: a time in its unit, or a count."""
    return seconds(value) if unit == "s" else f"{value:,.0f}"


def number(value: float) -> str:
    """Return a ratio with as many digits as tell something: `0.52`, `13.3`, `2,509`."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ratio(interval: stats.Interval) -> str:
    """Return a ratio with its interval: `0.52 [0.49-0.55]`; without one where a single launch cannot tell."""
    if math.isinf(interval.high):
        return number(interval.value)
    return f"{number(interval.value)} [{number(interval.low)}-{number(interval.high)}]"


def _level_with_interval(interval: stats.Interval) -> str:
    if math.isinf(interval.high):
        return seconds(interval.value)
    return f"{seconds(interval.value)} [{seconds(interval.low)} - {seconds(interval.high)}]"


def _rows(run: Run, results: Sequence[CellResult]) -> list[tuple[str, str]]:
    """Return the (interpreter, placement) pairs that have results: placements together, interpreters in order."""
    pairs = dict.fromkeys((result.cell.interpreter, result.cell.placement) for result in results)
    order = [*run.interpreters, ONE_WORKER]
    return sorted(pairs, key=lambda pair: (pair[1], order.index(pair[0])))


def _row_name(run: Run, pair: tuple[str, str], *, several: bool) -> str:
    interpreter, placement = pair
    return f"{run.names[interpreter]} {placement}" if several else run.names[interpreter]


def _ratio_cell(result: CellResult | None, baseline: CellResult | None, metric: str) -> str:
    if result is None:
        return _EMPTY
    values = result.values(metric)
    if not values:
        return "failed" if result.launches else _EMPTY
    if result is baseline:
        return _level(result, metric)
    interval = result.ratio_to(baseline, metric) if baseline is not None else None
    if interval is None:
        return _EMPTY
    return ratio(interval) + (" !" if stats.bimodal(values) else "")


def _against_baseline(run: Run, experiment: Experiment, results: Sequence[CellResult], baseline: str) -> Table:
    """One row per interpreter and placement: the baseline's level, and every variant's ratio to it."""
    labels = list(dict.fromkeys(result.cell.label for result in results))
    labels.sort(key=lambda label: label != baseline)
    pairs = _rows(run, results)
    several = len({placement for _, placement in pairs}) > 1
    rows = []
    for pair in pairs:
        base = run.find(experiment.name, baseline, *pair)
        cells = [_ratio_cell(run.find(experiment.name, label, *pair), base, experiment.metric) for label in labels]
        rows.append((_row_name(run, pair, several=several), *cells))
    caption = f"{baseline}: {_what(experiment)}; others: ratio to it [95 % interval]"
    return Table(caption, ("", *labels), tuple(rows))


def _lost(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """One row per variant, one column per interpreter: how many increments were lost."""
    labels = list(dict.fromkeys(result.cell.label for result in results))
    rows = []
    totals: dict[str, int] = {}
    for pair in _rows(run, results):
        cells = []
        for label in labels:
            result = run.find(experiment.name, label, *pair)
            samples = [value for launch in result.samples("lost") for value in launch] if result else []
            if result is None or not samples:
                cells.append(_EMPTY)
                continue
            totals[label] = result.cell.params["threads"] * result.cell.params["k"]
            cells.append(f"{statistics.fmean(samples):,.0f}")
        rows.append((_row_name(run, pair, several=False), *cells))
    rows.append(("of", *(f"{totals.get(label, 0):,.0f}" for label in labels)))
    turned = zip(("", *labels), *rows, strict=True)
    columns, *lines = turned
    return Table(
        "mean number of increments lost per sample; the last column is how many were made", columns, tuple(lines)
    )


def _across(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """One row per interpreter: the geometric mean, its ratio to the oldest interpreter's, and each kernel's."""
    pairs = _rows(run, results)
    label = experiment.baseline
    first = run.find(experiment.name, label, *pairs[0])
    rows = []
    for pair in pairs:
        result = run.find(experiment.name, label, *pair)
        interpreter = run.interpreters[pair[0]]
        cells = ["+".join(interpreter.optimised) or "plain", _level(result, experiment.metric)]
        cells.append("1" if result is first else _ratio_cell(result, first, experiment.metric))
        cells += [_plain_ratio(result, first, f"{kernel}_s") for kernel in KERNELS]
        rows.append((_row_name(run, pair, several=False), *cells))
    caption = (
        f"geometric mean of the kernels, and ratios to {run.names[pairs[0][0]]}: less is faster; the kernels' intervals "
        "are in `--json`"
    )
    return Table(caption, ("", "build", "time", "all", *KERNELS), tuple(rows))


def _plain_ratio(result: CellResult | None, first: CellResult | None, metric: str) -> str:
    interval = result.ratio_to(first, metric) if result is not None and first is not None else None
    return number(interval.value) if interval is not None else _EMPTY


def _in_c(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """One row per variant, one column per placement: the level itself."""
    labels = list(dict.fromkeys(result.cell.label for result in results))
    placements = list(dict.fromkeys(result.cell.placement for result in results))
    rows = []
    for label in labels:
        cells = []
        for placement in placements:
            result = run.find(experiment.name, label, ONE_WORKER, placement)
            level = result.level(experiment.metric) if result is not None else None
            cells.append(_level_with_interval(level) if level is not None else _EMPTY)
        rows.append((label, *cells))
    columns = ("", *(placements if len(placements) > 1 else (_what(experiment),)))
    return Table(f"{_what(experiment)} in C [95 % interval]", columns, tuple(rows))


def _what(experiment: Experiment) -> str:
    return experiment.metric.rpartition("_")[0].replace("_", " ") + " time"


def experiment_tables(run: Run, experiment: Experiment) -> list[Table]:
    """Return the tables of one experiment: Python's, and the C limits' where it has any."""
    results = [result for result in run.of(experiment.name) if result.launches]
    python = [result for result in results if result.cell.interpreter != ONE_WORKER]
    native = [result for result in results if result.cell.interpreter == ONE_WORKER]
    tables = []
    if python and experiment.unit == "lost":
        tables.append(_lost(run, experiment, python))
    elif python and experiment.compares == "interpreters":
        tables.append(_across(run, experiment, python))
    elif python:
        tables.append(_against_baseline(run, experiment, python, experiment.baseline))
    if native:
        tables.append(_in_c(run, experiment, native))
    return tables


def _level(result: CellResult | None, metric: str) -> str:
    level = result.level(metric) if result is not None else None
    return seconds(level.value) if level is not None else _EMPTY


def costs_table(run: Run) -> Table | None:
    """Return what is kept out of the figures: interpreter start, each model's pool start-up, pickling.

    From the first experiment of the run that measured a model; None where no launch has started a pool.
    """
    models: dict[str, dict[str, CellResult]] = {}
    starts: dict[str, list[float]] = {}
    for result in run.results.values():
        if result.cell.interpreter == ONE_WORKER:
            continue
        starts.setdefault(result.cell.interpreter, []).extend(result.values("interpreter_start_s"))
        if result.samples("pool_start_s") and result.cell.workload != "ping-pong":
            models.setdefault(result.cell.model, {}).setdefault(result.cell.interpreter, result)
    # The asyncio pools are a loop and a pool that have columns of their own.
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
                *(_level(models[model].get(interpreter), "pool_start_s") for model in names),
                _level(pickled, "pickle_s"),
            )
        )
    sizes = sorted(
        {int(count) for cells in models.values() for one in cells.values() for count in one.values("workers")}
    )
    caption = (
        "kept out of every figure above: starting the interpreter, starting a pool of the model "
        f"({' or '.join(map(str, sizes))} workers), pickling its tasks once"
    )
    return Table(
        caption, ("", "interpreter", *(name.replace("processes-", "") for name in names), "pickling"), tuple(rows)
    )


def _pickles(result: CellResult | None) -> bool:
    return result is not None and bool(result.samples("pickle_s"))
