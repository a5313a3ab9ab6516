"""One launch: a fresh process of the measured interpreter, watched from outside.

The process leads a Unix session and a process group of its own, so that the processes it starts can be killed with it.
A process that leaves the group (setsid, setpgid) is not killed. The kernel kills the first process when the lab dies
(PR_SET_PDEATHSIG); the run's keeper (`host.keeper`) then ends the rest of the group. A problem in the launch becomes a
failed launch with its stderr; only a bug in the lab raises.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from headway.agent import AGENT_PATH, BOOTSTRAP
from headway.host.children import start
from headway.host.endings import ended_by, tail_of
from headway.host.keeper import Keeper
from headway.host.machine import Machine
from headway.host.reaping import end_group
from headway.lab.beside.given import NOTHING, Beside
from headway.lab.design import Cell
from headway.lab.kept.launched import Launch
from headway.lab.launching.answers import Listener

__all__ = ["OVER_LIMIT", "agent_process", "run_launch"]

OVER_LIMIT = "killed after its limit"
"""The opening of the reason of a launch that took too long."""

_STDERR_KEPT_BYTES = 64 * 1024


def _prepare_child(cores: Sequence[int], memory_limit_bytes: int | None) -> None:
    """Restrict the child, between fork and exec, to the cores of launches and to the memory limit."""
    os.sched_setaffinity(0, cores)
    if memory_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit_bytes, memory_limit_bytes))


def _part(cell: Cell) -> dict[str, Any]:
    """Return the part of a job that belongs to one cell."""
    variant = cell.variant
    return {
        "workload": variant.workload,
        "model": variant.model,
        "params": dict(variant.params),
        "samples": variant.samples,
        "warmups": variant.warmups,
        "switch_interval_s": variant.params.get("switch_interval_s"),
    }


def _job(
    cells: Sequence[Cell], machine: Machine, library: Path | None, limit_s: float, beside: Beside
) -> dict[str, Any]:
    cell = cells[0]
    cpus: list[int] | None = None
    party_cpus: list[list[int]] | None = None
    if cell.placement == "same":
        cpus = [machine.cores[-1]]
        party_cpus = [cpus, cpus]
    elif cell.placement == "split" and cell.variant.server:
        # The server has a core to itself. The launch gets all the others, or one for a variant that is about one core.
        alone = cell.variant.params.get("one_core")
        cpus = [machine.split[1]] if alone else list(machine.away_from(machine.split[0]))
    elif cell.placement == "split":
        cpus = list(machine.split)
        party_cpus = [[core] for core in machine.split]
    return {
        "parts": [_part(one) for one in cells],
        # A policy belongs to a process: no experiment has both policies and turns.
        "policy": cell.variant.params.get("policy"),
        "policy_options": cell.variant.params.get("policy_options", ""),
        "cpus": cpus,
        "party_cpus": party_cpus,
        "library": str(library) if library else None,
        "server": dict(beside.server),
        "folders": dict(beside.folders),
        # Late enough to show where the launch hangs, and early enough that the stacks are written before the kill.
        "stacks_after_s": limit_s * 0.9,
    }


@contextlib.contextmanager
def agent_process(
    executable: str,
    bootstrap: str,
    paths: Sequence[str],
    cores: Sequence[int],
    answers_fd: int,
    stderr: BinaryIO,
    *,
    user_site: bool = False,
    memory_limit_bytes: int | None = None,
    keeper: Keeper | None = None,
    folders: Collection[str] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """Start one of the agent's programs, and end every process of its process group when the block is left.

    Args:
        executable: The interpreter.
        bootstrap: The program, as after `-c`. It writes its answers to the descriptor that is its only argument.
        paths: Folders for the program's import path, before the agent's own. Headway's other modules are not on it.
        cores: The cores that the program may run on.
        answers_fd: The descriptor for the answers.
        stderr: The file for the program's standard error.
        user_site: The program runs code of the user's, which may need libraries of the user's own site folder.
        memory_limit_bytes: The limit of each process's address space.
        keeper: Ends the program's processes, and removes `folders`, if the lab is killed in the meantime.
        folders: Folders that the keeper removes.

    Raises:
        OSError, subprocess.SubprocessError: The program cannot be started.
    """
    process = start(
        [executable, *([] if user_site else ["-s"]), "-c", bootstrap, str(answers_fd)],
        (*paths, str(AGENT_PATH)),
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=[answers_fd],
        prepare=lambda: _prepare_child(cores, memory_limit_bytes),
    )
    try:
        if keeper is not None:
            keeper.watch(process.pid, folders)
        yield process
    finally:
        # Members of the group (pool workers, a fork server) may outlive its leader.
        end_group(process.pid)
        process.wait()
        if keeper is not None:
            keeper.watch(0, folders)


_WATCH_S = 0.5
_GRACE_S = 2.0
"""The interval at which a launch's server is checked, and the time in which a launch must notice its server's death."""


def _listen(
    process: subprocess.Popen[bytes],
    reader: int,
    listener: Listener,
    deadline_s: float,
    died: Callable[[], str] | None,
) -> bool:
    """Take answers until the process has closed its end; return False if the deadline came first.

    If the launch's server has died, the deadline moves closer: a client of the server may wait for ever
    (redis-benchmark does).
    """
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            if not selector.select(left_s if died is None else min(left_s, _WATCH_S)):
                if died is not None and died():
                    deadline_s, died = min(deadline_s, time.monotonic() + _GRACE_S), None
                continue
            data = os.read(reader, 65536)
            if not data:
                return True
            listener.feed(data)
            if listener.ended:
                # The agent exits at once. The wait has a limit, because a pool worker may have inherited the pipe's
                # end.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=max(0.0, deadline_s - time.monotonic()))
                return process.returncode is not None


def _raised(lines: Sequence[str]) -> str:
    """Return the exception of the last traceback; "" if there is none, or only that of an exception that was ignored.

    Helper processes, such as multiprocessing's resource tracker, may write further lines after it.
    """
    for place in reversed(range(len(lines))):
        ignored = place > 0 and lines[place - 1].startswith("Exception ignored")
        if lines[place].startswith("Traceback (most recent call last):") and not ignored:
            return next((line for line in lines[place + 1 :] if not line.startswith(" ")), "")
    return ""


def _why(returncode: int, stderr: str) -> str:
    """Return one line on why a launch failed."""
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    last = _raised(lines) or (lines[-1].strip() if lines else "nothing on stderr")
    if returncode < 0:
        memory = ", perhaps by the kernel because memory ran out" if returncode == -signal.SIGKILL else ""
        return f"{ended_by(returncode)}{memory}"
    if any("MemoryError" in line for line in lines):
        return f"out of memory: {last}"
    return f"{ended_by(returncode)}: {last}"


def run_launch(
    cells: Sequence[Cell],
    executable: str,
    machine: Machine,
    *,
    library: Path | None = None,
    limit_s: float,
    memory_limit_bytes: int | None = None,
    keeper: Keeper | None = None,
    beside: Beside = NOTHING,
    seed: int = 1,
) -> list[Launch]:
    """Start `executable`, run the cells once in it, and return a launch for each cell.

    Args:
        cells: The cells to measure: one, or several of a group that take turns.
        executable: The interpreter.
        machine: The machine, which has the cores for the cells' placement.
        library: The native library, for native cells.
        limit_s: Seconds for each cell after which the launch is killed.
        memory_limit_bytes: The limit of each process's address space.
        keeper: Ends the launch's processes if the lab is killed in the meantime; the runner always passes one.
        beside: Libraries, a server and folders for the launch.
        seed: The seed for a workload's random choices; it differs in each launch of a cell.

    A launch that cannot be started, crashes, hangs or ends early is returned with status "failed", for all its cells.
    KeyboardInterrupt passes through, after all processes of the launch's process group have ended.
    """
    reader, writer = os.pipe()
    limit_s *= len(cells)
    with open(os.memfd_create("headway-stderr"), "w+b") as stderr:
        begun_ns = time.monotonic_ns()
        listener = Listener(begun_ns, len(cells))
        try:
            with agent_process(
                executable,
                BOOTSTRAP,
                (*cells[0].variant.paths, *beside.paths),
                machine.cores,
                writer,
                stderr,
                user_site=cells[0].variant.workload.startswith("headway_agent.strangers."),
                memory_limit_bytes=memory_limit_bytes,
                keeper=keeper,
                folders=beside.folders.values(),
            ) as process:
                os.close(writer)
                writer = -1
                job = {**_job(cells, machine, library, limit_s, beside), "seed": seed}
                in_time = _converse(process, reader, listener, job, limit_s, beside.died)
        except (OSError, subprocess.SubprocessError) as error:
            return [Launch(reason=f"the process could not be started: {error}") for _ in cells]
        finally:
            for fd in (reader, writer):
                if fd >= 0:
                    os.close(fd)
        wall_s = (time.monotonic_ns() - begun_ns) / 1e9
        said = tail_of(stderr, _STDERR_KEPT_BYTES)
    reason = ""
    if not in_time:
        dead = beside.died is not None and beside.died()
        reason = "killed, waiting for it" if dead else f"{OVER_LIMIT} of {limit_s:g} s"
    elif listener.garbled:
        reason = "the answers of the launch are damaged: something in it wrote to Headway's descriptor"
    elif listener.refused:
        reason = listener.refused
    elif process.returncode != 0 or not listener.ended:
        reason = _why(process.returncode, said)
    for launch in listener.launches:
        launch.status, launch.reason = ("failed", reason) if reason else ("ok", "")
        launch.stderr, launch.wall_s = said, wall_s / len(cells)
    return listener.launches


def _converse(
    process: subprocess.Popen[bytes],
    reader: int,
    listener: Listener,
    job: Mapping[str, Any],
    limit_s: float,
    died: Callable[[], str] | None,
) -> bool:
    """Send the job and take the answers; return False if time ran out (sooner after a server's death)."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(job).encode())
    deadline_s = time.monotonic() + limit_s
    if not _listen(process, reader, listener, deadline_s, died):
        return False
    try:
        process.wait(timeout=max(0.1, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True
