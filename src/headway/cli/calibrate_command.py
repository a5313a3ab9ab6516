"""Measure what this machine's operations cost, for simulations (half a minute).

The operations are wake-ups, futexes, timers, sockets, the kernel's tick, and
the work of interpreters. Each is measured in several rounds, so that the table
shows how much a figure changes from round to round.

Simulations use the calibration in the cache folder. They make a new one if
there is none, or if it is from another machine, kernel or number of cores, or
is 30 days old. Calibrate while nothing else runs, and close in time to the
program that you want to predict: on a virtual machine two calibrations may
differ by a factor of two.
"""

import argparse
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console
from headway.cli.options import add_json, seconds
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.report import Table
    from headway.sim.calibration import Calibration

__all__ = ["prepare", "run"]

_FAR = 10
_LEAST_S, _USUAL_S, _MOST_S = 1.0, 30.0, 600.0


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_json(parser)
    parser.add_argument(
        "--seconds",
        type=seconds(_LEAST_S, below=_MOST_S),
        default=_USUAL_S,
        metavar="S",
        help=f"approximate duration, without the start of interpreters (default: {_USUAL_S:g})",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the calibration to FILE instead of the cache folder"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")


def run(arguments: argparse.Namespace) -> int:
    """Measure the costs, write the calibration, and print it."""
    from headway.sim import calibration

    console.check_output(arguments.output, force=arguments.force)
    path = arguments.output or calibration.default_path()
    if not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"the folder {path.parent} cannot be written",
            hint="set XDG_CACHE_HOME to a folder that you may write to, or name a file with `-o`",
        )
    made = calibration.measure(console.say, seconds=arguments.seconds)
    calibration.save(made, path)
    console.say(f"kept in {path}")
    if arguments.json:
        console.print_json(made.to_json())
        return 0
    from headway.report import render_table

    console.print_rendered(render_table(_costs(made)))
    console.print_rendered(render_table(_interpreters(made)))
    return 0


def _costs(made: "Calibration") -> "Table":
    from headway.report import Table
    from headway.report.figures import seconds as shown
    from headway.sim.costs import ABOUT

    rows = []
    for name, values in made.costs.items():
        ends = made.spread.get(name)
        rows.append(
            (
                name,
                ABOUT[name],
                shown(statistics.median(values) / 1e9),
                "-" if len(values) == 1 else f"{shown(values[0] / 1e9)} - {shown(values[-1] / 1e9)}",
                "assumed" if ends is None else f"{_percent(ends[0])} {_percent(ends[1])}",
            )
        )
    machine = made.machine
    caption = (
        f"Costs on {machine['cpu']}, cores: {machine['cores']}, Linux {machine['kernel']}, {made.taken_at}\n"
        f"tick {shown(made.tick_ns / 1e9)}, slice {shown(made.slice_ns / 1e9)}, migration {shown(made.migration_ns / 1e9)}\n"
        "range: from the 5th to the 90th percentile, without values above four times the median; a constant has none\n"
        "rounds: the lowest and the highest median of a round, relative to the median of all rounds"
    )
    return Table(caption, ("cost", "", "median", "range", "rounds"), tuple(rows), names=2)


def _percent(share: float) -> str:
    """Return the deviation of a ratio from 1 as text; a round beside other programs may deviate by any amount."""
    return f"{(share - 1) * 100:+.0f} %" if share < _FAR else "far above"


def _interpreters(made: "Calibration") -> "Table":
    from headway.report import Table
    from headway.report.figures import seconds as shown

    rows = []
    for name, found in made.interpreters.items():
        slow = found["slow_down"]
        rows.append((name, shown((found["loop_ns"] or 0.0) / 1e9), "-" if slow is None else f"{slow * 100:.0f} %"))
    caption = "CPython: one turn of a loop, and how much longer it takes for each additional thread without a GIL"
    return Table(caption, ("", "loop", "slow-down"), tuple(rows))
