"""Compare the costs of this Headway with those of another revision: both measured in turns, in one run.

    bench/against.py REVISION [--launches 5] [--only 'trace: echo*']

REVISION is checked out into a temporary work tree and built there as its own Makefile builds it (`make setup`). Then
each measure of `trace_overhead.py` and `policy_harm.py` is launched in blocks: old, old again and new, in random order.
Each launch uses the bench program and the library of its own build. A figure is the ratio to old by blocks, with its
interval (headway.lab.stats). "old again" is the same build under another name, so its gains and losses are noise.

A measure is "trace: WORK" (a process recorded from its start), "switch: WORK" (a process in which recording is switched
on and off) or "policy: WORK" (fair to none in one process). Every figure is better if it is greater. A loss is an
interval below 1 whose middle is below the interval of "old again"; losses are printed first. Of many figures, about one
of forty is a loss by chance: run those again with --only. Ctrl-C or SIGTERM ends the run; the figures until then are
printed.

Exit status: 0 no loss, 1 a loss, 2 it could not be measured, 130 or 143 ended by a signal.
"""

import argparse
import contextlib
import fnmatch
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from headway.lab.stats import Interval, paired_ratio_interval

ROOT = Path(__file__).resolve().parent.parent
SIDE = Path(__file__).with_name("against_side.py")
OLD, AGAIN, NEW = "old", "old again", "new"
FEWEST = 2


class Failed(Exception):  # noqa: N818  (a result that the user reads in a line, and no error of the program)
    """The reason why there is nothing to compare, in a sentence."""


class Ended(BaseException):
    """A signal asks the run to end; the argument is its number."""


@dataclass
class Row:
    """One figure of a measure, as ratios to old."""

    interpreter: str
    measure: str
    figure: str
    launches: int
    """A side."""
    again: Interval
    new: Interval

    @property
    def is_loss(self) -> bool:
        """Whether the new side is slower beyond doubt, and beyond noise."""
        return self.new.high < 1 and self.new.value < self.again.low


class Side:
    """A process that makes launches with one build."""

    def __init__(self, name: str, checkout: Path) -> None:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_", "VIRTUAL"))}
        python = checkout / ".venv" / "bin" / "python"
        self.name = name
        self.process = subprocess.Popen(
            [str(python), "-s", str(SIDE), str(checkout)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=checkout, start_new_session=True,  # a Ctrl-C reaches this program alone
        )  # fmt: skip
        self.ready = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the side {self.name!r} ended with {self.process.wait()}: its own words are above")
        found: dict[str, Any] = json.loads(line)
        return found

    def launch(self, **order: Any) -> dict[str, float]:
        """Make a launch; return its figures."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise Failed(f"{self.name}, {order['measure']}: {answer['error']}")
        found: dict[str, float] = answer["figures"]
        return found

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def built(revision: str) -> Iterator[Path]:
    """Yield a work tree of a revision, with an environment of its own in which it is built. Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="headway-against-") as folder:
        checkout = Path(folder) / "old"
        made = subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(checkout), revision],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode != 0:
            raise Failed(f"there is no work tree of {revision}: {(made.stderr.strip().splitlines() or ['?'])[-1]}")
        try:
            print(f"building {revision}", file=sys.stderr, flush=True)
            env = {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL"}}
            done = subprocess.run(["make", "-C", str(checkout), "setup"], stdout=sys.stderr, env=env, check=False)
            if done.returncode != 0:
                raise Failed(f"{revision} cannot be built: `make setup` ended with {done.returncode}")
            yield checkout
        finally:
            command = ["git", "-C", str(ROOT), "worktree", "remove", "--force", str(checkout)]
            subprocess.run(command, capture_output=True, check=False)


def rows_of(interpreter: str, measure: str, blocks: list[dict[str, dict[str, float]]]) -> list[Row]:
    """Return the ratios of a measure's figures, a row for each figure."""
    return [
        Row(
            interpreter,
            measure,
            figure,
            len(blocks),
            *(
                paired_ratio_interval([(block[side][figure], block[OLD][figure]) for block in blocks])
                for side in (AGAIN, NEW)
            ),
        )
        for figure in blocks[0][OLD]
    ]


def said(interval: Interval) -> str:
    """Return an interval as a cell of the table."""
    high = "?" if math.isinf(interval.high) else f"{interval.high:.3f}"
    return f"{interval.value:.3f} [{interval.low:.3f}, {high}]"


def table(rows: list[Row]) -> str:
    """Return the table: losses first, then the figures in the order of the new side's ratio."""
    form = "{:<6} {:<48} {:<26} {:>8}  {:<24} {:<24} {}"
    lines = [form.format("", "measure", "figure", "launches", "old again to old", "new to old", "")]
    for row in sorted(rows, key=lambda one: (not one.is_loss, one.new.value)):
        verdict = "LOSS" if row.is_loss else ""
        lines.append(
            form.format(
                row.interpreter, row.measure, row.figure, row.launches, said(row.again), said(row.new), verdict
            ).rstrip()
        )  # fmt: skip
    return "\n".join(lines)


def parse_command_line() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="what this checkout is compared with")
    parser.add_argument("--interpreter", nargs="+", default=["3.13"], metavar="3.X", help="(default: 3.13)")
    parser.add_argument("--launches", type=int, default=5, help=f"a side, {FEWEST} at least (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="only the measures like this, as 'trace: echo*'")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a trace's launch (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=12, help="of a policy's launch (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.launches < FEWEST:
        parser.error(f"--launches is {arguments.launches}, expected {FEWEST} at least: else there is no interval")
    return arguments


def end_on_signal(number: int, _frame: object) -> NoReturn:
    """Turn a signal into an exception, so that the work tree is removed and the figures until then are printed."""
    raise Ended(number)


def compare(arguments: argparse.Namespace) -> tuple[list[Row], int]:
    """Build, launch in turns; return the figures, and the signal that ended the run early or 0. Raises Failed."""
    ended_by = 0
    with built(arguments.revision) as checkout, contextlib.ExitStack() as stack:
        sides = {}
        for name, where in ((OLD, checkout), (AGAIN, checkout), (NEW, ROOT)):
            sides[name] = Side(name, where)
            stack.callback(sides[name].end)
            print(f"{name}: {sides[name].ready['library']}", file=sys.stderr, flush=True)
        common = [one for one in sides[NEW].ready["measures"] if one in sides[OLD].ready["measures"]]
        patterns = arguments.only or ["*"]
        chosen = [one for one in common if any(fnmatch.fnmatchcase(one, pattern) for pattern in patterns)]
        if not chosen:
            raise Failed(f"--only {' '.join(patterns)} is like no measure; there are {', '.join(common)}")
        jobs = [(interpreter, measure) for interpreter in arguments.interpreter for measure in chosen]
        blocks: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {job: [] for job in jobs}
        order = {"seconds": arguments.seconds, "rounds": arguments.rounds}
        try:
            for number in range(arguments.launches):
                for interpreter, measure in random.sample(jobs, len(jobs)):
                    print(
                        f"block {number + 1} of {arguments.launches}: {interpreter} {measure}",
                        file=sys.stderr, flush=True,
                    )  # fmt: skip
                    work = {**order, "measure": measure, "interpreter": interpreter}
                    blocks[interpreter, measure].append(
                        {name: sides[name].launch(**work) for name in random.sample(list(sides), len(sides))}
                    )
        except Ended as ended:
            ended_by = int(ended.args[0])
    enough = {job: found for job, found in blocks.items() if len(found) >= FEWEST}
    return [row for job, found in enough.items() for row in rows_of(*job, found)], ended_by


def main() -> int:
    """Print a row for each figure, losses first; return the exit status."""
    arguments = parse_command_line()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end_on_signal)
    try:
        rows, ended_by = compare(arguments)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 2
    except Ended as ended:
        return 128 + int(ended.args[0])
    if arguments.json:
        print(json.dumps([{**asdict(row), "is_loss": row.is_loss} for row in rows], indent=1))
    else:
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"against {arguments.revision}, load averages {load}{', ended early' if ended_by else ''}")
        print(table(rows))
    return 128 + ended_by if ended_by else int(any(row.is_loss for row in rows))


if __name__ == "__main__":
    sys.exit(main())
