"""What operations of the machine cost: as `headway calibrate` measured them, from a file, or a preset."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headway.errors import ScenarioError
from headway.native_sim import COSTS

__all__ = ["PRESET", "Costs", "from_json", "load"]

PRESET = "preset"
"""What the costs are called that come with Headway: of a machine that is not this one."""


@final
@dataclass(frozen=True)
class Costs:
    """Costs of one machine.

    Attributes:
        name: Where they are from.
        costs: By the names of COSTS: equally spaced quantiles in ns.
        tick_ns: Between two ticks of the kernel.
        slice_ns: The scheduler's base slice.
        migration_ns: For how long after it ran a thread counts as warm on its core.
    """

    name: str
    costs: Mapping[str, tuple[float, ...]]
    tick_ns: int
    slice_ns: int
    migration_ns: int
    slow_down: float = 0.0
    """What Python code without a GIL takes longer for each further thread at once, as a share."""

    def in_order(self) -> tuple[tuple[float, ...], ...]:
        """Return the costs in the order of COSTS."""
        return tuple(self.costs[name] for name in COSTS)


def load(choice: str = "") -> Costs:
    """Return the costs of `preset`, or of a file; "" is what there is for this machine, else the preset.

    Raises:
        ScenarioError: The file is not there, or holds no costs.
    """
    path = Path(__file__).with_name("machine_preset.json") if choice in {"", PRESET} else Path(choice)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"the calibration {choice} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="name a file of JSON with costs, or `preset`",
        ) from error
    return from_json(values, PRESET if choice in {"", PRESET} else path.name)


def from_json(values: object, name: str) -> Costs:
    """Return costs from `{"costs": {"switch": [...], ...}, "tick_ns": ..., "slice_ns": ..., "migration_ns": ...}`.

    Raises:
        ScenarioError: A cost is missing, or its quantiles do not rise.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("costs"), Mapping):
        raise ScenarioError(f"the calibration {name} has no `costs`", hint="name a file that `headway calibrate` wrote")
    costs = {one: _quantiles(values["costs"].get(one), f"costs.{one} of the calibration {name}") for one in COSTS}
    moments = {
        key: _moment(values.get(key), f"{key} of the calibration {name}")
        for key in ("tick_ns", "slice_ns", "migration_ns")
    }
    return Costs(name=name, costs=costs, **moments)


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
