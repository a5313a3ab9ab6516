"""Chooses the plots that fit an experiment, and returns its cells as numbers for them. The page draws."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, final

from headway.lab.coordinates import number_of, without
from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.kept.results import CellResult, Run
from headway.lab.kept.settings import SESSION
from headway.report.figures import Unit, interval_ends, metric_words, shown_level, unit_of, unit_of_experiment
from headway.report.html.schema import Cell, Measure, Plot

__all__ = ["cells_of", "plots_of"]

_PERCENTILES = ("latency_p50_s", "latency_p90_s", "latency_p99_s", "latency_p999_s", "latency_max_s")
_AXES: Mapping[str, str] = {
    "threads": "threads",
    "cpu": "CPU-bound threads or processes",
    "size_bytes": "size in bytes",
    "connections": "connections",
    "requests": "requests",
    "queries": "queries",
    "files": "files",
}
"""Parameters that an axis may have, the most telling first, with their words."""
_INTERVAL = "switch_interval_s"
_LEAST = 3
"""The least number of values of a parameter that make a curve."""


@final
class _Axes:
    """The parameters that vary between an experiment's cells, as axes of plots."""

    def __init__(self, experiment: Experiment, results: Sequence[CellResult]) -> None:
        self.y = _INTERVAL if len(_values(results, _INTERVAL)) >= _LEAST else ""
        wanted = [experiment.sweep] if experiment.sweep else [experiment.divides, *_AXES]
        least = 2 if self.y else _LEAST
        self.x = next((name for name in wanted if len(_values(results, name)) >= least), "")
        if self.y and not self.x:
            self.x, self.y = self.y, ""


def _values(results: Sequence[CellResult], name: str) -> set[float]:
    return {one for result in results if (one := _value(result, name)) is not None}


def _value(result: CellResult, name: str) -> float | None:
    return number_of(result.cell.variant, name)


def _measure(result: CellResult, metric: str, unit: Unit) -> Measure:
    level = result.level(metric)
    low, high = interval_ends(level)
    return Measure(
        values=tuple(result.values(metric)),
        level=level.value if level else None,
        low=low,
        high=high,
        shown=shown_level(result, metric, unit),
    )


def _metrics(experiment: Experiment) -> list[str]:
    besides = [metric for metrics, _ in experiment.besides for metric in metrics.split()]
    return list(dict.fromkeys([experiment.metric, *besides]))


def cells_of(run: Run, experiment: Experiment) -> tuple[Cell, ...]:
    """Return the cells that were launched, in the order of the plan."""
    results = [result for result in run.of(experiment.name) if result.launches]
    axes = _Axes(experiment, results)
    kept = without((result.cell.variant for result in results), axes.x) if axes.x else {}
    lines = {label: ", ".join(parts) for label, parts in kept.items()}
    wanted = [*_metrics(experiment), *_PERCENTILES]
    found = []
    for result in results:
        metrics = {}
        for metric in dict.fromkeys(wanted):
            if result.values(metric):
                unit = unit_of_experiment(experiment) if metric == experiment.metric else unit_of(metric)
                metrics[metric] = _measure(result, metric, unit)
        cell = result.cell
        found.append(
            Cell(
                series=cell.series,
                setting=cell.setting,
                model=cell.variant.model,
                line=lines.get(cell.label, cell.label),
                placement=cell.placement,
                interpreter=cell.interpreter,
                x=_value(result, axes.x),
                y=_value(result, axes.y),
                metrics=metrics,
                cores=result.mean_utilisation(),
                course=tuple(result.course()),
                samples=tuple(itertools.chain(*result.samples(experiment.metric))) if _of_rounds(run) else (),
            )
        )
    return tuple(found)


def _of_rounds(run: Run) -> bool:
    """Return whether a launch is one process's many rounds, as in a test session."""
    return run.settings.size == SESSION


def plots_of(run: Run, experiment: Experiment) -> tuple[Plot, ...]:
    """Return the plots that fit the experiment, the most telling first."""
    results = [result for result in run.of(experiment.name) if result.launches]
    return tuple(_plots(experiment, results, rounds=_of_rounds(run)))


def _plots(experiment: Experiment, results: Sequence[CellResult], *, rounds: bool) -> Iterator[Plot]:
    python = [result for result in results if result.cell.interpreter != ONE_WORKER]
    axes = _Axes(experiment, results)
    metric, unit = experiment.metric, unit_of_experiment(experiment)
    what = metric_words(metric)
    if axes.x and axes.y:
        yield _plot("heat", what, (metric,), unit, axes)
    elif axes.x:
        yield _plot("lines", what, (metric,), unit, axes, ideal=_ideal(experiment, axes, unit))
    if rounds:
        yield _plot("histogram", f"{what}, distribution of rounds", (metric,), unit)
    if any(result.values(metric) for result in results):
        yield _plot("dots", f"{what}, each launch a point", (metric,), unit)
    latencies = tuple(one for one in _PERCENTILES if any(result.values(one) for result in python))
    if len(latencies) > 1:
        yield _plot("percentiles", "latency by percentile", latencies, "s", axes)
    if not axes.y:
        for metrics, words in experiment.besides:
            for one in metrics.split():
                measured = any(result.values(one) for result in results)
                if one != metric and one not in _PERCENTILES and measured:
                    kind: Literal["lines", "dots"] = "lines" if axes.x else "dots"
                    yield _plot(kind, words, (one,), unit_of(one), axes)
    if sum(bool(result.mean_utilisation()) for result in python) > 1:
        yield _plot(
            "cores",
            "busy share of each core during the timed part, and busy cores over time, other programs' included",
            (),
            "share",
        )


def _ideal(experiment: Experiment, axes: _Axes, unit: Unit) -> Literal["divided", "multiplied", ""]:
    if not experiment.divides or experiment.divides != axes.x:
        return ""
    return "divided" if unit == "s" else "multiplied"


def _plot(
    kind: Literal["dots", "histogram", "lines", "heat", "percentiles", "cores"],
    title: str,
    metrics: tuple[str, ...],
    unit: Unit,
    axes: _Axes | None = None,
    *,
    ideal: Literal["divided", "multiplied", ""] = "",
) -> Plot:
    better: dict[Unit, Literal["less", "more"]] = {"s": "less", "per_s": "more", "bytes_per_s": "more"}
    words = {_INTERVAL: "switch interval", **_AXES}

    def named(parameter: str) -> str:
        return words.get(parameter, parameter.replace("_", " "))

    return Plot(
        kind=kind,
        title=title,
        metrics=metrics,
        unit=unit,
        better=better.get(unit, ""),
        x=named(axes.x) if axes and axes.x else "",
        y=named(axes.y) if axes and axes.y else "",
        x_unit=unit_of(axes.x) if axes and axes.x else "count",
        y_unit=unit_of(axes.y) if axes and axes.y else "count",
        ideal=ideal,
    )
