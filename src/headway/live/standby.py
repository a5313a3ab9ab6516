"""Tells Python's own helper processes, which wait in one call nearly all the time and do none of a program's work."""

import re
from pathlib import Path
from typing import Final

from headway.live.files import parent_of

__all__ = ["is_standby"]

_PROC: Final = Path("/proc")
_TRACKER: Final = re.compile(rb"(import sys; ?)?from [\w.]+\.resource_tracker import main\b")
"""The code of multiprocessing's resource tracker, and of loky's."""
_FORK_SERVER: Final = re.compile(rb"(import sys; ?)?from multiprocessing\.forkserver import main\b")


def is_standby(pid: int, proc: Path = _PROC) -> bool:
    """Tell whether a process is a resource tracker or a fork server; `proc` is where the kernel tells of processes.

    The worker that a fork server forks has the fork server's command line, and is none.
    """
    code = _code_of(pid, proc)
    if _FORK_SERVER.match(code):
        return not _FORK_SERVER.match(_code_of(parent_of(pid, proc) or 0, proc))
    return bool(_TRACKER.match(code))


def _code_of(pid: int, proc: Path) -> bytes:
    """Return the code that the command line of a process has after `-c`; b"" if there is none."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:  # the process has ended
        return b""
    return words[words.index(b"-c") + 1] if b"-c" in words[:-1] else b""
