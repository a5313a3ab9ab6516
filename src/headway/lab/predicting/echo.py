"""Predicts the echo server beside CPU-bound threads, from the machine's costs, measured just before, and two anchors.

The costs do not include Python's own time for a request, nor the speed of a CPU-bound thread. The anchors give these:

- The first anchor is the server alone, without CPU-bound threads, all on one core. Python's time per request is set so
  that the simulated server there answers as many requests as the measured one. (With the client on another core, most
  of a request's time is that core's wake-up. An error of the calibration in the wake-up would then be attributed to
  Python's time.)
- The second anchor is a CPU-bound thread alone, which gives the speed.

No other cell is used.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, final

from headway import __version__
from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.lab import stats
from headway.lab.design import Cell, Placement, Size
from headway.lab.kept.launched import Launch
from headway.lab.kept.predictions import Prediction, Span

__all__ = ["SEEDS", "Predictor", "scenario_text"]

SEEDS = 9
"""Simulations of a cell, each with its own seed."""

_CALIBRATION_S: dict[Size, float] = {"quick": 10.0, "standard": 30.0, "published": 30.0}
_BEFORE_SEND = 0.4
"""The share of Python's time for a request that passes between `recv` and `send`; the rest is between `send` and
`recv`."""
_LEAST_NS = 100.0
_HALVINGS = 14
_FIT_SEEDS = 3
_USUAL_S = 0.005
_FIT_S = 0.5
_CPU, _CLIENT = "cpu", "load"

_SERVED = """
[role.server]
program = [{{receive = "requests"}}, {{hold_ns = {before}}}, {{reply = true}}, {{hold_ns = {after}}}]

[client.load]
port = "requests"
connections = 1
thread_per_connection = true
"""


def scenario_text(
    *, cpu: int, python_ns: float, placement: Placement, cores: int, interval_s: float, policy: str, duration_s: float
) -> str:
    """Return the scenario for the simulator that corresponds to the workload `convoy` on an interpreter.

    Args:
        cpu: The number of CPU-bound threads.
        python_ns: Python's time for a request.
        placement: The placement, as in the lab.
        cores: The number of the machine's cores.
        interval_s: The value of sys.setswitchinterval().
        policy: The policy of the GIL; "" means none.
        duration_s: The time that is counted.
    """
    before = max(1, round(python_ns * _BEFORE_SEND))
    after = max(1, round(python_ns) - before)
    top = f"""title = "The lab's echo server beside CPU-bound threads"
cores = {cores}
placement = "{placement}"
switch_interval_us = {interval_s * 1e6:.3f}
duration_s = {duration_s}
warm_ms = 20
policy = "{policy or "none"}"
"""
    busy = f"\n[role.cpu]\nthreads = {cpu}\nprogram = [{{compute = true}}]\n" if cpu else ""
    return top + _SERVED.format(before=before, after=after) + busy


@final
class Predictor:
    """Predicts cells of the workload `convoy`, and measures the machine's costs at each call.

    Args:
        machine: The machine of the launches.
        interpreters: The interpreters of the run.
        size: The run's size.
        say: Called with a line about each thing that is measured.
    """

    def __init__(
        self, machine: Machine, interpreters: Sequence[Interpreter], size: Size, say: Callable[[str], None]
    ) -> None:
        self._machine, self._size, self._say = machine, size, say
        self._interpreters = {one.id: one for one in interpreters}

    def __call__(self, cells: Sequence[Cell], anchors: Sequence[tuple[Cell, Sequence[Launch]]]) -> list[Prediction]:
        """Return a prediction of every cell whose anchors were measured.

        Raises:
            HeadwayError: The costs cannot be measured, or a cell cannot be simulated.
            OSError: The kernel refused a measurement.
        """
        # Imported here, because the import of numpy takes as long as a launch.
        from headway.sim import calibration, machine

        measured = [self._interpreters[one] for one in dict.fromkeys(cell.interpreter for cell in cells)]
        taken = calibration.measure(self._say, seconds=_CALIBRATION_S[self._size], interpreters=measured)
        costs = machine.from_json(taken.to_json(), f"of {taken.taken_at}")
        found = []
        fitted: dict[str, float] = {}
        for cell in cells:
            served = _rate(anchors, cell, "requests_per_s")
            counted = _rate(anchors, cell, "work_per_s")
            if served is None:
                self._say(f"nothing is predicted for {cell.label}, {cell.placement}: the server alone was not measured")
                continue
            if cell.interpreter not in fitted:
                fitted[cell.interpreter] = _python_ns(served, costs, len(self._machine.cores))
            python_ns = fitted[cell.interpreter]
            rests_on = {
                "scenario": self._text(cell, python_ns),
                "python_ns": python_ns,
                "anchor_requests_per_s": served,
                "anchor_work_per_s": counted,
                "seeds": SEEDS,
            }
            figures = self._figures(cell, python_ns, counted, costs)
            found.append(Prediction(cell.key, figures, __version__, taken.to_json(), rests_on))
        return found

    def _text(self, cell: Cell, python_ns: float) -> str:
        params = cell.variant.params
        usual_s = self._interpreters[cell.interpreter].switch_interval_s or _USUAL_S
        return scenario_text(
            cpu=params["cpu"],
            python_ns=python_ns,
            placement=cell.placement,
            cores=len(self._machine.cores),
            interval_s=params.get("switch_interval_s") or usual_s,
            policy=params.get("policy", ""),
            duration_s=params["duration_s"],
        )

    def _figures(self, cell: Cell, python_ns: float, counted: float | None, costs: Any) -> dict[str, Span]:
        ran = _simulated(self._text(cell, python_ns), costs, SEEDS)
        values: dict[str, list[float | None]] = {"requests_per_s": [one[_CLIENT].done_per_s for one in ran]}
        for name in ("p50", "p99"):
            of_seeds = [getattr(one[_CLIENT], f"{name}_ms") for one in ran]
            values[f"latency_{name}_s"] = [None if one is None else one / 1e3 for one in of_seeds]
        if cell.variant.params["cpu"] and counted is not None:
            values["work_per_s"] = [one[_CPU].work_share * counted for one in ran]
        return {metric: span for metric, of_seeds in values.items() if (span := _span(of_seeds)) is not None}


def _python_ns(served: float, costs: Any, cores: int) -> float:
    """Return the time per request at which the simulated server alone, on one core, answers `served` requests a second.

    If even the least time gives too few requests, the costs are too high; the least time is returned, and predictions
    follow from it.
    """
    low, high = _LEAST_NS, 1e9 / served
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        text = scenario_text(
            cpu=0,
            python_ns=middle,
            placement="same",
            cores=cores,
            interval_s=_USUAL_S,
            policy="",
            duration_s=_FIT_S,
        )
        rate = statistics.median(one[_CLIENT].done_per_s for one in _simulated(text, costs, _FIT_SEEDS))
        low, high = (middle, high) if rate > served else (low, middle)
    return low


def _span(values: Sequence[float | None]) -> Span | None:
    """Return the median and the range; None if a seed's run has too few events for the figure."""
    known = [one for one in values if one is not None]
    return Span(statistics.median(known), min(known), max(known)) if len(known) == len(values) else None


def _simulated(text: str, costs: Any, seeds: int) -> list[dict[str, Any]]:
    """Return each seed's results, by role and client. Raises ScenarioError, NativeError."""
    from headway.sim.parse import parse
    from headway.sim.run import Job, run_all

    scenario = parse(text, name="predictions")
    jobs = [Job(scenario, costs, seed) for seed in range(1, seeds + 1)]
    return [{part.name: part for part in ran.outcome.parts} for ran in run_all(jobs, workers=1)]


def _rate(anchors: Sequence[tuple[Cell, Sequence[Launch]]], cell: Cell, metric: str) -> float | None:
    """Return the geometric mean over the launches of the anchor that has this metric, on the cell's interpreter.

    The server alone has no `work_per_s`, and the CPU-bound thread alone has no `requests_per_s`.
    """
    for anchor, launches in anchors:
        if anchor.interpreter != cell.interpreter:
            continue
        values = [
            stats.launch_value(one.samples[metric]) for one in launches if one.status == "ok" and metric in one.samples
        ]
        if values and min(values) > 0:
            return statistics.geometric_mean(values)
    return None
