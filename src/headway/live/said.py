"""The lines of a watcher on stderr, which is the service's: none comes twice, nor once for each of its processes."""

import contextlib
import os
import select
from typing import Final, final

__all__ = ["Said", "has_room", "print_line"]

_PATIENCE_S: Final = 0.02
"""The time for which a watcher waits for a busy reader; the ring of a busy service may be overwritten in a second."""


def has_room(patience_s: float) -> bool:
    """Tell whether stderr takes a line: a pipe that nobody reads may be full, and a terminal may be stopped.

    The descriptor is not made non-blocking for that, as it would be so for the service, too.
    """
    try:
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        return any(found & select.POLLOUT for _, found in poll.poll(patience_s * 1000))
    except OSError:
        return False


def print_line(text: str, *, patience_s: float) -> bool:
    """Print a line on stderr, and wait no longer than this for room; return whether it is printed.

    Stderr may be closed, full, or a pipe without a reader. A pipe that has room takes PIPE_BUF bytes at least.
    """
    data = f"headway: {text}\n".encode()
    if len(data) > select.PIPE_BUF:
        data = data[: select.PIPE_BUF - 1].decode(errors="ignore").encode() + b"\n"
    with contextlib.suppress(OSError):
        return has_room(patience_s) and os.write(2, data) > 0
    return False


@final
class Said:
    """The lines that a watcher has printed on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        """Begin without any; a quiet watcher prints none."""
        self._quiet = quiet
        self._texts: set[str] = set()
        self._reasons: set[str] = set()

    def say(self, text: str) -> None:
        """Print a line, unless it has been printed before. A line for which there is no room is lost."""
        if not self._quiet and text not in self._texts:
            self._texts.add(text)
            print_line(text, patience_s=_PATIENCE_S)

    def say_of(self, pid: int, reason: str) -> None:
        """Print a line on a process, unless one was printed with this reason: a server may start processes without end."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            self.say(f"process {pid}: {reason} (further such processes get no line)")

    def forget(self, text: str) -> None:
        """Let a line be printed again: what it says has ended since, and may begin anew."""
        self._texts.discard(text)
