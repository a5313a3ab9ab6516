"""Runs a scenario: once with its events, or many times in parallel."""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import final

import numpy as np

from headway.errors import ScenarioError
from headway.native_sim import Simulation, StandstillError
from headway.sim.compile import Compiled, compile_scenario
from headway.sim.machine import Costs
from headway.sim.result import THE_GIL, Outcome, Stuck, gil_outcome, part_outcome
from headway.sim.scenario import Scenario
from headway.sim.trace import trace_of
from headway.traces.model import Trace

__all__ = ["Job", "Ran", "run", "run_all"]

_WAITS_FOR = {"lock": "lock", "take": "semaphore", "put": "queue", "get": "queue"}
"""What a step waits for."""
_PARTS = 50
"""The number of parts of a run; Ctrl-C takes effect between them."""
_WORTH_A_PROCESS_S = 1.0
"""If the remaining runs take longer, processes share them; a process takes a part of a second to start."""


@final
@dataclass(frozen=True)
class Job:
    """A run to make."""

    scenario: Scenario
    costs: Costs
    seed: int
    max_events: int = 0


@final
@dataclass(frozen=True)
class Ran:
    """A run that was made.

    Attributes:
        outcome: The result of the run.
        wall_s: The length of the run in real time.
        trace: The events of the run, if some were to be kept.
    """

    outcome: Outcome
    wall_s: float
    trace: Trace | None = None


def run(job: Job) -> Ran:
    """Make a run.

    Raises:
        ScenarioError: The scenario cannot be simulated, or comes to a stop.
        NativeError: The library is missing, does not fit, or has no simulator.
    """
    compiled = compile_scenario(job.scenario, job.costs, job.seed, max_events=job.max_events)
    if not compiled.threads:
        raise ScenarioError("no role has a thread", hint="set `threads` of a role above 0")
    begun_s = time.perf_counter()
    end_ns = compiled.spec.end_ns
    with Simulation(compiled.spec) as simulation:
        try:
            for part in range(1, _PARTS + 1):
                simulation.run(end_ns * part // _PARTS)
        except StandstillError:
            # A deadlock is a result; a program that awaits a request or an answer that does not come is a mistake.
            if not any(simulation.role_result(index).stuck for index in range(len(compiled.spec.roles))):
                raise
        ended_ns = simulation.ended_ns()
        if ended_ns is not None and ended_ns <= compiled.spec.warm_ns:
            raise ScenarioError(
                f"every thread ended within the warm-up, after {ended_ns / 1e9:.3g} s of {compiled.spec.warm_ns / 1e9:g} s, so "
                "nothing was counted",
                hint="write `warm_s = 0` in the scenario",
            )
        outcome = _outcome(job, compiled, simulation)
        trace = None
        if job.max_events:
            events, dropped = simulation.events()
            trace = trace_of(job.scenario, compiled, events, dropped, until_ns=end_ns if ended_ns is None else ended_ns)
    return Ran(outcome, time.perf_counter() - begun_s, trace)


def _outcome(job: Job, compiled: Compiled, simulation: Simulation) -> Outcome:
    ended_ns = simulation.ended_ns()
    stood_ns = simulation.stood_ns()
    elapsed_ns = job.scenario.duration_ns if ended_ns is None else ended_ns - compiled.spec.warm_ns
    clients = {client.name: client.connections for client in job.scenario.clients}
    parts = []
    stuck = []
    for name, indices in compiled.parts.items():
        of_role = [compiled.spec.roles[index].threads for index in indices if index < len(compiled.spec.roles)]
        latencies = [simulation.latencies_ns(index) for index in indices]
        results = [simulation.role_result(index) for index in indices]
        if threads := sum(one.stuck for one in results):
            _, step = compiled.steps[max(one.stuck_at for one in results) - 1]
            stuck.append(Stuck(name, threads, f"{_WAITS_FOR[step.word]} {step.target}"))
        if threads := sum(one.starved for one in results):
            stuck.append(Stuck(name, threads, THE_GIL))
        parts.append(
            part_outcome(
                name,
                client=name in clients,
                threads=clients.get(name, sum(of_role)),
                results=results,
                latencies_ns=np.concatenate(latencies) if latencies else np.zeros(0, dtype=np.float32),
                elapsed_ns=elapsed_ns,
            )
        )
    gils = [gil_outcome(name, simulation.gil_result(place), elapsed_ns) for place, name in enumerate(compiled.gils)]
    return Outcome(
        seed=job.seed,
        elapsed_s=elapsed_ns / 1e9,
        steps=simulation.steps(),
        parts=tuple(parts),
        gils=tuple(gils),
        ended=ended_ns is not None,
        stood_s=None if stood_ns is None else stood_ns / 1e9,
        stuck=tuple(stuck),
    )


def run_all(
    jobs: Sequence[Job], *, workers: int | None = None, progress: Callable[[int], None] = lambda _: None
) -> list[Ran]:
    """Make runs, and return them in the order of the jobs.

    Args:
        jobs: The runs to make. Their results do not depend on `workers`.
        workers: The most processes; None: one for each core that this process may use.
        progress: Called with the number of runs done.

    Raises:
        ScenarioError: One of the scenarios cannot be simulated, or comes to a stop; or a process ended early.
        NativeError: The library is missing, does not fit, or has no simulator.
    """
    most = len(os.sched_getaffinity(0)) if workers is None else workers
    begun_s = time.perf_counter()
    found: list[Ran] = []
    while len(found) < len(jobs):
        left = len(jobs) - len(found)
        left_s = (time.perf_counter() - begun_s) / len(found) * left if found else 0.0
        if min(most, left) > 1 and left_s > _WORTH_A_PROCESS_S:
            break
        found.append(run(jobs[len(found)]))
        progress(len(found))
    if rest := jobs[len(found) :]:
        # Do not fork, because numpy may have threads.
        context = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(min(most, len(rest)), mp_context=context) as pool:
                for ran in pool.map(run, rest):
                    found.append(ran)
                    progress(len(found))
        except BrokenProcessPool as error:
            raise ScenarioError(
                f"a process that simulated ended before its run was over, after {len(found)} of {len(jobs)} runs",
                hint="read the lines above: a policy of your own may be at fault; without any, the memory may be too small",
            ) from error
    return found
