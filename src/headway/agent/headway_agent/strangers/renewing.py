"""Gives each call arguments that no other call has changed or used up: as copies, or from the user's own function.

Copies are pickles that were made before the first call. Arguments that cannot be pickled (generators, open files, objects
with a lock) come from another call of the function that `--inputs` names, if it makes new ones.
"""

import pickle

from . import calls
from .target import maker_of

__all__ = ["Anew", "anew", "source", "values"]

_INPUT_BYTES = 1 << 20
"""The size that is assumed of an input whose pickle would tell it."""


class Anew:
    """New inputs from the user's function of inputs."""

    most_bytes = _INPUT_BYTES

    def __init__(self, make):
        """`make` is as `target.maker_of` returns it."""
        self._make = make
        self._unused = dict(enumerate(make()))
        self.count = len(self._unused)

    @property
    def first(self):
        """The first input, which the first call will get."""
        return self._unused[0]

    def given(self, place):
        """Return (args, kwargs) that no call has had yet, by the place of the call in a row of calls."""
        place %= self.count
        if place not in self._unused:
            self._unused = dict(enumerate(self._make()))
            if not self._unused:
                raise ValueError("the function of the inputs gives none if it is called again")
            place %= len(self._unused)  # it may give fewer than before
        return self._unused.pop(place)

    def arguments(self, task, function, place):
        """Return a tuple of new arguments for a call of `task`, as `task_of` gives them, by its place in a row of calls."""
        args, kwargs = self.given(place)
        return args if task is function else (function, args, kwargs)


def anew(make, given):
    """Return the source of new inputs; None if it gives the same objects again, or none."""
    made = Anew(make)
    if not made.count:
        return None
    before, after = ([one for one in values(each) if not _is_pickled(one)] for each in (given[0], made.first))
    return made if any(one is not other for one, other in zip(before, after)) else None


def source(target, function, given):
    """Return what gives each call new arguments, for calls that change them."""
    try:
        return calls.Copies(given)
    except Exception:
        return Anew(maker_of(target, function))


def values(given):
    """Return the values of the arguments of (args, kwargs)."""
    args, kwargs = given
    return [*args, *kwargs.values()]


def _is_pickled(value):
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True
