"""Run the cases in which GIL schedulers are known to fail, under each policy and without one, in fresh processes.

The cases come from the discussion of bpo-7946 and its patches, and from Ruby's scheduler:
  - T1 cpued (computes a little, then sleeps for no time), T2 many such threads, T3 tiny writes, T4 UDP, T6 fair.py
  - T7 small answers and the spread of wake-up times, T8 locks, T9 the loop of a GUI
  - T10 threads that change between computing and sleeping, T11 cores and a CPU quota
  - T12 Ctrl-C and long calls of C, T13 Ruby's sleeper and server
T5 is ccbench, which the lab has as experiments (`headway lab ccbench-...`). The "all compute" of T10 is T6.

A block is one launch of each policy, next to each other in random order. A figure is the median over the blocks, with
the interval of the sign test from 6 blocks on. Rates have a ratio to the rate of none, too. A max is the greatest value
of all. With fewer than a hundred times in a launch, the p99 is the max of the launch. Servers, and the CPU-bound
threads beside them, run on one core and the C client on another. A CPU quota is emulated, because a container's quota
needs rights that are seldom available: the whole process is stopped (SIGSTOP) for 60 ms of every 100.

Shares are of CPU time. If other programs use the cores, a thread may hold the GIL and not run. Policies count this time
as the thread's turn, but the share does not. So if the threads of T1 or T2 together (`cpu_of_time`) had less than 0.9
of a core, their shares describe the machine, and there is no verdict on them.

Exit status: 1 if a launch dies, hangs or writes anything to stderr (which a policy does when it is removed), or if
under `fair` the least share of T1 or T2 is below 0.8 of a fair share beyond doubt.
"""

import argparse
import dataclasses
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from doubt import median_interval

from headway.agent import AGENT_PATH
from headway.errors import HeadwayError
from headway.lab import discover, select
from headway.library import library_path
from headway.live.launch import scheduled_environment
from headway.native import policies

sys.path.insert(0, str(AGENT_PATH))
from headway_agent.load import LoadClient

WORKLOAD = Path(__file__).with_name("policy_cases_workload.py")
PATIENCE_S = 60
LEAST_OF_FAIR = 0.8
LEAST_OF_A_CORE = 0.9
LEAST_BLOCKS = 6
"""Below, the sign test has no 95 % interval."""
PAUSED_S, RUNNING_S = 0.06, 0.04
BETWEEN_INTERRUPTS_S = 0.02
NONE = "none"
PLACEMENTS = {0: "all cores", 1: "one core", 2: "two cores"}
SERVED = "server and threads on one core, client on another"


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of the table: the work that runs, and what its parent does to it."""

    group: str
    title: str
    work: str
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)
    cores: int = 0  # 0: all
    served: bool = False
    disturbance: str = ""

    @property
    def placement(self) -> str:
        """The name of the placement."""
        return SERVED if self.served else PLACEMENTS[self.cores]


CASES = [
    Case("T1", "2 compute, 1 computes 1 ms at a time", "shares", {"compute": 2, "fakes": 1, "burst_s": 0.001}),
    *(
        Case("T2", f"1 computes, {n} compute 0.8 ms at a time", "shares", {"compute": 1, "fakes": n, "burst_s": 0.0008})
        for n in (4, 16)
    ),
    *(
        Case("T3", f"tiny writes in {writers}, {compute} compute", "writes", {"writers": writers, "compute": compute})
        for writers, compute in ((1, 0), (1, 1), (1, 4), (4, 0))
    ),
    *(
        Case(
            "T4",
            f"UDP, {n:,} bytes, {c} compute",
            "datagrams",
            {"message_bytes": n, "compute": c},
            cores=1,
            served=True,
        )
        for n in (8192, 1)
        for c in (1, 4)
    ),
    *(Case("T6", f"{n} compute", "shares", {"compute": n}) for n in (2, 4, 8)),
    Case("T7", "TCP, answers in two parts, 1 computes", "small_answers", cores=1, served=True),
    Case("T7", "sleeps of 1 ms, 4 compute", "wakes", {"compute": 4}),
    Case("T8", "queue.Queue, 1 computes", "queued"),
    Case("T8", "turns by a Condition, 1 computes", "turns"),
    Case("T8", "a lock held for 5 ms of work, 2 compute", "inversion", {"hold_s": 0.005, "compute": 2}),
    Case("T9", "frames of 200 tiny calls, 1 computes", "frames", {"calls": 200}),
    Case("T10", "2 compute and sleep 50 ms each, 1 sleeps 1 ms", "flips", {"threads": 2, "half_s": 0.05}),
    Case("T10", "all I/O: 4 pairs echo", "echoes", {"pairs": 4}),
    Case("T11", "sleeps of 1 ms, 2 compute, one core", "wakes", {"compute": 2}, cores=1),
    Case("T11", "sleeps of 1 ms, 2 compute, two cores", "wakes", {"compute": 2}, cores=2),
    Case("T11", "sleeps of 1 ms, 2 compute, stopped 60 of 100 ms", "wakes", {"compute": 2}, disturbance="pause"),
    Case("T12", "Ctrl-C, 16 compute", "interrupts", {"compute": 16}, disturbance="interrupt"),
    *(
        Case("T12", f"sleeps of 1 ms, {title}", "hogs", {"hog": hog})
        for hog, title in (("collect", "gc.collect"), ("sort", "sorted"), ("search", "re.search"))
    ),
    Case("T13", "sleeps of 1 ms, 1 computes fib", "wakes", {"compute": 1, "unit": "fib"}),
    Case("T13", "HTTP, 1 computes fib", "pages", cores=1, served=True),
]
GROUPS = list(dict.fromkeys(case.group for case in CASES))


class LaunchError(Exception):
    """A launch died, hung, or wrote to stderr."""


@dataclasses.dataclass
class Bench:
    """The settings that all launches share."""

    executable: str
    seconds: float
    client: LoadClient

    def launch(self, case: Case, policy: str) -> dict[str, float]:
        """Return the figures of one fresh process. Raises LaunchError."""
        base = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_"))}
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))[: case.cores])
        with tempfile.TemporaryFile("w+") as complaints:
            process = subprocess.Popen(
                [
                    *(["taskset", "-c", cpus] if cpus else []),
                    *(self.executable, str(WORKLOAD), case.work, json.dumps(case.numbers), str(self.seconds)),
                ],
                env=scheduled_environment(None if policy == NONE else policy, base=base),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
            patience = threading.Timer(PATIENCE_S + self.seconds, process.kill)
            patience.start()
            figures, trouble = {}, ""
            try:
                with process:
                    try:
                        figures = self._attend(process, case)
                        process.wait()
                    finally:
                        patience.cancel()
                        process.kill()
            except OSError as error:  # raised by the load, or by a pipe to a process that died
                trouble = f": {error}"
            complaints.seek(0)
            said = complaints.read().strip()
            if process.returncode or trouble or said or not figures:
                raise LaunchError(f"exit code {process.returncode}{trouble}{': ' * bool(said)}{said[-900:]}")
        return figures

    def _attend(self, process: subprocess.Popen[str], case: Case) -> dict[str, float]:
        """Serve the requests of the process and disturb it, until it ends; return its figures."""
        assert process.stdin is not None
        assert process.stdout is not None
        figures: dict[str, float] = {}
        late_ms = []
        sent_ns = 0
        for line in process.stdout:
            message = json.loads(line)
            if "load" in message:
                figures.update(self._load(message["load"]))
                process.stdin.write("\n")
                process.stdin.flush()
            if case.disturbance == "pause" and "ready" in message:
                self._pause(process)
            if "interrupted_ns" in message:
                late_ms.append((message["interrupted_ns"] - sent_ns) / 1e6)
            if case.disturbance == "interrupt" and "figures" not in message:
                time.sleep(random.uniform(0, 2 * BETWEEN_INTERRUPTS_S))
                sent_ns = time.monotonic_ns()
                process.send_signal(signal.SIGINT)
            figures.update(message.get("figures", {}))
        if late_ms:
            figures = {"handler_p50_ms": statistics.median(late_ms), "handler_max_ms": max(late_ms), **figures}
        return figures

    def _load(self, load: dict[str, Any]) -> dict[str, float]:
        asked = {**load, "warmup_s": 0.05, "duration_s": self.seconds, "min_requests": 1, "timeout_s": 20.0}
        result = self.client.run(asked)
        if result["lost"] or not result["requests"]:
            raise OSError(f"{result['requests']} requests were answered, {result['lost']} lost")
        return {
            "requests_per_s": result["requests_per_s"],
            **{f"answer_{point}_ms": 1e3 * result[f"{point}_s"] for point in ("p50", "p99", "max")},
        }

    def _pause(self, process: subprocess.Popen[str]) -> None:
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            process.send_signal(signal.SIGSTOP)
            time.sleep(PAUSED_S)
            process.send_signal(signal.SIGCONT)
            time.sleep(RUNNING_S)


def figures_of(launches: list[dict[str, float]], bare: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Return each figure over the launches; rates also relative to `bare` in the same blocks. {} is a failed launch."""
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for launch in launches for name in launch):
        values = [launch[name] for launch in launches if name in launch]
        figure: dict[str, Any] = {"value": max(values) if name.endswith("_max_ms") else statistics.median(values)}
        if len(values) >= LEAST_BLOCKS and not name.endswith("_max_ms"):
            figure["low"], figure["high"] = median_interval(values)[1:]
        if name.endswith("_per_s"):
            pairs = [
                (ours[name], theirs.get(name)) for ours, theirs in zip(launches, bare, strict=True) if name in ours
            ]
            if ratios := [ours / theirs for ours, theirs in pairs if theirs]:
                figure["of_none"] = statistics.median(ratios)
        found[name] = {**figure, "launches": values}
    return found


def verdict(figures: dict[str, dict[str, Any]]) -> str:
    """Return "unfair" if the whole interval is below the limit, "undecided" if other programs had the cores, or ""."""
    if figures.get("least_of_fair", {}).get("high", 1) >= LEAST_OF_FAIR:
        return ""
    return "unfair" if figures["cpu_of_time"]["value"] >= LEAST_OF_A_CORE else "undecided"


def text(figure: dict[str, Any]) -> str:
    """Return a figure as a cell of the table."""

    def number(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

    said = number(figure["value"])
    if "low" in figure:
        said += f" [{number(figure['low'])}, {number(figure['high'])}]"
    return said + (f" {figure['of_none']:.2f}x" if "of_none" in figure else "")


def show(case: Case, found: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print a case: a line for each policy, a column for each figure."""
    names = list(dict.fromkeys(name for figures in found.values() for name in figures))
    rows = [["", *names]] + [
        [policy, *(text(figures[name]) if name in figures else "-" for name in names)]
        for policy, figures in found.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    print(f"\n{case.group} {case.title} ({case.placement})")
    for policy, *cells in rows:
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print(f"  {policy:{widths[0]}}  {line}", flush=True)


def main() -> int:
    """Print the cases; return 1 if a launch failed, or `fair` is not fair beyond doubt."""
    known = [one.name for one in policies()[0]]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=GROUPS, help="only this one; may be repeated")
    parser.add_argument("--policy", action="append", choices=known, help="beside none; may be repeated (default: all)")
    parser.add_argument("--interpreter", default="3.13", help="which (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=6, help="no interval below 6 (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a launch (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    arguments = parser.parse_args()
    if arguments.blocks < 1:
        parser.error(f"--blocks is {arguments.blocks}, expected 1 at least")
    if not 0.05 <= arguments.seconds <= 600:
        parser.error(f"--seconds is {arguments.seconds:g}, expected 0.05 to 600")
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        parser.error("only one core may be used, two are needed: one for a server and one for its client")
    try:
        interpreters = select(discover()[0], [arguments.interpreter])
    except HeadwayError as error:
        parser.error(f"--interpreter: {error}")
    if len(interpreters) != 1 or not interpreters[0].gil_enabled:
        parser.error(f"--interpreter is {arguments.interpreter!r}, expected one interpreter with a GIL")
    chosen = [NONE, *dict.fromkeys(arguments.policy or ["stock", "priority", "bfs", "fair"])]
    failures: list[dict[str, str]] = []
    verdicts: dict[str, list[str]] = {"unfair": [], "undecided": []}
    report: dict[str, Any] = {
        "interpreter": interpreters[0].name,
        "blocks": arguments.blocks,
        "seconds": arguments.seconds,
        "cores": cores,
        "load_averages": os.getloadavg(),
        "cases": [],
        "failures": failures,
        **verdicts,
    }
    if not arguments.json:
        load = ", ".join(f"{value:.1f}" for value in report["load_averages"])
        enough = arguments.blocks >= LEAST_BLOCKS
        print(
            f"{interpreters[0].name}, {cores} cores, {arguments.blocks} blocks of {arguments.seconds:g} s a launch, "
            f"load averages {load}{'' if enough else ', no intervals and no verdict on shares: fewer than 6 blocks'}"
        )
    with LoadClient(library_path(), [max(os.sched_getaffinity(0))]) as client:
        bench = Bench(interpreters[0].executable, arguments.seconds, client)
        for case in CASES:
            if arguments.case and case.group not in arguments.case:
                continue
            launches: dict[str, list[dict[str, float]]] = {policy: [] for policy in chosen}
            for _ in range(arguments.blocks):
                for policy in random.sample(chosen, len(chosen)):
                    try:
                        launches[policy].append(bench.launch(case, policy))
                    except LaunchError as error:
                        launches[policy].append({})
                        failures.append({"case": f"{case.group} {case.title}", "policy": policy, "why": str(error)})
                        print(f"failed: {case.group} {case.title}, {policy}: {error}", file=sys.stderr)
            found = {policy: figures_of(launches[policy], launches[NONE]) for policy in chosen}
            if case.group in ("T1", "T2") and (said := verdict(found.get("fair", {}))):
                verdicts[said].append(f"{case.group} {case.title}")
            report["cases"].append(
                {"case": case.group, "title": case.title, "placement": case.placement, "policies": found}
            )
            if not arguments.json:
                show(case, found)
    if arguments.json:
        print(json.dumps(report))
    for one in verdicts["unfair"]:
        print(f"missed: {one}: under fair, a thread has less than {LEAST_OF_FAIR} of a fair share", file=sys.stderr)
    for one in verdicts["undecided"]:
        print(f"undecided: {one}: the threads had less than {LEAST_OF_A_CORE} of a core", file=sys.stderr)
    return int(bool(failures or verdicts["unfair"]))


if __name__ == "__main__":
    sys.exit(main())
