"""The analyses of recordings, each of them in a process of its own: how they are started, and what they have found."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from headway.live.kept import partial_of
from headway.live.ours import command_of
from headway.live.watched import Watched

__all__ = ["Report", "start_analysis"]

_NICER: Final = 10
"""Beside a service that needs its core, an analysis takes a tenth of the core."""


@final
@dataclass
class Report:
    """A process that analyses a recording."""

    process: subprocess.Popen[bytes]
    watched: Watched
    path: Path
    asked: bool
    is_in_memory: bool = False
    """Whether the recording is no file, as there was no room for one."""
    began_ns: int = 0
    is_second: bool = False
    """Whether its reason may be an analysis: see live.allowance."""

    def result(self) -> dict[str, Any] | None:
        """Return what the process, which has ended, has found; None: it has failed."""
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            text = pipe.read()
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


def start_analysis(path: Path, file: int, told: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the process that analyses a recording (headway.live.stalled).

    Args:
        path: The name that the recording gets when it is complete.
        file: The descriptor of the recording.
        told: What the process is told of the recording.

    Raises:
        OSError: There is no room for the words, or for a process.
    """
    with open(os.memfd_create("asking"), "w+b") as asking:  # a pipe would make us wait until the process reads
        asking.write(json.dumps(told).encode())
        asking.seek(0)
        process = subprocess.Popen(
            command_of(sys.executable, "headway.live.stalled", str(partial_of(path))),
            stdin=asking,
            stdout=subprocess.PIPE,
            pass_fds=[file],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # numpy's threads would spin, with nothing to do
        )
    # Its imports take longer than its work, so it does not do this itself.
    with contextlib.suppress(OSError):
        if os.sched_getscheduler(process.pid) in (os.SCHED_FIFO, os.SCHED_RR):  # there nice means nothing
            os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)
    return process
