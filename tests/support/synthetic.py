"""Make interpreters, machines, cells and settings that exist only in a test."""

from headway.host.interpreters import Interpreter
from headway.host.machine import Machine
from headway.lab.design import Cell, Variant
from headway.lab.kept.settings import Settings

MODELS = (
    "serial",
    "threads",
    "processes-spawn",
    "processes-forkserver",
    "asyncio",
    "asyncio-threads",
    "asyncio-processes",
)


def make_interpreter(version: str = "3.13.0", *, free_threaded: bool = False, **changes: object) -> Interpreter:
    """Return a made-up interpreter of this version."""
    values = {
        "id": version + "t" * free_threaded,
        "executable": f"/nowhere/python{version}",
        "origin": "path",
        "version": version,
        "minor": version.rpartition(".")[0],
        "free_threaded": free_threaded,
        "gil_enabled": not free_threaded,
        "jit_available": False,
        "jit_enabled": False,
        "debug": False,
        "shared_libpython": True,
        "switch_interval_s": 0.005,
        "optimised": (),
        "compiler": "cc",
        "ctypes": True,
        "cross_interpreter_queue": False,
        "models": MODELS,
        "missing_models": {"interpreters": "none before 3.12"},
    }
    return Interpreter.from_json({**values, **changes})


def make_machine(cores: int = 2) -> Machine:
    """Return a made-up machine with that many cores."""
    numbers = tuple(range(cores))
    return Machine("paper", numbers, cores, numbers[:2] if cores > 1 else (), 2**34, "6.0", "Paper OS")


def make_cell(experiment: str, label: str, interpreter: str, placement: str = "free", **changes: object) -> Cell:
    """Return a cell of an experiment; `changes` apply to its variant, except `group`, which is the cell's."""
    group = changes.pop("group", f"{experiment}|{placement}|{interpreter}")
    if isinstance(changes.get("setting"), str):
        changes["setting"] = tuple(changes["setting"].split(", ")) if changes["setting"] else ()  # type: ignore[attr-defined]
    variant = Variant(**{"series": label, "workload": "increment", "model": "serial", **changes})
    return Cell(experiment, variant, placement, interpreter, group)


def make_settings(**changes: object) -> Settings:
    """Return the settings of a made-up run."""
    values = {
        "version": "0",
        "size": "quick",
        "launches": 5,
        "seed": 7,
        "limit_s": 30.0,
        "memory_limit_bytes": None,
        "experiments": (),
        "machine": make_machine(),
        "doctor": (),
        "interpreters": (make_interpreter(),),
    }
    return Settings(**{**values, **changes})
