"""Predicts, with the simulator, machines with other numbers of cores, and a server's threads beside the function.

A call is described as it was seen: the time with the GIL in Python, in one operation of C that keeps the GIL, computing
without the GIL, and asleep. The simulated speed-up is multiplied by the ratio of the measured to the simulated speed-up
on the cores that are here. The interval is the measured one, widened by the simulator's usual error
(docs/concepts/predictions.md), and the more so the further away the number of cores is.
"""

import math
import statistics
from collections.abc import Sequence

from headway.advice.holds import Holds
from headway.advice.values import Contender, Cores
from headway.errors import HeadwayError
from headway.sim import machine
from headway.sim.parse import parse
from headway.sim.run import Job, run

__all__ = ["OTHER_CORES", "beside_a_server", "predict"]

OTHER_CORES = (4, 8, 32)
_SLACK = 0.08
"""As a logarithm, for each factor of two in cores: a larger machine may also differ in its caches and memory."""
_LEAST_NS = 2_000
_MOST_AT_ONCE_NS = 100_000
"""Calls that only hold the GIL, in Python, are simulated as one up to this time: nobody beside them sees where one ends."""
_MOST_WAITING = 0.5
_LEAST_SPEED_UP = 0.8
"""A model with a smaller speed-up than this does not become quicker with more cores."""
_LIKE = 0.7
"""A model whose speed-up here is a smaller part of the simulated one has a limit that the simulator does not know."""
_WIDE = 4.0
"""A measured interval that is wider than this factor tells nothing of other machines."""
_CALLS = 60
"""The least number of calls per worker in a run, unless they take longer than `_MOST_S` of virtual time."""
_MOST_S = 20.0
_SEED, _SEEDS = 1, 5
_RANGE = f"in brackets: the range of {_SEEDS} simulations; a measured p99 often differs by a factor of 2"
"""The factor is that of docs/concepts/predictions.md for the p99."""
_WORTH = 1.25
"""The least factor by which a policy must improve the tail to be named here."""
_SIMULATED = {"threads": False, "processes-forkserver": True, "interpreters": True}
"""For each model, whether each worker has a GIL of its own."""


def _program(holds: Holds, *, counted: bool = True) -> str:
    """Return a call as steps of a scenario; parts that are too short are left out.

    Unless calls are `counted`, short ones that only hold the GIL are put together.
    """
    call_ns = holds.call_s * 1e9
    kept_ns = min((holds.longest.longest_s if holds.longest else 0.0) * 1e9, holds.held * call_ns)
    times = {
        "call_ns": kept_ns,
        "hold_ns": holds.held * call_ns - kept_ns,
        "run_ns": holds.computes_without * call_ns,
        "sleep_ns": holds.waits * call_ns,
    }
    kept = {key: int(value) for key, value in times.items() if value >= _LEAST_NS} or {"hold_ns": max(1, int(call_ns))}
    if not counted and kept.keys() == {"hold_ns"}:
        kept["hold_ns"] *= max(1, _MOST_AT_ONCE_NS // kept["hold_ns"])
    steps = [f"{{{key} = {value}}}" for key, value in kept.items()]
    return "[" + ", ".join([*steps, "{done = true}"]) + "]"


def _done_per_s(holds: Holds, workers: int, cores: int, *, own_gil: bool) -> float:
    duration_s = min(_MOST_S, max(0.2, _CALLS * holds.call_s))
    text = f"""
title = "advise"
cores = {cores}
duration_s = {duration_s}
[role.work]
threads = {workers}
processes = {str(own_gil).lower()}
program = {_program(holds)}
"""
    ran = run(Job(parse(text, name="advise"), machine.load("preset"), _SEED))
    return next(one.done_per_s for one in ran.outcome.parts if one.name == "work")


def predict(
    holds: Holds, contenders: Sequence[Contender], cores: int, pickle_s: float
) -> tuple[tuple[Cores, ...], tuple[str, ...]]:
    """Return the speed-ups of the measured models on more cores, with as many workers per core as here, and what limits them.

    A model has no prediction if it is far slower here than simulated: calls that take turns at a lock of their own do so
    on any number of cores. It has none either if its measured interval is wide. A sentence tells of each model that is
    surely slower than simulated.

    Args:
        holds: The function's time with and without the GIL.
        contenders: The models, as measured here on the user's interpreter.
        cores: The number of cores here.
        pickle_s: The time that pickling and unpickling take for a call. The one process that has the calls spends about
            as much on each call that it gives to a worker: it also copies the bytes.
    """
    found: list[Cores] = []
    limits: list[str] = []
    if holds.waits > _MOST_WAITING:
        return (), ()  # calls that wait need more workers, not more cores
    alone: float | None = None
    for one in contenders:
        if one.model not in _SIMULATED or one.speed_up is None or one.speed_up.value < _LEAST_SPEED_UP:
            continue
        if not math.isfinite(one.speed_up.high):
            continue
        own_gil = _SIMULATED[one.model]
        try:
            if alone is None:
                alone = _done_per_s(holds, 1, cores, own_gil=True)
            here = _done_per_s(holds, one.workers, cores, own_gil=own_gil) / alone
            if one.speed_up.high < _LIKE * here:
                limits.append(
                    f"{one.words}: {one.speed_up.value:.2f} times, where its time without the GIL allows {here:.2f}: something else"
                    " keeps the calls apart, such as a lock of their own, or the memory"
                )
            if one.speed_up.value < _LIKE * here or one.speed_up.high > _WIDE * one.speed_up.low:
                continue
            for other in OTHER_CORES:
                if other <= cores:
                    continue
                workers = max(1, round(one.workers * other / cores))
                there = _done_per_s(holds, workers, other, own_gil=own_gil) / alone
                scale = one.speed_up.value / here
                slack = math.exp(_SLACK * math.log2(other / cores))
                most = max(holds.call_s / pickle_s, one.speed_up.value) if own_gil and pickle_s > 0 else math.inf
                found.append(
                    Cores(
                        other,
                        one.model,
                        min(most, there * scale),
                        min(most, there * one.speed_up.low / here / slack),
                        min(max(most, one.speed_up.high), there * one.speed_up.high / here * slack),
                    )
                )
        except (HeadwayError, ZeroDivisionError, StopIteration):
            continue
    return tuple(found), tuple(limits)


def beside_a_server(holds: Holds, workers: int, cores: int) -> tuple[str, ...]:
    """Return sentences on how a server's requests wait beside threads of the function, with stock CPython and `fair`.

    The figures are the median of five seeds, and their range, which is no interval of a prediction; the sentences say so.
    """
    found: dict[str, list[float]] = {"none": [], "fair": []}
    for policy, p99s_ms in found.items():
        text = f"""
title = "advise"
cores = {cores}
duration_s = 4
policy = "{policy}"
[role.work]
threads = {workers}
program = {_program(holds, counted=False)}
[role.server]
threads = 2
program = [{{receive = "requests"}}, {{hold_us = 50}}, {{reply = true}}]
[client.load]
port = "requests"
connections = 2
think_ms = {{exponential = 4}}
"""
        for seed in range(1, 1 + _SEEDS):
            try:
                ran = run(Job(parse(text, name="advise"), machine.load("preset"), seed))
            except HeadwayError:
                return ()
            load = next(one for one in ran.outcome.parts if one.name == "load")
            p99s_ms.append(load.p99_ms or load.max_ms or 0.0)
    stock, fair = (statistics.median(values) for values in found.values())
    if stock <= 0 or fair <= 0:
        return ()
    said = f"simulated requests of 50 us in 2 threads beside {workers} thread{'s' * (workers != 1)} of the function: p99 {_ms(found['none'])}"
    if stock < _WORTH * fair:
        return (f"{said}; the policy `fair` does not change that; {_RANGE}",)
    return (f"{said}, {_ms(found['fair'])} under the policy `fair` (headway run --policy fair); {_RANGE}",)


def _ms(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g} ms [{min(values):.3g}-{max(values):.3g}]"
