"""A main thread that runs no Python for some time: in which call of the system it has been, or that it has not begun to."""

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar, final

from headway.errors import RecordingError
from headway.live.proc import status

__all__ = ["NoPythonError", "StandsStillError", "Standstill", "once_python_runs"]

_LOOK_S: Final = 0.1
"""The time between two looks whether a process has started its Python."""

_SLEEP: Final = "a sleep (`time.sleep()`)"
_LOCK: Final = "a wait for a lock or another thread (`acquire()`, `join()`)"
_READ: Final = "a read, of a file, a pipe, a socket or the terminal"
_WRITE: Final = "a write, to a file, a pipe, a socket or the terminal"
_POLL: Final = "a wait for any of its connections (an event loop or a server)"
_PROCESS: Final = "a wait for another process"
_SIGNAL: Final = "a wait for a signal"

_CALLS: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    "x86_64": {
        _SLEEP: (35, 230),
        _LOCK: (202,),
        _READ: (0, 17, 19, 43, 45, 47, 288),
        _WRITE: (1, 18, 20, 44, 46),
        _POLL: (7, 23, 232, 270, 271, 281, 441),
        _PROCESS: (61, 247),
        _SIGNAL: (34, 128, 130),
    },
    "aarch64": {
        _SLEEP: (101, 115),
        _LOCK: (98,),
        _READ: (63, 65, 67, 202, 207, 212, 242),
        _WRITE: (64, 66, 68, 206, 211),
        _POLL: (22, 72, 73, 441),
        _PROCESS: (95, 260),
        _SIGNAL: (133, 137),
    },
}
"""The numbers of the system's calls, by machine."""

_SELECTS: Final = {"x86_64": (23, 270), "aarch64": (72,)}
"""select() and pselect6(), in which CPython sleeps before 3.11: with no descriptors, the first argument."""

_FEW: Final = 2
"""The most times that a thread gives up its core within one call: it may have been stopped and gone on just now."""

_Found = TypeVar("_Found")


class StandsStillError(RecordingError):
    """The main thread of a process has run no Python for as long as we were to wait for it."""


class NoPythonError(StandsStillError):
    """A process runs no Python at this moment: it is still starting it, or has ended it."""

    def __init__(self, pid: int) -> None:
        """Make the error for a process."""
        super().__init__(
            f"the main thread of process {pid} runs no Python yet, or has stopped running Python",
            hint="wait until it does (--patience SECONDS)",
        )


def once_python_runs(ask: Callable[[], _Found], patience_s: float, check: Callable[[], None]) -> _Found:
    """Call `ask` until it raises no NoPythonError; return what it returned.

    Args:
        ask: Asks something of a process, which may have begun just now.
        patience_s: How long to wait for the process's Python.
        check: Called several times a second while this waits; may raise.

    Raises:
        NoPythonError: The process has run no Python in that time.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except NoPythonError:
            if time.monotonic() > deadline:
                raise
        check()
        time.sleep(_LOOK_S)


@final
class Standstill:
    """A process's main thread, from now on."""

    def __init__(self, pid: int) -> None:
        """Begin to observe; nothing is asked of the process."""
        self._pid = pid
        self._switches = self._count()

    def _count(self) -> int:
        """Return the number of times that the thread has given up its core by itself; -1 if that is not known."""
        try:
            return int(status(self._pid).get("voluntary_ctxt_switches", "-1"))
        except (OSError, ValueError):
            return -1

    def words(self) -> str:
        """Return the call that the thread has been in since the beginning; "" if it is none, or not known."""
        try:
            with open(f"/proc/{self._pid}/syscall", encoding="ascii") as file:
                words = file.read().split()
            number, first = int(words[0]), int(words[1], 16)
        except (OSError, ValueError, IndexError):  # "running"
            return ""
        if self._switches < 0 or not 0 <= self._count() - self._switches <= _FEW:
            return ""  # it has been in more than one call
        machine = os.uname().machine
        if first == 0 and number in _SELECTS.get(machine, ()):
            return _SLEEP
        calls = _CALLS.get(machine, {})
        return next((words for words, numbers in calls.items() if number in numbers), "")
