"""Finds the line of each step in a scenario's file, for traces; tomllib does not tell the lines."""

import dataclasses
import re
from collections.abc import Iterator

from headway.sim.program import WORDS
from headway.sim.scenario import Scenario, Step, walk

__all__ = ["numbered"]

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*')
_STEP = re.compile(r"\{\s*([a-z_]+?)(?:_(?:ns|us|ms|s))?\s*=")
_FIRST_KEYS = {re.sub("_us$", "", word) for word in WORDS} | {"do"}


def numbered(scenario: Scenario, text: str) -> Scenario:
    """Return the scenario with its steps' lines; unchanged if the text does not show as many steps as it has."""
    bare = _STRING_OR_COMMENT.sub(lambda found: " " * len(found[0]), text)
    lines = [bare.count("\n", 0, found.start()) + 1 for found in _STEP.finditer(bare) if found[1] in _FIRST_KEYS]
    if len(lines) != sum(1 for role in scenario.roles for _ in walk(role.program)):
        return scenario
    left = iter(lines)
    roles = tuple(dataclasses.replace(role, program=tuple(_with_lines(role.program, left))) for role in scenario.roles)
    return dataclasses.replace(scenario, roles=roles)


def _with_lines(program: tuple[Step, ...], left: Iterator[int]) -> Iterator[Step]:
    for step in program:
        line = next(left)
        yield dataclasses.replace(step, line=line, body=tuple(_with_lines(step.body, left)))
