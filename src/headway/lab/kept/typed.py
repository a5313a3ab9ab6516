"""The check that values read from a file have the types that their fields declare."""

import collections.abc
import dataclasses
import types
import typing
from typing import Any, TypeVar

__all__ = ["typed"]

_T = TypeVar("_T")


def typed(one: _T) -> _T:
    """Return `one`, an instance of a dataclass, if its fields have the types that they declare.

    Only the outermost type of each field is checked; an int is accepted for a float.

    Raises:
        TypeError: A field has another type.
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
