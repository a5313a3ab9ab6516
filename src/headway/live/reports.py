"""The analyses of recordings, each of them in a process of its own: how they are started, and what they have found."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, final

from headway.live.kept import partial_of
from headway.live.ours import command_of
from headway.live.watched import Watched

__all__ = ["Report", "start_analysis"]

_NICER: Final = 10
"""Beside a service that needs its core, an analysis takes a tenth of the core."""
_MOST_S: Final = 300
"""The time that an analysis may take. The watcher outlives all that it watches by no more than the last analyses."""


@final
@dataclass
class Report:
    """A process that analyses a recording."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    """A file in memory that the process writes its results to."""
    watched: Watched
    path: Path
    asked: bool
    is_in_memory: bool = False
    """Whether the recording is no file, as there was no room for one."""
    began_ns: int = 0
    is_second: bool = False
    """Whether its reason may be an analysis: see live.allowance."""
    is_killed: bool = False
    """Whether it took too long."""

    def has_ended(self, now_ns: int) -> bool:
        """Return whether the process has ended; kill it if it takes too long."""
        if self.process.poll() is not None:
            return True
        if now_ns - self.began_ns > _MOST_S * 1_000_000_000 and not self.is_killed:
            self.is_killed = True
            self.process.kill()
        return False

    @property
    def too_long(self) -> str:
        """The words on the time where the process was killed; else ""."""
        return f" in {_MOST_S} s" if self.is_killed else ""

    def result(self) -> dict[str, Any] | None:
        """Return what the process, which has ended, has found; None: it has failed."""
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


def start_analysis(path: Path, file: int, told: dict[str, Any]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start the process that analyses a recording (headway.live.stalled); return it, and the file of its results.

    Args:
        path: The name that the recording gets when it is complete.
        file: The descriptor of the recording.
        told: What the process is told of the recording.

    Raises:
        OSError: There is no room for the words, or for a process.
    """
    with contextlib.ExitStack() as opened:
        # Files, as nobody waits at a file: a pipe takes 64 KiB, and the rest only as the other process reads.
        asking, output = (opened.enter_context(_in_memory(name)) for name in ("asking", "found"))
        asking.write(json.dumps(told).encode())
        asking.seek(0)
        process = subprocess.Popen(
            command_of(sys.executable, "headway.live.stalled", str(partial_of(path))),
            stdin=asking,
            stdout=output,
            pass_fds=[file],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # numpy's threads would spin, with nothing to do
        )
        opened.pop_all()
        asking.close()
    # Its imports take longer than its work, so it does not do this itself.
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(process.pid) in (os.SCHED_FIFO, os.SCHED_RR):  # there nice means nothing
            os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)
    return process, output


def _in_memory(name: str) -> IO[bytes]:
    return open(os.memfd_create(name), "w+b")
