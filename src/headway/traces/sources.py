"""Reads lines of the traced program's source, whose files the program has named.

A pipe or a device under such a name could keep the reader waiting, or never end.
"""

import functools
import itertools
import os
import stat
from collections.abc import Iterable

__all__ = ["changed_since", "source_line"]

_LARGEST = 8 << 20
"""The largest file that is read as a source, in bytes."""


def _is_source(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST


@functools.lru_cache(maxsize=4096)
def source_line(filename: str, number: int) -> str:
    """Return a line of a program's source, or "" if it cannot be read. Whole files are not kept in memory."""
    if number <= 0 or not os.path.isabs(filename):
        return ""
    try:
        # A device may do something when it is opened, and another file may come between the look and the opening.
        if not _is_source(os.stat(filename)):
            return ""
        descriptor = os.open(filename, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return next(itertools.islice(file, number - 1, number), "") if _is_source(os.fstat(descriptor)) else ""
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ""


def changed_since(filenames: Iterable[str], realtime_ns: int) -> frozenset[str]:
    """Return the files that were written after a time, or that do not exist."""
    found = set()
    for one in filenames:
        try:
            if os.path.isabs(one) and os.stat(one).st_mtime_ns > realtime_ns:
                found.add(one)
        except (OSError, ValueError):
            found.add(one)
    return frozenset(found)
