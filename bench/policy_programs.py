"""Measure the effect of a GIL policy on real programs: web servers, an asyncio service and a Dask worker.

Each program runs with and without the policy. A launch starts the program afresh, as a user would: by `headway run
--policy P ...`, or without headway. The launches of a program take turns, in random order. A figure is the median
[least, greatest] over launches. The programs are the listings of docs/guides/examples. Their libraries are in an
environment of their own, `--python`. wrk loads the web servers over 4 connections that each wait for an answer before
the next request, after a warm-up of a second.

`split` puts the program on one core and its client (wrk; Dask's scheduler and client) on another. With `free` the
system places all of them. Lines that headway wrote to stderr are printed below the tables.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headway.errors import UsageError
from headway.lab.beside.servers import free_port
from headway.library import library_path
from headway.native import policies

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "guides" / "examples"
INSTALL = 'python -m venv apps && apps/bin/pip install flask waitress gunicorn "distributed"'
NONE = "none"
CONNECTIONS = 4
THREADS = 4
WARMUP_S = 1  # wrk takes whole seconds
PATIENCE_S = 120
ENDING_S = 10
UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class FailedError(Exception):
    """A launch gave no figures."""


@dataclass
class Launch:
    """One fresh start of a program."""

    python: str
    policy: str
    seconds: int
    cores: tuple[int, int] | None
    """The program's, and that of who asks it; None where the system decides."""
    folder: Path
    said: list[str] = field(default_factory=list)
    """What headway wrote to stderr."""

    def command(self, arguments: list[str], *, measured: bool) -> list[str]:
        """Return the command line of a program: under the policy if it is the measured one, otherwise without."""
        pinned = [] if self.cores is None else ["taskset", "-c", str(self.cores[0 if measured else 1])]
        headway = [sys.executable, "-m", "headway", "run", "--policy", self.policy, "--python", self.python]
        return [*pinned, *(headway if measured and self.policy != NONE else [self.python]), *arguments]

    @contextlib.contextmanager
    def started(self, arguments: list[str], *, measured: bool = True) -> Iterator["Started"]:
        """Run a Python program in a session of its own, and end all its processes afterwards."""
        log = self.folder / f"{time.monotonic_ns()}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                self.command(arguments, measured=measured),
                cwd=EXAMPLES,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Started(process, log)
        finally:
            end(process)
            self.said += [line for line in log.read_text(errors="replace").splitlines() if line.startswith("headway:")]

    def check_policy(self, started: "Started") -> None:
        """Check that the program and each process that it started have the policy's library, within PATIENCE_S."""
        if self.policy == NONE:
            return
        deadline = time.monotonic() + PATIENCE_S
        while not (scheduled := started.scheduled(self.policy)) or not all(scheduled.values()):
            if started.process.poll() is not None or time.monotonic() > deadline:
                without = ", ".join(str(pid) for pid, loaded in scheduled.items() if not loaded) or "the program's"
                raise started.failed(f"not scheduled by {self.policy}: process {without}; the program said")
            time.sleep(0.1)


@dataclass
class Started:
    """A running program."""

    process: subprocess.Popen[bytes]
    log: Path

    def processes(self) -> Iterator[tuple[Path, list[str]]]:
        """Yield the folder in /proc of each process of the session, with the fields of `stat` after the name."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # the process may have just ended
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid:
                    yield entry, fields

    def scheduled(self, policy: str) -> dict[int, bool]:
        """Return the processes that must have a policy, and whether they have loaded its library."""
        found = {}
        for entry, _ in self.processes():
            with contextlib.suppress(OSError):
                if f"HEADWAY_POLICY={policy}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = library_path().name in (entry / "maps").read_text()
        return found

    def cpu_s(self) -> float:
        """Return the CPU time of the processes so far."""
        ticks = sum(int(fields[11]) + int(fields[12]) for _, fields in self.processes())  # utime and stime
        return ticks / os.sysconf("SC_CLK_TCK")

    def text(self) -> str:
        """Return what the program has written so far."""
        return self.log.read_text(errors="replace")

    def failed(self, what: str) -> FailedError:
        """Return an error with the last lines of the program."""
        return FailedError("\n  ".join([what, *self.text().splitlines()[-5:]]))

    def wait_for_port(self, port: int) -> None:
        """Wait until the program listens on a port."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.02)
        raise self.failed(f"nothing listens on port {port}; the program said")

    def wait(self, limit_s: float) -> str:
        """Wait for the end of the program and return what it wrote."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise self.failed(f"it had not ended after {limit_s:.0f} s; the program said") from None
        if self.process.returncode != 0:
            raise self.failed(f"it ended with exit code {self.process.returncode}; the program said")
        return self.text()


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that would change a Python, or headway."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_", "DASK_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}  # so that nothing is written to the listings' folder


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program as its user would, and then the rest of its session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def found(pattern: str, text: str) -> tuple[str, ...]:
    """Return the groups of a pattern that must be in a program's output."""
    match = re.search(pattern, text)
    if match is None:
        raise FailedError("\n  ".join([f"its output has no {pattern!r}", *text.splitlines()[-10:]]))
    return match.groups()


def rounds(port: int) -> tuple[int, float]:
    """Return the rounds of the shop's background thread so far, and the time."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/rounds", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read()), time.perf_counter()


def wrk(launch: Launch, port: int, seconds: int) -> dict[str, float]:
    """Return wrk's figures of the shop's answers."""
    pinned = [] if launch.cores is None else ["taskset", "-c", str(launch.cores[1])]
    command = [*pinned, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "--timeout", f"{PATIENCE_S}s"]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/price/17"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    text = done.stdout + done.stderr
    if done.returncode != 0 or "Non-2xx" in text or "Socket errors" in text:
        raise FailedError(f"wrk: {text.strip()}")
    figures = {"requests_per_s": float(found(r"Requests/sec:\s+([\d.]+)", text)[0])}
    for percent in (50, 90, 99):
        value, unit = found(rf"\s{percent}%\s+([\d.]+)(us|ms|s|m)\b", text)
        figures[f"p{percent}_s"] = float(value) * UNITS_S[unit]
    return figures


def serve(launch: Launch, arguments: list[str], port: int) -> dict[str, float]:
    """Ask the shop for prices, and measure the progress of its background thread meanwhile."""
    with launch.started(arguments) as server:
        server.wait_for_port(port)
        wrk(launch, port, WARMUP_S)
        launch.check_policy(server)
        cpu_s, (before, begun) = server.cpu_s(), rounds(port)
        figures = wrk(launch, port, launch.seconds)
        (after, ended), cpu_s = rounds(port), server.cpu_s() - cpu_s
    return {**figures, "rounds_per_s": (after - before) / (ended - begun), "cpu_s": cpu_s}


def waitress(launch: Launch) -> dict[str, float]:
    """Serve the shop by waitress."""
    port = free_port()
    listen = ["--listen", f"127.0.0.1:{port}", "--threads", str(THREADS)]
    return serve(launch, ["-m", "waitress", *listen, "busy_shop:app"], port)


def gunicorn(launch: Launch) -> dict[str, float]:
    """Serve the shop by one worker of gunicorn with threads."""
    port = free_port()
    workers = ["--worker-class", "gthread", "--workers", "1", "--threads", str(THREADS)]
    workers.append("--no-control-socket")  # it would be in the user's home, the same for every gunicorn
    return serve(launch, ["-m", "gunicorn", *workers, "-b", f"127.0.0.1:{port}", "busy_shop:app"], port)


def lags(text: str) -> dict[str, float]:
    """Return how late an event loop woke, from the output of a listing."""
    ticks, p50, p99, most = found(r"(\d+) ticks, late by p50 ([\d.]+) ms, p99 ([\d.]+) ms, max ([\d.]+) ms", text)
    figures = {"ticks": float(ticks)}
    return figures | {f"lag_{key}_s": float(ms) / 1e3 for key, ms in (("p50", p50), ("p99", p99), ("max", most))}


def reports(threads: int) -> Callable[[Launch], dict[str, float]]:
    """Return a function that measures the asyncio service with this many threads that make reports."""

    def measure(launch: Launch) -> dict[str, float]:
        with launch.started(["async_reports.py", str(launch.seconds), str(threads)]) as service:
            launch.check_policy(service)
            text = service.wait(launch.seconds + PATIENCE_S)
        return {**lags(text), "reports_per_s": float(found(r"([\d.]+) reports/s", text)[0])}

    return measure


def dask(script: str, tasks_per_s: int) -> Callable[[Launch], dict[str, float]]:
    """Return a function that measures a Dask worker with a listing's tasks: this many for each second of a launch."""

    def measure(launch: Launch) -> dict[str, float]:
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        scheduler_arguments = ["-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        worker_arguments = ["-m", "dask", "worker", address, "--nworkers", "1", "--nthreads", str(THREADS)]
        worker_arguments += ["--no-dashboard", "--local-directory", str(launch.folder), "--preload", "dask_lag.py"]
        with launch.started(scheduler_arguments, measured=False) as scheduler:
            scheduler.wait_for_port(port)
            with launch.started(worker_arguments) as worker:
                launch.check_policy(worker)
                cpu_s = worker.cpu_s()
                with launch.started([script, address, str(launch.seconds * tasks_per_s)], measured=False) as client:
                    text = client.wait(launch.seconds * PATIENCE_S)
                cpu_s = worker.cpu_s() - cpu_s
            told = worker.text()
        unresponsive_s = [float(s) for s in re.findall(r"Event loop was unresponsive in Worker for ([\d.]+)s", told)]
        return {
            "run_s": float(found(r"in ([\d.]+) s", text)[0]),
            **lags(told),
            "warnings": float(len(unresponsive_s)),
            "longest_warning_s": max(unresponsive_s, default=0.0),
            "cpu_s": cpu_s,
        }

    return measure


@dataclass(frozen=True)
class Program:
    """A program, the modules that it needs, and the function that measures a launch."""

    about: str
    needs: tuple[str, ...]
    measure: Callable[[Launch], dict[str, float]]


PROGRAMS = {
    "waitress": Program("Flask under waitress, 4 threads; busy_shop.py", ("flask", "waitress"), waitress),
    "gunicorn": Program(
        "Flask under gunicorn, 1 gthread worker of 4 threads; busy_shop.py", ("flask", "gunicorn"), gunicorn
    ),
    "asyncio-1": Program("asyncio, 1 report in the making; async_reports.py", (), reports(1)),
    "asyncio-4": Program("asyncio, 4 reports in the making; async_reports.py", (), reports(4)),
    "dask-orders": Program(
        "Dask worker, 4 threads, tasks in Python; dask_orders.py", ("distributed",), dask("dask_orders.py", 40)
    ),
    "dask-mail": Program(
        "Dask worker, 4 threads, long calls into C; dask_mail.py", ("distributed",), dask("dask_mail.py", 4)
    ),
}
FIGURES = {
    "p50_s": ("answer, p50", "ms"),
    "p90_s": ("answer, p90", "ms"),
    "p99_s": ("answer, p99", "ms"),
    "requests_per_s": ("requests", "/s"),
    "rounds_per_s": ("background thread, rounds", "/s"),
    "lag_p50_s": ("event loop late by, p50", "ms"),
    "lag_p99_s": ("event loop late by, p99", "ms"),
    "lag_max_s": ("event loop late by, most", "ms"),
    "reports_per_s": ("reports", "/s"),
    "run_s": ("run", "s"),
    "warnings": ('"Event loop was unresponsive"', "times"),
    "longest_warning_s": ("longest of these", "s"),
    "cpu_s": ("CPU time of the program", "s"),
}
"""Titles and units of what a launch tells; what is not here is for --json only."""


def shown(value: float, unit: str) -> str:
    """Return a figure as text, with three significant digits."""
    value *= 1e3 if unit == "ms" else 1
    if unit == "times":
        return f"{value:.0f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(title: str, sides: dict[str, list[dict[str, float]]]) -> str:
    """Return a program's table in Markdown."""
    rows = [f"| {title} | {' | '.join('no policy' if side == NONE else f'`{side}`' for side in sides)} |"]
    rows.append("|---" * (len(sides) + 1) + "|")
    for key, (name, unit) in FIGURES.items():
        columns = []
        for launches in sides.values():
            values = [launch[key] for launch in launches if key in launch]
            middle, low, high = (shown(one(values or [0]), unit) for one in (statistics.median, min, max))
            columns.append(f"{middle}{unit if unit == '/s' else f' {unit}'} [{low}, {high}]" if values else "-")
        if set(columns) != {"-"}:
            rows.append(f"| {name} | {' | '.join(columns)} |")
    return "\n".join(rows)


def check(python: str, chosen: list[str], placement: str, file: Path | None) -> None:
    """Check before the first launch that everything is there.

    Raises:
        UsageError: Something is missing, or would be overwritten.
    """
    if file is not None and file.exists():
        raise UsageError(f"--json: {file} is there already", hint="name another file, or remove it")
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageError(f"--json: there is no folder {file.absolute().parent}", hint="make it, or name another file")
    if placement == "split" and len(os.sched_getaffinity(0)) < 2:
        raise UsageError("--placement split needs two cores", hint="try --placement free")
    if placement == "split" and shutil.which("taskset") is None:
        raise UsageError("there is no program 'taskset'", hint="install util-linux, or try --placement free")
    if shutil.which("wrk") is None and {"waitress", "gunicorn"} & set(chosen):
        raise UsageError(
            "there is no program 'wrk'",
            hint="install it (`apt-get install wrk`), or leave waitress and gunicorn out with --programs",
        )
    needed = sorted({module for name in chosen for module in PROGRAMS[name].needs})
    imports = "; ".join(f"import {module}" for module in ["sys", *needed])
    try:
        done = subprocess.run(
            [python, "-c", imports],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except OSError as error:
        raise UsageError(
            f"--python: {python} cannot be run: {error.strerror}", hint=f"make an environment: {INSTALL}"
        ) from error
    if done.returncode != 0:
        reason = (done.stderr.splitlines() or ["it failed"])[-1]
        raise UsageError(
            f"--python: {python} has not got all that is needed: {reason}", hint=f"make an environment: {INSTALL}"
        )


def names(text: str) -> list[str]:
    """Return the programs of a comma-separated list."""
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PROGRAMS)}")
    return chosen


def at_least_one(text: str) -> int:
    """Return a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number of at least 1")
    return int(text)


def measure(arguments: argparse.Namespace, cores: tuple[int, int] | None) -> tuple[list[str], int]:
    """Print a table for each program; return the lines that headway wrote, and the number of failed launches."""
    said, failures, records = [], 0, []
    for name in arguments.programs:
        sides: dict[str, list[dict[str, float]]] = {NONE: [], arguments.policy: []}
        for number in range(arguments.launches):
            for policy in random.sample(list(sides), len(sides)):
                with tempfile.TemporaryDirectory(prefix="policy-programs-", ignore_cleanup_errors=True) as folder:
                    launch = Launch(arguments.python, policy, arguments.seconds, cores, Path(folder))
                    record = {"program": name, "launch": number, "policy": policy, "load_average": os.getloadavg()[0]}
                    try:
                        figures = PROGRAMS[name].measure(launch)
                        sides[policy].append(figures)
                        record |= {"figures": figures}
                    except (FailedError, OSError, subprocess.TimeoutExpired) as error:
                        failures += 1
                        record |= {"failed": str(error)}
                        print(f"{name}, {policy}, launch {number + 1} failed: {error}", file=sys.stderr)
                said += [f"{name}, {policy}, launch {number + 1}: {line}" for line in launch.said]
                records.append({**record, "said": launch.said})
                if arguments.json is not None:  # after each launch, because a later one may be interrupted
                    arguments.json.write_text(json.dumps(records, indent=1) + "\n")
        print(f"{table(PROGRAMS[name].about, sides)}\n", flush=True)
    return said, failures


def from_anywhere(python: str) -> str:
    """Return a command for launches in other folders: a path becomes absolute, and keeps an environment's link."""
    return os.path.abspath(python) if os.sep in python else python


def main() -> int:
    """Print a table for each program; return 1 if a launch failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", type=from_anywhere, required=True, help=f"of an environment that has the libraries: {INSTALL}"
    )
    parser.add_argument(
        "--programs", type=names, default=list(PROGRAMS), help=f"of {','.join(PROGRAMS)} (default: all)"
    )
    parser.add_argument(
        "--policy", default="fair", choices=[one.name for one in policies()[0]], help="(default: %(default)s)"
    )
    parser.add_argument("--launches", type=at_least_one, default=5, help="a side (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=at_least_one,
        default=3,
        help="of a launch, whole ones; of Dask, as many tasks as take about so long (default: %(default)s)",
    )
    parser.add_argument("--placement", choices=["split", "free"], default="split", help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="a file for what each launch told")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `timeout` leaves no server behind either
    try:
        check(arguments.python, arguments.programs, arguments.placement, arguments.json)
    except UsageError as error:
        print(f"policy_programs: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    usable = os.sched_getaffinity(0)
    cores = (min(usable), max(usable)) if arguments.placement == "split" else None
    where = f"the program on core {cores[0]}, who asks it on core {cores[1]}" if cores else "all where the system likes"
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{arguments.launches} launches a side of {arguments.seconds} s, {where}, load averages {load}\n", flush=True)
    said, failures = measure(arguments, cores)
    print("\n".join(said) or "headway wrote nothing to stderr")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
