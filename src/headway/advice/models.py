"""Chooses the models to try for a function, their names, the number of workers, and the number of calls in a sample."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headway.advice.examined import Function, Place

__all__ = [
    "POOLS",
    "SENDING",
    "SHORT",
    "SIMPLICITY",
    "Sizes",
    "around_s",
    "contenders",
    "most_at_a_time",
    "sizes_of",
    "words",
]

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

SENDING = ("interpreters", "processes-forkserver")
"""Models whose arguments and results are pickled."""

_SAMPLE_S = 0.12
"""The length of a sample of one call after the other, unless that needs too many calls."""
_MOST_SERIAL_S = 4.0
_MOST_TASKS = 2_000
_MOST_PICKLING_S = 1.0
"""The length of the pickling in a sample if a call takes no longer than that: a pool is then slower, by few calls too."""
_MANY_ROUNDS = 20
"""From this number of calls for each worker on, it does not matter that the workers' numbers of calls differ by one."""
_LONG_S = 2.0
"""Each worker has at least two calls in a sample; one if a call takes longer than this."""
_NOTICED = 0.01
"""The share of a sample's time that imports, and what only a first call does, may have without a sample before it."""
_MOST_BYTES = 256 << 20
_MEMORY = 0.5
"""The share of the memory that is available here that all calls at a time may need."""
_LITTLE_BYTES = 4 << 20
"""Calls that need less than this have no bound by memory; what is measured of them is mostly the interpreter's own."""
_MOST_WORKERS = 32
"""The most workers for calls that wait, unless there are more cores."""
_MOST_PROCESSES = 8
_SHORT_S = 0.5
"""A sample that is shorter than this is taken three times in a launch; a longer one once."""


@final
@dataclass(frozen=True)
class Sizes:
    """The amounts with which a function is run.

    Attributes:
        tasks: Serial calls in a sample.
        calls: The calls in a sample, by model: the serial ones, again and again, until all workers have as many; fewer of
            them if pickling takes longer than the call.
        workers: The number of workers, by model.
        samples, warmups: The numbers of these in each launch.
        cold: A sample is taken before these, because the first one is longer.
        launch_s: The time that the calls of the longest launch take, one after the other, with what is pickled for them.
    """

    tasks: int
    calls: Mapping[str, int]
    workers: Mapping[str, int]
    samples: int
    warmups: int
    cold: bool
    launch_s: float


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


def around_s(function: Function, model: str) -> float:
    """Return the time that is spent for a call in a sample: to pickle it for a worker, and to make its arguments anew."""
    copied_s = function.anew_s or function.pickle_s * function.changes_arguments
    return function.pickle_s * (model in SENDING) + copied_s


def most_at_a_time(function: Function, available_bytes: float) -> float:
    """Return how many calls may run at a time in this much memory, at least one; infinity if they need little.

    Args:
        function: The function.
        available_bytes: The memory that processes can have here without swapping.
    """
    if function.peak_bytes < _LITTLE_BYTES or available_bytes == math.inf:
        return math.inf
    return max(1, int(_MEMORY * available_bytes / function.peak_bytes))


def sizes_of(
    function: Function,
    cores: int,
    workers: int | None,
    *,
    import_s: float = 0.0,
    available_bytes: float = math.inf,
) -> Sizes:
    """Return the amounts with which a function is run on `cores` cores.

    Args:
        function: The function.
        cores: The number of cores.
        workers: The number that the user wants; None: one for each core, and if calls wait, enough to keep the cores
            busy.
        import_s: The time that a worker needs for the import of the function's module.
        available_bytes: The memory that processes can have here without swapping. It bounds the calls at a time, unless the
            user names a number of workers.
    """
    busy = max(function.cpu_share, 1 / 16)
    wanted = max(2, min(max(_MOST_WORKERS, cores), math.ceil(cores / busy)) if busy < 0.5 else cores)
    most_at_once = math.inf if workers else most_at_a_time(function, available_bytes)
    wanted = workers or int(min(wanted, most_at_once))
    processes = workers or min(wanted, max(cores, _MOST_PROCESSES))
    call_s = function.call_s
    # All results of a sample exist at the same time, and for pools also all arguments.
    each_bytes = function.own_bytes + function.input_bytes + function.result_bytes
    most_calls = max(2, min(_MOST_TASKS, _MOST_BYTES // max(1, each_bytes)))
    most_serial = max(1, min(most_calls, int(_MOST_SERIAL_S / call_s), _most_pickled(function, "serial")))
    tasks = _whole_rounds(max(2 * wanted, math.ceil(_SAMPLE_S / call_s)), wanted, function.inputs, most_serial)
    at_once = {"threads": wanted, "interpreters": processes, "processes-forkserver": processes}
    calls = {}
    for model, count in at_once.items():
        most = _most_pickled(function, model)
        same = tasks if tasks <= most else _whole_rounds(tasks, count, function.inputs, most)
        calls[model] = min(most_calls, _shared(max(same, (2 if call_s <= _LONG_S else 1) * count), count))
    longer_s = import_s + max(0.0, function.first_s - function.later_s)
    short = tasks * call_s < _SHORT_S
    samples, warmups = (3, 1) if short else (1, 0)
    cold = short or longer_s > _NOTICED * tasks * call_s
    around = max(calls.get(model, tasks) * around_s(function, model) for model in ("serial", *calls))
    return Sizes(
        tasks,
        {"serial": tasks, "asyncio": int(min(max(tasks, calls["threads"]), most_at_once)), **calls},
        {"serial": 1, "asyncio": 1, **{model: min(at_once[model], calls[model]) for model in calls}},
        samples,
        warmups,
        cold,
        (tasks * call_s + around) * (samples + warmups + cold),
    )


def _most_pickled(function: Function, model: str) -> int:
    """Return the most calls of a model in a sample by what is pickled for them."""
    pickling_s = around_s(function, model)
    if pickling_s < function.call_s:
        return _MOST_TASKS
    return max(1, int(_MOST_PICKLING_S / pickling_s))


def _whole_rounds(least: int, workers: int, inputs: int, most: int) -> int:
    """Return a number of calls that gives each worker as many, and has each input as often, as far as `most` allows.

    If that is not enough for one call with each input, as many inputs as possible have one: they stand for the others.
    """
    if inputs > most:
        least = most
    for unit in (math.lcm(workers, max(1, inputs)), max(1, inputs), workers):
        if unit <= most:
            return min(math.ceil(least / unit) * unit, most // unit * unit)
    return min(least, most)


def _shared(calls: int, workers: int) -> int:
    """Return the number of calls, rounded up so that each worker has as many.

    With five calls for two workers, one of these has nothing to do for a sixth of the time.
    """
    return calls if calls >= _MANY_ROUNDS * workers else math.ceil(calls / workers) * workers
