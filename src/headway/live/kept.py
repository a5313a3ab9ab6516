"""The recordings in a watcher's folder: which are to be kept, and which names they have until they are complete."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["hold", "partial_of", "remove_oldest"]

_ABANDONED_S: Final = 600.0
"""The age of an incomplete recording from which nobody writes it: no analysis takes so long."""
_YOUNG_S: Final = 10.0
"""The same if nobody holds it; its watcher holds it a moment after it has made the file."""


def partial_of(path: Path) -> Path:
    """Return the name that a recording has until it is complete. It may be removed instead, if nothing had stalled."""
    return path.with_name(f"{path.name}.partial")


def hold(file: int) -> None:
    """Hold an incomplete recording, until the last copy of its descriptor is closed: it is being written or analysed."""
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _is_abandoned(path: Path) -> bool:
    """Tell whether nobody will complete a recording. Raises OSError if it is gone."""
    age_s = time.time() - path.stat().st_mtime
    if age_s < _YOUNG_S:
        return False
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return age_s > _ABANDONED_S
    finally:
        os.close(file)
    return True


def remove_oldest(folder: Path, name: str, keep: int, written: Iterable[Path]) -> None:
    """Remove a program's recordings beyond those to be kept, by their names, and those that were never completed.

    Those of earlier runs count, so that a service that starts often fills no disk, and so do those of other watchers:
    each worker of a server may have one.

    Args:
        folder: The watcher's folder.
        name: The beginning of the names.
        keep: The number of recordings to keep.
        written: The watcher's own recordings, oldest first: the folder may be written to, and not be read.
    """
    pattern = re.compile(rf"{re.escape(name)}-\d{{8}}T\d{{6}}\.\d{{3}}Z-\d+\.hwt(\.partial)?")
    try:
        found = sorted(one for one in folder.iterdir() if pattern.fullmatch(one.name))
    except OSError:
        found = list(written)
    complete = [one for one in found if one.suffix == ".hwt"]
    for path in complete[: max(0, len(complete) - keep)]:
        with contextlib.suppress(OSError):
            path.unlink()
    for path in set(found) - set(complete):
        with contextlib.suppress(OSError):
            if _is_abandoned(path):
                path.unlink()
