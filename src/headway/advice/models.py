"""Chooses the models to try for a function, their names, the number of workers, and the number of calls in a sample."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headway.advice.examined import Function, Place

__all__ = ["POOLS", "SHORT", "SIMPLICITY", "Sizes", "contenders", "sizes_of", "words"]

SIMPLICITY = ("serial", "asyncio", "threads", "interpreters", "processes-forkserver")
"""The models from the simplest on; of two that are equal within noise, the simpler one is advised."""

SHORT: Mapping[str, str] = {
    "serial": "serial",
    "asyncio": "asyncio",
    "threads": "threads",
    "interpreters": "interpreters",
    "processes-forkserver": "processes",
}
"""The names of the models in tables."""

POOLS = ("threads", "interpreters", "processes-forkserver")
"""Models with workers."""

_SAMPLE_S = 0.12
"""The length of a sample of one call after the other, unless that needs too many calls."""
_MOST_SERIAL_S = 4.0
_MOST_TASKS = 2_000
_MOST_BYTES = 256 << 20
_MOST_WORKERS = 32
_MOST_PROCESSES = 8
_SHORT_S = 0.5
"""A sample that is shorter than this is taken three times in a launch; a longer one once."""


@final
@dataclass(frozen=True)
class Sizes:
    """The amounts with which a function is run.

    Attributes:
        tasks: Calls in a sample; the same for all models.
        workers: The number of workers, by model.
        samples, warmups: The numbers of these in each launch.
    """

    tasks: int
    workers: Mapping[str, int]
    samples: int
    warmups: int


def contenders(function: Function, place: Place) -> list[str]:
    """Return the models that are tried on an interpreter."""
    models = ["serial", "threads"]
    if function.kind.startswith("async"):
        models.insert(1, "asyncio")
    if place.gil:
        models += ["interpreters", "processes-forkserver"]
    return [model for model in models if not place.why_not(model)]


def words(model: str, workers: int) -> str:
    """Return a model with its workers, as "4 threads"."""
    name = SHORT[model]
    if model in {"serial", "asyncio"}:
        return name
    singular = {"processes": "process"}.get(name, name.removesuffix("s"))
    return f"{workers} {name if workers != 1 else singular}"


def sizes_of(function: Function, cores: int, workers: int | None) -> Sizes:
    """Return the amounts with which a function is run on `cores` cores.

    Args:
        function: The function.
        cores: The number of cores.
        workers: The number that the user wants; None: one for each core, and if calls wait, enough to keep the cores
            busy.
    """
    busy = max(function.cpu_share, 1 / 16)
    wanted = workers or min(_MOST_WORKERS, max(2, math.ceil(cores / busy)) if busy < 0.5 else cores)
    wanted = max(2, wanted) if workers is None else wanted
    call_s = function.call_s
    tasks = max(2 * wanted, math.ceil(_SAMPLE_S / call_s))
    if tasks * call_s > _MOST_SERIAL_S:
        # Long calls: enough to give each worker one, and no more than the time allows.
        tasks = max(2 * min(wanted, cores), int(_MOST_SERIAL_S / call_s))
        wanted = wanted if workers else min(wanted, max(2, tasks // 2))
    tasks = min(max(tasks, function.inputs if function.inputs * call_s < _MOST_SERIAL_S else 0), _MOST_TASKS)
    # All results of a sample exist at the same time, and for pools also all arguments.
    each_bytes = function.input_bytes + function.result_bytes
    tasks = max(2, min(tasks, _MOST_BYTES // max(1, each_bytes)))
    processes = workers or min(wanted, max(cores, _MOST_PROCESSES))
    by_model = {
        "serial": 1,
        "asyncio": 1,
        "threads": wanted,
        "interpreters": processes,
        "processes-forkserver": processes,
    }
    short = tasks * call_s < _SHORT_S
    return Sizes(tasks, by_model, 3 if short else 1, 1 if short else 0)
