"""Measure what watching costs a service: requests/s, p99, and memory.

The services are Starlette under uvicorn, Flask under waitress, a Dask worker with tasks that only return (its scheduler
and client are in the same process), and an echo server with four connections. The core of the echo server is saturated,
and it releases the GIL twice in some 7 us. Each launch is a fresh process on one core. The C client sends requests from
another core; Dask's own client loads the Dask worker. In the process `headway.watch()` is switched on and off, next to
each other in random order: the speed of a shared machine changes by a half every few seconds, so separate launches
cannot show differences of a per cent. "off again" is the same with nothing switched on, so its losses are noise. The
system places the watcher, on one of these two cores if the machine has two. The figure of a launch is the median over
its pairs, and the table has the median of the launches with the interval of the sign test. Dask's client sends too few
batches for a p99: its figure is the longest batch.

Memory is measured apart (--memory), as services grow under load without us, too: launches that are watched before their
first load beside launches that never are, under the same load. It is the resident set, which counts pages that the
service shares with the watcher in full; the ring counts for the watcher.

Targets: 1 % of requests/s of the servers and of tasks/s, 3 % of the echo server's, 5 MB; p99 unchanged, which is not
judged. Exit status: 1 if one of these is missed beyond doubt.

    python bench/watch_overhead.py [--launches 6] [--pairs 10] [--seconds 0.5] [--service echo ...] [--memory] [--json]
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from doubt import median_interval

from headway.agent import AGENT_PATH
from headway.lab import discover, select
from headway.lab.beside.servers import free_port
from headway.library import library_path
from headway.live.launch import original_environment

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(AGENT_PATH))
from headway_agent.load import LoadClient  # noqa: E402
from policy_corpus import REQUEST, whole_answer  # noqa: E402
from provision.locked_environment import locked_python  # noqa: E402

WORKLOAD = Path(__file__).with_name("watch_overhead_workload.py")
ECHOED = "x" * 64
SERVICES = ("uvicorn", "waitress", "dask", "echo")
SIDES = ("off again", "on")
SETTLE_S = 0.4
"""After each switch, under load: the watcher learns where loops wait."""
PATIENCE_S = 30
WARM_UP_S = 1.0
LEAST_LAUNCHES = 6
"""With fewer, the sign test has no 95 % interval."""
MOST_LOST = {"echo": 0.03}
"""Service -> the part of its requests that watching may cost; the others' is `MOST_LOST_ELSE`."""
MOST_LOST_ELSE = 0.01
MOST_KIB = 5e6 / 1024


def memory_kib(pid: int) -> int:
    """Return a process's resident set, or 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def ring_kib(watcher: int) -> int:
    """Return the size of the ring, a file in memory that the watcher has open, and that no resident set contains."""
    folder = Path(f"/proc/{watcher}/fd")
    return sum(one.stat().st_blocks // 2 for one in folder.iterdir() if "memfd:headway-ring" in os.readlink(one))


def cpu_s(pid: int) -> float:
    """Return a process's CPU time so far."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def answer_bytes(port: int, request: str) -> int:
    """Wait for the server, and return the length of its answer in bytes."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as one:
                one.sendall(request.encode())
                return len(one.recv(4096)) if request == ECHOED else len(whole_answer(one))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def connected(port: int) -> socket.socket:
    """Connect as soon as a server listens on the port."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Service:
    """A launch of a service, to be used in a `with` statement."""

    def __init__(self, service: str, python: str, client: LoadClient, core: int, folder: str) -> None:
        """Start the service."""
        self._client = client
        self._request = ECHOED if service == "echo" else REQUEST
        self._port, control = free_port(), free_port()
        env = original_environment() | {"HEADWAY_NATIVE": str(library_path())}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(WORKLOAD.parent)])
        self.process = subprocess.Popen(
            [python, str(WORKLOAD), service, str(self._port), str(control), folder],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Dask does not listen on this port: it is ready when its control is.
        self._is_dask = service == "dask"
        self._size = 0 if self._is_dask else answer_bytes(self._port, self._request)
        self._control = connected(control)
        self._answers = self._control.makefile("r")
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), [core])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._control.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def load(self, seconds: float) -> dict[str, Any]:
        """Put the service under load for this time, and return the figures."""
        if self._is_dask:
            self._control.sendall(f"load {seconds}\n".encode())
            told: dict[str, Any] = json.loads(self._answers.readline())
            return told
        load = {"port": self._port, "request": self._request, "response_bytes": self._size, "connections": 4}
        found: dict[str, Any] = self._client.run({**load, "duration_s": seconds})
        return found

    def switch(self, switch: str) -> int:
        """Switch watching on or off, and return the watcher's process, or 0."""
        self._control.sendall(f"{switch}\n".encode())
        watcher = int(self._answers.readline())
        if watcher:  # the watcher inherits its parent's affinity, which is the service's one core
            os.sched_setaffinity(watcher, os.sched_getaffinity(0))
        return watcher

    def measured(self, switch: str, seconds: float) -> dict[str, float]:
        """Switch watching on or off, and return the figures of the service then."""
        watcher = self.switch(switch)
        self.load(SETTLE_S)
        before_s = cpu_s(watcher) if watcher else 0.0
        result = self.load(seconds)
        found = {"rate": result["requests_per_s"], "late": result["longest_s" if self._is_dask else "p99_s"]}
        if watcher:
            found |= {"watcher_cores": (cpu_s(watcher) - before_s) / seconds}
        return found

    def memory(self, switch: str, seconds: float) -> dict[str, int]:
        """Switch watching on, or leave it off; return the resident sets after this time under the first load."""
        watcher = self.switch(switch)
        self.load(WARM_UP_S + seconds)
        return {
            "kib": memory_kib(self.process.pid),
            "watcher_kib": memory_kib(watcher) + ring_kib(watcher) if watcher else 0,
        }


@contextlib.contextmanager
def launched(service: str, python: str, client: LoadClient, core: int) -> Iterator[Service]:
    """Run a launch of a service, with a folder for its recordings, for the time of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="watch-overhead-") as folder,
        Service(service, python, client, core, folder) as one,
    ):
        yield one


Pair = dict[str, dict[str, float]]
"""Side -> its figures, of neighbours in time."""


def ratio(launches: Sequence[Sequence[Pair]], side: str, figure: str) -> tuple[float, float, float]:
    """Return the ratio of a figure to "off", with its interval: of the launches, each the median of its pairs."""
    return median_interval(
        [statistics.median(one[side][figure] / one["off"][figure] for one in pairs) for pairs in launches]
    )


def print_speed(found: dict[str, dict[str, list[list[Pair]]]]) -> bool:
    """Print the table; return whether a service loses more of its rate than the target allows, beyond doubt."""
    missed = False
    print(f"{'':24} {'requests/s':>22} {'p99':>22} {'of a core':>10}")
    for service, compared in found.items():
        for side, launches in compared.items():
            rate, late = ratio(launches, side, "rate"), ratio(launches, side, "late")
            line = f"{service + ', ' + side:24} {told(rate):>22} {told(late):>22}"
            if side == "on":
                shares = [one["on"]["watcher_cores"] for pairs in launches for one in pairs]
                line += f" {statistics.median(shares):10.3f}"
                if rate[2] < 1 - MOST_LOST.get(service, MOST_LOST_ELSE):
                    missed = True
                    line += "  MISSED"
            print(line)
        bare = statistics.median(one["off"]["rate"] for pairs in compared["on"] for one in pairs)
        longest = "; in place of the p99, the longest batch" if service == "dask" else ""
        print(f"{'':24} off {bare:,.0f}/s{longest}")
    return missed


def told(found: tuple[float, float, float]) -> str:
    """Return a ratio with its interval, as text."""
    value, low, high = found
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def print_memory(found: dict[str, dict[str, list[dict[str, int]]]]) -> bool:
    """Print the table of --memory; return whether every watched launch has more than the target allows."""
    missed = False
    print(f"{'':10} {'off, KiB':>24} {'on, KiB':>24} {'more':>8} {'watcher':>8}")
    for service, sides in found.items():
        kib = {side: sorted(one["kib"] for one in launches) for side, launches in sides.items()}
        more = statistics.median(kib["on"]) - statistics.median(kib["off"])
        spread = {side: f"{statistics.median(of):,.0f} [{of[0]:,}, {of[-1]:,}]" for side, of in kib.items()}
        watcher = statistics.median(one["watcher_kib"] for one in sides["on"])
        over = kib["on"][0] - kib["off"][-1] > MOST_KIB
        missed |= over
        line = f"{service:10} {spread['off']:>24} {spread['on']:>24} {more:+8,.0f} {watcher:8,.0f}"
        print(f"{line}{'  MISSED' if over else ''}")
    return missed


def main() -> int:
    """Measure the chosen services and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=LEAST_LAUNCHES, help="(default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=10, help="of a launch and a side (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each half of a pair (default: %(default)s)")
    parser.add_argument("--service", action="append", choices=SERVICES, help="only this one; may be repeated")
    parser.add_argument("--interpreter", default="3.13", help="(default: %(default)s)")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of speed")
    parser.add_argument("--json", action="store_true", help="print JSON, unjudged")
    options = parser.parse_args()
    if options.launches < LEAST_LAUNCHES and not options.memory:
        parser.error(f"--launches: {LEAST_LAUNCHES} at least, else there is no 95 % interval")
    interpreter = select(discover()[0], [options.interpreter])[0]
    python = locked_python(interpreter, ROOT / "requirements" / "watched.lock", "watched")
    cores = sorted(os.sched_getaffinity(0))
    found: dict[str, dict[str, list[list[Pair]]]] = {}
    memory: dict[str, dict[str, list[dict[str, int]]]] = {}
    with LoadClient(str(library_path()), [cores[-1]]) as client:
        for service in options.service or SERVICES:
            if options.memory:
                sides_of = memory.setdefault(service, {"off": [], "on": []})
                for launch in range(options.launches):
                    for switch in random.sample(["off", "on"], 2):
                        with launched(service, python, client, cores[0]) as one:
                            sides_of[switch].append(one.memory(switch, options.pairs * options.seconds))
                    print(f"{service}: launch {launch + 1} of {options.launches}", file=sys.stderr)
                continue
            launches = found.setdefault(service, {side: [] for side in SIDES})
            for launch in range(options.launches):
                with launched(service, python, client, cores[0]) as one:
                    one.load(WARM_UP_S)
                    for side in SIDES:
                        launches[side].append([])
                    for pair in range(2 * options.pairs):
                        side = SIDES[pair % 2]
                        sides = random.sample(["off", side], 2)
                        launches[side][-1].append(
                            {name: one.measured("on" if name == "on" else "off", options.seconds) for name in sides}
                        )
                print(f"{service}: launch {launch + 1} of {options.launches}", file=sys.stderr)
    if options.json:
        print(json.dumps(memory or found))
        return 0
    return int(print_memory(memory) if memory else print_speed(found))


if __name__ == "__main__":
    sys.exit(main())
