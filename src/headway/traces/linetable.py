"""Finds the lines of bytecode offsets in the location table (`co_linetable`) of CPython 3.11 and later.

The table is a sequence of entries (CPython's Objects/locations.md), each for 1 to 8 code units of two bytes. An entry
has a first byte with the top bit set, a 4-bit code and a 3-bit length, and then the data that the code requires. Lines
are stored as deltas, so a table must be read from its front: one pass finds the lines of all offsets.

Tables come from files that may be damaged. The pass ends whatever the bytes are, and an entry that makes no sense has
line 0.
"""

from collections.abc import Iterable

__all__ = ["UNKNOWN_LINE", "lines"]

UNKNOWN_LINE = 0
"""The line of an offset for which the table has no line, or a line that makes no sense."""

_NO_LOCATION = 15
_LONG = 14
_NO_COLUMNS = 13
_ONE_LINE = 10  # codes 10, 11, 12: the line's delta is 0, 1, 2
_UNIT_BYTES = 2
_MOST_LINE = 2**31 - 1


def _varint(table: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number made of 6-bit groups, the lowest first, and the position after it."""
    value = shift = 0
    while True:
        byte = table[at]
        at += 1
        value |= (byte & 63) << shift
        shift += 6
        # A line fits in 32 bits. A longer number belongs to a damaged table.
        if not byte & 64 or shift > 36:
            return value, at


def lines(table: bytes, first_line: int, offsets: Iterable[int]) -> dict[int, int]:
    """Return the line of each byte offset.

    Args:
        table: `co_linetable`; b"" if there is none.
        first_line: `co_firstlineno`.
        offsets: In bytes from the first instruction. A negative offset is before it, and has the line `first_line`.

    Returns:
        The line for each offset; `UNKNOWN_LINE` if the instruction has no line, or the table ends before it.
    """
    found = {}
    wanted = sorted(set(offsets), reverse=True)
    while wanted and wanted[-1] < 0:
        found[wanted.pop()] = first_line
    line, end, at = first_line, 0, 0
    try:
        while wanted:
            first = table[at]
            at += 1
            code = first >> 3 & 15
            end += ((first & 7) + 1) * _UNIT_BYTES
            if code >= _NO_COLUMNS:
                if code != _NO_LOCATION:
                    value, at = _varint(table, at)
                    line += -(value >> 1) if value & 1 else value >> 1
                    if code == _LONG:
                        for _ in range(3):
                            _, at = _varint(table, at)
            elif code >= _ONE_LINE:
                line += code - _ONE_LINE
                at += 2
            else:
                at += 1
            sane = code != _NO_LOCATION and 0 <= line <= _MOST_LINE
            while wanted and wanted[-1] < end:
                found[wanted.pop()] = line if sane else UNKNOWN_LINE
    except IndexError:
        found.update(dict.fromkeys(wanted, UNKNOWN_LINE))
    return found
