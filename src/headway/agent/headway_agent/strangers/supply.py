"""Finds out whether calls of a user's function change their arguments or use them up, and gives each call its arguments.

A change of arguments that can be pickled is told by their pickles. Of other ones, iterators and open files are used up by a
call. Any other object is used up if a second call has another result, and a call with new arguments has the first result.
"""

import inspect
import pickle
import time
import types

from . import calls
from .renewing import anew, values
from .spread import order
from .target import maker_of

__all__ = ["Supply", "dumped"]

_MOST_PICKLES = 32
_MOST_BYTES = 64 << 20
"""No further pickle of an input is kept from this size on."""
_USED_UP = ("builtins", "itertools", "_csv")
"""The modules of iterators that a call can only use up. An iterator of a library, such as a cursor, may serve many calls."""
_FILES = ("_io", "_pyio")
_SUDDENLY = 4
"""A second call that takes this many times less, of arguments that have changed, had none of the first one's work."""
_MOST_ATTRIBUTES = 50
_MOST_ATTRIBUTE_BYTES = 16 << 20
"""An attribute with a larger pickle is not compared."""


def dumped(value):
    """Return a value's pickle, or None."""
    try:
        return pickle.dumps(value)
    except Exception:
        return None


class Supply:
    """The arguments of all calls. It must be made before the first call.

    A call has its place in a row of calls. Any calls from the first one on have inputs that are spread over all: there may
    be no time for each of them. `changes` tells that each call gets new arguments, because calls change them.
    """

    def __init__(self, target, function, given):
        self._function, self._given, self._make = function, given, None
        self._source, self._why, self._parts = None, "", {}
        self.changes, self._anew_s = False, 0.0
        # An input is told from itself by its pickle, whatever the kind of the function turns out to be.
        try:
            self._source = calls.Copies([given[place] for place in order(len(given))[:_MOST_PICKLES]], _MOST_BYTES)
        except Exception as error:
            self._why = str(error)
            self._make = maker_of(target, function)
            self._parts = _parts(given[0])
        self.has_copies = self._source is not None

    def called_once(self, task, arguments, first, apart):
        """Note the first call, of `arguments[0]`, and its times. `apart` calls the user's function of inputs."""
        self._task, self._arguments, self._first = task, arguments, first
        if self.has_copies:
            self.changes = _has_changed(self._given[0], self._source.pickled[0])
        elif _used_up(self._given[0], files=True) and apart(self._can_renew):
            self.changes = True

    def has_changed(self, count):
        """Tell whether the first `count` calls, which had no new arguments, have changed one of their inputs.

        The first input may be one of which a call makes nothing, as an empty list.
        """
        if self.changes or not self.has_copies:
            return False
        called = [self._given[place] for place in order(len(self._given))[:count]]
        return any(map(_has_changed, called, self._source.pickled))

    @property
    def anew_s(self):
        """The time to make the arguments of a call anew; 0 if calls do not change them, or get copies."""
        return self._anew_s if self.changes else 0.0

    @property
    def count(self):
        """The number of inputs."""
        return self._source.count if self.changes else len(self._arguments)

    def next(self, place):
        """Return the arguments of a call by its place in a row of calls."""
        return self.renewed(place) if self.changes else self._arguments[self.which(place)]

    def which(self, place):
        """Return the place among the inputs of that which a call has, by its place in a row of calls."""
        # There may be copies of some inputs only, and a function of inputs may give another number of them anew.
        among = len(self._given) if self.has_copies else self.count
        return order(among)[place % self.count]

    def renewed(self, place=0):
        """Return new arguments."""
        # Copies are in the order of calls; what a function makes anew is in the order of the inputs.
        own = place if self.has_copies else self.which(place)
        return self._source.arguments(self._task, self._function, own)

    def begin_new(self):
        """Give new arguments to each further call."""
        self.changes = True

    def used_up(self, second=None):
        """Return in a sentence that a call uses up its arguments, which nothing can make anew; "" if it does not.

        `second` has the times of a second call, if that had another result than the first one.
        """
        if self.has_copies or self.changes or (second is not None and self._can_renew()):
            return ""
        is_used_up = _used_up(self._given[0], files=second is not None)
        if not is_used_up and second is not None and second.own_s * _SUDDENLY < self._first.own_s:
            after = _parts(self._given[0])
            is_used_up = any(after.get(key) != data for key, data in self._parts.items())
        return "its arguments are used up by a call and cannot be pickled: %s" % self._why if is_used_up else ""

    def may_have_been(self):
        """Tell whether new arguments can show that a second call had another result because the first one had used them."""
        return not self.has_copies and not self.changes and self._can_renew()

    def _can_renew(self):
        """Tell whether there is a source of new arguments; make it if need be."""
        if self._source is None and self._make is not None:
            begun_s, make, self._make = time.perf_counter(), self._make, None
            try:
                self._source = anew(make, self._given)
            except (Exception, SystemExit) as error:
                # It may be meant for one call, as one that makes a file which must not exist yet.
                self._why += "; the function of the inputs fails if it is called again: %s: %s" % (
                    type(error).__name__,
                    str(error).partition("\n")[0][:300],
                )
            if self._source is not None:
                # `anew` makes all inputs once.
                self._anew_s = (time.perf_counter() - begun_s) / self._source.count
        return self._source is not None


def _has_changed(value, pickled):
    """Tell whether a value differs from what it was when it was pickled; False if it cannot be pickled any more."""
    after = dumped(value)
    if after in (None, pickled):
        return False
    try:
        return not calls.are_equal(value, pickle.loads(pickled))
    except Exception:
        return True


def _is_used_up(value):
    if isinstance(value, types.GeneratorType):
        return inspect.getgeneratorstate(value) != inspect.GEN_CREATED
    if isinstance(value, (types.AsyncGeneratorType, types.CoroutineType)):
        return True
    return hasattr(type(value), "__next__") and type(value).__module__ in _USED_UP


def _used_up(given, *, files):
    """Tell whether a call has used up an argument: an iterator of Python's own, or with `files` an open file.

    A call may set a file back to its start.
    """
    return any(_is_used_up(one) or (files and type(one).__module__ in _FILES) for one in values(given))


def _parts(given):
    """Return the pickles of the attributes of arguments that cannot be pickled as a whole."""
    found = {}
    for place, one in enumerate(values(given)):
        for name, value in list(getattr(one, "__dict__", {}).items())[:_MOST_ATTRIBUTES]:
            data = dumped(value)
            if data is not None and len(data) <= _MOST_ATTRIBUTE_BYTES:
                found[place, name] = data
    return found
