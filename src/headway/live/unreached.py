"""Tells that no Python of a program is reached; and the cause, if a Python does not load Headway although it inherits it.

A script may replace PYTHONPATH before it starts Python, and another `sitecustomize` may be found before ours. The
command line of the launch shows neither; headway.live.reach has the evidence.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from headway.live.files import descendants
from headway.live.reach import cause_of, may_chain
from headway.printable import printable

__all__ = ["Unreached"]

_SURE_S: Final = 1.0
"""The age of a cause at which it is told. A Python that a script calls for a moment, before its own, is left out."""
_CHAINED_S: Final = 3.0
"""The same where another sitecustomize is found first, which may itself run ours in the end."""
_OFTEN_S, _SELDOM_S = 1.0, 60.0
"""How long each pass looks, and how long one pass a second looks. After that, only the program's end is told."""
_MOST_PROCESSES: Final = 64
_NOTHING: Final = {"traced": "there is no trace", "watched": "there is nothing to show"}


@final
class Unreached:
    """The look at a program whose processes have not called."""

    def __init__(self, pid: int, what: str, say: Callable[[str], None], *, tells_none: bool = True) -> None:
        """Begin to look.

        Args:
            pid: The process that is about to become the program; 0: do not look.
            what: What the program should be, as in "traced".
            say: Prints a line on stderr.
            tells_none: Print a line at the program's end if it has started no Python at all.
        """
        self._pid, self._what, self._say, self._tells_none = pid, what, say, tells_none
        self._launcher = _command(pid) if pid else b""
        """The command line of the launcher, which is a Python out of reach, too, and so may be its children."""
        self._began_s = self._looked_s = time.monotonic()
        self._seen: dict[tuple[int, str], float] = {}
        """When each cause was first seen, by process."""

    @property
    def may_tell(self) -> bool:
        """Whether there may still be a line to print."""
        return self._pid != 0

    @property
    def looks(self) -> bool:
        """Whether there may be one before the program's end."""
        return self.may_tell and time.monotonic() - self._began_s <= _SELDOM_S

    def look(self, *, called: bool, over: bool = False) -> None:
        """Look at the program and its descendants, and print one line once the cause is sure.

        Args:
            called: A process has called, so Headway reaches the program.
            over: The program has ended: the last cause that was seen is told, or else that there is no trace.
        """
        now_s = time.monotonic()
        age_s = now_s - self._began_s
        if called or not self._pid:
            self._pid = 0
            return
        if over:
            if self._seen:
                self._tell(*list(self._seen)[-1])
            elif self._tells_none:
                self._say(
                    f"the program has ended, and no Python process of it was {self._what}:"
                    f" {_NOTHING[self._what]}, unless one begins after its end"
                )
            self._pid = 0
            return
        if age_s > _SELDOM_S or (age_s > _OFTEN_S and now_s - self._looked_s < 1):
            return
        self._looked_s = now_s
        if _command(self._pid) == self._launcher:
            return  # the program has not begun
        for pid in [self._pid, *descendants(self._pid)][:_MOST_PROCESSES]:
            cause = cause_of(pid)
            if cause:
                since_s = self._seen.setdefault((pid, cause), now_s)
                if now_s - since_s >= (_CHAINED_S if may_chain(cause) else _SURE_S):
                    self._tell(pid, cause)
                    self._pid = 0
                    return

    def _tell(self, pid: int, cause: str) -> None:
        self._say(printable(f"process {pid} is not {self._what}: {cause}"))


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
