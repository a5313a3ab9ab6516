"""Stores benchmarks as a run: a test's file is an experiment, a benchmark is a cell, a process is a launch."""

import math
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import final

from headway.host.doctor import examine
from headway.host.interpreters import Interpreter, probe
from headway.host.machine import this_machine
from headway.lab.design import Cell, Declared, Variant
from headway.lab.kept.launched import Launch
from headway.lab.kept.settings import SESSION, Settings
from headway.lab.kept.store import Store
from headway.measure.journal import Entry
from headway.measure.measured import Measured, percentile

__all__ = ["Kept"]

_BESIDES = (
    ("latency_p50_s latency_p99_s latency_max_s", "latency of a call: p50 / p99 / max"),
    ("loop_lag_p99_s", "event-loop lag under load, 99th percentile"),
    ("loop_task_s", "a task of the event loop that does nothing"),
    ("gil_held_share gil_waited_share", "of its threads' time: GIL held / waited for"),
)
_SERIES = "time per call"


@final
class Kept:
    """The run of a test session, created with its first benchmark.

    Args:
        store: The results store; created if it does not exist.
        launches: Launches of each benchmark.
        version: Headway's version.

    Raises:
        StoreError: The store cannot be written.
    """

    def __init__(self, store: Path, launches: int, version: str) -> None:
        self._store = Store(store, create=True)
        self._interpreter: Interpreter = probe(sys.executable)
        self._settings = Settings(
            version=version,
            size=SESSION,
            launches=launches,
            seed=0,
            limit_s=0.0,
            memory_limit_bytes=None,
            experiments=(),
            machine=this_machine(),
            doctor=tuple(examine()),
            interpreters=(self._interpreter,),
        )
        self.run_id = self._store.new_run(self._settings, [])

    def add(self, test: str, entry: Entry) -> None:
        """Store a benchmark's launches instead of those of an earlier run of its test. Raises StoreError."""
        result, group = entry.result, entry.group
        if group not in self._settings.experiments:
            self._settings = replace(
                self._settings,
                experiments=(*self._settings.experiments, group),
                declared=(*self._settings.declared, _declared(group, entry.baseline)),
            )
            self._store.set_settings(self.run_id, self._settings)
        # Alternatives are columns beside each other with a ratio; other benchmarks have a row each.
        series, setting = (entry.label, ()) if entry.baseline else (_SERIES, (entry.label,))
        variant = Variant(
            series=series,
            setting=setting,
            workload="pytest",
            model=result.model,
            params={"test": test, "tasks": result.tasks},
            samples=len(result.launches[0].values_s) if result.launches else 0,
            warmups=0,
        )
        cell = Cell(group, variant, "free", self._interpreter.id, group)
        self._store.add_cell(self.run_id, cell)
        # Failed launches come last, because their block is not known.
        launches = [Launch(status="ok", samples=_samples(one)) for one in result.launches]
        launches += [Launch(reason=reason) for reason in result.failed]
        self._store.replace_launches(self.run_id, cell.key, launches)

    def close(self) -> None:
        """End the run."""
        self._store.end_run(self.run_id)
        self._store.close()


def _declared(group: str, baseline: str) -> Declared:
    return Declared(
        name=group,
        baseline=baseline,
        question=f"How long do the benchmarks of {group} take?",
        method="Headway's pytest plugin: calibrated rounds of calls in the test's own process and loop.",
        included="The calls alone; the time does not include set-up, tear-down and the event loop's own cost.",
        metric="call_s",
        besides=_BESIDES,
    )


def _samples(one: Measured) -> dict[str, list[float]]:
    samples = {"call_s": list(one.values_s)}
    if one.latencies_s:
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
        samples |= {f"latency_{name}_s": [percentile(one.latencies_s, share)] for name, share in shares.items()}
        samples["latency_max_s"] = [max(one.latencies_s)]
    if one.lags_s:
        samples["loop_lag_p99_s"] = [percentile(one.lags_s, 0.99)]
    if one.loop_s is not None:
        samples["loop_task_s"] = [one.loop_s]
    if one.waited:
        samples["gil_held_share"] = [statistics.fmean(one.held)]
        samples["gil_waited_share"] = [statistics.fmean(one.waited)]
    return {metric: values for metric, values in samples.items() if all(map(math.isfinite, values))}
