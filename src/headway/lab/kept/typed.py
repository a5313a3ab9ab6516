"""The check that values read from a file have the types that their fields declare."""

import collections.abc
import dataclasses
import math
import types
import typing
from typing import Any, TypeVar

__all__ = ["is_typed", "typed"]

_T = TypeVar("_T")


def typed(one: _T) -> _T:
    """Return `one`, an instance of a dataclass, if its fields have the types that they declare.

    The items of collections are checked, too. An int is accepted for a float; a float must be finite, as in JSON.

    Raises:
        TypeError: A field has another type.
    """
    hints = typing.get_type_hints(type(one))
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        value = getattr(one, field.name)
        if not is_typed(value, hints[field.name]):
            raise TypeError(f"{field.name} is {value!r}")
    return one


def is_typed(value: object, hint: Any) -> bool:
    """Tell whether a value, with all that is in it, has the type of a hint."""
    kind, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in {types.UnionType, typing.Union}:
        return any(is_typed(value, one) for one in arguments)
    if kind is typing.Literal:
        return value in arguments
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is tuple:
        return isinstance(value, tuple) and _are(value, arguments)
    if kind in {dict, collections.abc.Mapping}:
        key, item = arguments
        return isinstance(value, kind) and all(
            is_typed(one, key) and is_typed(other, item) for one, other in value.items()
        )
    if kind is list:
        return isinstance(value, list) and all(is_typed(one, *arguments) for one in value)
    if kind in {str, bool, types.NoneType}:
        return isinstance(value, kind)
    return True


def _are(values: tuple[object, ...], hints: tuple[Any, ...]) -> bool:
    """Tell whether the items of a tuple have the types of its hint: `tuple[int, ...]`, or `tuple[str, int]`."""
    wanted = hints[:1] * len(values) if hints[-1] is ... else hints
    return len(values) == len(wanted) and all(map(is_typed, values, wanted))
