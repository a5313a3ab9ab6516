"""Stalls that are over and not in the log yet: those of a process that has ended while the watcher analyses them.

The watcher holds a shared lock (flock) on its folder for that time. Several watchers may have one folder. A watcher that
has not seen its program's end yet has no such lock: its mark (headway.live.marks) tells of that.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import final

from headway.live.marks import has_unseen_end

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

    def mark(self, is_untold: bool) -> bool:  # noqa: FBT001 it is what is said
        """Say whether there are such stalls now; return whether that is said.

        Call it often: it waits for nothing, and may have to try again.
        """
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
        return not is_untold or self._held >= 0


def wait_until_told(folder: Path, patience_s: float = 30.0) -> bool:
    """Wait until the log in a folder has the stalls of all processes that have ended; return whether it has them.

    Of a program that runs on, these are the processes whose end the watcher has seen, as it does within a tenth of a second.
    """
    try:
        file = _open(folder)
    except OSError:
        return True
    try:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                is_unseen = has_unseen_end(folder)  # before the lock: a watcher that sees the end takes it first
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_unseen:
                    return True
                fcntl.flock(file, fcntl.LOCK_UN)
            except BlockingIOError:
                pass
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
    except OSError:  # a file system without locks
        return True
    finally:
        os.close(file)
