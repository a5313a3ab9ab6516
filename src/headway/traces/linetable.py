"""Lines of bytecode offsets, from the location table (`co_linetable`) of CPython 3.11 and later.

The table is a run of entries (CPython's Objects/locations.md), each for 1 to 8 code units of two bytes: a first byte
with the top bit set, a 4-bit code and a 3-bit length, then what the code says. Lines are deltas, so a table is read from
its front: one sweep for all the offsets that are asked of it.

Tables come from files that may be damaged: whatever the bytes, the sweep ends, and what makes no sense has line 0.
"""

from collections.abc import Iterable

__all__ = ["UNKNOWN_LINE", "lines"]

UNKNOWN_LINE = 0
"""Where the table has no line, or none that makes sense."""

_NO_LOCATION = 15
_LONG = 14
_NO_COLUMNS = 13
_ONE_LINE = 10  # 10, 11, 12: the line's delta is 0, 1, 2
_UNIT_BYTES = 2
_MOST_LINE = 2**31 - 1


def _varint(table: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of 6-bit groups, least first, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = table[at]
        at += 1
        value |= (byte & 63) << shift
        shift += 6
        # A line fits 32 bits; a number that does not end belongs to a damaged table.
        if not byte & 64 or shift > 36:
            return value, at


def lines(table: bytes, first_line: int, offsets: Iterable[int]) -> dict[int, int]:
    """Return the line of each byte offset.

    Args:
        table: `co_linetable`; b"" where there is none.
        first_line: `co_firstlineno`.
        offsets: Bytes from the first instruction. One below 0 is before it, and on `first_line`.

    Returns:
        The line by offset: `UNKNOWN_LINE` where the instruction has none, or the table does not reach.
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
