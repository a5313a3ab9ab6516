"""Checks arguments of the Python interface: a wrong type, or a value out of its range, is told before anything runs.

This module is part of what a watched service loads, so it imports little.
"""

import math
from collections.abc import Collection, Iterable

from headway.errors import UsageError

__all__ = ["as_texts", "check_callable", "check_flag", "check_number", "check_text", "check_whole"]


def check_whole(
    name: str, value: object, least: float = -math.inf, most: float = math.inf, *, expected: str = "", hint: str = ""
) -> None:
    """Raise UsageError unless `value` is a whole number from `least` to `most`; `expected` has the range in words."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refused(name, value, f"a whole number{expected and ': '}{expected}", hint)
    if not least <= value <= most:
        raise _refused(name, value, expected, hint)


def check_number(
    name: str, value: object, least: float, most: float, *, expected: str, above: bool = False, hint: str = ""
) -> None:
    """Raise UsageError unless `value` is a number from `least` (with `above`: more than `least`) to `most`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _refused(name, value, f"a number: {expected}", hint)
    if not least <= value <= most or (above and value == least):  # also refuses NaN
        raise _refused(name, value, expected, hint)


def check_text(name: str, value: object, *, hint: str = "") -> None:
    """Raise UsageError unless `value` is a text."""
    if not isinstance(value, str):
        raise _refused(name, value, "a text", hint)


def check_callable(name: str, value: object) -> None:
    """Raise UsageError unless `value` can be called."""
    if not callable(value):
        raise _refused(name, value, "a function", "")


def check_flag(name: str, value: object) -> None:
    """Raise UsageError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise _refused(name, value, "True or False", "")


def as_texts(name: str, value: object, *, once: bool = False) -> tuple[str, ...]:
    """Return `value`, a list of texts or the like, as a tuple.

    Args:
        name: The argument.
        value: Its value. One text is refused: it would be taken for a list of its letters.
        once: An iterator is accepted, too: the caller uses the tuple instead of it.

    Raises:
        UsageError: The value is anything else.
    """
    if isinstance(value, str):
        raise _refused(name, value, "a list of texts", f"write [{value!r}]")
    if not isinstance(value, Iterable if once else Collection) or isinstance(value, bytes):
        raise _refused(name, value, "a list of texts", "")
    texts = tuple(value)
    for one in texts:
        if not isinstance(one, str):
            raise _refused(name, list(texts), "a list of texts", f"{one!r} is no text")
    return texts


def _refused(name: str, value: object, expected: str, hint: str) -> UsageError:
    return UsageError(f"{name} is {value!r}, expected {expected}", hint=hint)
