"""Arguments that several commands share."""

import argparse
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["add_json", "add_run", "add_store", "count", "path", "seconds", "store_given", "time_s", "whole"]


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the option `--store FILE`."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the results store (default: $HEADWAY_STORE, else in the user's data folder)",
    )


def store_given(arguments: argparse.Namespace) -> str:
    """Return `--store FILE` for a command that the user may paste, with a blank before it; "" if it was not given."""
    return "" if arguments.store is None else f" --store {shlex.quote(str(arguments.store))}"


_UNITS_S: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""The units of times. Of two that a text ends in, the longer one comes first."""


def add_run(parser: argparse.ArgumentParser, name: str, *, default: str | None) -> None:
    """Add a positional argument that names a run; without `default` it is required."""
    text = "a run: its id, the beginning of its id, `last`, or `last~N`"
    if default is None:
        parser.add_argument(name, metavar=name.upper(), help=text)
    else:
        parser.add_argument(name, metavar=name.upper(), nargs="?", default=default, help=f"{text} (default: {default})")


def count(text: str) -> int:
    """Return an argument as a whole number of at least 1. Raises argparse.ArgumentTypeError."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")


def time_s(text: str) -> float:
    """Return a time in seconds, from a number of seconds, or from a form such as `250ms`, `90s`, `10m` or `1h`; else NaN."""
    number = text.strip()
    unit = next((one for one in _UNITS_S if number.endswith(one)), "")
    try:
        return float(number.removesuffix(unit)) * _UNITS_S.get(unit, 1.0)
    except ValueError:
        return math.nan


def seconds(least: float = 0.0, *, above: bool = False, below: float = 1e7) -> Callable[[str], float]:
    """Return the type of an argument that is a time: at least `least` (with `above`: more than `least`), less than `below`.

    These are in seconds, as is the argument if it has no unit.
    """
    expected = f"above {least:g}" if above else f"of at least {least:g}"
    if below < math.inf:
        expected += f" and below {below:,.0f}"

    def parse(text: str) -> float:
        value = time_s(text)
        if not least <= value < below or (above and value == least):  # also refuses NaN
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number of seconds {expected}, nor such a time in a form such as 90s or 10m"
            )
        return value

    return parse


def path(text: str) -> Path:
    """Return an argument as a path: an empty text, as of a variable that is not set, is not the current folder.

    Raises:
        argparse.ArgumentTypeError: The text is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("the name is empty, expected a path")
    return Path(text)


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return the type of an argument that is a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return parse
