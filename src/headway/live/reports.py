"""The analyses of recordings, each of them in a process of its own: how they are started, and what they have found.

All workers of a service may stall at once, as behind one slow database. Their recordings are written at once, as their
rings would be overwritten soon, and wait on the disk: analyses of all of them together would take the service's memory.

A service whose processes are short-lived may stall in them faster than analyses go. So few recordings wait at a time: a
process that goes on keeps its events until there is room, and the last recording of one that has ended is left out.
"""

import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, final

from headway.host.memory import groups_of, memory_left_bytes
from headway.live.detached import let_be_killed_first
from headway.live.kept import partial_of
from headway.live.ours import NOT_OURS, command_of
from headway.live.stall_log import Gaps
from headway.live.watched import Watched

__all__ = ["LeftOut", "Report", "begin", "has_room", "most_waiting", "next_to_begin", "start_analysis"]

_NICER: Final = 10
"""Beside a service that needs its core, an analysis takes a tenth of the core."""
_MOST_S: Final = 300
"""The time that an analysis may take. The watcher outlives all that it watches by no more than the last analyses."""
_AT_ONCE: Final = 2
"""The largest number of analyses at a time; each takes some 20 MB."""
_TOGETHER: Final = 10
"""So many recordings of processes that have ended may have one analysis: its imports mostly take longer than its work."""
_MAY_WAIT: Final = 20
"""So many recordings may wait for their analysis in any case. Their analyses take some seconds."""
_PART_OF_FILES: Final = 4
"""The part (1 / _PART_OF_FILES) of the files that the watcher may open that recordings may take; a ring takes some, too."""
_LEAST_BYTES: Final = 30 << 20
"""With less memory no analysis begins: where the kernel ends a container as a whole, it would end the service, too."""


@final
@dataclass
class Report:
    """A recording, and the process that analyses it, or will do so."""

    process: subprocess.Popen[bytes] | None
    """None: it has not begun."""
    output: IO[bytes] | None
    """A file in memory that the process writes its results to."""
    watched: Watched
    path: Path
    asked: bool
    is_in_memory: bool = False
    """Whether the recording is no file, as there was no room for one."""
    began_ns: int = 0
    """When the process began."""
    is_second: bool = False
    """Whether its reason may be an analysis: see live.allowance."""
    is_killed: bool = False
    """Whether it took too long."""
    lacks_memory: bool = False
    """Whether it has not begun, as there was too little memory."""
    file: int = -1
    """The recording's descriptor, until the process has it."""
    told: bytes = b""
    """What the process is told of the recording."""
    before_ns: int = 0
    """When the report before this one began, of the same watched process."""

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it, or for the next recording of the same watched process."""
        return self.asked or self.watched.asked

    def has_ended(self, now_ns: int) -> bool:
        """Return whether the process has ended; kill it if it takes too long."""
        if self.process is None:
            return self.lacks_memory
        if self.process.poll() is not None:
            return True
        if now_ns - self.began_ns > _MOST_S * 1_000_000_000 and not self.is_killed:
            self.is_killed = True
            self.process.kill()
        return False

    @property
    def why(self) -> str:
        """The words on why there is no result, where that is known; else ""."""
        if self.lacks_memory:
            return ", as too little memory is left"
        if self.process is not None and self.process.poll() == NOT_OURS:
            return ", as Headway was removed or replaced since the watch began (restart the program)"
        return f" in {_MOST_S} s" if self.is_killed else ""

    @property
    def was_ended(self) -> bool:
        """Whether another than we ended the process, as the kernel does for want of memory."""
        return self.process is not None and self.process.poll() == -signal.SIGKILL and not self.is_killed

    def result(self) -> dict[str, Any] | None:
        """Return what the process, which has ended, has found; None: it has failed."""
        if self.output is None:
            return None
        with self.output as file:
            file.seek(0)
            text = file.read()
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = json.loads(text)
            return found
        return None

    def keep_unexplained(self) -> bool:
        """Give a recording that could not be analysed its name; return whether it is there under that name."""
        if self.is_in_memory:
            return False
        with contextlib.suppress(OSError):
            partial_of(self.path).rename(self.path)
        return self.path.exists()  # the analysis may have failed after it had named the recording


def _left_bytes() -> float:
    with contextlib.suppress(OSError, ValueError):
        return memory_left_bytes(groups_of("self"), with_active=True)
    return math.inf  # it is not known


def most_waiting(keep: int, alive: int) -> int:
    """Return how many recordings may wait for their analysis.

    Args:
        keep: The number of recordings that are kept, and may take the disk's room.
        alive: The number of watched processes that have not ended; all of them may stall at once.
    """
    most = max(keep, alive, _MAY_WAIT)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if files == resource.RLIM_INFINITY else max(1, min(most, files // _PART_OF_FILES))


def has_room(reports: Sequence[Report], most: int) -> bool:
    """Tell whether fewer than `most` recordings wait for their analysis; those that somebody asked for do not count."""
    return sum(one.process is None and not one.asked for one in reports) < most


@final
class LeftOut:
    """The processes that ended while too many recordings waited, so that theirs were left out."""

    def __init__(self, gaps: Gaps, say: Callable[[str], None]) -> None:
        """Take the notes of gaps in the log, and the function that prints a line once."""
        self._gaps, self._say = gaps, say
        self._count = 0

    def note(self) -> None:
        """Note that the last stalls of a process are not told."""
        self._count += 1
        which = "process has" if self._count == 1 else "processes have"
        self._gaps.note(
            f"{self._count} {which} ended while too many recordings waited for their analysis, and got none"
        )
        self._say(
            "processes that stall end faster than their recordings can be analysed: the last stalls of some are not told"
            " (`headway stalls` says of how many)"
        )


def next_to_begin(reports: Sequence[Report]) -> list[Report]:
    """Return the reports whose analysis is to begin now, in one process; []: none may begin.

    It is one that somebody waits for, or else the oldest. The next report on a process that goes on waits for the result
    of this one, so it has a process of its own. Those on processes that have ended may be many.
    """
    queued = [one for one in reports if one.process is None and not one.lacks_memory]
    running = {id(one.process) for one in reports if one.process is not None}
    first = min(queued, key=lambda one: not one.is_wanted, default=None)
    if first is None or len(running) >= _AT_ONCE:
        return []
    if first.is_wanted or not first.watched.ring.gone:
        return [first]
    return [one for one in queued if one.watched.ring.gone and not one.is_wanted][:_TOGETHER]


def begin(reports: Sequence[Report], now_ns: int) -> None:
    """Start the process that analyses these recordings, one after the other, if there is memory for it.

    Their descriptors are closed.

    Raises:
        OSError: That is not possible.
    """
    with contextlib.ExitStack() as opened:
        for report in reports:
            opened.enter_context(open(report.file, "rb"))
        if _left_bytes() < _LEAST_BYTES:
            for report in reports:
                report.lacks_memory, report.began_ns = True, now_ns
            return
        process, outputs = start_analysis([(report.path, report.file, report.told) for report in reports])
    for report, output in zip(reports, outputs, strict=True):
        report.process, report.output, report.began_ns = process, output, now_ns


def start_analysis(recordings: Sequence[tuple[Path, int, bytes]]) -> tuple[subprocess.Popen[bytes], list[IO[bytes]]]:
    """Start the process that analyses recordings (headway.live.stalled); return it, and the files of its results.

    Args:
        recordings: Of each, the name that it gets when it is complete, its descriptor, and what the process is told of it,
            as JSON in one line.

    Raises:
        OSError: There is no room for the words, or for a process.
    """
    with contextlib.ExitStack() as opened:
        # Files, as nobody waits at a file: a pipe takes 64 KiB, and the rest only as the other process reads.
        asking, *outputs = (
            opened.enter_context(_in_memory(name)) for name in ("asking", *("found" for _ in recordings))
        )
        asking.write(b"\n".join(told for _, _, told in recordings))
        asking.seek(0)
        words = [str(partial_of(recordings[0][0]))]
        for (path, _, _), output in zip(recordings[1:], outputs[1:], strict=True):
            words += [str(partial_of(path)), str(output.fileno())]
        process = subprocess.Popen(
            command_of(sys.executable, "headway.live.stalled", *words),
            stdin=asking,
            stdout=outputs[0],
            pass_fds=[*(file for _, file, _ in recordings), *(output.fileno() for output in outputs[1:])],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # numpy's threads would spin, with nothing to do
        )
        opened.pop_all()
        asking.close()
    # Its imports take longer than its work, so it does not do this itself.
    let_be_killed_first(process.pid)
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(process.pid) in (os.SCHED_FIFO, os.SCHED_RR):  # there nice means nothing
            os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)
    return process, outputs


def _in_memory(name: str) -> IO[bytes]:
    return open(os.memfd_create(name), "w+b")
