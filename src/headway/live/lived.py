"""Whether a process still runs the same program, and until when one that records has certainly done so."""

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from headway.live.proc import BEGIN_TICKS, FLAGS, STATE, stat

if TYPE_CHECKING:
    from headway.native import Collection

__all__ = ["Lived", "incarnation_in", "incarnation_of", "is_exiting"]

_EXITING: Final = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h, among the flags of /proc/PID/stat."""

_CODE: Final = 23
_STACK: Final = 25
"""The indices of the addresses of the program's code and stack among the fields of /proc/PID/stat."""

_PERIOD_NS: Final = 250_000_000
"""The time between two looks: each reads a file of /proc, and there may be hundreds of processes."""


def is_exiting(fields: list[str]) -> bool:
    """Tell whether a process or a thread is exiting, from the fields of its `stat`: it runs none of its code any more."""
    return bool(int(fields[FLAGS]) & _EXITING)


def incarnation_of(pid: int) -> tuple[str, ...] | None:
    """Return what distinguishes this process and its program from any other; None if the process has ended."""
    try:
        return incarnation_in(stat(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None


def incarnation_in(fields: list[str]) -> tuple[str, ...] | None:
    """Return what distinguishes a process and its program from any other, from the fields of its /proc/PID/stat.

    The identity consists of the process's start time, and of the addresses of its program's code and stack: exec() puts
    the stack elsewhere. In the middle of exec() the new program has no code yet, though the process is there.

    Returns None if the process has ended.
    """
    # A process that is exiting may have no memory any more, before its state says so.
    if fields[STATE] in "ZX" or is_exiting(fields):
        return None
    return fields[BEGIN_TICKS], fields[_CODE], fields[_STACK]


def _is_in_exec(incarnation: tuple[str, ...]) -> bool:
    """Tell whether a process is in the middle of exec(): it has given its program up, and the next has no code yet."""
    return incarnation[1] == "0"


def _has_let_go(pid: int, memory: int) -> bool:
    """Tell whether a process certainly has no part of a memory any more, as after exec(); the caller has it mapped."""
    line = re.compile(rb" %d +/memfd:" % os.fstat(memory).st_ino)
    with contextlib.suppress(OSError):
        seen = Path(f"/proc/{pid}/maps").read_bytes()
        # A kernel that does not show our own part tells nothing of others.
        return bool(seen) and not line.search(seen) and bool(line.search(Path("/proc/self/maps").read_bytes()))
    return False


@final
class Lived:
    """Tells the collection of a process until when the process has run its program.

    A process that is killed records no end. Without this, its trace would end at its last event, and a deadlock, after
    which there are no events, would not be in it.
    """

    def __init__(self, pid: int, collection: "Collection", memory: int) -> None:
        """Begin. `pid` is the process's id, and `memory` the descriptor of the memory that it has sent, and we have mapped.

        We may be late: the process may have executed another program since it called, and we would take that one for it.
        """
        self._pid, self._collection = pid, collection
        self._incarnation = self._look()
        self._looked_ns = 0
        self.over = self._incarnation is not None and (
            _is_in_exec(self._incarnation) or (_has_let_go(pid, memory) and self._look() == self._incarnation)
        )
        """Whether the process has executed another program: it lives on, but its recording has ended."""
        if self.over:
            self._incarnation = None

    def look(self, now_ns: int) -> None:
        """Look at the process, if the last look was some time ago. `now_ns` is the present CLOCK_MONOTONIC."""
        if self._incarnation is None or now_ns - self._looked_ns < _PERIOD_NS:
            return
        self._looked_ns = now_ns
        found = self._look()
        if found == self._incarnation:
            self._collection.lived(now_ns)
        else:
            self.over = found is not None  # a process whose first thread has ended shows no program either
            self._incarnation = None

    def _look(self) -> tuple[str, ...] | None:
        found = None
        with contextlib.suppress(OSError):
            found = incarnation_of(self._pid)
        # If we may not trace a process, the kernel shows "1" for its code and "0" for its stack. A process may come to be so
        # later (PR_SET_DUMPABLE).
        return None if found is None or (found[-1] == "0" and not _is_in_exec(found)) else found
