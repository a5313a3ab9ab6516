"""Takes copies of what changeable values contain, to find out later whether they have changed in place."""

import array
import collections
import io
import itertools
import random
import sys
import types
import zlib

__all__ = ["attributes_of", "contents_of", "is_container", "is_random", "parts_of", "same"]

_CONTAINERS = (list, dict, set, collections.deque, bytearray, array.array)
_MOST_ATTRIBUTES = 200
_MOST_INNER = 200
"""The elements of a container that are looked at for containers."""
_MOST_BYTES = 16 << 20
"""A buffer that is larger than this is not read."""
_MEMORY = (bytearray, array.array)


def is_container(value):
    """Tell whether a value is a container of Python's, or of a class derived from one."""
    return isinstance(value, _CONTAINERS)


def _of_numpy(value, *names):
    """Tell whether a value is of one of these classes of `numpy.random`, or, without names, an array of NumPy's."""
    module = sys.modules.get("numpy.random" if names else "numpy")
    kinds = [getattr(module, name, None) for name in names or ("ndarray",)]
    return isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


def is_random(value):
    """Tell whether a value is a generator of random numbers with a state of its own, of Python's or of NumPy's."""
    return isinstance(value, random.Random) or _of_numpy(value, "Generator", "RandomState")


def _flat(value):
    """Return a copy of a container without that of the containers in it; its elements are not called."""
    if isinstance(value, dict):
        return dict.copy(value)
    if isinstance(value, list):
        return list.copy(value)
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, collections.deque):
        return list(collections.deque.__iter__(value))
    with memoryview(value) as view:
        return (view.nbytes, zlib.crc32(view.tobytes())) if view.nbytes <= _MOST_BYTES else view.nbytes


def _with_inner(value):
    """Return a copy of a container, and those of the containers that are its elements, by their places."""
    flat = _flat(value)
    elements = flat.values() if isinstance(flat, dict) else flat if isinstance(flat, list) else ()
    inner = {
        place: _flat(one)
        for place, one in enumerate(itertools.islice(elements, _MOST_INNER))
        if is_container(one) and one is not value
    }
    return flat, inner


def contents_of(value):
    """Return what differs once a value has changed in place; None for a value of which that is not known."""
    try:
        if isinstance(value, _MEMORY) or _of_numpy(value):
            return _flat(value)
        if is_container(value):
            return _with_inner(value)
        if isinstance(value, random.Random):
            return value.getstate()
        if _of_numpy(value, "Generator"):
            return repr(value.bit_generator.state)
        if _of_numpy(value, "RandomState"):
            return repr(value.get_state())
        if isinstance(value, (io.StringIO, io.BytesIO)):
            return value.tell(), value.getvalue()
        if type(value) is itertools.count:
            return repr(value)
        sqlite3 = sys.modules.get("sqlite3")
        if sqlite3 is not None and isinstance(value, getattr(sqlite3, "Connection", ())):
            return value.total_changes
    except Exception:
        pass  # It is closed, has no state (SystemRandom), or another thread changes it now.
    return None


def same(one, other):
    """Tell whether two results of `contents_of` show no change."""
    try:
        return one is None or other is None or bool(one == other)
    except Exception:
        return True  # values that cannot be compared count as unchanged


def attributes_of(value, modules):
    """Return the attributes of a class of these modules, or of an object of such a class: [(name, value), ...].

    A function has attributes, too, and so has a `types.SimpleNamespace`.
    """
    kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
    if kind.__module__ not in modules and kind is not types.SimpleNamespace:
        return []
    try:
        found = list(vars(value).items())
    except TypeError:
        return []  # it has only slots
    return [
        (name, one)
        for name, one in found[:_MOST_ATTRIBUTES]
        if not name.startswith("__") and not isinstance(one, (types.FunctionType, property, classmethod, staticmethod))
    ]


def _defaults_of(function):
    """Return the default values of a function's parameters that are containers: [(name, value), ...]."""
    for _ in range(_MOST_INNER):  # a decorator may hide it; a chain of these may have no end
        function = vars(function).get("__wrapped__", function)
        if not isinstance(function, types.FunctionType):
            return []
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    found = list(zip(names, values)) + list((function.__kwdefaults__ or {}).items())
    return [(name, one) for name, one in found if is_container(one) or is_random(one)]


def parts_of(place, value, modules):
    """Return what a value of the user's consists of, by the names of the parts: its attributes, and its defaults."""
    found = {"%s.%s" % (place, name): one for name, one in attributes_of(value, modules)}
    functions = {place: value}
    if isinstance(value, type):
        functions = {
            "%s.%s" % (place, name): getattr(one, "__func__", one)
            for name, one in list(vars(value).items())[:_MOST_ATTRIBUTES]
        }
    for name, function in functions.items():
        if isinstance(function, types.FunctionType) and function.__module__ in modules:
            for parameter, default in _defaults_of(function):
                found["%s's default %s" % (name, parameter)] = default
    return found
