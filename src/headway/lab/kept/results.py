"""A run as values: what was planned, what each launch gave, and the statistics over launches."""

import functools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.host.paths import default_store
from headway.lab import stats
from headway.lab.design import Cell, Experiment
from headway.lab.experiments import declared_experiment, experiment, experiments
from headway.lab.kept.predictions import Prediction
from headway.lab.kept.settings import Settings
from headway.lab.kept.store import RunHeader, Store, StoredLaunch

__all__ = ["CellResult", "Run", "Stretch", "load_run", "read_run", "run_of"]

_TELLING_S = 0.1
"""The kernel counts busy time in ticks of 10 ms: of less than this it says too little."""


@final
@dataclass(frozen=True)
class Stretch:
    """A stretch of a cell's launches, as their mean.

    Attributes:
        phase: "set-up", "warm-up" or "timed".
        until_s: When it ended, from the begin of the set-up.
        cores: How many cores were busy, over all launches; None where they together were too short to tell.
    """

    phase: str
    until_s: float
    cores: float | None


@final
@dataclass(frozen=True)
class CellResult:
    """One cell's launches.

    Attributes:
        cell: What was measured.
        launches: Every launch stored, failed ones included, in order.
        confidence: Of its intervals.
        prediction: What was predicted of it before its first launch; None where nothing was.
        memo: Its ratios and levels as far as they were asked for.
    """

    cell: Cell
    launches: tuple[StoredLaunch, ...]
    confidence: float = stats.CONFIDENCE
    prediction: Prediction | None = None
    memo: dict[tuple[str, str], stats.Interval | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def ok(self) -> list[StoredLaunch]:
        """The launches that did not fail."""
        return [one for one in self.launches if one.launch.status == "ok"]

    def samples(self, metric: str) -> list[list[float]]:
        """Return the raw samples of `metric`, one list per launch that did not fail and has it."""
        return [one.launch.samples[metric] for one in self.ok if metric in one.launch.samples]

    def values(self, metric: str) -> list[float]:
        """Return one value per launch: the median of its samples."""
        return [stats.launch_value(samples) for samples in self.samples(metric)]

    def metrics(self) -> list[str]:
        """Return the names of the metrics that any launch gave."""
        return sorted({metric for one in self.ok for metric in one.launch.samples})

    def by_block(self, metric: str) -> dict[int, float]:
        """Return {block: launch value} of the launches that did not fail and have `metric`."""
        return {
            one.block: stats.launch_value(one.launch.samples[metric]) for one in self.ok if metric in one.launch.samples
        }

    def ratio_to(self, other: "CellResult", metric: str) -> stats.Interval | None:
        """Return this cell's level over `other`'s with its interval; None without launches or with a value of 0.

        Block by block where the two were launched next to each other, else over all launches of each.
        """
        key = (metric, other.cell.key)
        if key not in self.memo:
            self.memo[key] = self._ratio_to(other, metric)
        return self.memo[key]

    def _ratio_to(self, other: "CellResult", metric: str) -> stats.Interval | None:
        mine, others = self.by_block(metric), other.by_block(metric)
        if not mine or not others or min(*mine.values(), *others.values()) <= 0:
            return None
        if self._common_blocks(other, metric) > 1:
            ratios = self.ratios(other, metric).values()
            return stats.paired_ratio_interval([(ratio, 1.0) for ratio in ratios], confidence=self.confidence)
        return stats.ratio_interval(list(mine.values()), list(others.values()), confidence=self.confidence)

    def launches_with(self, other: "CellResult", metric: str) -> int:
        """Return how many launches of each, or blocks of both, are behind the ratio to another cell."""
        common = self._common_blocks(other, metric)
        return common if common > 1 else min(len(self.by_block(metric)), len(other.by_block(metric)))

    def _common_blocks(self, other: "CellResult", metric: str) -> int:
        """Return in how many blocks the two were launched next to each other; 0 for cells of different groups."""
        if self.cell.group != other.cell.group:
            return 0
        return len(self.by_block(metric).keys() & other.by_block(metric).keys())

    def ratios(self, other: "CellResult", metric: str) -> dict[int, float]:
        """Return {block: ratio to the other's} of the blocks in which both have positive values.

        Where the two took turns in one process: the median of the ratios of samples that were neighbours in time.
        """
        mine, others = ({one.block: one.launch for one in side.ok} for side in (self, other))
        found = {}
        for block in sorted(mine.keys() & others.keys()):
            top, bottom = (launches[block].samples.get(metric, []) for launches in (mine, others))
            if not top or not bottom or min(stats.launch_value(top), stats.launch_value(bottom)) <= 0:
                continue
            shared = mine[block].facts.get("shared")
            turns = shared is not None and shared == others[block].facts.get("shared") and len(top) == len(bottom)
            if turns and min(*top, *bottom) > 0:
                found[block] = stats.launch_value(stats.neighbour_ratios(top, bottom))
            else:
                found[block] = stats.launch_value(top) / stats.launch_value(bottom)
        return found

    def level(self, metric: str) -> stats.Interval | None:
        """Return the geometric mean over launches with its interval; None without launches or with a value of 0."""
        key = (metric, "")
        if key not in self.memo:
            values = self.values(metric)
            positive = bool(values) and min(values) > 0
            self.memo[key] = stats.level_interval(values, confidence=self.confidence) if positive else None
        return self.memo[key]

    def steady_states(self, metric: str) -> list[str]:
        """Return the course of each launch's samples (see `stats.steady_state`).

        Empty for a metric with several values a sample: those are no sequence of repetitions.
        """
        repetitions = [samples for samples in self.samples(metric) if len(samples) == self.cell.variant.samples]
        return [stats.steady_state(samples) for samples in repetitions]

    def mean_utilisation(self) -> dict[str, float]:
        """Return {core: mean busy share} over the launches' timed parts; {} where they were too short to tell."""
        shares: dict[str, list[float]] = {}
        for one in self.ok:
            if one.launch.facts.get("timed_s", 0) >= _TELLING_S:
                for core, share in one.launch.facts.get("utilisation", {}).items():
                    shares.setdefault(core, []).append(share)
        return {core: statistics.fmean(values) for core, values in sorted(shares.items())}

    def course(self) -> list[Stretch]:
        """Return how many cores were busy in each stretch of the launches, by time; [] where none of them tells.

        Launches have the same stretches: each sample is one.
        """
        launches = [course for one in self.ok if (course := one.launch.facts.get("course"))]
        found: list[Stretch] = []
        before_s = 0.0
        for stretches in zip(*launches, strict=False):
            until_s = statistics.fmean(one["until_s"] for one in stretches)
            lasted_s = (until_s - before_s) * len(stretches)
            cores = sum(one["busy_s"] for one in stretches) / lasted_s if lasted_s >= _TELLING_S else None
            found.append(Stretch(stretches[0]["phase"], until_s, cores))
            before_s = until_s
        return found

    def mean_switches_per_s(self) -> tuple[float, float] | None:
        """Return (voluntary, involuntary) context switches per second of the timed part, over launches."""
        facts = [one.launch.facts for one in self.ok if one.launch.facts.get("timed_s")]
        if not facts:
            return None
        return (
            statistics.fmean(fact["voluntary_switches"] / fact["timed_s"] for fact in facts),
            statistics.fmean(fact["involuntary_switches"] / fact["timed_s"] for fact in facts),
        )

    def gil_came_back(self) -> bool:
        """Whether an import switched the GIL on in a launch of a free-threaded interpreter."""
        return any(one.launch.facts.get("gil_enabled") for one in self.ok)


@final
@dataclass(frozen=True)
class Run:
    """A stored run, read back.

    Attributes:
        header: Its id, times and settings.
        results: Every cell's result, by cell key.
        memo: What was computed from it, so that nothing is computed twice.
    """

    header: RunHeader
    results: dict[str, CellResult]
    memo: dict[str, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def id(self) -> str:
        """The run's name in its store."""
        return self.header.id

    @property
    def settings(self) -> Settings:
        """What it was run with."""
        return self.header.settings

    @property
    def machine(self) -> Machine:
        """Where it ran."""
        return self.settings.machine

    @functools.cached_property
    def interpreters(self) -> dict[str, Interpreter]:
        """The interpreters by id."""
        return {one.id: one for one in self.settings.interpreters}

    @property
    def failures(self) -> list[StoredLaunch]:
        """Every failed launch, in order."""
        return [one for result in self.results.values() for one in result.launches if one.launch.status == "failed"]

    def experiments(self) -> list[Experiment]:
        """Return the experiments that the run has cells of, in the order of reports."""
        names = {result.cell.experiment for result in self.results.values()}
        declared = [declared_experiment(values) for values in self.settings.declared]
        return [experiment for experiment in declared or experiments() if experiment.name in names]

    def experiment(self, name: str) -> Experiment:
        """Return one of the run's experiments. Raises UsageError where it has none of that name."""
        return next((one for one in self.experiments() if one.name == name), None) or experiment(name)

    def of(self, experiment: str) -> Iterator[CellResult]:
        """Yield the results of one experiment, in the order of the plan."""
        return (result for result in self.results.values() if result.cell.experiment == experiment)

    def find(self, experiment: str, label: str, interpreter: str, placement: str) -> CellResult | None:
        """Return one cell's result, or None where the run has no such cell."""
        return self.results.get(f"{experiment}|{label}|{placement}|{interpreter}")

    def pooled_ratio(self, pairs: Sequence[tuple[CellResult, CellResult]], metric: str) -> stats.Interval | None:
        """Return the mean ratio over several pairs of cells (one per interpreter), with its interval.

        In each block the logs of the pairs' ratios are averaged; the blocks are the units of replication. Only blocks
        in which every pair has both launches count; None without any, or where a value is 0.
        """
        by_pair = [top.ratios(bottom, metric) for top, bottom in pairs if top.ok and bottom.ok]
        if not by_pair or any(min(one.by_block(metric).values(), default=1) <= 0 for pair in pairs for one in pair):
            return None
        common = set.intersection(*(set(ratios) for ratios in by_pair))
        means = [(statistics.geometric_mean([ratios[block] for ratios in by_pair]), 1.0) for block in sorted(common)]
        return stats.paired_ratio_interval(means, confidence=self.settings.confidence) if means else None

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """Interpreter id -> the shortest name that is unique within the run."""
        short = [interpreter.name for interpreter in self.interpreters.values()]
        return {key: one.name if short.count(one.name) == 1 else key for key, one in self.interpreters.items()} | {
            "native": "C"
        }


def read_run(store: Store, name: str = "last") -> Run:
    """Return the run called `name` (see `Store.find_run`). Raises StoreError."""
    header = store.find_run(name)
    by_key: dict[str, list[StoredLaunch]] = {}
    for stored in store.launches(header.id):
        by_key.setdefault(stored.key, []).append(stored)
    return run_of(header, store.cells(header.id), by_key, store.predictions(header.id))


def run_of(
    header: RunHeader,
    cells: Iterable[Cell],
    launches: Mapping[str, Sequence[StoredLaunch]],
    predictions: Mapping[str, Prediction],
) -> Run:
    """Return a run as a value, of its cells and what there is of launches and predictions, by cell key."""
    confidence = header.settings.confidence
    return Run(
        header,
        {
            cell.key: CellResult(cell, tuple(launches.get(cell.key, ())), confidence, predictions.get(cell.key))
            for cell in cells
        },
    )


def load_run(name: str = "last", *, store: Path | None = None) -> Run:
    """Return a stored run.

    Args:
        name: An id, its unambiguous beginning, "last", or "last~N".
        store: The results store; None means the user's own.

    Raises:
        StoreError: No such store or run.
    """
    with Store(store or default_store()) as opened:
        return read_run(opened, name)
