"""Descriptors of ours in a process that is the program's: it may close them, and have files of its own at their numbers."""

import fcntl
import os

__all__ = ["above_streams", "close_own", "identity"]

_STDERR = 2


def above_streams(descriptor: int) -> int:
    """Return the descriptor, or if it has the number of a standard stream, a new one of its file in its place.

    A service may be started with its standard streams closed. A library of its own may still write to descriptor 2, which
    must not be a file of ours.

    Raises:
        OSError: No descriptor is left; this one is closed.
    """
    if descriptor > _STDERR:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
    finally:
        os.close(descriptor)


def identity(descriptor: int) -> tuple[int, int]:
    """Return the device and the inode of a descriptor's file. Raises OSError."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def close_own(descriptor: int, known: tuple[int, int]) -> None:
    """Close a descriptor if its file is still that of the given identity: else the program has closed it."""
    try:
        if identity(descriptor) == known:
            os.close(descriptor)
    except OSError:
        pass  # it is closed
