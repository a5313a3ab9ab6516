"""Enters or leaves running processes, several beside each other, since each of them may make us wait; says so."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar, final

from headway.cli import console
from headway.errors import RecordingError

__all__ = ["CHILD_PATIENCE_S", "Waiting", "beside_each_other", "enter_children", "tried"]

CHILD_PATIENCE_S = 3.0
"""The longest wait until a child process runs Python; Headway does not enter a child that does not."""
_AT_A_TIME = 32
_SILENT_S = 1.0
"""A wait that goes on for longer is announced."""

_One = TypeVar("_One")
_Found = TypeVar("_Found")


@final
class Waiting:
    """Says once that a process makes us wait, and for what; to be called several times a second while it does."""

    def __init__(self, pid: int, patience_s: float, check: Callable[[], None] | None = None) -> None:
        """Begin to wait; `check` is called, too, and may raise."""
        self._text = f"waiting up to {patience_s:g} s until the main thread of process {pid} runs Python"
        self._since_s: float | None = time.monotonic()
        self._check = check

    def __call__(self) -> None:
        """Say it if the wait has been long; once."""
        if self._check is not None:
            self._check()
        if self._since_s is not None and time.monotonic() - self._since_s > _SILENT_S:
            self._since_s = None
            console.say(self._text)


def beside_each_other(do: Callable[[_One], _Found], ones: Sequence[_One]) -> list[_Found]:
    """Call `do` for each of some processes, at most 32 at a time; return the results in the same order."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_A_TIME, "headway-enter") as pool:
        return list(pool.map(do, ones))


def tried(enter: Callable[[], _Found]) -> _Found | RecordingError:
    """Return what `enter` returns, or why it cannot enter a process: a lack of descriptors is such a reason, too."""
    try:
        return enter()
    except RecordingError as error:
        return error
    except OSError as error:
        return RecordingError(error.strerror or str(error))


def enter_children(pids: Sequence[int], enter: Callable[[int], _Found | None], what: str) -> list[_Found]:
    """Enter child processes beside each other, and say which of them are not `what` ("recorded"), and why.

    Args:
        pids: The processes.
        enter: Enters one; returns None if that is not wanted. May raise RecordingError.
        what: What becomes of a process that is entered.

    Returns:
        What `enter` returned, in the order of `pids`, without the None.
    """
    found: list[_Found] = []
    for pid, entered in zip(pids, beside_each_other(lambda pid: tried(lambda: enter(pid)), pids), strict=True):
        if isinstance(entered, RecordingError):
            console.say(f"its child process {pid} is not {what}: {entered.message}")
        elif entered is not None:
            found.append(entered)
    return found
