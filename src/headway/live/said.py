"""The lines of a watcher on stderr, which is the service's: none comes twice, nor once for each of its processes."""

import contextlib
import os
from typing import final

__all__ = ["Said"]


@final
class Said:
    """The lines that a watcher has printed on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        """Begin without any; a quiet watcher prints none."""
        self._quiet = quiet
        self._texts: set[str] = set()
        self._reasons: set[str] = set()

    def say(self, text: str) -> None:
        """Print a line, unless it has been printed before."""
        if not self._quiet and text not in self._texts:
            self._texts.add(text)
            with contextlib.suppress(OSError):  # it may be closed, full, or a pipe without a reader
                os.write(2, f"headway: {text}\n".encode())

    def say_of(self, pid: int, reason: str) -> None:
        """Print a line on a process, unless one was printed with this reason: a server may start processes without end."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            self.say(f"process {pid}: {reason} (further such processes get no line)")

    def forget(self, text: str) -> None:
        """Let a line be printed again: what it says has ended since, and may begin anew."""
        self._texts.discard(text)
