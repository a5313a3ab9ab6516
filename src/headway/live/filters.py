"""Checks whether a process has its own seccomp filter, which may end the process for a system call that we cause.

The code that a process runs for us makes system calls that the program may never make: socket, connect, memfd_create,
and the opening of modules. We cannot find out from outside whether a filter forbids them. Therefore we do not attach to
a process with a filter of its own. A container's filter is no obstacle: all processes of the container have it, usually
including headway.

A process inherits filters and never loses one. So the first process of the container has the container's filters.
"""

import contextlib
import os
from pathlib import Path

from headway.errors import RecordingError
from headway.live.proc import ids_in, status

__all__ = ["check", "own_filter"]

_PROC = Path("/proc")
_STRICT, _FILTERED = "1", "2"  # SECCOMP_MODE_STRICT, SECCOMP_MODE_FILTER


def check(pid: int, hint: str) -> None:
    """Check that no filter of the process's own can end it for the code that it runs for us.

    Raises:
        RecordingError: The process has such a filter, or has ended, or may not be looked at.
    """
    try:
        found = own_filter(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise RecordingError(f"process {pid} has ended") from None
    except OSError as error:
        raise RecordingError(
            f"the seccomp filters of process {pid} cannot be read: {error.strerror}",
            hint="attach as its user, or as root",
        ) from None
    if found:
        raise RecordingError(
            f"process {pid} has {found}, which may end it for a call that Headway needs: it was left alone", hint=hint
        )


def own_filter(pid: int, proc: Path = _PROC) -> str:
    """Describe the process's own filter, or return "" if there is none.

    Raises:
        OSError: The process has ended, or may not be looked at.
    """
    said = _threads(pid, proc)
    if any(one.get("Seccomp") == _STRICT for one in said):
        return "seccomp's strict mode on"
    count = max(map(_filters, said))
    if count == 0:
        return ""
    others = _filters(_measure(pid, said[0], proc))
    if count <= others:
        return ""
    told = f" ({count} in total, {others} of them its container's)" if "Seccomp_filters" in said[0] else ""
    return f"a seccomp filter of its own{told}"


def _threads(pid: int, proc: Path) -> list[dict[str, str]]:
    """Return the kernel's status of the main thread, which runs our code, and of all threads.

    Each thread has its own filters, and each runs our hooks, which make system calls, too (docs/decisions/013).
    """
    said = [status(pid, proc)]
    with contextlib.suppress(OSError):
        for thread in os.listdir(proc / str(pid) / "task"):
            with contextlib.suppress(OSError):  # the thread ends meanwhile
                said.append(status(f"{pid}/task/{thread}", proc))
    return said


def _filters(said: dict[str, str]) -> int:
    """Return the number of filters; before Linux 5.9, which does not report it, 1 stands for any number."""
    return int(said.get("Seccomp_filters", "1" if said.get("Seccomp") == _FILTERED else "0"))


def _measure(pid: int, said: dict[str, str], proc: Path) -> dict[str, str]:
    """Return the kernel's status of a process that has the container's filters, and no others.

    That is the container's first process. If the first process is not visible, or is `pid` itself, our own status is
    used: we may have been started in the same container.
    """
    found = _first_process(pid, said, proc)
    return found if found is not None else status("self", proc)


def _first_process(pid: int, said: dict[str, str], proc: Path) -> dict[str, str] | None:
    ids = ids_in(said)
    if ids[-1] == 1:
        return None
    with contextlib.suppress(OSError):
        if len(ids) == 1:  # `pid` lives in the PID namespace of this /proc, whose first process is always readable
            return status(1, proc)
        space = _space(str(pid), proc)
        for other in os.listdir(proc):
            with contextlib.suppress(OSError):  # the process ends meanwhile, or belongs to another user
                if other.isdecimal() and _space(other, proc) == space:
                    found = status(other, proc)
                    if ids_in(found)[-1] == 1:
                        return found
    return None


def _space(pid: str, proc: Path) -> str:
    return os.readlink(proc / pid / "ns" / "pid")
