"""Reads the steps of a program from TOML."""

from collections.abc import Mapping
from typing import Any

from headway.errors import ScenarioError
from headway.sim.scenario import TIMED, Step, Word
from headway.sim.table import nearest, times

__all__ = ["MOST_DEPTH", "WORDS", "steps"]

_UNITS = ("ns", "us", "ms", "s")
_NAMED: tuple[Word, ...] = ("receive", "lock", "unlock", "take", "post", "put", "get")
"""Steps that name a port, lock, semaphore or queue."""
_PLAIN: tuple[Word, ...] = ("compute", "reply", "send", "begin", "done", "exit")
"""Steps that are written as `word = true`."""
_TIMED_KEYS: dict[str, tuple[Word, str]] = {f"{word}_{unit}": (word, unit) for word in TIMED for unit in _UNITS}
_MOST_REPEATS = 10**12
MOST_DEPTH = 8
"""The most loops in loops: the same number as in native/sim/simulate.c."""

WORDS = (*(f"{word}_us" for word in TIMED), *_NAMED, *_PLAIN, "loop")
"""The keys of steps; for steps with a duration, those in microseconds."""


def steps(values: list[Any], where: str, depth: int = 0) -> tuple[Step, ...]:
    """Return a program. Raises ScenarioError; `where` names the program in errors."""
    if depth > MOST_DEPTH:
        raise ScenarioError(f"{where} has loops in loops, more than {MOST_DEPTH} deep")
    return tuple(_step(value, f"{where}[{place}]", depth) for place, value in enumerate(values))


def _step(value: object, where: str, depth: int) -> Step:
    if not isinstance(value, Mapping) or not value:
        raise ScenarioError(f"{where} is {value!r}, expected a step as {{hold_us = 8}}")
    if "loop" in value or "do" in value:
        return _loop(value, where, depth)
    if len(value) > 1:
        raise ScenarioError(f"{where} has {' and '.join(value)}, expected one step in each pair of braces")
    ((key, inner),) = value.items()
    if key in _TIMED_KEYS:
        word, unit = _TIMED_KEYS[key]
        return Step(word, times=times(inner, unit, f"{where}.{key}"))
    for named in _NAMED:
        if key == named:
            if not isinstance(inner, str) or not inner:
                raise ScenarioError(f"{where}.{key} is {inner!r}, expected a name")
            return Step(named, target=inner)
    for plain in _PLAIN:
        if key == plain:
            if inner is not True:
                raise ScenarioError(f"{where}.{key} is {inner!r}, expected true")
            return Step(plain)
    hint = f"add the unit: `{key}_us`" if key in TIMED else nearest(key, [*_TIMED_KEYS, *_NAMED, *_PLAIN, "loop"])
    raise ScenarioError(f"{where}.{key} is not a step", hint=hint)


def _loop(value: Mapping[str, Any], where: str, depth: int) -> Step:
    if set(value) != {"loop", "do"}:
        raise ScenarioError(f"{where} has {' and '.join(value)}, expected {{loop = 10, do = [...]}}")
    count, body = value["loop"], value["do"]
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_REPEATS:
        raise ScenarioError(f"{where}.loop is {count!r}, expected a number of turns: a whole number of at least 1")
    if not isinstance(body, list) or not body:
        raise ScenarioError(f"{where}.do is {body!r}, expected a list of steps")
    return Step("loop", count=count, body=steps(body, f"{where}.do", depth + 1))
