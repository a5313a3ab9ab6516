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

    def say(self, text: str) -> None:
        """Print a line, unless it has been printed before."""
        if not self._quiet and text not in self._texts:
            self._texts.add(text)
            with contextlib.suppress(OSError):  # it may be closed, full, or a pipe without a reader
                os.write(2, f"headway: {text}\n".encode())

    def forget(self, text: str) -> None:
        """Let a line be printed again: what it says has ended since, and may begin anew."""
        self._texts.discard(text)
