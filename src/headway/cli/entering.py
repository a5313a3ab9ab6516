"""Enters or leaves several running processes beside each other, since each of them may make us wait."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headway.cli import console
from headway.errors import RecordingError

__all__ = ["CHILD_PATIENCE_S", "beside_each_other", "enter_children"]

CHILD_PATIENCE_S = 3.0
"""The longest wait until a child process runs Python; Headway does not enter a child that does not."""
_AT_A_TIME = 32

_One = TypeVar("_One")
_Found = TypeVar("_Found")


def beside_each_other(do: Callable[[_One], _Found], ones: Sequence[_One]) -> list[_Found]:
    """Call `do` for each of some processes, at most 32 at a time; return the results in the same order."""
    with ThreadPoolExecutor(_AT_A_TIME, "headway-enter") as pool:
        return list(pool.map(do, ones))


def enter_children(pids: Sequence[int], enter: Callable[[int], _Found | None], what: str) -> list[_Found]:
    """Enter child processes beside each other, and say which of them are not `what` ("recorded"), and why.

    Args:
        pids: The processes.
        enter: Enters one; returns None if that is not wanted. May raise RecordingError.
        what: What becomes of a process that is entered.

    Returns:
        What `enter` returned, in the order of `pids`, without the None.
    """

    def tried(pid: int) -> _Found | RecordingError | None:
        try:
            return enter(pid)
        except RecordingError as error:
            return error

    found: list[_Found] = []
    for pid, entered in zip(pids, beside_each_other(tried, pids), strict=True):
        if isinstance(entered, RecordingError):
            console.say(f"its child process {pid} is not {what}: {entered.message}")
        elif entered is not None:
            found.append(entered)
    return found
