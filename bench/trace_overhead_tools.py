"""The tools that `trace_overhead.py` compares: how each is installed, started, and attached to a running process."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headway.errors import HeadwayError
from headway.host.interpreters import Interpreter
from headway.lab.beside.environments import find_uv

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from provision.locked_environment import kept


class Failed(Exception):  # noqa: N818  (a fact about a tool, and no error of the program)
    """The reason why a tool has no figure, in a sentence."""


def last_line(text: str) -> str:
    """Return the last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


@dataclass
class Tool:
    """A tool. The defaults stand for no tool at all."""

    name: str = "bare"
    requirement: str = ""
    writes: bool = True
    only: tuple[str, ...] = ()
    """The names of the interpreters that it is run on; none: all."""
    _where: dict[str, Path] = field(default_factory=dict)

    def why_not(self, interpreter: Interpreter) -> str:
        """Install the tool; return the reason why it cannot be run, or ""."""
        if self.only and interpreter.name not in self.only:
            return f"is run here on {', '.join(self.only)} only"
        if self.requirement and interpreter.id not in self._where:
            try:
                self._where[interpreter.id] = installed(self.requirement, interpreter)
            except (HeadwayError, OSError, subprocess.SubprocessError) as error:
                return f"cannot be had: {error}"
        return ""

    def command(self, interpreter: Interpreter, work: list[str], out: Path) -> tuple[list[str], dict[str, str]]:
        """Return the command to run, and the additions to its environment."""
        del out
        return [interpreter.executable, "-s", *work], {}

    @contextlib.contextmanager
    def attached(self, interpreter: Interpreter, pid: int, out: Path) -> Iterator[list[int]]:
        """Attach to the running process, if the tool does so; yield the ids of the tool's processes."""
        del interpreter, pid, out
        yield []


class Headway(Tool):
    """The recorder, as `headway trace` starts it."""

    def command(self, interpreter: Interpreter, work: list[str], out: Path) -> tuple[list[str], dict[str, str]]:
        """See Tool."""
        headway = str(Path(sys.executable).with_name("headway"))
        trace = ["trace", "--no-summary", "-o", str(out.with_suffix(".hwt")), "--"]
        return [headway, *trace, interpreter.executable, "-s", *work], {}

    @contextlib.contextmanager
    def attached(self, interpreter: Interpreter, pid: int, out: Path) -> Iterator[list[int]]:
        """See Tool: yields the collector, which is not a child of the process, and has the trace's file open."""
        del interpreter, pid
        yield holders(out.with_suffix(".hwt"))


def holders(file: Path) -> list[int]:
    """Return the processes that have a file open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if link.readlink() == file:
                found.add(int(link.parts[2]))
    return sorted(found)


class PySpy(Tool):
    """py-spy: samples which thread holds the GIL, 100 times a second by default."""

    def command(self, interpreter: Interpreter, work: list[str], out: Path) -> tuple[list[str], dict[str, str]]:
        """See Tool."""
        program = self._where[interpreter.id] / "bin" / "py-spy"
        options = ["record", "--gil", "--format", "raw", "--rate", "100", "--output", str(out.with_suffix(".raw"))]
        return [str(program), *options, "--", interpreter.executable, "-s", *work], {}


class Sampling(Tool):
    """The profiler of CPython 3.15, with its defaults (1 kHz), on all threads."""

    def command(self, interpreter: Interpreter, work: list[str], out: Path) -> tuple[list[str], dict[str, str]]:
        """See Tool."""
        options = ["run", "--mode=gil", "--all-threads", "--collapsed", "-o", str(out.with_suffix(".txt"))]
        return [interpreter.executable, "-s", "-m", "profiling.sampling", *options, *work], {}


class VizTracer(Tool):
    """VizTracer: records each call and return, by default the last million."""

    def command(self, interpreter: Interpreter, work: list[str], out: Path) -> tuple[list[str], dict[str, str]]:
        """See Tool."""
        options = ["--quiet", "--output_file", str(out.with_suffix(".json"))]
        command = [interpreter.executable, "-s", "-m", "viztracer", *options, "--", *work]
        return command, {"PYTHONPATH": str(self._where[interpreter.id])}


def help_to_find_symbols(pid: int, nm: Path) -> None:
    """Make an `nm` for a process that gives the right answer if take_gil is in libpython and not in the executable.

    flight_profiler adds the address that `nm` gives for the executable to the executable's own address. Raises Failed
    if an interpreter lacks these symbols.
    """
    bases: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "python" in Path(fields[5]).name:
            bases.setdefault(fields[5], int(fields[0].split("-")[0], 16))
    executable = os.path.realpath(f"/proc/{pid}/exe")
    for path, base in bases.items():
        listed = subprocess.run(["nm", path], capture_output=True, text=True, check=False).stdout
        found = re.findall(r"^([0-9a-f]+) t (take_gil|drop_gil)$", listed, re.MULTILINE)
        if len(found) == 2:
            if path != executable:
                lines = [f"echo '{int(at, 16) + base - bases[executable]:016x} t {name}'" for at, name in found]
                nm.write_text("\n".join(["#!/bin/sh", *lines, ""]))
                nm.chmod(0o700)
            return
    raise Failed("the interpreter is without the symbols take_gil and drop_gil")


class GilStat(Tool):
    """flight_profiler's gilstat: counts and times per thread, each second, and waits and holds over 5 ms."""

    def command(self, interpreter: Interpreter, work: list[str], out: Path) -> tuple[list[str], dict[str, str]]:
        """See Tool. The package must be importable in the process that it attaches to, which runs `nm` on itself."""
        path = f"{out.parent}{os.pathsep}{os.environ['PATH']}"
        return [interpreter.executable, "-s", *work], {"PYTHONPATH": str(self._where[interpreter.id]), "PATH": path}

    @contextlib.contextmanager
    def attached(self, interpreter: Interpreter, pid: int, out: Path) -> Iterator[list[int]]:
        """See Tool."""
        folder = self._where[interpreter.id]
        report = out.with_suffix(".log")
        help_to_find_symbols(pid, out.with_name("nm"))
        command = [interpreter.executable, "-s", str(folder / "bin" / "flight_profiler"), "--no-color", str(pid)]
        with report.open("w") as file:
            client = subprocess.Popen(
                [*command, "--cmd", "gilstat on 5 5 1"],
                env={**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"},
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                deadline = time.monotonic() + 20
                while "statistics report" not in report.read_text(errors="replace"):
                    if client.poll() is not None or time.monotonic() > deadline:
                        raise Failed(last_line(report.read_text(errors="replace")) or "no report within 20 s")
                    time.sleep(0.05)
                yield [client.pid]
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(client.pid, signal.SIGKILL)
                client.wait()


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("bare again", writes=False),
        Headway("headway"),
        PySpy("py-spy", "py-spy==0.4.3", only=("3.11", "3.12", "3.13", "3.14", "3.15")),
        Sampling("profiling.sampling", only=("3.15",)),
        VizTracer("viztracer", "viztracer==1.1.1", only=("3.11", "3.12", "3.13")),
        GilStat("gilstat", "flight_profiler==1.0.7", only=("3.11", "3.12", "3.13")),
    )
}
BARE = Tool(writes=False)


def installed(requirement: str, interpreter: Interpreter) -> Path:
    """Return the folder of a tool for an interpreter; install the tool if it is not there. Raises OSError."""

    def fill(folder: Path) -> None:
        print(f"installing {requirement} for {interpreter.name} into the cache", file=sys.stderr)
        command = [find_uv(), "pip", "install", "--quiet", "--no-python-downloads", "--only-binary", ":all:"]
        command += ["--python", interpreter.executable, "--target", str(folder), requirement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise OSError(last_line(done.stderr) or f"uv ended with exit code {done.returncode}")

    return kept(f"bench-tool-{interpreter.version}-{requirement.replace('==', '-')}", fill)
