"""Arguments that several commands share."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

__all__ = ["add_json", "add_run", "add_store", "count", "seconds", "whole"]


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


def seconds(least: float = 0.0, *, above: bool = False, below: float = 1e7) -> Callable[[str], float]:
    """Return the type of an argument in seconds: at least `least` (with `above`: more than `least`), less than `below`."""
    expected = f"above {least:g}" if above else f"of at least {least:g}"
    if below < math.inf:
        expected += f" and below {below:,.0f}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < below or (above and value == least):  # also refuses NaN
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds {expected}")
        return value

    return parse


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return the type of an argument that is a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return parse
