"""What `headway watch` costs a service: requests/s, p99 and memory, watched beside bare, in turns.

Services: Starlette under uvicorn, Flask under waitress, and an echo server with four connections, whose core is saturated and
which lets the GIL go twice in some 7 us. Each launch is a fresh process on one core; our C client asks it from another one.
The sides take turns in drawn order; "bare again" is a bare launch, too, and what it seems to lose is noise. Ratios are of a
block's launches, with the interval of the sign test. The watcher runs where the system puts it, which is on one of these two
cores where there are two. Targets: 1 % of requests/s of the two servers, 3 % of the echo server's, p99 unchanged, 5 MB.

    python bench/watch_overhead.py [--launches 9] [--seconds 1.5] [--service echo ...] [--json]
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_overhead import median_interval

from headway.agent import AGENT_PATH
from headway.lab import discover, select
from headway.live.launch import original_environment
from headway.native import library_path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(AGENT_PATH))
from headway_agent.load import LoadClient  # noqa: E402
from locked_environment import locked_python  # noqa: E402
from policy_corpus import REQUEST, whole_answer  # noqa: E402

SERVERS = Path(__file__).with_name("policy_corpus_server_workload.py")
ECHO = Path(__file__).with_name("watch_overhead_workload.py")
ECHOED = "x" * 64
SERVICES = ("uvicorn", "waitress", "echo")
SIDES = ("bare", "bare again", "watched")
WARM_UP_S = 1.5
PATIENCE_S = 30


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def memory_kib(pid: int) -> int:
    """Return a process's proportional set size (smaps_rollup); 0 where it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def cpu_s(pid: int) -> float:
    """Return a process's CPU time so far."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def answer_bytes(port: int, request: str) -> int:
    """Wait for the server, and return how long its answer is."""
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


def launch(service: str, side: str, python: str, client: LoadClient, core: int, seconds: float) -> dict[str, float]:
    """Return what one launch does."""
    port = free_port()
    request = ECHOED if service == "echo" else REQUEST
    program = [python, str(ECHO), str(port)] if service == "echo" else [python, str(SERVERS), service, str(port), "0"]
    with tempfile.TemporaryDirectory(prefix="watch-overhead-") as folder:
        watch = [sys.executable, "-m", "headway", "watch", "-o", folder, "--"] if side == "watched" else []
        said = Path(folder, "said")
        with said.open("w") as file:
            process = subprocess.Popen(
                [*watch, *program],
                env=original_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            size = answer_bytes(port, request)
            for thread in os.listdir(f"/proc/{process.pid}/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), [core])
            watcher = int(said.read_text().partition("kill -USR2 ")[2].partition("`")[0] or 0)
            load: dict[str, Any] = {"port": port, "request": request, "response_bytes": size, "connections": 4}
            client.run({**load, "duration_s": WARM_UP_S})
            before_s = cpu_s(watcher) if watcher else 0.0
            result = client.run({**load, "duration_s": seconds})
            found = {"rate": result["requests_per_s"], "p99": result["p99_s"], "kib": memory_kib(process.pid)}
            if watcher:
                found |= {"watcher_kib": memory_kib(watcher), "watcher_cores": (cpu_s(watcher) - before_s) / seconds}
                found["stalls"] = len(list(Path(folder).glob("*.hwt")))
            return found
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def told(values: Sequence[float]) -> str:
    """Return a ratio with its interval."""
    value, low, high = median_interval(list(values))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--launches", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--service", action="append", choices=SERVICES)
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    interpreter = select(discover()[0], [options.interpreter])[0]
    python = locked_python(interpreter, ROOT / "requirements" / "corpus.lock", "corpus")
    cores = sorted(os.sched_getaffinity(0))
    found: dict[str, list[dict[str, dict[str, float]]]] = {}
    with LoadClient(str(library_path()), [cores[-1]]) as client:
        for service in options.service or SERVICES:
            blocks = found.setdefault(service, [])
            for _ in range(options.launches):
                sides = random.sample(SIDES, len(SIDES))
                blocks.append(
                    {side: launch(service, side, python, client, cores[0], options.seconds) for side in sides}
                )
                print(f"{service}: {len(blocks)} of {options.launches}", file=sys.stderr)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'':24} {'requests/s':>24} {'p99':>24} {'service, KiB':>14} {'watcher, KiB':>13} {'of a core':>10}")
    for service, blocks in found.items():
        for side in SIDES[1:]:
            rates = [one[side]["rate"] / one["bare"]["rate"] for one in blocks]
            late = [one[side]["p99"] / one["bare"]["p99"] for one in blocks]
            more = statistics.median(one[side]["kib"] - one["bare"]["kib"] for one in blocks)
            line = f"{service + ', ' + side:24} {told(rates):>24} {told(late):>24} {more:+14,.0f}"
            if side == "watched":
                line += f" {statistics.median(one[side]['watcher_kib'] for one in blocks):13,.0f}"
                line += f" {statistics.median(one[side]['watcher_cores'] for one in blocks):10.3f}"
            print(line)
        bare = statistics.median(one["bare"]["rate"] for one in blocks)
        print(
            f"{'':24} bare {bare:,.0f}/s; recordings while watched: {sum(one['watched']['stalls'] for one in blocks):.0f}"
        )


if __name__ == "__main__":
    main()
