"""The built-in scenarios, and how the command line names a scenario."""

import re
import tomllib
from pathlib import Path

from headway.errors import ScenarioError
from headway.sim.parse import parse, read
from headway.sim.scenario import Scenario
from headway.sim.table import nearest

__all__ = ["load", "names", "text", "titles"]

_FOLDER = Path(__file__).with_name("builtin")


def names() -> list[str]:
    """Return the names of the built-in scenarios: T1 to T13 last, in their order."""

    def order(name: str) -> tuple[int, str]:
        case = re.match(r"t(\d+)", name)
        return (int(case[1]) if case else 0, name)

    return sorted((path.stem for path in _FOLDER.glob("*.toml")), key=order)


def titles() -> dict[str, str]:
    """Return the title of each built-in scenario, by its name."""
    return {name: tomllib.loads(text(name))["title"] for name in names()}


def text(name: str) -> str:
    """Return the text of a built-in scenario's file. Raises ScenarioError."""
    if name not in names():
        path = "; the path of a scenario's file ends in .toml, or has a slash"
        raise ScenarioError(f"there is no built-in scenario {name!r}", hint=nearest(name, names()) + path)
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def load(choice: str) -> Scenario:
    """Return the built-in scenario of that name, or the one in the file at that path.

    A choice that has a slash, or that ends in `.toml`, is a path.

    Raises:
        ScenarioError: There is no such scenario, or it makes no sense.
    """
    if "/" in choice or choice.endswith(".toml"):
        return read(Path(choice))
    return parse(text(choice), name=choice, source=f"{choice}.toml")
