"""Reads a table of a TOML file key by key; errors name the key, its value and what was expected."""

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from headway.errors import ScenarioError
from headway.sim.times import Times

__all__ = ["Table", "nearest", "times"]

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_MOST_NS = 10**16
_TIMED = re.compile(r"(\w+)_(ns|us|ms|s)")
_MOST_SIGMA = 5.0
_MOST_QUANTILES = 10_000

_A_TIME = "a number of 0 or more, or one of {uniform = [a, b]}, {exponential = mean}, {lognormal = {median = m, sigma = s}}, {quantiles = [...]}"


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint with the known word nearest to `name`, or else with all known words."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}" if known else ""


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number(value: object) -> float | None:
    """Return the value if it is a number of 0 or more, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < math.inf else None


def times(value: object, unit: str, where: str) -> Times:
    """Parse a time of a file, in `unit` (`ns`, `us`, `ms` or `s`). Raises ScenarioError; `where` names the key."""
    factor = _UNITS_NS[unit]
    number = _number(value)
    found = Times.constant(number * factor) if number is not None else None
    if isinstance(value, Mapping) and len(value) == 1:
        ((shape, inner),) = value.items()
        found = _distribution(shape, inner, factor)
    if found is None or max(found.quantiles()) > _MOST_NS:
        raise ScenarioError(f"{where} is {_shown(value)}, expected {_A_TIME}")
    return found


def _distribution(shape: str, inner: object, factor: int) -> Times | None:
    if shape == "exponential":
        mean = _number(inner)
        return Times("exponential", (mean * factor,)) if mean else None
    if shape == "lognormal" and isinstance(inner, Mapping) and set(inner) == {"median", "sigma"}:
        median, sigma = _number(inner["median"]), _number(inner["sigma"])
        if not median or sigma is None or sigma > _MOST_SIGMA:
            return None
        return Times("lognormal", (median * factor, sigma))
    if shape in {"uniform", "quantiles"} and isinstance(inner, list) and 0 < len(inner) <= _MOST_QUANTILES:
        numbers = [_number(one) for one in inner]
        known = [one * factor for one in numbers if one is not None]
        right = len(known) == len(inner) and known == sorted(known) and (shape == "quantiles" or len(known) == 2)
        return Times("uniform" if shape == "uniform" else "quantiles", tuple(known)) if right else None
    return None


@final
class Table:
    """A table that records which of its keys were read; `end` reports the others as errors."""

    def __init__(self, values: object, where: str) -> None:
        """Take a table. `where` names it in errors; "" is the file. Raises ScenarioError if it is not a table."""
        if not isinstance(values, Mapping):
            raise ScenarioError(f"{where} is {_shown(values)}, expected a table")
        self._values: Mapping[str, Any] = values
        self._where = where
        self._known: list[str] = []

    def name(self, key: str) -> str:
        """Return the key in the form that errors use."""
        return f"{self._where}.{key}" if self._where else key

    def _get(self, key: str, preset: Any, fits: Callable[[Any], bool], expected: str) -> Any:
        self._known.append(key)
        if key not in self._values:
            return preset
        value = self._values[key]
        if not fits(value):
            raise ScenarioError(f"{self.name(key)} is {_shown(value)}, expected {expected}")
        return value

    def has(self, key: str) -> bool:
        """Tell whether the table has the key."""
        self._known.append(key)
        return key in self._values

    def text(self, key: str, preset: str = "", *, one_of: Sequence[str] = ()) -> str:
        """Return a text; if `one_of` is given, one of these."""
        expected = " or ".join(map(repr, one_of)) if one_of else "a text"
        return str(
            self._get(
                key,
                preset,
                lambda value: isinstance(value, str) and bool(value) and value in (one_of or [value]),
                expected,
            )
        )

    def flag(self, key: str, *, preset: bool) -> bool:
        """Return a value that is true or false."""
        return bool(self._get(key, preset, lambda value: isinstance(value, bool), "true or false"))

    def whole(self, key: str, preset: int, least: int, most: int) -> int:
        """Return a whole number from `least` to `most`."""

        def fits(value: object) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

        return int(self._get(key, preset, fits, f"a whole number from {least} to {most}"))

    def real(self, key: str, preset: float, most: float) -> float:
        """Return a number from 0 to `most`."""

        def fits(value: object) -> bool:
            number = _number(value)
            return number is not None and number <= most

        return float(self._get(key, preset, fits, f"a number from 0 to {most:g}"))

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of different texts."""

        def fits(value: object) -> bool:
            if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
                return False
            return len(set(value)) == len(value)

        return tuple(self._get(key, [], fits, "a list of different names"))

    def cores(self, key: str, most: int) -> tuple[int, ...] | None:
        """Return a list of cores below `most`, or None."""

        def fits(value: object) -> bool:
            if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
                return False
            return all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < most for one in value)

        found: list[int] | None = self._get(key, None, fits, f"a list of cores from 0 to {most - 1}")
        return None if found is None else tuple(sorted(found))

    def times(self, key: str) -> Times | None:
        """Return the time at `key_ns`, `key_us`, `key_ms` or `key_s`, or None. Several of them raise ScenarioError."""
        there = [unit for unit in _UNITS_NS if f"{key}_{unit}" in self._values]
        self._known += [f"{key}_{unit}" for unit in _UNITS_NS]
        if len(there) > 1:
            raise ScenarioError(f"{self.name(key)} is given in {' and in '.join(there)}, expected one of them")
        if not there:
            return None
        return times(self._values[f"{key}_{there[0]}"], there[0], self.name(f"{key}_{there[0]}"))

    def moment(self, key: str, preset: int, *, above: bool = False) -> int:
        """Return a constant time, in ns."""
        found = self.times(key)
        if found is None:
            return preset
        value = round(found.numbers[0])
        if found.shape != "constant" or (above and value <= 0):
            raise ScenarioError(f"{self.name(key)} is not a plain time, expected one number{' above 0' * above}")
        return value

    def tables(self, key: str) -> dict[str, "Table"]:
        """Return the tables below `key`, by their names."""
        found: Mapping[str, Any] = self._get(
            key, {}, lambda value: isinstance(value, Mapping), f"tables, as [{key}.NAME]"
        )
        return {name: Table(values, f"{key}.{name}") for name, values in found.items()}

    def array(self, key: str) -> list[Any]:
        """Return a list that is not empty. Raises ScenarioError, also if the key is missing."""
        if key not in self._values:
            raise ScenarioError(f"{self.name(key)} is missing, expected a list of steps")
        return list(self._get(key, [], lambda value: isinstance(value, list) and bool(value), "a list of steps"))

    def options(self, key: str) -> tuple[tuple[str, int], ...]:
        """Return a table of whole numbers."""

        def fits(value: object) -> bool:
            return isinstance(value, Mapping) and all(
                isinstance(one, int) and not isinstance(one, bool) for one in value.values()
            )

        found: Mapping[str, int] = self._get(key, {}, fits, "a table of whole numbers")
        return tuple(found.items())

    def end(self) -> None:
        """Check that every key was read. Raises ScenarioError for the first that was not."""
        for key in self._values:
            if key not in self._known:
                timed = _TIMED.fullmatch(key)
                bare = [
                    name for name in dict.fromkeys(self._known) if not _TIMED.fullmatch(name) or name.endswith("_us")
                ]
                hint = nearest(key, self._known if timed else bare)
                raise ScenarioError(f"{self.name(key)} is not a known key", hint=hint)
