"""Compare the predictions of `headway whatif` for changes with the changed programs, on cells unknown to the model.

For each program (predictions_workload.py): (a) it is traced once, unchanged, under `headway trace`; (b) each change is
predicted from that trace and a calibration made just before; then (c) it is really launched with each change, several
times, in turns with the unchanged program in random order; (d) the predictions are judged, the largest errors first. A
program reports its own rate. The model predicts turns: a turn lasts from the request for the GIL to its release. So the
prediction is the ratio of turns with the change to the traced program's turns. This ratio times the traced program's
rate is compared with the rate of the changed program. The p99 is that of a turn, and is compared with traces of the
changed program, because a request may have several turns.

Cells whose own launches stay within 6 % (rate) and within a factor of 1.25 (p99) are judged by their error. The other
cells are judged by whether the 80 % interval covers all launches and is at most twice as wide. Peers, on cells with
another number of threads: Amdahl's law and the Universal Scalability Law, fitted to launches with 1, 3 and 6 CPU-bound
threads. They know more than the model, and the asked numbers of threads lie between those of the fit. Nothing here is
tuned to the results.
"""

import argparse
import dataclasses
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import predictions_judged as judged

from headway.errors import HeadwayError
from headway.lab import discover, select
from headway.sim import calibration, machine
from headway.sim.replay.change import NOTHING, Change
from headway.sim.replay.fit import model_of
from headway.sim.replay.learn import learn
from headway.sim.whatif import RolePrediction, cores_of, predict
from headway.traces.reader import read

WORKLOAD = Path(__file__).with_name("predictions_workload.py")
ROLE, BUSY = "main", "cpu"
PATIENCE_S = 60
FITTED = (1, 3, 6)
"""Threads that compute, of the launches that the laws are fitted to."""
POLICIES = ("none", "fair", "priority")


@dataclasses.dataclass(frozen=True)
class Program:
    """A program: its workload, the CPU-bound threads beside it, and whether it and its client have a core each."""

    workload: str
    cpu: int = 1
    split: bool = False
    one_core: bool = False
    """It may be changed to run on one core: it has no client that would share it."""


@dataclasses.dataclass(frozen=True)
class Changed:
    """A change, as parameters of the model and of a launch."""

    change: Change = NOTHING
    policy: str = "none"
    interval_s: float | None = None
    cpu: int | None = None
    one_core: bool = False


PROGRAMS = {
    "echo, split": Program("echo", split=True),
    "echo": Program("echo"),
    "UDP, split": Program("udp", split=True),
    "pool, split": Program("pool", split=True),
    "queue": Program("queued", one_core=True),
    "sleepers": Program("sleepers", one_core=True),
    "sleepers, 2 compute": Program("sleepers", cpu=2),
    "hashlib": Program("hashes", one_core=True),
    "lines": Program("lines", one_core=True),
    "asyncio, split": Program("streams", split=True),
    "zlib": Program("zips", one_core=True),
}

CHANGES = {
    "fair": Changed(Change(policy="fair"), policy="fair"),
    "priority": Changed(Change(policy="priority"), policy="priority"),
    "0.5 ms": Changed(Change(interval_ns=500_000), interval_s=0.0005),
    "20 ms": Changed(Change(interval_ns=20_000_000), interval_s=0.02),
    "0 compute": Changed(Change(threads=((BUSY, 0),)), cpu=0),
    "2 compute": Changed(Change(threads=((BUSY, 2),)), cpu=2),
    "4 compute": Changed(Change(threads=((BUSY, 4),)), cpu=4),
    "1 core": Changed(Change(cores=1), one_core=True),
}
QUICK = [(program, change) for program in ("echo, split", "sleepers") for change in ("fair", "0.5 ms", "4 compute")]


def cells() -> list[tuple[str, str]]:
    """Return every program with every change that it can have and that changes something."""
    return [
        (name, change)
        for name, program in PROGRAMS.items()
        for change, told in CHANGES.items()
        if (not told.one_core or program.one_core) and told.cpu != program.cpu
    ]


class FailedError(Exception):
    """A launch printed no result."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """Starts fresh processes of programs."""

    python: str
    seconds: float
    cores: tuple[int, int]

    def launch(self, program: Program, changed: Changed, trace: Path | None = None) -> dict[str, float]:
        """Launch a program and return its own figures."""
        headway = [sys.executable, "-m", "headway"]
        command = [self.python]
        if changed.policy != "none":
            command = [*headway, "run", "--policy", changed.policy, "--python", self.python]
            command += [] if trace is None else ["--trace", str(trace)]
        elif trace is not None:
            command = [*headway, "trace", "--python", self.python, "-o", str(trace)]
        command += [str(WORKLOAD), program.workload, str(self.seconds)]
        command += ["--cpu", str(program.cpu if changed.cpu is None else changed.cpu)]
        command += [] if changed.interval_s is None else ["--interval", str(changed.interval_s)]
        command += ["--client-core", str(self.cores[1])] if program.split else []
        pinned = [self.cores[0]] if program.split or changed.one_core else list(os.sched_getaffinity(0))
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.seconds + PATIENCE_S,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, pinned),
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"{' '.join(command)}: it did not end") from None
        lines = done.stdout.splitlines()
        if done.returncode != 0 or not lines:
            raise FailedError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        told: dict[str, float] = json.loads(lines[-1])
        return told


def unnumbered(role: str) -> str:
    """Return a role under its name in the workload: `main *` is `main`."""
    return role.replace("*", "").strip()


def ratio(role: RolePrediction, figure: str) -> judged.Span | None:
    """Return a predicted figure over that of the trace, with its interval; None if the trace has too little of it."""
    span, seen = getattr(role, figure), getattr(role.measured, figure)
    return judged.Span(span.value, span.low, span.high).times(1 / seen) if span is not None and seen else None


def predicted(
    trace: Path, changes: list[Changed], costs: machine.Costs, seeds: int
) -> list[tuple[RolePrediction | None, tuple[str, ...]]]:
    """Return, for each change, its effect on the judged role, and why that may be wrong; computed as by the command."""
    recorded = read(trace)
    cores = cores_of(recorded)
    model = model_of(recorded, costs, cores=cores)
    found: list[tuple[RolePrediction | None, tuple[str, ...]]] = []
    for one in changes:
        try:
            made = predict(model, [one.change], costs, cores=cores, seeds=seeds)[0]
        except HeadwayError as error:
            found.append((None, (str(error),)))
            continue
        found.append((next((role for role in made.roles if unnumbered(role.role) == ROLE), None), made.outside))
    return found


def turn_p99_ns(trace: Path, costs: machine.Costs) -> float | None:
    """Return the p99 of a turn in a trace of the changed program, from the part that a model uses; None: too few."""
    found = learn(read(trace), costs).measured
    one = next((one for role, one in found.items() if unnumbered(role) == ROLE), None)
    return one.p99_ns if one is not None and one.turns >= judged.LEAST_PIECES else None


def measured(
    launcher: Launcher,
    program: Program,
    sides: dict[str, Changed],
    options: argparse.Namespace,
    draw: random.Random,
    turn_p99: Callable[[Path], float | None],
) -> tuple[dict[str, list[dict[str, float]]], dict[str, list[float | None]]]:
    """Return the figures of each side's launches, and the p99 of turns in the traced launches.

    All sides of a block are launched next to each other.
    """
    told: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    turns: dict[str, list[float | None]] = {side: [] for side in sides}
    for block in range(options.launches):
        for side in draw.sample(list(sides), len(sides)):
            told[side].append(launcher.launch(program, sides[side]))
            if block < options.traced and side in CHANGES:
                with tempfile.TemporaryDirectory(prefix="predictions-") as folder:
                    launcher.launch(program, sides[side], Path(folder, "changed.hwt"))
                    turns[side].append(turn_p99(Path(folder, "changed.hwt")))
    return told, turns


def rate_outcome(
    role: RolePrediction | None, traced: dict[str, float], after: list[dict[str, float]]
) -> judged.Outcome | None:
    """Return a predicted rate in the program's own unit, with its launches; None if one of them did nothing."""
    span = ratio(role, "turns_per_s") if role is not None else None
    if span is None or any(one["pieces"] < 1 for one in (traced, *after)):
        return None
    return judged.Outcome(span.times(traced["rate"]), tuple(one["rate"] for one in after), judged.RATE_BOUND)


def p99_outcome(role: RolePrediction | None, turns: list[float | None]) -> judged.Outcome | None:
    """Return the predicted p99 of a turn in seconds, with traced launches; None if one of these has too few turns."""
    span = None if role is None else role.p99_ns
    known = [one for one in turns if one is not None]
    if span is None or not turns or len(known) < len(turns):
        return None
    predicted = judged.Span(span.value, span.low, span.high).times(1e-9)
    return judged.Outcome(predicted, tuple(one * 1e-9 for one in known), judged.P99_BOUND)


def laws(program: Program, told: dict[str, list[dict[str, float]]], changed: Changed) -> dict[str, float]:
    """Return both laws' rates with another number of threads; N counts the CPU-bound threads, and all others as one."""
    if changed.cpu is None or changed.cpu == 0:
        return {}
    points = [
        (count + 1, statistics.median(one["rate"] for one in told[_fit(program, count)]) or 1e-9) for count in FITTED
    ]
    return {
        "Amdahl's law": judged.amdahl(points, changed.cpu + 1),
        "the Universal Scalability Law": judged.usl(points, changed.cpu + 1),
    }


def _fit(program: Program, count: int) -> str:
    return "unchanged" if count == program.cpu else f"{count} compute, for the laws"


def one_program(
    name: str, changes: list[str], launcher: Launcher, options: argparse.Namespace, folder: Path
) -> tuple[list[judged.Cell], tuple[int, int], dict[str, Any]]:
    """Trace, predict, measure and judge one program. Stored launches are not measured again."""
    program, draw = PROGRAMS[name], random.Random(f"{options.seed} {name}")
    stem = f"{program.workload}-{program.cpu}-{'split' if program.split else 'free'}"
    trace, kept = folder / f"{stem}.hwt", folder / f"{stem}.json"
    raw: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if not raw:
        raw["traced"] = launcher.launch(program, Changed(), trace)
        # Calibrated beside the launches, because the costs of a shared machine change from minute to minute.
        taken = calibration.measure(seconds=options.calibrate, interpreters=select(discover()[0], [launcher.python]))
        raw["calibration"] = taken.to_json()
    costs = machine.from_json(raw["calibration"], "this machine's, just now")
    foretold = predicted(trace, [CHANGES[change] for change in changes], costs, options.seeds)
    if "told" not in raw:
        sides = {"unchanged": Changed(), **{change: CHANGES[change] for change in changes}}
        if any(CHANGES[change].cpu for change in changes):
            sides |= {_fit(program, count): Changed(cpu=count) for count in FITTED if count != program.cpu}
        raw["told"], raw["turn_p99_ns"] = measured(
            launcher, program, sides, options, draw, lambda trace: turn_p99_ns(trace, costs)
        )
        kept.write_text(json.dumps(raw))
    told = raw["told"]
    found = []
    ordered = {"none": (1.0, [one["rate"] for one in told["unchanged"]])}
    for change, (role, outside) in zip(changes, foretold, strict=True):
        after = told[change]
        rate = ratio(role, "turns_per_s") if role is not None else None
        if change in POLICIES and rate is not None:
            ordered[change] = (rate.value, [one["rate"] for one in after])
        found.append(
            judged.Cell(
                name,
                change,
                rate_outcome(role, raw["traced"], after),
                p99_outcome(role, raw["turn_p99_ns"][change]),
                laws(program, told, CHANGES[change]),
                outside,
            )
        )
    return found, judged.order(ordered), raw


def shown(one: judged.Outcome | None, scale: float = 1.0) -> str:
    """Return a prediction with its interval, the launches, and its error, as a cell of the table."""
    if one is None:
        return f"{'-':>48}"
    figures = [value * scale for value in (one.predicted.value, one.predicted.low, one.predicted.high, one.actual)]
    mark = ("off" if one.steady else "not covered") if not (one.held if one.steady else one.covers) else ""
    words = f"{figures[0]:,.4g} [{figures[1]:,.4g}, {figures[2]:,.4g}] was {figures[3]:,.4g}, x {one.error:.2f}"
    return f"{words + (' ' + mark if mark else ''):>48}"


def table(found: list[judged.Cell]) -> str:
    """Return the table of the cells, the largest errors first."""
    rows = [f"{'cell':28} {'rate, 1/s':>48}   {'p99, ms':>48}"]
    for one in judged.losses_first(found):
        rows.append(f"{one.name:28} {shown(one.rate)}   {shown(one.p99, 1e3)}")
        rows += [f"    outside the model: {why}" for why in one.outside]
    return "\n".join(rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, help="so many cells at most, drawn (default: all)")
    parser.add_argument("--launches", type=int, default=5, help="of each cell (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="that a launch is measured for (default: %(default)s)"
    )
    parser.add_argument(
        "--traced",
        type=int,
        default=3,
        help="launches of each cell that are traced, for the p99 (default: %(default)s)",
    )
    parser.add_argument("--only", action="append", default=[], help="only cells whose name has this; may be repeated")
    parser.add_argument("--quick", action="store_true", help="6 cells in two minutes")
    parser.add_argument("--python", default="3.13", help="the interpreter (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=9, help="of the simulator (default: %(default)s)")
    parser.add_argument(
        "--calibrate", type=float, default=10.0, help="seconds, for each program (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of launches (default: %(default)s)")
    parser.add_argument(
        "--keep",
        type=Path,
        help="keep traces, calibrations and launches in this folder; what is there of an earlier run is judged anew and not "
        "measured again, so these cells are no longer ones that the model was not made from",
    )
    parser.add_argument("--json", type=Path, help="write everything to this file")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the cells that the options select."""
    found = QUICK if options.quick else cells()
    if options.only:
        found = [one for one in found if any(word in ", ".join(one) for word in options.only)]
    if options.cells is not None and options.cells < len(found):
        drawn = set(random.Random(options.seed).sample(found, options.cells))
        found = [one for one in found if one in drawn]
    return found


def plain(found: list[judged.Cell]) -> list[dict[str, Any]]:
    """Return the cells as JSON values."""
    return [
        {
            **dataclasses.asdict(one),
            "rate_factor_of_error": one.rate and one.rate.error,
            "p99_factor_of_error": one.p99 and one.p99.error,
        }
        for one in found
    ]


def main() -> int:
    """Judge the chosen programs and print the table and the summary."""
    options = options_of()
    if options.quick:
        options.launches, options.seconds = min(options.launches, 3), min(options.seconds, 1.0)
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        print("it takes two cores")
        return 2
    python = select(discover()[0], [options.python])[-1].executable
    launcher = Launcher(python, options.seconds, (usable[0], usable[1]))
    of_programs: dict[str, list[str]] = {}
    for program, change in chosen(options):
        of_programs.setdefault(program, []).append(change)
    found: list[judged.Cell] = []
    wrong = told = 0
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="predictions-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, changes in of_programs.items():
            print(f"{name}: {', '.join(changes)}", file=sys.stderr, flush=True)
            try:
                of_one, (its_wrong, its_told), raw[name] = one_program(name, changes, launcher, options, folder)
            except (FailedError, HeadwayError) as error:
                print(f"{name} failed: {error}", flush=True)
                found += [judged.Cell(name, change, None, None, outside=(str(error),)) for change in changes]
                continue
            found += of_one
            wrong, told = wrong + its_wrong, told + its_told
    print(table(found))
    total = judged.summary(found, wrong, told)
    print("\n".join(f"{what:48} {'-' if value is None else f'{value:.3g}'}" for what, value in total.items()))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"summary": total, "cells": plain(found), "raw": raw}, default=_finite, indent=1)
        )
    return 0


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else str(value)


if __name__ == "__main__":
    sys.exit(main())
