"""Reads lines of the traced program's source, whose files the program has named.

A pipe or a device under such a name could keep the reader waiting, or never end.
"""

import functools
import itertools
import os
import re
import stat
import tokenize
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.traces.model import Trace

__all__ = ["MOST_OF_A_LINE", "changed_since", "edited", "rest_of_statement", "source", "source_line", "words_in"]

_DATED_NS = 10**18
"""A trace with an earlier time (before 2001) is from a simulation, and has no date."""

_LARGEST = 8 << 20
"""The largest file that is read as a source, in bytes."""
MOST_OF_A_LINE = 500
"""A line is searched for words up to here: it may be as long as the file."""
_MOST_LINES = 50
"""A statement is searched for words up to so many lines."""


def _is_source(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST


def _lines(filename: str) -> Iterator[str]:
    """Yield the lines of a source. Raises OSError, ValueError (a NUL in the name)."""
    # A device may do something when it is opened, and another file may come between the look and the opening.
    if not os.path.isabs(filename) or not _is_source(os.stat(filename)):
        return
    descriptor = os.open(filename, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        if _is_source(os.fstat(descriptor)):
            yield from file


@functools.lru_cache(maxsize=4096)
def source_line(filename: str, number: int) -> str:
    """Return a line of a program's source, or "" if it cannot be read. Whole files are not kept in memory."""
    try:
        return next(itertools.islice(_lines(filename), number - 1, number), "") if number > 0 else ""
    except (OSError, ValueError):
        return ""


@functools.lru_cache(maxsize=1024)
def rest_of_statement(filename: str, number: int) -> str:
    """Return a line of a program's source, with the lines after it up to the bracket that closes what the line opens.

    Comments are left out.
    """
    lines = (source_line(filename, at)[:MOST_OF_A_LINE] for at in range(number, number + _MOST_LINES))
    read: list[str] = []

    def following() -> str:
        read.append(next(lines, ""))
        return read[-1]

    depth = 0
    try:
        for one in tokenize.generate_tokens(following):
            row, column = one.start
            if one.type == tokenize.COMMENT:
                read[row - 1] = f"{read[row - 1][:column]}\n"
            depth += (one.string in {"(", "[", "{"}) - (one.string in {")", "]", "}"}) if one.type == tokenize.OP else 0
            if depth <= 0 and one.type in {tokenize.NEWLINE, tokenize.NL}:
                break
    except (tokenize.TokenError, SyntaxError):
        pass  # a line within a statement of several lines may close more than it opens, or be within a string
    return "".join(read)


def source(filename: str, largest: int) -> str:
    """Return a program's source, or "" if it cannot be read, or has more bytes than `largest`."""
    try:
        return "".join(_lines(filename)) if os.stat(filename).st_size <= largest else ""
    except (OSError, ValueError):
        return ""


@functools.lru_cache(maxsize=256)
def words_in(filename: str, pattern: re.Pattern[str]) -> frozenset[str]:
    """Return what the first group of a pattern finds in the lines of a program's source; nothing if it cannot be read."""
    try:
        return frozenset(one[1] for line in _lines(filename) for one in pattern.finditer(line[:MOST_OF_A_LINE]))
    except (OSError, ValueError):
        return frozenset()


def edited(trace: "Trace", filenames: Iterable[str] | None = None) -> frozenset[str]:
    """Return the files that may not be those of a traced program any more: written since its start, or gone.

    A module may be imported long after the start. Its source is not trusted if it was written in between, although it is the
    program's own.

    Args:
        trace: The trace.
        filenames: The files; None: those of all frames.
    """
    process = trace.process
    if process.start_realtime_ns <= _DATED_NS:
        return frozenset()
    names = {one.filename for one in trace.frames} if filenames is None else filenames
    return changed_since(names, process.begin_realtime_ns or process.start_realtime_ns)


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
