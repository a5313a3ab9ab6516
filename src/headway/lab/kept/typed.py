"""Values that were read from a file, held against what their fields are declared to be."""

import collections.abc
import dataclasses
import types
import typing
from typing import Any, TypeVar

__all__ = ["typed"]

_T = TypeVar("_T")


def typed(one: _T) -> _T:
    """Return an instance of a dataclass whose fields have the types that they are declared with.

    The outermost type of each is looked at; an int is a float, too.

    Raises:
        TypeError: One has not.
    """
    hints = typing.get_type_hints(type(one))
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        value = getattr(one, field.name)
        if not _is(value, hints[field.name]):
            raise TypeError(f"{field.name} is {value!r}")
    return one


def _is(value: object, hint: Any) -> bool:
    kind = typing.get_origin(hint) or hint
    if kind in {types.UnionType, typing.Union}:
        return any(_is(value, one) for one in typing.get_args(hint))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in {str, bool, tuple, dict, list, types.NoneType, collections.abc.Mapping, collections.abc.Sequence}:
        return isinstance(value, kind)
    return True
