"""Measure the gains and losses of GIL policies on programs that they were not made for, relative to none, losses first.

    bench/policy_corpus.py [--interpreter 3.13] [--launches 11] [--seconds 1] [--placement system split]
                           [--side none stock fair priority interval processes] [--only 'waitress*'] [--half a|b] [--keep FILE]

The programs are servers under a closed load of 1 to 64 connections, with 0, 1 and 4 CPU-bound threads beside them
(`policy_corpus_server_workload.py`), and programs whose threads pass work to each other, make calls that release the
GIL, sleep or compute (`policy_corpus_workload.py`). Each launch is a fresh process. The launches of a program take
turns, in random order. The libraries of the programs are installed from requirements/corpus.lock.

Sides: `none`; a policy by its name; `interval`, a switch interval of 0.5 ms; `processes`, where the CPU-bound work runs
in processes of its own. A policy's options may follow: `fair:compute_percent=20`. Placements: `system`; or `split`, the
program on one core and its client on another. Programs without a client have one core under `split`.

A figure is the median ratio to `none` of the same block, with the interval of the sign test from 6 launches on. A loss
is a rate below 0.97, a p99 above 1.1, or CPU time for each piece of work above 1.1, by the middle. A loss by the whole
interval is beyond doubt, and is marked !. For programs with CPU-bound threads, the work of these threads is shown, and
CPU time is not judged, because the other threads get more of it.

A hash of a program's name puts it into one of two halves of the corpus: one half to develop a policy on (`--half a`),
both to judge it.

Exit status: 0; 1, `fair` loses beyond doubt; 2, a launch failed.
"""

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import http.client
import importlib
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doubt import median_interval

from headway.agent import AGENT_PATH
from headway.errors import HeadwayError
from headway.host.interpreters import Interpreter
from headway.lab import discover, select
from headway.lab.beside.servers import free_port
from headway.library import library_path
from headway.live.launch import scheduled_environment

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(AGENT_PATH), str(ROOT / "tools")]
from headway_agent.load import LoadClient  # noqa: E402
from provision.locked_environment import locked_python  # noqa: E402

WORKLOAD = Path(__file__).with_name("policy_corpus_workload.py")
SERVER = Path(__file__).with_name("policy_corpus_server_workload.py")
LOCK = ROOT / "requirements" / "corpus.lock"
NONE, INTERVAL, PROCESSES = "none", "interval", "processes"
INTERVAL_S = "0.0005"
PATIENCE_S = 60.0
WARMUP_S = 0.3
LEAST_LAUNCHES = 6
"""Below, the sign test has no 95 % interval."""
BOUNDS = {"rate": (0.97, None), "p99_s": (None, 1.1), "cpu_s": (None, 1.1)}
"""From, and up to which ratio to none is no loss."""
SERVED = [
    *((name, connections, computing) for name in ("waitress", "gunicorn") for connections in (1, 4, 16, 64) for computing in (0, 1)),
    *((name, connections, computing) for name in ("uvicorn", "uvicorn-to-thread") for connections in (4, 16) for computing in (0, 1)),
    *((name, 4, computing) for name in ("django", "tornado", "aiohttp", "http.server") for computing in (0, 1)),
    ("aiohttp", 64, 1), ("http.server", 16, 0), ("tornado", 16, 1), ("waitress", 4, 4), ("uvicorn", 4, 4),
]  # fmt: skip


class LaunchError(Exception):
    """A launch gave no figures."""


@dataclass(frozen=True)
class Program:
    """A program of the corpus.

    Attributes:
        name: The name of the program.
        group: The kind of the program.
        computing: The number of CPU-bound threads beside the measured ones.
        server: The name of the server, or "" for a program without a client.
        connections: The number of connections of the client.
    """

    name: str
    group: str
    computing: int = 0
    server: str = ""
    connections: int = 0

    @property
    def half(self) -> str:
        """The half of the corpus that the program is in: "a" or "b"."""
        return "ab"[hashlib.sha256(self.name.encode()).digest()[0] % 2]


def corpus() -> list[Program]:
    """Return all programs."""
    known: dict[str, tuple[str, object]] = importlib.import_module(WORKLOAD.stem).PROGRAMS
    served = [
        Program(f"{name}-{connections}{f'-beside-{computing}' * (computing > 0)}", "servers", computing, name, connections)
        for name, connections, computing in SERVED
    ]  # fmt: skip
    beside = {name: int(name.rpartition("-beside-")[2]) if "-beside-" in name else 0 for name in known}
    return served + [Program(name, group, beside[name]) for name, (group, _) in known.items()]


@dataclass
class Bench:
    """The settings that all launches share."""

    python: str
    seconds: float
    cores: tuple[int, int] | None
    client: LoadClient

    def launch(self, program: Program, side: str) -> dict[str, float]:
        """Return the figures of one fresh process. Raises LaunchError."""
        try:
            return self._serve(program, side) if program.server else self._run(program, side)
        except (OSError, ValueError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
            raise LaunchError(f"{type(error).__name__}: {error}") from error

    def _environment(self, side: str) -> dict[str, str]:
        policy, *options = side.split(":")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_"))}
        values = {name: int(value) for name, _, value in (one.partition("=") for one in options)}
        return scheduled_environment(None if policy in {NONE, INTERVAL, PROCESSES} else policy, values, base=kept)

    def _command(self, *arguments: str, side: str) -> list[str]:
        pinned = ["taskset", "-c", str(self.cores[0])] if self.cores else []
        return [*pinned, self.python, *arguments, *(["--switch-interval", INTERVAL_S] if side == INTERVAL else [])]

    def _run(self, program: Program, side: str) -> dict[str, float]:
        command = self._command(str(WORKLOAD), program.name, str(self.seconds), side=side)
        done = subprocess.run(
            command, env=self._environment(side), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if done.returncode != 0 or "headway:" in done.stderr:
            raise LaunchError(f"exit status {done.returncode}: {done.stderr.strip()[-600:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures

    def _serve(self, program: Program, side: str) -> dict[str, float]:
        port = free_port()
        inside = 0 if side == PROCESSES else program.computing
        command = self._command(str(SERVER), program.server, str(port), str(inside), side=side)
        with self._started(command, side) as said:
            response_bytes = self._answer_bytes(port, said)
            with contextlib.ExitStack() as stack:
                for _ in range(program.computing - inside):
                    stack.enter_context(self._burning())
                load = {"port": port, "request": REQUEST, "response_bytes": response_bytes}
                load |= {"connections": program.connections, "min_requests": 1, "timeout_s": 20.0}
                self.client.run({**load, "duration_s": WARMUP_S})
                before = figures_of(port)
                result = self.client.run({**load, "duration_s": self.seconds})
                after = figures_of(port)
        if result["lost"] or not result["requests"]:
            raise LaunchError(f"{result['requests']} requests were answered, {result['lost']} lost")
        found = {"rate": result["requests_per_s"], "p50_s": result["p50_s"], "p99_s": result["p99_s"]}
        found["cpu_s"] = (after["cpu_s"] - before["cpu_s"]) / result["requests"]
        if inside:
            found["computed"] = (after["computed"] - before["computed"]) / (after["at_s"] - before["at_s"])
        return found

    @contextlib.contextmanager
    def _started(self, command: list[str], side: str) -> Iterator[Path]:
        with tempfile.NamedTemporaryFile("w+", prefix="policy-corpus-") as said:
            process = subprocess.Popen(
                command, env=self._environment(side), stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )  # fmt: skip
            try:
                yield Path(said.name)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            text = Path(said.name).read_text("utf-8", "replace")
            if "headway:" in text:
                raise LaunchError(text.strip()[-600:])

    @contextlib.contextmanager
    def _burning(self) -> Iterator[None]:
        """Run a CPU-bound process on the program's cores while the block runs."""
        command = self._command("-c", "while True: sum(i * i % 7 for i in range(400))", side=NONE)
        with subprocess.Popen(command, env=self._environment(NONE)) as process:
            try:
                yield
            finally:
                process.kill()

    @staticmethod
    def _answer_bytes(port: int, said: Path) -> int:
        """Wait for the server, and return the length of its answer in bytes."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as one:
                    one.sendall(REQUEST.encode())
                    return len(whole_answer(one))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise LaunchError(f"it does not answer: {said.read_text('utf-8', 'replace')[-600:]}") from error
                time.sleep(0.05)


REQUEST = "GET /item HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"


def whole_answer(one: socket.socket) -> bytes:
    """Return the bytes of an answer with a Content-Length. Raises ConnectionError if it ends before."""
    data = b""
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        if found:
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if not head.startswith(b"HTTP/1.1 200") or not lengths:
                raise ValueError(f"it answers {head[:200]!r}")
            if len(body) >= int(lengths[0].partition(b":")[2]):
                return data
        more = one.recv(65536)
        if not more:
            raise ConnectionError("the answer ends too soon")
        data += more


def figures_of(port: int) -> dict[str, float]:
    """Return the figures that the server reports of its process."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/figures")
        found: dict[str, float] = json.loads(connection.getresponse().read())
        return found
    finally:
        connection.close()


@dataclass(frozen=True)
class Ratio:
    """A figure's ratio to none: the middle over blocks, and its interval if there are enough blocks."""

    value: float
    low: float | None
    high: float | None

    def loses(self, figure: str) -> tuple[bool, bool]:
        """Return whether the ratio is a loss by its middle, and whether it is one beyond doubt."""
        low, high = BOUNDS.get(figure, (None, None))
        middle = (low is not None and self.value < low) or (high is not None and self.value > high)
        doubtless = self.low is not None and self.high is not None and (
            (low is not None and self.high < low) or (high is not None and self.low > high)
        )  # fmt: skip
        return middle, doubtless

    def __str__(self) -> str:
        text = f"{self.value:.2f}"
        return text if self.low is None else f"{text} [{self.low:.2f}, {self.high:.2f}]"


def ratio(ours: list[float], theirs: list[float]) -> Ratio | None:
    """Return the ratio of two lists of figures by blocks."""
    values = [one / other for one, other in zip(ours, theirs, strict=True) if other > 0]
    if not values:
        return None
    if len(values) < LEAST_LAUNCHES:
        return Ratio(statistics.median(values), None, None)
    return Ratio(*median_interval(values))


def judged(program: Program, side: str, blocks: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return a program's row under a side: ratios to none by figure, losses, and the least thread over a fair share."""
    whole = [block for block in blocks if side in block and NONE in block]
    names = dict.fromkeys(name for block in whole for name in block[side])
    ratios = {
        name: found
        for name in names
        if name != "least" and all(name in block[NONE] and name in block[side] for block in whole)
        if (found := ratio([block[side][name] for block in whole], [block[NONE][name] for block in whole]))
    }
    judge = {name: one.loses(name) for name, one in ratios.items() if not (name == "cpu_s" and program.computing)}
    return {
        "program": program,
        "side": side,
        "ratios": ratios,
        "lost": [name for name, (middle, _) in judge.items() if middle],
        "doubtless": [name for name, (_, doubtless) in judge.items() if doubtless],
        "least": statistics.median(ones) if (ones := [b[side]["least"] for b in whole if "least" in b[side]]) else None,
    }


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    cells = []
    for name, one in row["ratios"].items():
        mark = "!" if name in row["doubtless"] else "<" if name in row["lost"] else ""
        cells.append(f"{name.removesuffix('_s')} {mark}{one}")
    least = "" if row["least"] is None else f"  least {row['least']:.2f}"
    print(f"  {row['program'].name:32} {'  '.join(cells)}{least}", flush=True)


def measure(
    bench: Bench, programs: list[Program], sides: list[str], launches: int, keep: Path | None, told: dict[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """Return a row for each program and side, and the number of failed launches."""
    rows, failed = [], 0
    for number, program in enumerate(programs):
        mine = [side for side in sides if side != PROCESSES or (program.server and program.computing)]
        blocks: list[dict[str, dict[str, float]]] = []
        for launch in range(launches):
            blocks.append({})
            for side in random.sample(mine, len(mine)):
                try:
                    blocks[-1][side] = bench.launch(program, side)
                except LaunchError as error:
                    failed += 1
                    print(f"{program.name}, {side}, launch {launch + 1} failed: {error}", file=sys.stderr, flush=True)
                if keep is not None and side in blocks[-1]:
                    line = {**told, "program": program.name, "side": side, "launch": launch, **blocks[-1][side]}
                    with keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
        print(f"{number + 1} of {len(programs)}: {program.name}", file=sys.stderr, flush=True)
        rows += [judged(program, side, blocks) for side in mine if side != NONE and any(side in one for one in blocks)]
    return rows, failed


def report(rows: list[dict[str, Any]]) -> None:
    """Print the rows by side: losses first, then all."""
    for side in dict.fromkeys(row["side"] for row in rows):
        mine = [row for row in rows if row["side"] == side]
        lost = [row for row in mine if row["lost"]]
        doubtless = sum(bool(row["doubtless"]) for row in mine)
        print(f"\n{side}: {len(lost)} of {len(mine)} programs lose something by the middle, {doubtless} beyond doubt")
        for row in lost:
            show(row)
        groups = collections.defaultdict(list)
        for row in mine:
            if not row["lost"]:
                groups[row["program"].group].append(row)
        for group, others in groups.items():
            print(f" {group}, no loss:")
            for row in others:
                show(row)


def interpreter_of(name: str) -> Interpreter:
    """Return the interpreter of that name. Raises HeadwayError, ValueError."""
    found = select(discover()[0], [name])
    if len(found) != 1 or not found[0].gil_enabled:
        raise ValueError(f"{name!r} is {len(found)} interpreters with a GIL, expected one")
    return found[0]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument("--launches", type=int, default=11, metavar="N", help="a side (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a launch (default: %(default)s)")
    parser.add_argument("--placement", nargs="+", choices=("system", "split"), default=["system", "split"])
    parser.add_argument("--side", nargs="+", default=[NONE, "stock", "fair", "priority", INTERVAL, PROCESSES])
    parser.add_argument("--only", nargs="+", metavar="PATTERN", default=["*"])
    parser.add_argument("--half", choices=("a", "b"))
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append a line of JSON for each launch")
    parser.add_argument("--list", action="store_true", help="print the corpus, and do nothing")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `timeout` leaves no server behind either
    programs = [
        one
        for one in corpus()
        if any(fnmatch.fnmatch(one.name, pattern) for pattern in arguments.only) and arguments.half in {None, one.half}
    ]
    if arguments.list:
        for one in programs:
            print(f"{one.half} {one.group:10} {one.name}")
        return 0
    if not programs or arguments.launches < 1:
        parser.error("nothing to launch: --only fits no program, or --launches is below 1")
    usable = sorted(os.sched_getaffinity(0))
    if "split" in arguments.placement and len(usable) < 2:
        parser.error("--placement split needs two cores")
    try:
        interpreter = interpreter_of(arguments.interpreter)
        python = locked_python(interpreter, LOCK, "corpus")
    except (HeadwayError, ValueError) as error:
        parser.error(f"--interpreter: {error}")
    except subprocess.CalledProcessError:
        return 2  # uv has printed the reason
    sides = list(dict.fromkeys([NONE, *arguments.side]))
    failed, lost = 0, False
    for placement in arguments.placement:
        cores = (usable[0], usable[-1]) if placement == "split" else None
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(
            f"\n{interpreter.version}, placement {placement}, {arguments.launches} launches a side of {arguments.seconds:g} s, load averages {load}",
            flush=True,
        )
        with LoadClient(library_path(), [cores[1]] if cores else None) as client:
            bench = Bench(python, arguments.seconds, cores, client)
            told = {"interpreter": interpreter.version, "placement": placement}
            rows, more = measure(bench, programs, sides, arguments.launches, arguments.keep, told)
        report(rows)
        failed += more
        lost |= any(row["doubtless"] for row in rows if row["side"].partition(":")[0] == "fair")
    return 2 if failed else int(lost)


if __name__ == "__main__":
    sys.exit(main())
