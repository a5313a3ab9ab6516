"""Measure the cost of recording the GIL beside other tools: an echo server, CPU-bound threads, one thread.

Each launch is a fresh process of `trace_overhead_workload.py`, bare or under one tool. A block is one launch of each,
next to each other in random order. A figure is the median, over blocks, of the rate under the tool to the bare rate of
its block, with the interval of the sign test: a host that changes speed within a block spoils only that block. The echo
server stays on one core and the C client on another; the system places tools that sample from outside. The rate per
CPU-second of the process does not include the time that other processes took, nor the work of a tool in its own
process. That work is printed beside it, as the share of one core that the tool's own processes took. "headway on/off"
is one process for each block, in which recording is switched on and off: the median ratio of neighbours.

The other tools are installed into the cache (uv) when they are first needed. The row of a tool that is not available,
or fails, has the reason; if headway itself fails, its target is missed. "bare again" is a bare launch, too, so its losses are noise. Targets for headway: at most 3 %
of requests/s on the echo server at full speed, at most 1 % on four CPU-bound threads, and nothing measurable on one
thread.
"""

import argparse
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doubt import median_interval
from trace_overhead_tools import BARE, TOOLS, Failed, Tool, last_line

from headway.agent import AGENT_PATH
from headway.host.interpreters import Interpreter
from headway.lab import discover, select
from headway.library import library_path
from headway.live.collect import collecting
from headway.live.files import wait_until_finished

sys.path.insert(0, str(AGENT_PATH))
from headway_agent.load import LoadClient

WORKLOAD = Path(__file__).with_name("trace_overhead_workload.py")
PATIENCE_S = 60
WARMUP_S = 0.2
REQUEST = "x" * 64
WINDOW_S = 0.25  # in a shorter window, the cost of starting to record would dominate
SWITCHES = 8  # how often recording is switched on and off in a process
NOTHING = 0.01  # the upper end of an interval that counts as "nothing measurable"
MIN_PAIRS = 6  # with fewer, the sign test has no 95 % interval


@dataclass(frozen=True)
class Work:
    """A kind of work, and the part of its rate that headway may cost: 0 is nothing measurable, None is no target."""

    workload: str
    target: float | None
    connections: int = 0
    spinners: int = 0


WORKS = {
    "echo-1": Work("echo", 0.03, connections=1),
    "echo-4": Work("echo", 0.03, connections=4),
    "echo-1-busy": Work("echo", None, connections=1, spinners=1),
    "threads": Work("threads", 0.01),
    "single": Work("single", 0.0),
    "trips": Work("trips", None),
}
ABOUT = {
    "echo-1": "echo server, one connection at full speed",
    "echo-4": "echo server, four connections at full speed",
    "echo-1-busy": "echo server, one connection, beside a CPU-bound thread",
    "threads": "four CPU-bound threads",
    "single": "one thread that calls functions",
    "trips": "one thread that lets the GIL go and takes it back",
}


@dataclass
class Launch:
    """The figures of one process."""

    rate: float
    per_cpu_s: float
    own_mib: float
    """The most memory that the process itself had."""
    tool_mib: float
    """The same of the tool's own processes."""
    tool_cores: float
    """How many cores those took."""
    file_bytes_per_s: float
    ending_s: float
    """From being told to end to the end, the tool's included."""


def most_mib(pid: int) -> float:
    """Return the peak memory of a process (VmHWM), or 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time of processes so far; a process that has ended counts as 0."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime and stime: proc(5)
    return ticks / os.sysconf("SC_CLK_TCK")


class Talk:
    """A running process of the workload, over its socket."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self.process = process
        self._connection = connection
        self._lines = connection.makefile("r")
        self.ready = self.answer()

    def tell(self, **order: Any) -> None:
        """Send an order."""
        self._connection.sendall(json.dumps(order).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Wait for an answer."""
        said: dict[str, Any] = json.loads(self._lines.readline())
        return said

    def end(self) -> float:
        """End the process; return how long that took."""
        told = time.monotonic()
        self.tell()
        self.process.wait(PATIENCE_S)
        return time.monotonic() - told


class Bench:
    """Makes launches: has the load client, the cores, and the time of a measurement."""

    def __init__(self, client: LoadClient, cores: list[int], seconds: float, folder: Path) -> None:
        self.client = client
        self.cores = cores
        self.seconds = seconds
        self.folder = folder

    @contextlib.contextmanager
    def _started(self, tool: Tool, work: Work, interpreter: Interpreter) -> Iterator[tuple[Talk, Path]]:
        with tempfile.TemporaryDirectory(dir=self.folder) as name, socket.socket(socket.AF_UNIX) as listener:
            out = Path(name) / "out"
            listener.bind(f"{name}/socket")
            listener.listen(1)
            core = self.cores[0] if work.connections else -1
            arguments = [str(WORKLOAD), f"{name}/socket", work.workload, str(core), str(work.spinners)]
            command, more = tool.command(interpreter, arguments, out)
            said = Path(name) / "said"
            inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY"))}
            with said.open("w") as file:
                process = subprocess.Popen(
                    command, env={**inherited, **more}, stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
            try:
                with accepted(listener, process) as connection:
                    yield Talk(process, connection), out
            except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                raise Failed(last_line(said.read_text(errors="replace")) or str(error)) from error
            finally:
                process.kill()
                process.wait()

    def _measured(self, talk: Talk, work: Work, seconds: float) -> tuple[float, float]:
        """Return the rates, by the wall clock and per CPU-second of the process."""
        talk.tell(seconds=seconds)
        if not work.connections:
            done = talk.answer()
            return done["rate"], done["rate"] * done["elapsed_s"] / done["cpu_s"]
        warmup_s = min(WARMUP_S, seconds / 10)
        load = {"port": talk.ready["port"], "connections": work.connections, "request": REQUEST}
        load |= {"response_bytes": len(REQUEST), "warmup_s": warmup_s, "duration_s": seconds}
        rate = self.client.run(load)["requests_per_s"]
        talk.tell(stop=True)
        done = talk.answer()
        # The process counts its CPU time from before the warm-up; its rate is taken to be the same then.
        return rate, rate * (seconds + warmup_s) / done["cpu_s"]

    def launch(self, tool: Tool, work: Work, interpreter: Interpreter) -> Launch:
        """Run one process under one tool. Raises Failed."""
        with self._started(tool, work, interpreter) as (talk, out):
            pid = talk.ready["pid"]
            begun = time.monotonic()
            with tool.attached(interpreter, pid, out) as helpers:
                others = [*helpers, *([talk.process.pid] if talk.process.pid != pid else [])]
                cpu_before_s, measured = cpu_s(others), time.monotonic()
                rate, per_cpu_s = self._measured(talk, work, self.seconds)
                now = time.monotonic()
                traced_s = now - begun
                tool_cores = (cpu_s(others) - cpu_before_s) / (now - measured)
                own_mib = most_mib(pid)
                tool_mib = sum(most_mib(other) for other in others)
            ending_s = talk.end()
            wait_until_finished(out.with_suffix(".hwt"))
            written = list(out.parent.glob("out.*"))
            if tool.writes and not written:
                raise Failed("it wrote nothing")
            file_bytes = sum(path.stat().st_blocks * 512 for path in written)
        return Launch(rate, per_cpu_s, own_mib, tool_mib, tool_cores, file_bytes / traced_s, ending_s)

    def switch(self, work: Work, interpreter: Interpreter) -> tuple[float, float]:
        """Run one process in which headway is switched on and off; return the ratios of both rates, on to off.

        The ratios are medians over neighbours in time, in random order. Raises Failed.
        """
        ratios: list[tuple[float, float]] = []
        with self._started(BARE, work, interpreter) as (talk, out):
            for number in range(SWITCHES):
                rates: dict[bool, tuple[float, float]] = {}
                for on in random.sample([True, False], 2):
                    path = out.with_name(f"{number}.hwt")
                    with collecting(path, at_once=True) as door:
                        order = {"record": str(door.path) if on else "", "family": door.family}
                        talk.tell(**order, agent=str(AGENT_PATH), library=str(library_path()))
                        talk.answer()
                        rates[on] = self._measured(talk, work, max(WINDOW_S, self.seconds / 4))
                    if on:
                        path.unlink()
                ratios.append((rates[True][0] / rates[False][0], rates[True][1] / rates[False][1]))
            talk.end()
        return statistics.median(one for one, _ in ratios), statistics.median(other for _, other in ratios)


@contextlib.contextmanager
def accepted(listener: socket.socket, process: subprocess.Popen[bytes]) -> Iterator[socket.socket]:
    """Yield the connection of the process. Raises TimeoutError if the process ends instead."""
    listener.settimeout(0.5)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection, _ = listener.accept()
            break
        except TimeoutError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
    with connection:
        yield connection


def change(ratios: Sequence[float]) -> tuple[str, float, float]:
    """Return the loss of the rate, in percent with its interval, as text and as bounds of the loss."""
    value, low, high = median_interval(list(ratios))
    return f"{100 * (1 - value):+.1f} % [{100 * (1 - high):+.1f}, {100 * (1 - low):+.1f}]", 1 - high, 1 - low


def trip_ns(bare: Sequence[Launch], ratios: Sequence[float]) -> str:
    """Return the additional CPU time of a round trip, for work whose rate counts round trips."""
    bare_ns = 1e9 / statistics.median(launch.per_cpu_s for launch in bare)
    return f"  {bare_ns * (1 / statistics.median(ratios) - 1):+.0f} ns to {bare_ns:.0f} ns a round trip"


def verdict(target: float, least: float, most: float) -> tuple[str, bool]:
    """Return the verdict on a loss between `least` and `most`, and whether the target is missed."""
    if target == 0:
        if least > 0:
            return "MEASURABLE", True
        return ("nothing measurable" if most <= NOTHING else f"undecided: up to {most:.0%} could hide in it"), False
    if least > target:
        return f"NOT within {target:.0%}", True
    return (f"within {target:.0%}" if most <= target else f"undecided: the interval crosses {target:.0%}"), False


def rows(
    name: str,
    interpreter: Interpreter,
    done: dict[str, list[Launch]],
    switched: list[tuple[float, float]],
    failures: dict[str, str],
) -> bool:
    """Print the rows of one work on one interpreter; return whether headway misses its target, or fails."""
    work = WORKS[name]
    bare = done["bare"]
    low, middle, high = statistics.quantiles([launch.rate for launch in bare], n=4)
    what = "requests/s" if work.connections else "round trips/s" if work.workload == "trips" else "rounds/s"
    print(
        f"\n{interpreter.name} ({interpreter.version}) {name}: {ABOUT[name]}. Bare: {middle:,.0f} {what}, half of "
        f"{len(bare)} launches within {low:,.0f} and {high:,.0f} ({100 * (high - low) / middle:.1f} %)"
    )
    columns = f"{'MiB more':>9}{'its own: MiB':>13}{'cores':>7}{'kB/s':>9}{'end s':>7}"
    print(f"  {'tool':<19}{'lost':<26}{'lost per CPU-second':<26}{columns}")
    own_mib = statistics.median(launch.own_mib for launch in bare)
    missed = False
    for tool, launches in done.items():
        if tool == "bare":
            continue
        if tool in failures:
            missed |= tool == "headway"
            print(f"  {tool:<19}{failures[tool]}{'  MISSED' if tool == 'headway' else ''}")
            continue
        lost, least, most = change([one.rate / other.rate for one, other in zip(launches, bare, strict=True)])
        lost_cpu, _, _ = change([one.per_cpu_s / other.per_cpu_s for one, other in zip(launches, bare, strict=True)])
        line = f"  {tool:<19}{lost:<26}{lost_cpu:<26}"
        line += f"{statistics.median(one.own_mib for one in launches) - own_mib:>9.1f}"
        line += f"{statistics.median(one.tool_mib for one in launches):>13.1f}"
        line += f"{statistics.fmean(one.tool_cores for one in launches):>7.3f}"
        line += f"{statistics.median(one.file_bytes_per_s for one in launches) / 1e3:>9.0f}"
        line += f"{statistics.median(one.ending_s for one in launches):>7.2f}"
        if tool == "headway" and work.target is not None:
            text, over = verdict(work.target, least, most)
            missed |= over
            line += f"  {text}"
        if work.workload == "trips":
            line += trip_ns(bare, [one.per_cpu_s / other.per_cpu_s for one, other in zip(launches, bare, strict=True)])
        print(line)
    if switched:
        lost, least, most = change([one for one, _ in switched])
        lost_cpu, _, _ = change([other for _, other in switched])
        text, over = verdict(work.target, least, most) if work.target is not None else ("", False)
        missed |= over
        if work.workload == "trips":
            text = trip_ns(bare, [other for _, other in switched])
        print(f"  {'headway on/off':<19}{lost:<26}{lost_cpu:<26}{'':47}{text}")
    sys.stdout.flush()
    return missed


def measure(bench: Bench, name: str, interpreter: Interpreter, tools: Sequence[Tool], pairs: int) -> bool:
    """Run the blocks of one work on one interpreter and print them; return whether headway misses its target."""
    failures = {tool.name: why for tool in tools if (why := tool.why_not(interpreter))}
    sides = [BARE, *(tool for tool in tools if tool.name not in failures)]
    done: dict[str, list[Launch]] = {"bare": [], **{tool.name: [] for tool in tools}}
    switched = []
    for _ in range(pairs):
        random.shuffle(sides)
        for tool in list(sides):
            try:
                done[tool.name].append(bench.launch(tool, WORKS[name], interpreter))
                if tool is TOOLS["headway"]:
                    switched.append(bench.switch(WORKS[name], interpreter))
            except Failed as failure:
                if tool is BARE:
                    sys.exit(f"{interpreter.name}, {name}: the bare process failed: {failure}")
                failures[tool.name] = f"failed in launch {len(done[tool.name]) + 1}: {failure}"
                sides.remove(tool)
    return rows(name, interpreter, done, switched, failures)


def main() -> int:
    """Print a table for each work and interpreter; return 1 if headway misses a target beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", action="append", help="which; may be repeated (default: 3.13 and 3.15)")
    parser.add_argument("--work", action="append", choices=WORKS, help="only this one; may be repeated")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only this one; may be repeated")
    parser.add_argument("--pairs", type=int, default=20, help=f"blocks, {MIN_PAIRS} at least (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="measured in a launch (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where traces go meanwhile (default: the system's for temporaries)")
    arguments = parser.parse_args()
    if arguments.pairs < MIN_PAIRS:
        parser.error(f"--pairs: {MIN_PAIRS} at least, else there is no 95 % interval")
    interpreters = select(discover()[0], arguments.interpreter or ["3.13", "3.15"])
    tools = [TOOLS[name] for name in arguments.tool or TOOLS]
    cores = sorted(os.sched_getaffinity(0))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{arguments.pairs} blocks of {arguments.seconds:g} s a launch; {len(cores)} cores, load averages {load}")
    missed = False
    with (
        LoadClient(library_path(), [cores[-1]]) as client,
        tempfile.TemporaryDirectory(dir=arguments.folder, prefix="headway-bench-") as folder,
    ):
        bench = Bench(client, cores, arguments.seconds, Path(folder))
        for interpreter in interpreters:
            for name in arguments.work or WORKS:
                missed |= measure(bench, name, interpreter, tools, arguments.pairs)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
