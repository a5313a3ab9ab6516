"""A run as values: its planned cells, the results of each launch, and the statistics over launches."""

import functools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from headway.errors import UsageError
from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.host.paths import default_store
from headway.lab import stats
from headway.lab.design import ONE_WORKER, Cell, Experiment
from headway.lab.experiments import declared_experiment, experiment, experiments
from headway.lab.kept.headers import RunHeader, StoredLaunch
from headway.lab.kept.predictions import Prediction
from headway.lab.kept.settings import Settings
from headway.lab.kept.store import Store
from headway.printable import printable

__all__ = ["CellResult", "Run", "Stretch", "load_run", "read_run", "run_of"]

_TELLING_S = 0.1
"""The least time over which busy time is shown; the kernel counts it in ticks of 10 ms, too coarse for less."""

_TELLING_OTHERS_S = 1.0
"""The least time over which the CPU time of other programs is shown: that is a difference of two such counts."""


@final
@dataclass(frozen=True)
class Stretch:
    """A stretch of a cell's launches, as the mean over them.

    Attributes:
        phase: "set-up", "warm-up" or "timed".
        until_s: The end of the stretch, in seconds from the beginning of the set-up.
        cores: The number of busy cores over all launches; None if the launches were too short in total.
    """

    phase: str
    until_s: float
    cores: float | None


@final
@dataclass(frozen=True)
class CellResult:
    """The launches of one cell, and statistics over them.

    Attributes:
        cell: The cell.
        launches: Every stored launch, failed ones included, in order.
        confidence: The coverage of its intervals.
        prediction: The prediction made before the cell's first launch; None without one.
        memo: The ratios and levels computed so far.
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

        The ratio is taken block by block if the cells are of one group and have two blocks or more in common, else over
        all launches of each (Welch).
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
        """Return the number of launches of each, or of blocks of both, behind the ratio to another cell."""
        common = self._common_blocks(other, metric)
        return common if common > 1 else min(len(self.by_block(metric)), len(other.by_block(metric)))

    def _common_blocks(self, other: "CellResult", metric: str) -> int:
        """Return the number of blocks in which the cells stood next to each other; 0 for cells of different groups."""
        if self.cell.group != other.cell.group:
            return 0
        return len(self.by_block(metric).keys() & other.by_block(metric).keys())

    def ratios(self, other: "CellResult", metric: str) -> dict[int, float]:
        """Return {block: ratio to the other's} for the blocks in which both have positive values.

        If the cells took turns in one process, the ratio is the median of the ratios of samples of the same turn.
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

        A metric with several values per sample gives an empty list, because its values are no sequence of repetitions.
        """
        repetitions = [samples for samples in self.samples(metric) if len(samples) == self.cell.variant.samples]
        return [stats.steady_state(samples) for samples in repetitions]

    def mean_utilisation(self) -> dict[str, float]:
        """Return {core: mean busy share} over the launches' timed parts; {} if they were too short."""
        shares: dict[str, list[float]] = {}
        for one in self.ok:
            if one.launch.facts.get("timed_s", 0) >= _TELLING_S:
                for core, share in one.launch.facts.get("utilisation", {}).items():
                    shares.setdefault(core, []).append(share)
        return {core: statistics.fmean(values) for core, values in sorted(shares.items())}

    def own_busy_cores(self) -> float | None:
        """Return how many cores the launches' own processes kept busy in the timed parts, as the mean over launches.

        None if the timed parts were too short, or the launches are of a version that counted the whole machine alone.
        """
        facts = [one.launch.facts for one in self.ok if one.launch.facts.get("timed_s", 0) >= _TELLING_S]
        busy = [fact["own_busy_s"] / fact["timed_s"] for fact in facts if "own_busy_s" in fact]
        return statistics.fmean(busy) if busy else None

    def course(self) -> list[Stretch]:
        """Return the number of busy cores in each stretch of the launches, by time; [] if no launch recorded it.

        All launches have the same stretches, because each sample is a stretch.
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
        header: The run's id, times and settings.
        results: Every cell's result, by cell key.
        memo: Values that were computed from the run, so that nothing is computed twice.
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
        """The settings that the run was made with."""
        return self.header.settings

    @property
    def machine(self) -> Machine:
        """The machine that the run was made on."""
        return self.settings.machine

    @functools.cached_property
    def cores_of_others(self) -> float | None:
        """The number of cores that other programs kept busy in the timed parts, on average; None if that is not known.

        Launches beside a server of the lab's own do not count, as its CPU time is not the launch's.
        """
        lasted_s = busy_s = own_s = 0.0
        for one in (each for result in self.results.values() if not result.cell.variant.server for each in result.ok):
            before_s = 0.0
            for stretch in one.launch.facts.get("course", ()) if "own_busy_s" in one.launch.facts else ():
                if stretch["phase"] == "timed":
                    lasted_s += stretch["until_s"] - before_s
                    busy_s += stretch["busy_s"]
                before_s = stretch["until_s"]
            own_s += one.launch.facts.get("own_busy_s", 0.0)
        return max(0.0, busy_s - own_s) / lasted_s if lasted_s >= _TELLING_OTHERS_S else None

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

    @functools.cached_property
    def unknown(self) -> dict[str, int]:
        """The number of launches of each experiment that this Headway does not have: nothing can be said of them."""
        known = {one.name for one in self.experiments()}
        found: dict[str, int] = {}
        for result in self.results.values():
            if (name := result.cell.experiment) not in known:
                found[name] = found.get(name, 0) + len(result.launches)
        return found

    def experiment(self, name: str) -> Experiment:
        """Return one of the run's experiments. Raises UsageError if there is none of that name."""
        if name in self.unknown:
            raise UsageError(
                f"the run {self.id} has launches of `{printable(name)}`, and this Headway has no such experiment",
                hint="use the Headway that measured it",
            )
        return next((one for one in self.experiments() if one.name == name), None) or experiment(name)

    def of(self, experiment: str) -> Iterator[CellResult]:
        """Yield the results of one experiment, in the order of the plan."""
        return (result for result in self.results.values() if result.cell.experiment == experiment)

    def find(self, experiment: str, label: str, interpreter: str, placement: str) -> CellResult | None:
        """Return one cell's result, or None if the run has no such cell."""
        return self.results.get(f"{experiment}|{label}|{placement}|{interpreter}")

    def pooled_ratio(self, pairs: Sequence[tuple[CellResult, CellResult]], metric: str) -> stats.Interval | None:
        """Return the mean ratio over several pairs of cells (one per interpreter), with its interval.

        In each block the logs of the pairs' ratios are averaged. The blocks are the units of replication. Only blocks
        in which every pair has both launches count. The result is None if there is no such block, or if a value is 0.
        """
        by_pair = [top.ratios(bottom, metric) for top, bottom in pairs if top.ok and bottom.ok]
        if not by_pair or any(min(one.by_block(metric).values(), default=1) <= 0 for pair in pairs for one in pair):
            return None
        common = set.intersection(*(set(ratios) for ratios in by_pair))
        means = [(statistics.geometric_mean([ratios[block] for ratios in by_pair]), 1.0) for block in sorted(common)]
        return stats.paired_ratio_interval(means, confidence=self.settings.confidence) if means else None

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """Interpreter id -> the shortest name that is unique within the run; and `C` for what needs no interpreter."""
        return {**self.settings.names, ONE_WORKER: "C"}


def read_run(store: Store, name: str = "last") -> Run:
    """Return the run called `name` (see `Store.find_run`). Raises StoreError."""
    header = store.find_run(name)
    by_key: dict[str, list[StoredLaunch]] = {}
    for stored in store.launches(header.id):
        by_key.setdefault(stored.key, []).append(stored)
    cells = store.cells(header.id)
    known = {one.id for one in header.settings.interpreters} | {ONE_WORKER}
    with store.reading():
        if unknown := {cell.interpreter for cell in cells} - known:
            raise LookupError(f"cells of the interpreter {min(unknown)}, which the run has not")
    return run_of(header, cells, by_key, store.predictions(header.id))


def run_of(
    header: RunHeader,
    cells: Iterable[Cell],
    launches: Mapping[str, Sequence[StoredLaunch]],
    predictions: Mapping[str, Prediction],
) -> Run:
    """Return a run as a value, from its cells, and its launches and predictions so far by cell key."""
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
