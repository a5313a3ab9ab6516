"""The costs of the simulated machine's operations on this machine: measured, kept in the cache, and read again.

A simulation calls `load_or_measure`. The function returns the kept calibration. If there is none, or if it is of
another machine, kernel or number of cores, or older than 30 days, the function measures a new one.
"""

import datetime as dt
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headway import native
from headway.errors import UsageError
from headway.host.interpreters import Interpreter, discover, select
from headway.host.machine import Machine, this_machine
from headway.host.paths import cache_folder
from headway.sim import preset
from headway.sim.costs import ABOUT, combined, model_costs
from headway.sim.measuring import ROUND_S, Round, measure_round

__all__ = [
    "LEAST_S",
    "PRESET",
    "USUAL_S",
    "Calibration",
    "default_path",
    "load",
    "load_fit",
    "load_or_measure",
    "measure",
    "save",
]

USUAL_S = 30.0
"""The approximate length of a calibration."""

LEAST_S = 1.0

_FORMAT = 2
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 7
_MOST_AGE = dt.timedelta(days=30)
_DEBUG_MIGRATION = Path("/sys/kernel/debug/sched/migration_cost_ns")


def _nothing(_: str) -> None:
    """Ignore a progress message."""


@final
@dataclass(frozen=True)
class Calibration:
    """The costs of one machine at one time.

    Attributes:
        costs: For each cost, equally spaced quantiles in ns, ascending; a single value is a constant. The keys are the
            lower-case names of enum hw_sim_cost without their prefix, in its order.
        tick_ns: The interval of the timer tick.
        slice_ns: The slice of the fair scheduler.
        migration_ns: A thread that ran within this time is not moved to another core to balance load.
        machine: "cpu", its model; "cores", the number that may be used; "kernel".
        taken_at: ISO 8601, UTC.
        spread: For each cost, its median in the lowest and in the highest round, as shares of the median over rounds:
            (0.95, 1.1). A cost that is not in it was not measured; its value is from `preset.py`.
        interpreters: For each interpreter, such as "3.13t": "loop_ns", the time of one round of a loop, and
            "slow_down", the share by which a loop that reads shared objects takes longer for each further thread at
            once; None with a GIL and on one core.
    """

    costs: dict[str, tuple[float, ...]]
    tick_ns: int
    slice_ns: int
    migration_ns: int
    machine: dict[str, str | int]
    taken_at: str
    spread: dict[str, tuple[float, float]]
    interpreters: dict[str, dict[str, float | None]]

    def to_json(self) -> dict[str, Any]:
        """Return every attribute as JSON values."""
        return {
            "format": _FORMAT,
            "taken_at": self.taken_at,
            "machine": dict(self.machine),
            "tick_ns": self.tick_ns,
            "slice_ns": self.slice_ns,
            "migration_ns": self.migration_ns,
            "costs": {name: list(values) for name, values in self.costs.items()},
            "spread": {name: list(ends) for name, ends in self.spread.items()},
            "interpreters": {name: dict(found) for name, found in self.interpreters.items()},
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Calibration":
        """Return the calibration from the values of `to_json`.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: The values are not a calibration.
        """
        if values["format"] != _FORMAT:
            raise ValueError(f"its format is {values['format']}, expected {_FORMAT}")
        dt.datetime.fromisoformat(values["taken_at"]).astimezone()
        return cls(
            costs={name: _quantiles(values["costs"][name], name) for name in ABOUT},
            tick_ns=_positive(values["tick_ns"], "tick_ns"),
            slice_ns=_positive(values["slice_ns"], "slice_ns"),
            migration_ns=_positive(values["migration_ns"], "migration_ns"),
            machine={name: values["machine"][name] for name in ("cpu", "cores", "kernel")},
            taken_at=values["taken_at"],
            spread={name: (float(low), float(high)) for name, (low, high) in values["spread"].items()},
            interpreters={
                name: {"loop_ns": float(found["loop_ns"]), "slow_down": _optional(found["slow_down"])}
                for name, found in values["interpreters"].items()
            },
        )


def _quantiles(values: Sequence[float], name: str) -> tuple[float, ...]:
    found = tuple(float(one) for one in values)
    if not found or not all(math.isfinite(one) and one >= 0 for one in found) or list(found) != sorted(found):
        raise ValueError(f"the quantiles of {name} do not rise from 0")
    return found


def _positive(value: object, name: str) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a number of nanoseconds")
    return value


def _optional(value: float | None) -> float | None:
    return None if value is None else float(value)


PRESET = Calibration(
    costs=dict(preset.COSTS),
    tick_ns=preset.TICK_NS,
    slice_ns=preset.SLICE_NS,
    migration_ns=preset.MIGRATION_NS,
    machine=dict(preset.MACHINE),
    taken_at=preset.TAKEN_AT,
    spread={},
    interpreters={name: dict(found) for name, found in preset.INTERPRETERS.items()},
)
"""A calibration that is the same on every machine; it was taken on one machine, and describes only that one."""


def default_path() -> Path:
    """Return the path of the kept calibration. Raises UsageError if the cache folder cannot be made."""
    return cache_folder() / "calibration.json"


def load(path: Path | None = None) -> Calibration | None:
    """Return a kept calibration, of whatever machine; None if there is none, or if it is damaged.

    Args:
        path: The file; None for `default_path()`.
    """
    found = _read(default_path() if path is None else path)
    return found if isinstance(found, Calibration) else None


def _read(path: Path) -> Calibration | str:
    """Return the calibration of a file, or the reason why there is none."""
    try:
        return Calibration.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return "there is no calibration yet"
    except OSError as error:
        return f"the calibration in {path} cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"the calibration in {path} is damaged"


def save(calibration: Calibration, path: Path | None = None) -> Path:
    """Write a calibration; the file is complete or does not change.

    Returns:
        The path of the file.

    Raises:
        OSError: The file cannot be written; an earlier calibration is kept.
    """
    path = default_path() if path is None else path
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(calibration.to_json(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def load_fit() -> Calibration | None:
    """Return the kept calibration if it is recent and of this machine, else None; measures nothing."""
    found = load()
    return found if found is not None and not _unfit(found) else None


def load_or_measure(
    progress: Callable[[str], None] = _nothing, *, path: Path | None = None, seconds: float = USUAL_S
) -> Calibration:
    """Return the kept calibration if it is recent and of this machine; else measure and keep a new one.

    Args:
        progress: Called with the reason for a measurement, and with each thing that is measured.
        path: The file; None for `default_path()`.
        seconds: As for `measure`.

    Raises:
        OSError, NativeError: As `measure`. If a new calibration cannot be kept, `progress` is told, and it is returned.
    """
    path = default_path() if path is None else path
    found = _read(path)
    why = found if isinstance(found, str) else _unfit(found)
    if isinstance(found, Calibration) and not why:
        return found
    progress(f"{why}: the measurement takes about {seconds:.0f} s")
    made = measure(progress, seconds=seconds)
    try:
        save(made, path)
    except OSError as error:
        progress(f"the calibration could not be written to {path}: {error.strerror}")
    return made


def _unfit(found: Calibration) -> str:
    """Return the reason why a calibration does not fit this machine now, or ""."""
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(found.taken_at).astimezone()
    if found.machine != _facts(this_machine()):
        return "the calibration is from another machine, kernel or number of cores"
    return f"the calibration is {age.days} days old" if age > _MOST_AGE else ""


def _facts(machine: Machine) -> dict[str, str | int]:
    return {"cpu": machine.cpu, "cores": len(machine.cores), "kernel": machine.kernel}


def measure(
    progress: Callable[[str], None] = _nothing,
    *,
    seconds: float = USUAL_S,
    interpreters: Sequence[Interpreter] | None = None,
) -> Calibration:
    """Measure this machine, in rounds that each take every measurement once.

    Args:
        progress: Called with each thing that is measured.
        seconds: The approximate length, at least LEAST_S. Starting interpreters takes some seconds in any case.
        interpreters: The interpreters to measure; None means the newest patch release of each that is found.

    Raises:
        UsageError: There are too few seconds.
        OSError: The kernel refused an operation that is to be measured.
        NativeError: The library is missing or does not fit.
    """
    if not seconds >= LEAST_S:
        raise UsageError(f"{seconds:g} s is too short for a calibration", hint=f"give it {LEAST_S:g} s or more")
    machine = this_machine()
    chosen = select(discover()[0]) if interpreters is None else list(interpreters)
    count = min(_MOST_ROUNDS, max(_LEAST_ROUNDS, int(seconds / ROUND_S)))
    rounds: list[Round] = []
    begun_s = time.monotonic()
    for index in range(count):
        # On a busy machine a round takes longer. Three rounds then say as much as the time allows.
        if index >= _LEAST_ROUNDS and time.monotonic() - begun_s > seconds:
            break
        progress(f"calibrating: round {index + 1} of {count}, about {seconds / count:.0f} s each")
        rounds.append(measure_round(_cores(machine), chosen, scale=seconds / count / ROUND_S))
    for name, why in {name: why for one in rounds for name, why in one.failed.items()}.items():
        progress(f"CPython {name} is left out: {why}")
    return _calibration(rounds, machine, native.calibration_facts())


def _cores(machine: Machine) -> list[int]:
    """Return the cores to measure on, beginning with two of different physical cores, if there are such."""
    first = list(machine.split) or list(machine.cores[:1])
    return first + [core for core in machine.cores if core not in first]


def _calibration(rounds: Sequence[Round], machine: Machine, facts: native.CalibrationFacts) -> Calibration:
    """Combine rounds into a calibration."""
    slack = float(facts.timer_slack_ns)
    costs = model_costs(combined([one.raw for one in rounds]), timer_slack_ns=slack)
    of_rounds = [model_costs(one.raw, timer_slack_ns=slack) for one in rounds]
    return Calibration(
        costs={name: costs.get(name) or preset.COSTS[name] for name in ABOUT},
        tick_ns=facts.tick_ns,
        slice_ns=facts.slice_ns,
        migration_ns=_migration_ns(),
        machine=_facts(machine),
        taken_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        spread={name: _spread([one[name] for one in of_rounds if name in one]) for name in costs},
        interpreters=_interpreters(rounds),
    )


def _spread(values: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the lowest and the highest median of a round as shares of the median of these; 1 if that is 0."""
    medians = sorted(statistics.median(one) for one in values)
    middle = statistics.median(medians)
    return (medians[0] / middle, medians[-1] / middle) if middle > 0 else (1.0, 1.0)


def _interpreters(rounds: Sequence[Round]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for name in dict.fromkeys(name for one in rounds for name in one.loop_ns):
        slow = [one.slow_down[name] for one in rounds if name in one.slow_down]
        found[name] = {
            "loop_ns": statistics.median(one.loop_ns[name] for one in rounds if name in one.loop_ns),
            "slow_down": statistics.median(slow) if slow else None,
        }
    return found


def _migration_ns() -> int:
    """Return the kernel's value, which only root can read; else the kernel's default."""
    try:
        return int(_DEBUG_MIGRATION.read_text())
    except (OSError, ValueError):
        return preset.MIGRATION_NS
