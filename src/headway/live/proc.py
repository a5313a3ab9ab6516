"""Reads the files in /proc by which the kernel tells of a process or a thread (proc(5))."""

import contextlib
import os
from pathlib import Path
from typing import Final

__all__ = ["BEGIN_TICKS", "FLAGS", "PARENT", "STATE", "fields_of", "ids_in", "stat", "status", "writes_to"]

_PROC: Final = Path("/proc")

STATE: Final = 0
"""The index of the state's letter among the fields of `stat`."""
PARENT: Final = 1
"""The index of the parent's id."""
FLAGS: Final = 6
"""The index of the flags, as PF_EXITING of include/linux/sched.h."""
BEGIN_TICKS: Final = 19
"""The index of the time at which the process or the thread began, in ticks since the machine's start."""


def stat(name: int | str, proc: Path = _PROC) -> list[str]:
    """Return the fields of a process's `stat`, or of a thread's (PID/task/ID), behind its name. Raises OSError."""
    return fields_of((proc / str(name) / "stat").read_text(encoding="utf-8", errors="replace"))


def fields_of(text: str) -> list[str]:
    """Return the fields of a `stat` file behind the program's name, which may contain anything."""
    return text.rpartition(")")[2].split()


def status(name: int | str, proc: Path = _PROC) -> dict[str, str]:
    """Return the lines of a process's `status`, or of a thread's (its id, or PID/task/ID). Raises OSError."""
    lines = (proc / str(name) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def ids_in(said: dict[str, str]) -> list[int]:
    """Return the ids in a `status`: one for each PID namespace from ours down to the process's or thread's own."""
    return [int(one) for one in said.get("NSpid", said.get("Pid", "0")).split()]


def writes_to(pid: int, descriptor: int) -> bool:
    """Tell whether a process has the file of a descriptor of ours as its stdout or stderr."""
    ours = os.fstat(descriptor)
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(ours, os.stat(f"/proc/{pid}/fd/{number}")):
                return True
    return False
