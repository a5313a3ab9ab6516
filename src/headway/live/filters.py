"""Whether a process has a seccomp filter of its own: such a filter may end it for a call that we have it make.

What a process runs for us makes calls that the program need not make by itself: socket, connect, memfd_create, and the
opening of modules. Whether a filter forbids them cannot be asked from outside. So a filter of the process's own is
enough to leave it alone. A container's filter is not: all in the container live under it, headway as a rule, too.

Filters are inherited and never taken off. So the first process of the container has those of the container.
"""

import contextlib
import os
from pathlib import Path

from headway.errors import RecordingError
from headway.live.memory import status

__all__ = ["check", "own_filter"]

_PROC = Path("/proc")
_STRICT, _FILTERED = "1", "2"  # SECCOMP_MODE_STRICT, SECCOMP_MODE_FILTER


def check(pid: int, hint: str) -> None:
    """Make sure that no filter of its own can end a process for what it is to run for us.

    Raises:
        RecordingError: It has such a filter, or has ended, or may not be looked at.
    """
    try:
        found = own_filter(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise RecordingError(f"process {pid} has ended") from None
    except OSError as error:
        raise RecordingError(
            f"whether process {pid} has a seccomp filter of its own cannot be read: {error.strerror}",
            hint="attach as its user, or as root",
        ) from None
    if found:
        raise RecordingError(
            f"process {pid} has {found}, which may end it for a call that we have it make: it was left alone", hint=hint
        )


def own_filter(pid: int, proc: Path = _PROC) -> str:
    """Return in words what filter of its own a process has, or "".

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
    told = f" ({count} in all, {others} of them its container's)" if "Seccomp_filters" in said[0] else ""
    return f"a seccomp filter of its own{told}"


def _threads(pid: int, proc: Path) -> list[dict[str, str]]:
    """Return what the kernel says of the main thread, which runs our code, and of all threads.

    Each has filters of its own, and each comes to our hooks, which make calls, too (docs/decisions/013).
    """
    said = [status(pid, proc)]
    with contextlib.suppress(OSError):
        for thread in os.listdir(proc / str(pid) / "task"):
            with contextlib.suppress(OSError):  # it ends meanwhile
                said.append(status(f"{pid}/task/{thread}", proc))
    return said


def _filters(said: dict[str, str]) -> int:
    """Return how many there are; 1 stands for any number before Linux 5.9, which does not tell."""
    return int(said.get("Seccomp_filters", "1" if said.get("Seccomp") == _FILTERED else "0"))


def _measure(pid: int, said: dict[str, str], proc: Path) -> dict[str, str]:
    """Return what the kernel says of a process that has the filters of the container, and no others.

    That is the container's first process. Where it is not seen, or is the very process that is asked about, it is ours:
    we may have been started in the same container.
    """
    found = _first_process(pid, said, proc)
    return found if found is not None else status("self", proc)


def _first_process(pid: int, said: dict[str, str], proc: Path) -> dict[str, str] | None:
    numbers = said.get("NSpid", str(pid)).split()
    if numbers[-1] == "1":
        return None
    with contextlib.suppress(OSError):
        if len(numbers) == 1:  # it lives in the namespace that this /proc shows, and needs no right to read that
            return status(1, proc)
        space = _space(str(pid), proc)
        for other in os.listdir(proc):
            with contextlib.suppress(OSError):  # it ends meanwhile, or is somebody else's
                if other.isdecimal() and _space(other, proc) == space:
                    found = status(other, proc)
                    if found.get("NSpid", "").split()[-1:] == ["1"]:
                        return found
    return None


def _space(pid: str, proc: Path) -> str:
    return os.readlink(proc / pid / "ns" / "pid")
