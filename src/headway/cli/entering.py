"""Enters or leaves several running processes beside each other, since each of them may make us wait."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["CHILD_PATIENCE_S", "beside_each_other"]

CHILD_PATIENCE_S = 3.0
"""The longest wait until a child process runs Python; Headway does not enter a child that does not."""
_AT_A_TIME = 32

_One = TypeVar("_One")
_Found = TypeVar("_Found")


def beside_each_other(do: Callable[[_One], _Found], ones: Sequence[_One]) -> list[_Found]:
    """Call `do` for each of some processes, at most 32 at a time; return the results in the same order."""
    with ThreadPoolExecutor(_AT_A_TIME, "headway-enter") as pool:
        return list(pool.map(do, ones))
