"""The costs of the machine's operations: measured by `headway calibrate`, from a file, or a preset."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from headway.errors import ScenarioError, UsageError
from headway.native_sim import COSTS
from headway.sim import calibration

__all__ = ["PRESET", "Costs", "from_json", "kept", "load"]

PRESET = "preset"
"""The name of the costs that come with Headway; they are those of another machine."""
_PRESET_SLOW_DOWN = calibration.PRESET.interpreters["3.13t"]["slow_down"] or 0.0


def _nothing(_: str) -> None:
    """Ignore a progress message."""


@final
@dataclass(frozen=True)
class Costs:
    """The costs of one machine.

    Attributes:
        name: The source of the costs.
        costs: For each name in COSTS, equally spaced quantiles in ns.
        tick_ns: The time between two ticks of the kernel.
        slice_ns: The scheduler's base slice.
        migration_ns: The time after running during which a thread counts as warm on its core.
        slow_down: The share by which Python code without a GIL takes longer for each further thread at once; None if it
            was not measured, since no free-threaded interpreter was there.
        build_ratio: The time of a loop of one thread on a free-threaded interpreter over that on the same version with a GIL;
            None if these two were not measured.
        measured_here: They are the kept costs of the machine on which this process runs.
    """

    name: str
    costs: Mapping[str, tuple[float, ...]]
    tick_ns: int
    slice_ns: int
    migration_ns: int
    slow_down: float | None = None
    build_ratio: float | None = None
    measured_here: bool = False

    @property
    def known_slow_down(self) -> float:
        """The slow-down, or the preset's if none was measured."""
        return _PRESET_SLOW_DOWN if self.slow_down is None else self.slow_down

    def in_order(self) -> tuple[tuple[float, ...], ...]:
        """Return the costs in the order of COSTS."""
        return tuple(self.costs[name] for name in COSTS)

    def median(self, name: str) -> float:
        """Return a cost's median in ns."""
        quantiles = self.costs[name]
        return quantiles[len(quantiles) // 2]


def load(choice: str = "", progress: Callable[[str], None] = _nothing) -> Costs:
    """Return costs: of this machine (measured now if there are none), of a file, or PRESET.

    Args:
        choice: "" for this machine, a path, or PRESET.
        progress: Called with each thing that is measured.

    Raises:
        ScenarioError: The file does not exist, or holds no costs.
        OSError, NativeError: This machine cannot be measured.
    """
    if choice == PRESET:
        return _of(calibration.PRESET, PRESET)
    if not choice:
        mine = calibration.load_or_measure(progress)
        return _of_here(mine)
    try:
        values = json.loads(Path(choice).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"the calibration {choice} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint=f"name a file that `headway calibrate` wrote, or `{PRESET}`",
        ) from error
    return from_json(values, Path(choice).name)


def kept() -> Costs:
    """Return the kept costs of this machine, or PRESET's if there are none; measures nothing."""
    try:
        mine = calibration.load_fit()
    except (UsageError, OSError):  # there is no cache folder
        mine = None
    return load(PRESET) if mine is None else _of_here(mine)


def _of_here(mine: calibration.Calibration) -> Costs:
    return replace(_of(mine, f"this machine's of {mine.taken_at[:10]}"), measured_here=True)


def _of(found: calibration.Calibration, name: str) -> Costs:
    return from_json(found.to_json(), name)


def from_json(values: object, name: str) -> Costs:
    """Return costs from `{"costs": {"switch": [...], ...}, "tick_ns": ..., "slice_ns": ..., "migration_ns": ...}`.

    `interpreters` may be there, too: the slow-down is that of the last one for which it was measured.

    Raises:
        ScenarioError: A cost is missing, or its quantiles do not rise, or a slow-down is no number from 0.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("costs"), Mapping):
        raise ScenarioError(f"the calibration {name} has no `costs`", hint="name a file that `headway calibrate` wrote")
    costs = {one: _quantiles(values["costs"].get(one), f"costs.{one} of the calibration {name}") for one in COSTS}
    tick_ns, slice_ns, migration_ns = (
        _moment(values.get(key), f"{key} of the calibration {name}") for key in ("tick_ns", "slice_ns", "migration_ns")
    )
    slow_down = _slow_down(values.get("interpreters", {}), name)
    return Costs(
        name,
        costs,
        tick_ns=tick_ns,
        slice_ns=slice_ns,
        migration_ns=migration_ns,
        slow_down=slow_down,
        build_ratio=_build_ratio(values.get("interpreters", {})),
    )


def _build_ratio(interpreters: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return how much longer a loop takes on the last free-threaded interpreter whose version with a GIL was measured, too."""
    found = None
    for name, one in interpreters.items():
        free_ns, stock_ns = one.get("loop_ns"), interpreters.get(name.removesuffix("t"), {}).get("loop_ns")
        are_known = all(isinstance(each, int | float) and 0 < each < math.inf for each in (free_ns, stock_ns))
        if name.endswith("t") and are_known:
            found = float(free_ns) / float(stock_ns)  # type: ignore[arg-type]
    return found


def _slow_down(interpreters: Any, name: str) -> float | None:
    if not isinstance(interpreters, Mapping) or not all(isinstance(one, Mapping) for one in interpreters.values()):
        raise ScenarioError(f"interpreters of the calibration {name} is {interpreters!r}, expected a table for each")
    found = None
    for interpreter, one in interpreters.items():
        value = one.get("slow_down")
        if value is None:
            continue
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            where = f"interpreters.{interpreter}.slow_down of the calibration {name}"
            raise ScenarioError(f"{where} is {value!r}, expected a number from 0")
        found = float(value)
    return found


def _quantiles(value: Any, where: str) -> tuple[float, ...]:
    fits = (
        isinstance(value, list) and value and all(isinstance(one, int | float) and 0 <= one < math.inf for one in value)
    )
    if not fits or value != sorted(value):
        raise ScenarioError(f"{where} is {value!r}, expected rising quantiles in ns")
    return tuple(float(one) for one in value)


def _moment(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ScenarioError(f"{where} is {value!r}, expected a whole number of ns")
    return value
