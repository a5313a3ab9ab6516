"""Notes to an experiment's tables, one line each."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from headway.lab import stats
from headway.lab.design import ONE_WORKER, Experiment
from headway.lab.judging.findings import spanned
from headway.lab.kept.results import Run
from headway.lab.plan import Skipped
from headway.report.figures import amount, unit_of_experiment

__all__ = ["experiment_notes", "left_out"]

_NAMED = 4
"""The most variants, left out for one reason, that are named; more are counted."""


def experiment_notes(run: Run, experiment: Experiment) -> Iterator[str]:
    """Yield the notes of an experiment.

    The notes are about: the run's own conclusions, an import that switched the GIL on, interpreters that quick size
    leaves out, two modes, outliers, spread, warm-up, and busy cores.
    """
    yield from experiment.said
    two_modes, courses, outliers_found = [], Counter[str](), stats.Outliers(0, 0)
    unit = unit_of_experiment(experiment)
    for result in run.of(experiment.name):
        values = result.values(experiment.metric)
        where = f"{result.cell.label} on {run.names[result.cell.interpreter]}, {result.cell.placement}"
        modes = stats.bimodal(values) if experiment.unit in {"s", "per_s"} else None
        if modes:
            two_modes.append(f"{where}: {amount(modes[0], unit)} and {amount(modes[1], unit)}")
        for samples in result.samples(experiment.metric):
            found = stats.outliers(samples)
            outliers_found = stats.Outliers(outliers_found.mild + found.mild, outliers_found.severe + found.severe)
        courses.update(result.steady_states(experiment.metric))
        interpreter = run.interpreters.get(result.cell.interpreter)
        if interpreter is not None and not interpreter.gil_enabled and result.gil_came_back():
            yield f"an import switched the GIL on again: {where}"
    yield from _spared(run, experiment)
    if two_modes:
        yield "! the launches have two modes, so a mean misleads: " + "; ".join(two_modes)
    if outliers_found.mild or outliers_found.severe:
        yield f"outliers within launches (kept): {outliers_found.mild} mild, {outliers_found.severe} severe"
    courses.pop("too few samples", None)
    yield from _spreads(run, experiment)
    if courses:
        yield "trend of samples within launches: " + ", ".join(
            f"{name} {count}" for name, count in courses.most_common()
        )
    yield from _busy(run, experiment)


def _spared(run: Run, experiment: Experiment) -> Iterator[str]:
    """Yield a note on the interpreters of the run that quick size leaves out of this experiment."""
    there = {result.cell.interpreter for result in run.of(experiment.name)} & run.interpreters.keys()
    taken = {one.id for one in experiment.quick_on(list(run.interpreters.values()))}
    if run.settings.size == "quick" and there and run.interpreters.keys() - there - taken:
        yield (
            f"quick size measures this on {spanned(run, there)}; `--standard` or `--interpreter` measures the others"
        )


def _spreads(run: Run, experiment: Experiment) -> Iterator[str]:
    """Yield the 5th, 50th and 95th percentile of single values, for metrics with many values per sample."""
    together: dict[str, list[float]] = {}
    unit = unit_of_experiment(experiment)
    for result in run.of(experiment.name):
        for samples in result.samples(experiment.metric):
            if len(samples) > 10 * result.cell.variant.samples:
                together.setdefault(f"{result.cell.label} {result.cell.placement}", []).extend(samples)
    if together:
        parts = []
        for name, values in together.items():
            cuts = statistics.quantiles(values, n=20)
            three = (cuts[0], statistics.median(values), cuts[-1])
            parts.append(f"{name} {', '.join(amount(value, unit) for value in three)}")
        yield "spread of single values over all interpreters (5 %, 50 %, 95 %): " + "; ".join(parts)


def _busy(run: Run, experiment: Experiment) -> Iterator[str]:
    """Yield busy cores and context switches per series, over settings and interpreters: a range each.

    Launches of older versions have the busy time of the whole machine alone.
    """
    whose = " of the launches' own processes"
    cores: dict[str, list[float]] = {}
    switches: dict[str, list[float]] = {}
    for result in run.of(experiment.name):
        utilisation, rate = result.mean_utilisation(), result.mean_switches_per_s()
        if utilisation and rate and result.cell.interpreter != ONE_WORKER:
            busy = result.own_busy_cores()
            if busy is None:
                busy, whose = sum(utilisation.values()), ", other programs' included"
            cores.setdefault(result.cell.series, []).append(busy)
            switches.setdefault(result.cell.series, []).append(sum(rate))
    if cores:
        parts = [
            f"{series} {_range(values, '.1f')} ({_range(switches[series], ',.0f')}/s)"
            for series, values in cores.items()
        ]
        yield f"busy cores{whose} (and context switches): {', '.join(parts)}"


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def left_out(run: Run) -> Iterator[str]:
    """Yield a line for each reason why cells were not measured: the cells, the interpreters, the reason."""
    reasons: dict[str, list[Skipped]] = {}
    for one in run.settings.skipped:
        reasons.setdefault(one.reason, []).append(one)
    for reason, cells in reasons.items():
        labels: dict[str, dict[str, None]] = {}
        for one in cells:
            labels.setdefault(one.label, {})[one.experiment] = None
        if len(labels) > _NAMED:
            experiments = dict.fromkeys(one.experiment for one in cells)
            what = f"{len(labels)} variants of {', '.join(experiments)}"
        else:
            what = "; ".join(f"{label} ({', '.join(where)})" for label, where in labels.items())
        where = spanned(run, {one.interpreter for one in cells})
        yield f"left out: {what}{f' on {where}' if where else ''}: {reason}"
