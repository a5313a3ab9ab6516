"""Measure a program with thousands of live threads: bare, traced and scheduled, in turns.

The program has threads that wake twice a second, and a bystander that releases the GIL and acquires it again as often
as possible. Each launch is a fresh process, started from the command line as a user would start it. A block has one
launch each way, in random order. Figures are ratios to bare by blocks, with their intervals. Target: at least 0.9 of
the rounds of bare, and a worst wait of at most twice that of bare. If the machine cannot start so many threads, the
limits that may be the reason are printed.

With many thousands of threads, the bare program itself stalls in some launches and not in others. A launch has stalled
if it did not finish, or made less than a quarter of the rounds of the best bare launch. These launches are counted. If
a bare launch has stalled, no ratio gives a verdict.
"""

import argparse
import contextlib
import json
import math
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.host.interpreters import Interpreter
from headway.lab import discover, select
from headway.lab.stats import Interval, paired_ratio_interval

WORKLOAD = Path(__file__).with_name("crowd_workload.py")
HEADWAY = Path(sys.executable).with_name("headway")
BARE = "bare"
WAYS = {
    "traced": [str(HEADWAY), "trace", "--no-summary", "-o", "{trace}", "--"],
    "run": [str(HEADWAY), "run", "--policy", "fair", "--"],
}
THREADS = (1000, 4000, 4400, 16500)
LEAST_ROUNDS = 0.9
MOST_WORST = 2.0
STILL = 0.25


@dataclass
class Launch:
    """The results of one process; `rounds` is 0 if it did not finish."""

    started: int
    rounds: int
    worst_ns: int
    said: list[str]
    failure: str = ""


def launch(interpreter: Interpreter, way: str, threads: int, seconds: float, limit_s: float) -> Launch:
    """Run the program once, one way."""
    with tempfile.TemporaryDirectory(prefix="headway-crowd-") as folder:
        before = [part.format(trace=Path(folder) / "crowd.hwt") for part in WAYS.get(way, [])]
        command = [*before, interpreter.executable, str(WORKLOAD), str(threads), str(seconds)]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_"))}
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        failure = ""
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            failure = f"not finished after {limit_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if failure:
            out, errors = process.communicate()
        said = [line for line in errors.splitlines() if line and not line.startswith("recording into")]
        try:
            found = json.loads(out.splitlines()[-1]) if not failure else {}
        except (IndexError, ValueError):
            failure, found = f"it ended with {process.returncode} and no figure", {}
        return Launch(found.get("started", 0), found.get("rounds", 0), found.get("worst_ns", 0), said, failure)


def limits() -> dict[str, str]:
    """Return the limits on threads of the machine and of this process."""
    found = {
        "ulimit -u": shown_limit(resource.getrlimit(resource.RLIMIT_NPROC)[0]),
        "ulimit -v": shown_limit(resource.getrlimit(resource.RLIMIT_AS)[0]),
    }
    for name in ("kernel.threads-max", "kernel.pid_max", "vm.max_map_count"):
        with contextlib.suppress(OSError):
            found[name] = Path("/proc/sys", *name.split(".", 1)).read_text().strip()
    with contextlib.suppress(OSError, StopIteration):
        # A line is "N:pids:/path" in cgroup v1, and "0::/path" in v2.
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        number, _, path = next(row for row in rows if "pids" in row[1].split(",") or row[0] == "0")
        root = "/sys/fs/cgroup" if number == "0" else "/sys/fs/cgroup/pids"
        found["pids.max"] = Path(f"{root}{path}/pids.max").read_text().strip()
    return found


def shown_limit(value: int) -> str:
    """Return a resource limit as the shell prints it."""
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def ratio(launches: dict[str, list[Launch]], way: str, figure: str) -> Interval | None:
    """Return the ratio of a figure to bare by blocks; None if a launch has no such figure."""
    pairs = [
        (float(getattr(one, figure)), float(getattr(other, figure)))
        for one, other in zip(launches[way], launches[BARE], strict=True)
    ]
    return paired_ratio_interval(pairs) if all(one > 0 and other > 0 for one, other in pairs) else None


def stood_still(found: list[Launch], best: int) -> int:
    """Return how many launches stalled, given the rounds of the best bare launch."""
    return sum(bool(one.failure) or one.rounds < STILL * best for one in found)


def said_of(interval: Interval | None) -> str:
    """Return an interval as a cell of the table."""
    if interval is None:
        return "-"
    high = "?" if math.isinf(interval.high) else f"{interval.high:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {high}]"


def is_missed(rounds: Interval | None, worst: Interval | None, failures: list[str]) -> bool:
    """Return whether a target is missed beyond doubt."""
    return (
        bool(failures)
        or (rounds is not None and rounds.high < LEAST_ROUNDS)
        or (worst is not None and worst.low > MOST_WORST)
    )


def held(rounds: Interval | None, worst: Interval | None) -> str:
    """Return the verdict on intervals that do not miss a target beyond doubt."""
    within = rounds is not None and rounds.low >= LEAST_ROUNDS and worst is not None and worst.high <= MOST_WORST
    return "within its targets" if within else "undecided: an interval crosses a target"


def measure(interpreter: Interpreter, threads: int, arguments: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Measure with this number of threads, and print and return the figures, and whether a target is missed."""
    launches: dict[str, list[Launch]] = {way: [] for way in (BARE, *WAYS)}
    for block in range(arguments.launches):
        for way in random.sample(list(launches), len(launches)):
            done = launch(interpreter, way, threads, arguments.seconds, arguments.limit)
            launches[way].append(done)
            print(
                f"{threads} threads, block {block + 1}: {way}: {done.failure or f'{done.rounds} rounds'}",
                file=sys.stderr,
                flush=True,
            )
    missed = False
    started = min((one.started for one in launches[BARE] if not one.failure), default=threads)
    if started < threads:
        told = ", ".join(f"{name} {value}" for name, value in limits().items())
        print(f"only {started} of {threads} threads could be started; limits: {told}")
    best = max(one.rounds for one in launches[BARE])
    bare_stood = stood_still(launches[BARE], best)
    rows = {}
    for way, found in launches.items():
        failures = [one.failure for one in found if one.failure]
        said = sorted({re.sub(r"\d+", "N", line) for one in found for line in one.said})
        stood = stood_still(found, best)
        rounds = ratio(launches, way, "rounds") if way != BARE else None
        worst = ratio(launches, way, "worst_ns") if way != BARE else None
        over = way != BARE and not bare_stood and is_missed(rounds, worst, failures)
        missed |= over
        rows[way] = {
            "launches": [asdict(one) for one in found],
            "rounds": rounds and asdict(rounds),
            "worst": worst and asdict(worst),
            "stood_still": stood,
            "missed": over,
        }
        counted = [one for one in found if not one.failure]
        figures = (
            f"{statistics.median(one.rounds for one in counted):>9,.0f}"
            f"{statistics.median(one.worst_ns for one in counted) / 1e6:>11.1f}"
            if counted
            else f"{'-':>9}{'-':>11}"
        )
        if way == BARE:
            verdict = ""
        elif bare_stood:
            verdict = "undecided: bare itself stood still"
        else:
            verdict = "MISSED" if over else held(rounds, worst)
        if stood:
            verdict += f"  stood still in {stood} of {len(found)} launches"
        print(
            f"{threads:>7} {way:<8}{figures}  {said_of(rounds):<22}{said_of(worst):<22}{verdict}  {'; '.join(failures)}"
        )
        for line in said:
            print(f"{'':16}it said: {line}")
    sys.stdout.flush()
    return rows, missed


def main() -> int:
    """Print a row for each number of threads and way; return 1 if a target is missed beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13", help="which (default: %(default)s)")
    parser.add_argument("--threads", nargs="+", type=int, default=list(THREADS), help="(default: %(default)s)")
    parser.add_argument("--launches", type=int, default=5, help="a side, 2 at least (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="counted in a launch (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=100.0, metavar="S", help="of a launch (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all launches into this file, too")
    arguments = parser.parse_args()
    if arguments.launches < 2:
        parser.error(f"--launches is {arguments.launches}, expected 2 at least: else there is no interval")
    (interpreter,) = select(discover()[0], [arguments.interpreter])
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{interpreter.name}, {arguments.launches} launches a side, load averages {load}")
    print(f"{'threads':>7} {'way':<8}{'rounds':>9}{'worst ms':>11}  {'rounds to bare':<22}{'worst to bare':<22}")
    found, missed = {}, False
    for threads in arguments.threads:
        found[threads], over = measure(interpreter, threads, arguments)
        missed |= over
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"limits": limits(), "threads": found}, indent=1) + "\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
