"""Units of CPU-bound work, repeated beside what is measured. The units differ in how long they keep the GIL.

`pidigits`, `regex` and `bz2` are the three kinds of task that ccbench has (Tools/ccbench in CPython up to 3.11). Inputs
are made at import, so that a unit is the work alone.
"""

import re

_STEPS = 1000
_DIGITS = 500
_GUARD_DIGITS = 10
_BYTES = bytes(range(256)) * 80
_TEXT = "\n".join("%d travellers left for platform %d of %d" % (i * 7919 % 10007, i % 24, i) for i in range(400))
_LETTER_TWICE = re.compile(r"\b\w*(\w)\w*\1\w*\b")


def count():
    """Count in pure Python: the thread holds the GIL until a request, and then releases it at once."""
    n = 0
    for _ in range(_STEPS):
        n += 1


def _arc_cotangent(x, one):
    """Return `one` times the angle whose cotangent is `x`, by its power series in integers."""
    total, power, divisor, sign = 0, one // x, 1, 1
    square = x * x
    while power:
        total += sign * (power // divisor)
        power //= square
        divisor += 2
        sign = -sign
    return total


def pidigits():
    """Return the first digits of pi by Machin's formula: like `count`, but a step is long-integer arithmetic in C."""
    one = 10 ** (_DIGITS + _GUARD_DIGITS - 1)
    pi = 4 * (4 * _arc_cotangent(5, one) - _arc_cotangent(239, one))
    return pi // 10**_GUARD_DIGITS


def regex():
    """Find the words with a repeated letter: one C call that keeps the GIL for milliseconds, despite requests."""
    return _LETTER_TWICE.findall(_TEXT)


def compress():
    """Compress in C, which releases the GIL meanwhile: CPU-bound work that looks like I/O."""
    import bz2

    return bz2.compress(_BYTES)


UNITS = {"count": count, "pidigits": pidigits, "regex": regex, "bz2": compress}
"""Units by the name that a job gives as `unit`."""


def loaded(name):
    """Return the unit called `name`, which imports nothing any more. Raises ImportError without the unit's module."""
    if name == "bz2":
        import bz2  # noqa: F401  (some builds lack the module, and the other units do not need it)
    return UNITS[name]
