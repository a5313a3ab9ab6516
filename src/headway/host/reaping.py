"""Ends the processes of a launch, and removes its files: for the runner, and for the keeper if the runner was killed.

The module uses only the standard library and does not import headway, because the keeper runs this file as a separate
program (`python -I -S reaping.py`). The program reads lines of JSON, `[process group, [folder, ...]]`. When its
standard input closes, which only the runner holds open, it ends the last group and removes the last folders that it has
read.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time

__all__ = ["end_group", "end_marked", "keep"]

_GRACE_S = 1.0
_TRIES = 100
_LOOKS = 30
"""The most looks at processes, a millisecond apart: some have an empty environment for ever."""


def _members(group: int) -> list[int]:
    """Return the live processes of a process group: field 5 of proc_pid_stat(5)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                # The command, in brackets, may contain any characters.
                state, _, member_of = stat.read().rpartition(")")[2].split()[:3]
            if int(member_of) == group and state != "Z":
                found.append(int(entry))
    return found


def _tracks_resources(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as command:
        return b"resource_tracker" in command.read()
    return False


def _gone(group: int, limit_s: float) -> bool:
    deadline_s = time.monotonic() + limit_s
    while _members(group):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.001)
    return True


def end_group(group: int) -> None:
    """End every process of a group.

    All processes but multiprocessing's resource tracker are killed at once. The resource tracker ends by itself when
    the others have ended, and first removes their named semaphores and shared memory, which no other process could.
    After a second it is killed, too.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return  # The usual case: all have ended by themselves.
    except PermissionError:
        pass
    for pid in _members(group):
        if not _tracks_resources(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    if not _gone(group, _GRACE_S):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def end_marked(name: str, value: str) -> None:
    """End every process of this user, except this one, that was started with this variable in its environment."""
    mark = f"{name}={value}".encode()
    everybody = True
    pids: list[int] = []
    for _ in range(_LOOKS):
        if everybody:
            pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]
        marked = {pid: _has_mark(pid, mark) for pid in pids}
        for pid in [pid for pid, has_it in marked.items() if has_it]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        everybody = any(marked.values())  # one that was just killed may have started another
        pids = [pid for pid, has_it in marked.items() if has_it is None]
        if not everybody and not pids:
            return
        time.sleep(0.001)


def _has_mark(pid: int, mark: bytes) -> bool | None:
    """Tell whether a process has a variable; None if it has no environment, as in the middle of exec()."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/environ", "rb") as environment:
            variables = environment.read()
        if not variables:
            os.readlink(f"/proc/{pid}/exe")  # one that has ended has none, nor has the kernel's own
            return None
        return mark in variables.split(b"\0")
    return False


def keep() -> None:
    """Run as the keeper (see the module's docstring)."""
    group, folders = 0, []
    for line in sys.stdin:
        group, folders = json.loads(line)
    if group:
        end_group(group)
    for folder in folders:
        # A process that was just killed may still create a file.
        for _ in range(_TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.isdir(folder):
                break
            time.sleep(0.05)


if __name__ == "__main__":
    keep()
