"""The lock that allows a user one lab, or one `headway advise`, at a time on a machine: two would measure each other."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from headway.errors import HeadwayError
from headway.host.paths import cache_folder

__all__ = ["only_lab"]


@contextlib.contextmanager
def only_lab(why: str = "two measurements at the same time would disturb each other") -> Iterator[None]:
    """Hold the user's lock on measuring for the block. Another user of the machine has a lock of his own.

    Args:
        why: The reason to wait for another process, for the error.

    Raises:
        HeadwayError: Another process of the user is measuring, or the lock cannot be made.
    """
    path = cache_folder() / "lab.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HeadwayError(
            f"the lab's lock {path} cannot be opened: {error.strerror or error}",
            hint="set XDG_CACHE_HOME to a folder that you may write to",
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise HeadwayError(
                f"another process of yours is measuring on this machine (process {owner})",
                hint=f"wait until it ends: {why}",
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)
