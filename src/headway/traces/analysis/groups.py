"""Groups the rows of long columns by a small number, as that of a thread or a stack: without a sort of all rows, or by radix.

`np.unique` and `np.argsort` compare 64-bit numbers, which for millions of rows takes most of the time of a report.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct", "grouped", "in_order"]

_SIXTEEN_BITS = 1 << 16


def distinct(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the distinct values in their order, and for each row the position of its value among them.

    `values` are indices, not negative: the time and memory grow with the largest of them, too.
    """
    found = np.flatnonzero(np.bincount(values))
    position = np.zeros(int(found[-1]) + 1 if len(found) else 0, dtype=np.int32)
    position[found] = np.arange(len(found), dtype=np.int32)
    return found, position[values]


def in_order(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rows in the order of their values, which are not negative; rows of one value stay in their order."""
    if len(values) and int(values.max()) < _SIXTEEN_BITS:
        values = values.astype(np.uint16)  # numpy sorts 16 bits by radix
    return np.argsort(values, kind="stable")


def grouped(values: NDArray[Any]) -> dict[int, NDArray[np.int64]]:
    """Return the rows of each value, in their order; the values are in order, and not negative."""
    order = in_order(values)
    ordered = values[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return dict(zip(ordered[first].tolist(), np.split(order, first[1:]), strict=True)) if len(first) else {}
