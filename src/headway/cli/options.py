"""Arguments that several commands share."""

import argparse
from pathlib import Path

__all__ = ["add_json", "add_run", "add_store"]


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
