"""Encodes protocol buffers without a library: single messages, and many messages of one shape as rows of bytes.

numpy makes the rows, a column of bytes at a time. All rows of one shape have the same length: their numbers are varints
of a fixed width, padded with empty continuation bytes, which every reader accepts.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "Piece", "field", "fixed_column", "rows", "varint", "varint_column", "width", "wrapped"]

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_CONTINUES = 0x80
_SEVEN_BITS = 0x7F
_64_BITS = (1 << 64) - 1


@final
@dataclass(frozen=True, eq=False)
class Column:
    """A number for each row: a varint of `width` bytes, or 8 bytes of fixed width."""

    values: NDArray
    width: int
    fixed: bool = False

    def __len__(self) -> int:
        return self.width


Piece = bytes | Column


def varint(number: int) -> bytes:
    """Return a number as a varint; a negative one takes ten bytes, as an int64 does."""
    number &= _64_BITS
    found = bytearray()
    while number > _SEVEN_BITS:
        found.append(number & _SEVEN_BITS | _CONTINUES)
        number >>= 7
    found.append(number)
    return bytes(found)


def width(largest: int) -> int:
    """Return the number of bytes that a varint needs for all numbers up to `largest`."""
    return len(varint(largest))


def field(tag: int, value: int | str | bytes) -> bytes:
    """Return a field of a message: a number, a text or an encoded message."""
    if isinstance(value, int):
        return varint(tag << 3 | _VARINT) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(tag << 3 | _BYTES) + varint(len(value)) + value


def varint_column(tag: int, values: NDArray, width: int) -> list[Piece]:
    """Return a field with a number for each row. The numbers must not be negative, and must fit the width."""
    return [varint(tag << 3 | _VARINT), Column(values, width)]


def fixed_column(tag: int, values: NDArray) -> list[Piece]:
    """Return a fixed64 field with a number for each row."""
    return [varint(tag << 3 | _FIXED64), Column(values, 8, fixed=True)]


def wrapped(tag: int, pieces: list[Piece]) -> list[Piece]:
    """Return a field whose value is a message made of the pieces."""
    return [varint(tag << 3 | _BYTES) + varint(sum(map(len, pieces))), *pieces]


def rows(count: int, pieces: list[Piece]) -> NDArray[np.uint8]:
    """Return `count` rows of bytes. Each row has the pieces one after the other."""
    found = np.empty((count, sum(map(len, pieces))), dtype=np.uint8)
    at = 0
    for piece in pieces:
        here = found[:, at : at + len(piece)]
        at += len(piece)
        if isinstance(piece, bytes):
            here[:] = np.frombuffer(piece, dtype=np.uint8)
        elif piece.fixed:
            here[:] = piece.values.astype("<u8").view(np.uint8).reshape(count, 8)
        else:
            _fill(here, piece.values.astype(np.uint64))
    return found


def _fill(here: NDArray[np.uint8], values: NDArray[np.uint64]) -> None:
    last = here.shape[1] - 1
    for byte in range(last + 1):
        here[:, byte] = values & np.uint64(_SEVEN_BITS)
        if byte < last:
            here[:, byte] |= _CONTINUES
            values >>= np.uint64(7)
