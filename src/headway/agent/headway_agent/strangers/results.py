"""Compares the results of calls beside each other with those of the same calls alone."""

import math
import pickle

__all__ = ["Results"]

_TOLERANCE = 1e-6
"""Floats may differ by this share: a library may add in another order while it has fewer cores."""
_MOST_DEEP = 5
_TIMES_AGAIN = 2


def _pickled(value):
    try:
        # Once more, as the first pickle tells which parts of the value were the same object.
        return pickle.dumps(pickle.loads(pickle.dumps(value)))
    except Exception:
        return None


def _alike(one, other, deep=0):
    """Tell whether two results may be the same; values that cannot be compared may be."""
    if one is other:
        return True
    if isinstance(one, (float, complex)) and isinstance(other, (float, complex)):
        if isinstance(one, complex) or isinstance(other, complex):
            return abs(one - other) <= _TOLERANCE * max(abs(one), abs(other)) or one != one
        return math.isclose(one, other, rel_tol=_TOLERANCE) or (one != one and other != other)
    if type(one) is type(other) and deep < _MOST_DEEP:
        if type(one) in (list, tuple):
            return len(one) == len(other) and all(_alike(*both, deep=deep + 1) for both in zip(one, other))
        if type(one) is dict:
            return one.keys() == other.keys() and all(_alike(one[key], other[key], deep + 1) for key in one)
    try:
        if bool(one == other):
            return True
    except Exception:
        return True  # the comparison of arrays and the like gives no single bool
    pickled = _pickled(one)
    # Objects without a value of their own are equal only to themselves; their pickles tell their attributes.
    return pickled is None or _pickled(other) in (None, pickled)


class Results:
    """The results of some calls alone, and how many of those beside other calls differ from them.

    `alone` makes the calls one after the other, and returns their results. It is called at once, and again at the end: a
    result that changes by itself, as one of chance or of the time of day, tells nothing of the calls beside.
    """

    def __init__(self, alone):
        self._call, self._first, self._others = alone, alone(), 0
        self.count = 0

    def beside_others(self, results):
        """Compare the results of the same calls beside others with those alone."""
        self.count += len(self._first)
        self._others += sum(not _alike(*both) for both in zip(self._first, results))

    def others(self):
        """Return the number of results that differed; 0 if those of the calls alone do not stay the same, either."""
        if not self._others:
            return 0
        for _ in range(_TIMES_AGAIN):
            if not all(_alike(*both) for both in zip(self._first, self._call())):
                return 0
        return self._others
