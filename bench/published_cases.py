"""Rebuild two published cases: the reported figures, the predictions of built-in scenarios, and a real program here.

rustypot#125: a bus of motors is polled by calls that hold the GIL (376 Hz) or release it (119 Hz), beside a thread that
spins; alone, the bus reaches about 600 Hz. sglang#26693: the loss of a spinning thread beside two loops that poll, at
four switch intervals. The files of the scenarios (`headway simulate --show rustypot`) say what the reports leave open.
Here the bus is a call of usleep(3), the query after a transfer is a call into C of 42 us, and the machine is this one.
So the mechanism agrees, and the exact figures need not. The predictions are made before the first launch, from a
calibration taken just before.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from headway.lab import discover, select
from headway.sim import calibration, library, machine
from headway.sim.parameters import change
from headway.sim.run import Job, run_all

WORKLOAD = Path(__file__).with_name("published_cases_workload.py")
PATIENCE_S = 60


@dataclasses.dataclass(frozen=True)
class Case:
    """A published figure of a scenario at a switch interval.

    `figure` is "pieces", a second, or what is "left" to the spinning thread or "lost" by it, in percent.
    """

    scenario: str
    interval_s: float
    figure: str
    published: str
    alone: str = ""

    @property
    def name(self) -> str:
        """The name of the case in words."""
        words = {
            "pieces": "polls a second",
            "left": "left to the spinning thread, %",
            "lost": "lost by the spinning thread, %",
        }
        return f"{self.scenario}, {self.interval_s * 1e3:g} ms{', alone' if self.alone else ''}: {words[self.figure]}"


CASES = (
    Case("rustypot-holds", 0.005, "pieces", "about 600", alone="poll"),
    Case("rustypot-holds", 0.005, "pieces", "376"),
    Case("rustypot-holds", 0.005, "left", "48"),
    Case("rustypot", 0.005, "pieces", "119, 126"),
    Case("rustypot", 0.005, "left", "94 to 96"),
    Case("sglang", 50e-6, "lost", "29.5 to 30.5"),
    Case("sglang", 200e-6, "lost", "20.5 to 22 (used)"),
    Case("sglang", 0.001, "lost", "4.8 to 6.8"),
    Case("sglang", 0.005, "lost", "-0.7 to 0"),
)
SPINS = {"rustypot": "spin", "rustypot-holds": "spin", "sglang": "victim"}
POLLS = {"rustypot": "bus", "rustypot-holds": "bus", "sglang": "poll"}

Told = dict[str, float]
"""Pieces of what polls and work of what spins, a second each; work alone is 1 in the simulator."""


def simulated(case: Case, costs: machine.Costs, seeds: int, cores: int | None) -> list[Told]:
    """Return the result of each seed."""
    scenario = change(library.load(case.scenario), "switch_interval_s", str(case.interval_s))
    scenario = change(scenario, "cores", str(cores)) if cores is not None else scenario
    if case.alone:
        scenario = change(scenario, f"{SPINS[case.scenario]}.threads", "0")
    found = []
    for ran in run_all([Job(scenario, costs, seed) for seed in range(1, seeds + 1)]):
        parts = {one.name: one for one in ran.outcome.parts}
        found.append({"pieces": parts[POLLS[case.scenario]].done_per_s, "work": parts[SPINS[case.scenario]].work_share})
    return found


def launched(python: str, case: Case, seconds: float, alone: str = "") -> Told:
    """Launch the program once and return its figures."""
    command = [python, str(WORKLOAD), case.scenario, str(seconds), str(case.interval_s), *([alone] if alone else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + PATIENCE_S, check=True)
    told: Told = json.loads(done.stdout.splitlines()[-1])
    return told


def figure(case: Case, told: Told, alone: float) -> float:
    """Return a case's figure from the program's figures, and the work of the spinning thread alone."""
    if case.figure == "pieces":
        return told["pieces"]
    left = 100 * told["work"] / alone
    return left if case.figure == "left" else 100 - left


def span(values: list[float]) -> str:
    """Return the median and the range of the values, as text."""
    return f"{statistics.median(values):.3g} [{min(values):.3g}, {max(values):.3g}]"


def main() -> int:
    """Predict and measure each case, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5, help="of each case (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="that a launch is measured for (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="of the simulator (default: %(default)s)")
    parser.add_argument("--python", default="3.13", help="the interpreter (default: %(default)s)")
    parser.add_argument("--calibrate", type=float, default=10.0, help="seconds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    options = parser.parse_args()
    python = select(discover()[0], [options.python])[-1]
    taken = calibration.measure(seconds=options.calibrate, interpreters=[python])
    costs = machine.from_json(taken.to_json(), "this machine's, just now")
    cores = len(os.sched_getaffinity(0))
    here = [[figure(one, told, 1.0) for told in simulated(one, costs, options.seeds, cores)] for one in CASES]
    there = [[figure(one, told, 1.0) for told in simulated(one, costs, options.seeds, None)] for one in CASES]
    measured: list[list[float]] = [[] for _ in CASES]
    for _ in range(options.launches):
        for place, case in enumerate(CASES):
            # Launched next to each other: the speed of the spinning thread alone changes with the machine from minute
            # to minute.
            alone = (
                launched(python.executable, case, options.seconds, "spin")["work"] if case.figure != "pieces" else 1.0
            )
            told = launched(python.executable, case, options.seconds, case.alone)
            measured[place].append(figure(case, told, alone))
    print(f"{'':58} {'published':>18} {'predicted, its cores':>22} {'predicted, ours':>22} {'measured':>22}")
    for case, theirs, ours, real in zip(CASES, there, here, measured, strict=True):
        print(f"{case.name:58} {case.published:>18} {span(theirs):>22} {span(ours):>22} {span(real):>22}")
    if options.json is not None:
        rows = [
            {"case": dataclasses.asdict(case), "predicted": ours, "predicted, its cores": theirs, "measured": real}
            for case, theirs, ours, real in zip(CASES, there, here, measured, strict=True)
        ]
        options.json.write_text(json.dumps({"cases": rows, "calibration": taken.to_json()}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
