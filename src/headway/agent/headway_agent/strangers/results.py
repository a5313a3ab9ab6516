"""Compares the results of calls beside each other with those of the same calls alone."""

from .alike import may_be_same

__all__ = ["Results"]

_TIMES_AGAIN = 2


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
        self._others += sum(not may_be_same(*both) for both in zip(self._first, results))

    def others(self):
        """Return the number of results that differed; 0 if those of the calls alone do not stay the same, either."""
        if not self._others:
            return 0
        for _ in range(_TIMES_AGAIN):
            if not all(may_be_same(*both) for both in zip(self._first, self._call())):
                return 0
        return self._others
