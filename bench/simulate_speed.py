"""Measure the speed of a simulation, in GIL events a second on one core, and time and memory of a what-if of a minute.

A GIL event is an event of a trace: the beginning of a wait, an acquire, a release, a request. Each scenario runs
several times in this process, pinned to one core. The fastest run counts, because the slower ones are slowed down by
the machine. The speed of a simulation is compared with the program that it simulates: the virtual time that passes in a
second. The what-if uses a trace of a minute that the simulator has made; each run of it is a fresh process. Targets: 5
million events a second; 2 s and 200 MB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headway.agent.headway_agent.proc import max_rss_bytes
from headway.native_sim import Simulation
from headway.sim import library, parameters
from headway.sim.compile import compile_scenario
from headway.sim.machine import Costs, load
from headway.sim.run import Job, run
from headway.sim.scenario import Scenario
from headway.traces.writer import write

TARGET_EVENTS_PER_S = 5e6
TARGET_S, TARGET_MB = 2.0, 200.0
SCENARIOS: tuple[tuple[str, dict[str, str]], ...] = (
    ("convoy", {"threads": "1"}),
    ("convoy", {"threads": "0"}),
    ("convoy", {"threads": "1", "policy": "fair", "placement": "free"}),
    ("convoy", {"threads": "4", "policy": "fair"}),
    ("t3", {}),
    ("t3", {"policy": "fair"}),
    ("t2", {"policy": "fair"}),
    ("ccbench-bandwidth", {"policy": "fair"}),
)


def scenario_of(name: str, changes: dict[str, str]) -> Scenario:
    """Return a built-in scenario with changes."""
    scenario = library.load(name)
    for key, value in changes.items():
        scenario = parameters.change(scenario, key, value)
    return scenario


def speed(name: str, changes: dict[str, str], costs: Costs, repeats: int) -> tuple[float, float, int]:
    """Return events a second, virtual seconds a second, and the number of events, of the fastest of several runs."""
    compiled = compile_scenario(scenario_of(name, changes), costs, 1, max_events=1)
    best_s, events = float("inf"), 0
    for _ in range(repeats):
        with Simulation(compiled.spec) as simulation:
            begun_s = time.perf_counter()
            simulation.run(compiled.spec.end_ns)
            best_s = min(best_s, time.perf_counter() - begun_s)
            events = 1 + simulation.events()[1]
    return events / best_s, compiled.spec.end_ns / 1e9 / best_s, events


def what_if(path: str) -> None:
    """Run the steps of `headway whatif TRACE --policy fair`, and print their time and memory as JSON."""
    from headway.sim.replay.change import Change
    from headway.sim.replay.fit import model_of
    from headway.sim.replay.window import read_window
    from headway.sim.whatif import predict

    begun_s = time.perf_counter()
    trace, whole = read_window(path)
    read_s = time.perf_counter() - begun_s
    costs = load("preset")
    predict(model_of(trace, costs, cores=1, whole=whole), [Change(policy="fair")], costs, cores=1)
    all_s = time.perf_counter() - begun_s
    memory_mb = max_rss_bytes() / 1e6
    print(json.dumps({"read_s": read_s, "all_s": all_s, "memory_mb": memory_mb}))


def minute(folder: Path, threads: str, costs: Costs) -> tuple[Path, int]:
    """Write the trace of a minute of the convoy; return its path and its number of events."""
    scenario = parameters.change(library.load("convoy"), "threads", threads)
    from dataclasses import replace

    trace = run(Job(replace(scenario, duration_ns=60_000_000_000), costs, 1, max_events=20_000_000)).trace
    assert trace is not None
    path = folder / f"convoy-{threads}.hwt"
    write(trace, path, short_holds=True)
    return path, len(trace.events)


def main() -> int:
    """Measure and print the figures; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--what-if", metavar="TRACE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what_if:
        what_if(arguments.what_if)
        return 0
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    costs = load("preset")
    missed = False
    speeds = []
    for name, changes in SCENARIOS:
        events_per_s, virtual_s, events = speed(name, changes, costs, arguments.repeats)
        speeds.append(events_per_s)
        words = " ".join(f"{key}={value}" for key, value in changes.items())
        print(
            f"{name + ' ' + words:44} {events_per_s / 1e6:5.2f} M events/s ({events:,}), {virtual_s:,.0f} virtual s/s"
        )
    print(
        f"{'the median scenario':44} {statistics.median(speeds) / 1e6:5.2f} M events/s, target {TARGET_EVENTS_PER_S / 1e6:g}"
    )
    missed |= statistics.median(speeds) < TARGET_EVENTS_PER_S
    with tempfile.TemporaryDirectory() as folder:
        for threads in ("1", "0"):
            path, events = minute(Path(folder), threads, costs)
            command = [sys.executable, __file__, "--what-if", str(path)]
            runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)]
            best = min(runs, key=lambda one: one["all_s"])
            memory_mb = max(one["memory_mb"] for one in runs)
            print(
                f"{'what-if, a minute, ' + threads + ' CPU-bound':44} {best['all_s']:.2f} s, of it reading {best['read_s']:.2f} s; "
                f"{memory_mb:.0f} MB ({events:,} events); targets {TARGET_S:g} s, {TARGET_MB:g} MB"
            )
            missed |= best["all_s"] > TARGET_S or memory_mb > TARGET_MB
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
