"""The ids by which we see the threads of a process; a process in another PID namespace has other ids for them."""

import contextlib
import os
from pathlib import Path
from typing import Final, final

from headway.live.proc import ids_in, status

__all__ = ["ThreadIds"]

_PROC: Final = Path("/proc")


@final
class ThreadIds:
    """Translates the ids of one process's threads. The kernel is asked once for each thread."""

    def __init__(self, pid: int, proc: Path = _PROC) -> None:
        """Prepare without a look. `proc` is where the kernel tells of processes."""
        self._pid, self._proc = pid, proc
        self._differ: bool | None = None
        self._own: dict[int, int] = {}
        """By the id that we see: the thread's id in the process's own namespace."""
        self._ours: dict[int, int] = {}
        self._looked_ns = 0

    def ours(self, tid: int, now_ns: int) -> int:
        """Return the id that we see of a thread.

        Args:
            tid: The thread's id as the process has it. A hostile process may name any number.
            now_ns: The time of the caller's look: one look asks for the threads once, however many it wants.

        Raises:
            OSError: The process or the thread is gone.
        """
        if self._differ is None:
            self._differ = len(ids_in(status(self._pid, self._proc))) > 1
        if not self._differ:
            return tid
        if tid not in self._ours and now_ns != self._looked_ns:
            self._looked_ns = now_ns
            self._look()
        if tid not in self._ours:
            raise ProcessLookupError(3, "No such thread")
        return self._ours[tid]

    def forget(self, tid: int) -> None:
        """Forget a thread that is gone: a later one may have its id, here or there."""
        self._own.pop(self._ours.pop(tid, 0), None)

    def _look(self) -> None:
        there = {int(one) for one in os.listdir(self._proc / str(self._pid) / "task")}
        self._own = {ours: own for ours, own in self._own.items() if ours in there}
        for ours in there - self._own.keys():
            with contextlib.suppress(OSError):  # the thread has just ended
                self._own[ours] = ids_in(status(f"{self._pid}/task/{ours}", self._proc))[-1]
        self._ours = {own: ours for ours, own in self._own.items()}
