"""The tables of a run as plain data: titles, columns and cells of text. Other modules render them.

An experiment's main table has a row per setting and interpreter, and a column per series: compared cells stand side by
side, with their baseline in the same row.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from headway.lab import stats
from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.kept.results import CellResult, Run
from headway.report.figures import (
    EMPTY,
    Table,
    amount,
    metric_words,
    number,
    ratio,
    seconds,
    shown_level,
    unit_of,
    unit_of_experiment,
)
from headway.report.lab.predicted import predicted_tables
from headway.report.lab.special import across_interpreters, costs_table, counts_table, in_c

__all__ = ["Grid", "Row", "Table", "amount", "costs_table", "experiment_tables", "number", "ratio", "seconds"]

_CORES_SHOWN = 8
"""The most columns of cores that are shown; of more cores, the busiest are shown."""


@final
class Row(NamedTuple):
    """The coordinates that the cells of one row share."""

    placement: str
    setting: str
    interpreter: str


@final
class Grid:
    """Cells by row and series: placements together, settings in the plan's order, interpreters in order.

    Args:
        run: The run.
        results: The cells' results.
        baseline: The series that comes first.
    """

    def __init__(self, run: Run, results: Sequence[CellResult], baseline: str) -> None:
        self._run = run
        self._cells = {(self._row(result), result.cell.series): result for result in results}
        settings = list(dict.fromkeys(result.cell.setting for result in results))
        interpreters = [*run.interpreters, ONE_WORKER]
        self.rows = sorted(
            dict.fromkeys(row for row, _ in self._cells),
            key=lambda row: (row.placement, settings.index(row.setting), interpreters.index(row.interpreter)),
        )
        self.series = sorted(dict.fromkeys(series for _, series in self._cells), key=lambda one: one != baseline)
        self._several = len({row.placement for row in self.rows}) > 1
        self._grouped = self._several or any(settings)

    @staticmethod
    def _row(result: CellResult) -> Row:
        return Row(result.cell.placement, result.cell.setting, result.cell.interpreter)

    @property
    def names(self) -> int:
        """The number of columns that name a row: the interpreter, and before it the setting if there are several."""
        return 2 if self._grouped else 1

    def name(self, row: Row) -> tuple[str, ...]:
        """Return a row's name, `names` words long."""
        group = ", ".join(filter(None, (row.setting, row.placement if self._several else "")))
        return (group, self._run.names[row.interpreter])[-self.names :]

    def get(self, row: Row, series: str) -> CellResult | None:
        """Return a cell, or None if the run has none there."""
        return self._cells.get((row, series))


def experiment_tables(run: Run, experiment: Experiment) -> list[Table]:
    """Return the tables of one experiment: Python's, the limits in C, further metrics', predictions, and busy cores."""
    results = [result for result in run.of(experiment.name) if result.launches]
    python = [result for result in results if result.cell.interpreter != ONE_WORKER]
    native = [result for result in results if result.cell.interpreter == ONE_WORKER]
    tables = []
    if python and experiment.shows == "counts":
        tables.append(counts_table(run, experiment, python))
    elif python and experiment.compares == "interpreters":
        tables.append(across_interpreters(run, experiment, python))
    elif python and experiment.shows == "levels":
        tables.append(_levels(run, experiment, python, experiment.metric))
    elif python:
        tables.append(_against_baseline(run, experiment, python))
    if native:
        tables.append(in_c(run, experiment, native))
    tables += _besides(run, experiment, results)
    tables += predicted_tables(run, experiment, results)
    served = [result for result in results if result.cell.variant.server == "redis" and result.mean_utilisation()]
    if served:
        tables.append(_busy_cores(run, experiment, served))
    return tables


def _against_baseline(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """Return a row per setting and interpreter: the baseline's level, and every series' ratio to it."""
    grid = Grid(run, results, experiment.baseline)
    rows = []
    for row in grid.rows:
        base = grid.get(row, experiment.baseline)
        cells = [_ratio_cell(grid.get(row, series), base, experiment) for series in grid.series]
        rows.append((*grid.name(row), *cells))
    what = metric_words(experiment.metric)
    caption = f"{experiment.baseline}: {what}; others: ratio to it [interval]{_better(experiment)}"
    return Table(caption, (*[""] * grid.names, *grid.series), tuple(rows), grid.names)


def _better(experiment: Experiment) -> str:
    words = {"s": ", less is better", "per_s": ", more is better", "bytes_per_s": ", more is better"}
    return words.get(unit_of_experiment(experiment), "")


def _ratio_cell(result: CellResult | None, baseline: CellResult | None, experiment: Experiment) -> str:
    if result is None:
        return EMPTY
    values = result.values(experiment.metric)
    if not values:
        return "failed" if result.launches else EMPTY
    if result is baseline:
        return shown_level(result, experiment.metric, unit_of_experiment(experiment), plain=True)
    interval = result.ratio_to(baseline, experiment.metric) if baseline is not None else None
    if interval is None:
        return EMPTY
    return ratio(interval) + (" !" if stats.bimodal(values) else "")


def _levels(run: Run, experiment: Experiment, results: Sequence[CellResult], metric: str, words: str = "") -> Table:
    """Return a row per setting and interpreter and a column per series: the level of a metric, with its half-width.

    Several metrics in one string stand together, without half-widths.
    """
    grid = Grid(run, results, experiment.baseline)
    rows = [
        (*grid.name(row), *(_together(grid.get(row, series), metric, experiment) for series in grid.series))
        for row in grid.rows
    ]
    caption = words or f"{metric_words(metric)} [± half of the interval]{_better(experiment)}"
    return Table(caption, (*[""] * grid.names, *grid.series), tuple(rows), grid.names)


def _together(result: CellResult | None, metrics: str, experiment: Experiment) -> str:
    """Return a cell's level of each metric: `5.11 ms / 5.2 ms`."""
    names = metrics.split()
    shown = []
    for metric in names:
        unit = unit_of_experiment(experiment) if metric == experiment.metric else unit_of(metric)
        shown.append(shown_level(result, metric, unit, plain=len(names) > 1))
    return EMPTY if set(shown) == {EMPTY} else " / ".join(shown)


def _besides(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> list[Table]:
    """Return a table for each further metric, or one table with a column for each if all are of one series."""
    having = {
        metrics: [result for result in results if metrics.split()[0] in result.metrics()]
        for metrics, _ in experiment.besides
    }
    words = {metric: text for metric, text in experiment.besides if having[metric]}
    series = {result.cell.series for metric in words for result in having[metric]}
    if len(words) < 2 or len(series) > 1:
        return [_levels(run, experiment, having[metric], metric, text) for metric, text in words.items()]
    (one,) = series
    grid = Grid(run, [result for metric in words for result in having[metric]], experiment.baseline)
    rows = [
        (*grid.name(row), *(_together(grid.get(row, one), metric, experiment) for metric in words)) for row in grid.rows
    ]
    return [Table(f"further figures of {one}", (*[""] * grid.names, *words.values()), tuple(rows), grid.names)]


def _busy_cores(run: Run, experiment: Experiment, results: Sequence[CellResult]) -> Table:
    """Return a row per setting, interpreter and series: how busy each core was, and the sum over cores."""
    grid = Grid(run, results, experiment.baseline)
    peaks: dict[str, float] = {}
    for result in results:
        for core, share in result.mean_utilisation().items():
            peaks[core] = max(share, peaks.get(core, 0.0))
    shown = sorted(sorted(peaks, key=lambda core: -peaks[core])[:_CORES_SHOWN], key=int)
    rows = []
    for row in grid.rows:
        for series in grid.series:
            here = grid.get(row, series)
            if here is not None:
                shares = here.mean_utilisation()
                cells = [f"{shares[core] * 100:.0f} %" if core in shares else EMPTY for core in shown]
                rows.append((*grid.name(row), series, *cells, f"{sum(shares.values()):.1f}"))
    some = f"; the {len(shown)} busiest of {len(peaks)}" if len(shown) < len(peaks) else ""
    return Table(
        f"busy share of each core during the timed part, server and client together, other programs' included{some}",
        (*[""] * (grid.names + 1), *(f"core {core}" for core in shown), "all cores"),
        tuple(rows),
        grid.names + 1,
    )
