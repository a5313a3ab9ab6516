"""The lock that allows one lab at a time on a machine: two labs would measure each other."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from headway.errors import HeadwayError
from headway.host.paths import cache_folder

__all__ = ["only_lab"]


@contextlib.contextmanager
def only_lab() -> Iterator[None]:
    """Hold the user's lock on measuring for the block. Raises HeadwayError if another lab holds it."""
    path = cache_folder() / "lab.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise HeadwayError(
                f"another lab (process {owner}) is measuring on this machine",
                hint="wait until it ends: two labs at the same time would disturb each other",
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)
