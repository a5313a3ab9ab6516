"""The recordings in a watcher's folder: which are to be kept, and which names they have until they are complete."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

__all__ = ["partial_of", "recording_of", "remove_oldest", "save_to_file", "save_to_memory"]

_ABANDONED_S: Final = 600.0
"""The age of an incomplete recording from which nobody writes it: no analysis takes so long."""
_YOUNG_S: Final = 10.0
"""The same if nobody holds it; its watcher holds it a moment after it has made the file."""


def _stamp() -> str:
    """Return the present time as names of recordings have it."""
    now_ns = time.time_ns()
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now_ns // 1_000_000_000))}.{now_ns // 1_000_000 % 1000:03}Z"


def recording_of(folder: Path, name: str, pid: int) -> Path:
    """Return the name of a recording that is made now."""
    return folder / f"{name}-{_stamp()}-{pid}.hwt"


def partial_of(path: Path) -> Path:
    """Return the name that a recording has until it is complete. It may be removed instead, if nothing had stalled."""
    return path.with_name(f"{path.name}.partial")


def save_to_file(path: Path, save: Callable[[int], None]) -> int:
    """Write a recording under the name that it has until it is complete; return its descriptor.

    The recording is held until the last copy of the descriptor is closed: it is being written or analysed.

    Args:
        path: The name that it gets later.
        save: Writes the recording to a descriptor.

    Raises:
        OSError: It cannot be written, as on a full disk; nothing is left of it.
    """
    partial = partial_of(path)
    # The folder may be gone: that of a Dask worker ends with the worker, and other workers may be watched still.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        save(file)
    except OSError:
        os.close(file)
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    return file


def save_to_memory(save: Callable[[int], None]) -> int:
    """Write a recording to memory; return its descriptor. Raises OSError if there is no memory."""
    file = os.memfd_create("recording")
    try:
        save(file)
    except OSError:
        os.close(file)
        raise
    return file


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


def remove_oldest(folder: Path, name: str, keep: int, written: Sequence[Path]) -> None:
    """Remove a program's recordings beyond those to be kept, and those that were never completed.

    Their names tell which are the oldest. The clock may have been set back: a later time than the present one is that of an
    earlier run with a wrong clock, and the watcher's own recordings are known in their order.

    Those of earlier runs count, so that a service that starts often fills no disk, and so do those of other watchers:
    each worker of a server may have one.

    Args:
        folder: The watcher's folder.
        name: The beginning of the names.
        keep: The number of recordings to keep.
        written: The watcher's own recordings, oldest first: the folder may be written to, and not be read.
    """
    pattern = re.compile(rf"{re.escape(name)}-(\d{{8}}T\d{{6}}\.\d{{3}}Z)-\d+\.hwt(\.partial)?")

    def stamp_of(path: Path) -> str:
        found = pattern.fullmatch(path.name)
        return found[1] if found else ""

    now = before = _stamp()
    own: dict[Path, tuple[str, int]] = {}
    for place, path in reversed(list(enumerate(written))):
        stamp = stamp_of(path)
        before = min(before, stamp)
        own[path] = (before if stamp > now else stamp), place

    def age(path: Path) -> tuple[str, int, str]:
        stamp, place = own.get(path) or (stamp_of(path), -1)
        return (stamp if stamp <= now else "", place, path.name)

    try:
        found = [one for one in folder.iterdir() if stamp_of(one)]
    except OSError:
        found = list(written)
    found.sort(key=age)
    complete = [one for one in found if one.suffix == ".hwt"]
    for path in complete[: max(0, len(complete) - keep)]:
        with contextlib.suppress(OSError):
            path.unlink()
    for path in set(found) - set(complete):
        with contextlib.suppress(OSError):
            if _is_abandoned(path):
                path.unlink()
