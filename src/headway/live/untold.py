"""Stalls that are over and not in the log yet: those of a process that has ended while the watcher analyses them.

The watcher holds a shared lock (flock) on its folder for that time. Several watchers may have one folder.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import final

__all__ = ["Untold", "wait_until_told"]

_LOOK_S = 0.02


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@final
class Untold:
    """The watcher's mark on its folder."""

    def __init__(self, folder: Path) -> None:
        """Set no mark yet. The folder need not exist."""
        self._folder = folder
        self._held = -1

    def mark(self, is_untold: bool) -> None:  # noqa: FBT001 it is what is said
        """Say whether there are such stalls now. Call it often: it waits for nothing, and may have to try again."""
        if is_untold and self._held < 0:
            with contextlib.suppress(OSError):
                held = _open(self._folder)
                try:
                    fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:  # a reader is looking at this moment
                    os.close(held)
                else:
                    self._held = held
        elif not is_untold and self._held >= 0:
            os.close(self._held)
            self._held = -1


def wait_until_told(folder: Path, patience_s: float = 30.0) -> bool:
    """Wait until the log in a folder has the stalls of all processes that have ended; return whether it has them."""
    try:
        file = _open(folder)
    except OSError:
        return True
    try:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(_LOOK_S)
            else:
                return True
    except OSError:  # a file system without locks
        return True
    finally:
        os.close(file)
