"""Arguments that several commands share."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

__all__ = ["add_json", "add_run", "add_store", "seconds"]


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def add_store(parser: argparse.ArgumentParser) -> None:
    """`--store FILE`."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the results store (default: $HEADWAY_STORE, else in the user's data folder)",
    )


def add_run(parser: argparse.ArgumentParser, name: str, *, default: str | None) -> None:
    """A positional argument that names a run."""
    text = "a run: its id or the beginning of it, `last`, or `last~N`"
    if default is None:
        parser.add_argument(name, metavar=name.upper(), help=text)
    else:
        parser.add_argument(name, metavar=name.upper(), nargs="?", default=default, help=f"{text} (default: {default})")


def seconds(least: float) -> Callable[[str], float]:
    """Return the type of an argument that is a time in seconds, `least` or more."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < 1e7:  # not so for NaN
            raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from {least:g} on")
        return value

    return parse
