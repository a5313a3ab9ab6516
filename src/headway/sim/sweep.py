"""Varies a scenario over many points, as `--sweep threads=1..64 --sweep policy=none,fair` asks for."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from headway.errors import ScenarioError
from headway.sim.parameters import change, full_name, split_setting
from headway.sim.scenario import Scenario
from headway.sim.summary import Summary

__all__ = ["MOST_POINTS", "Axis", "Point", "parse_axis", "points", "rows"]

MOST_POINTS = 10_000
"""The most points of a sweep; a larger number is probably a typing error."""

_EVERY = 16
"""A range of at most this many values has each of them; a longer one has its ends and the powers of two between."""

_RANGE = re.compile(r"(\d+)\.\.(\d+)")


@final
@dataclass(frozen=True)
class Axis:
    """A parameter and its values."""

    name: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers; None if one of them is not a finite number."""
        try:
            found = tuple(float(value) for value in self.values)
        except ValueError:
            return None
        return found if all(map(math.isfinite, found)) else None


@final
@dataclass(frozen=True)
class Point:
    """A scenario, and its value on each axis."""

    values: tuple[str, ...]
    scenario: Scenario


def parse_axis(text: str) -> Axis:
    """Return the axis of a text such as `threads=1..64`, `threads=0,1,4` or `policy=none,fair`.

    Raises:
        ScenarioError: There is no value, a value occurs twice, or a range descends.
    """
    name, said = split_setting(text)
    values: list[str] = []
    for one in said.split(","):
        found = _RANGE.fullmatch(one.strip())
        values += _range(text, int(found[1]), int(found[2])) if found else [one.strip()]
    if not all(values) or len(set(values)) < len(values):
        raise ScenarioError(f"{text!r} has a duplicate or an empty value", hint="separate different values by commas")
    return Axis(name, tuple(values))


def _range(text: str, first: int, last: int) -> list[str]:
    if first > last:
        raise ScenarioError(f"the range {first}..{last} of {text!r} is descending", hint=f"write {last}..{first}")
    if last - first < _EVERY:
        return [str(value) for value in range(first, last + 1)]
    powers = [1 << power for power in range(last.bit_length()) if first < 1 << power < last]
    return [str(value) for value in (first, *powers, last)]


def points(scenario: Scenario, axes: Sequence[Axis]) -> list[Point]:
    """Return the scenario at every combination of values; the last axis changes first.

    Raises:
        ScenarioError: An axis occurs twice, a value does not fit, or there are too many points.
    """
    names = [axis.name for axis in axes]
    said: dict[str, str] = {}
    for name in names:
        full = full_name(scenario, name)
        if full in said:
            both = f"{name} twice" if said[full] == name else f"one parameter twice, as {said[full]} and as {name}"
            raise ScenarioError(f"--sweep names {both}", hint=f"give all values at once: `--sweep {name}=1,2,4`")
        said[full] = name
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_POINTS:
        raise ScenarioError(f"the sweep has {count:,} points, expected {MOST_POINTS:,} at most")
    found = []
    for values in itertools.product(*(axis.values for axis in axes)):
        changed = scenario
        for name, value in zip(names, values, strict=True):
            changed = change(changed, name, value)
        found.append(Point(values, changed))
    return found


def rows(axes: Sequence[Axis], swept: Sequence[tuple[Point, Summary]]) -> tuple[list[str], list[list[Any]]]:
    """Return a sweep as a table for CSV: its columns, and a row for each role and client at each point.

    Each figure has three columns: the median over the seeds, the least and the greatest.
    """
    names = list(next(iter(swept[0][1].parts.values())))
    columns = [axis.name for axis in axes] + ["name"]
    columns += [f"{name}{ending}" for name in names for ending in ("", "_low", "_high")]
    found: list[list[Any]] = []
    for point, summary in swept:
        for part, figures in summary.parts.items():
            row: list[Any] = [*point.values, part]
            for name in names:
                spread = figures[name]
                row += ["", "", ""] if spread is None else [spread.median, spread.low, spread.high]
            found.append(row)
    return columns, found
