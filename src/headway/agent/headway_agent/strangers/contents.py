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
"""The elements of a container that are looked at for containers and objects."""
_MOST_DEEP = 5
"""The levels of containers in containers, and of objects in objects, that are looked at."""
_MOST_PARTS = 2000
_MOST_INNER_BYTES = 64 << 20
_MOST_BYTES = 16 << 20
"""A buffer that is larger than this is not read."""
_MEMORY = (bytearray, array.array)
_QUEUES = (("queue", "Queue", "queue"), ("asyncio", "Queue", "_queue"))
"""Classes of queues, by module and name, and their attribute that holds the elements."""


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


def _elements(value):
    """Return (key, element) of the first elements of a dict, a list, a tuple or a deque; its own methods are not called."""
    if isinstance(value, dict):
        return itertools.islice(dict.items(value), _MOST_INNER)
    for kind in (list, tuple, collections.deque):
        if isinstance(value, kind):
            return enumerate(itertools.islice(kind.__iter__(value), _MOST_INNER))
    return ()


def _bytes_of(value):
    """Return the size of a copy of a container, or of a buffer that is read; None for what is neither."""
    if is_container(value) and not isinstance(value, _MEMORY):
        return 8 * len(value)
    try:
        return memoryview(value).nbytes if isinstance(value, _MEMORY) or _of_numpy(value) else None
    except Exception:
        return None  # an array of objects, or of times


def _with_inner(value):
    """Return a copy of a container, and those of the containers and arrays in it, by their places, some levels down."""
    inner, left_bytes = {}, _MOST_INNER_BYTES
    todo, met = [((), value)], {id(value)}
    while todo:
        at, outer = todo.pop(0)
        for key, one in list(_elements(outer)):
            size_bytes = 0 if isinstance(one, tuple) else _bytes_of(one)
            if size_bytes is None or id(one) in met or size_bytes > left_bytes or len(met) > _MOST_PARTS:
                continue
            met.add(id(one))
            left_bytes -= size_bytes
            place = (*at, key)
            if not isinstance(one, tuple):
                inner[place] = _flat(one)
            if len(place) < _MOST_DEEP:
                todo.append((place, one))
    return (None if isinstance(value, tuple) else _flat(value)), inner


def contents_of(value):
    """Return what differs once a value has changed in place; None for a value of which that is not known."""
    try:
        if isinstance(value, _MEMORY) or _of_numpy(value):
            return _flat(value)
        if is_container(value) or isinstance(value, tuple):
            return _with_inner(value)
        for name, kind, inside in _QUEUES:
            if isinstance(value, getattr(sys.modules.get(name), kind, ())):
                return _flat(getattr(value, inside))
        if isinstance(value, getattr(sys.modules.get("queue"), "SimpleQueue", ())):
            return value.qsize()
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
        found = []  # it has only slots
    found += _slots_of(value)
    return [
        (name, one)
        for name, one in found[:_MOST_ATTRIBUTES]
        if not name.startswith("__") and not isinstance(one, (types.FunctionType, property, classmethod, staticmethod))
    ]


def _slots_of(value):
    """Return the attributes of an object for which its classes have `__slots__`: [(name, value), ...]."""
    found = []
    for kind in type(value).__mro__ if not isinstance(value, type) else ():
        slots = vars(kind)
        for name, one in list(slots.items()) if "__slots__" in slots else ():
            if isinstance(one, types.MemberDescriptorType):
                try:
                    found.append((name, one.__get__(value)))
                except AttributeError:
                    pass  # it is not set
    return found


def _words_of(key, number):
    """Return a key as it is written; of a key of the user's own class, the number, since its words are the user's code."""
    return repr(key)[:40] if type(key) in (str, int, bytes) else "#%d" % number


def _objects_of(place, value, modules):
    """Return the user's objects in a container, and what is in the attributes of an object, by their names."""
    if is_container(value) or isinstance(value, tuple):
        found = enumerate(list(_elements(value)))
        return [("%s[%s]" % (place, _words_of(key, number)), one) for number, (key, one) in found]
    return [("%s.%s" % (place, name), one) for name, one in attributes_of(value, modules)]


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
    """Return what a value of the user's consists of, by the names of the parts, some levels down: attributes, and defaults.

    An element of a container is none of its parts, but those of an object in the container are.
    """
    found = {}
    todo, met = [(place, value, 0)], {id(value)}
    while todo and len(found) < _MOST_PARTS:
        at, one, deep = todo.pop(0)
        found.update(("%s.%s" % (at, name), part) for name, part in attributes_of(one, modules))
        found.update(_defaults_in(at, one, modules))
        if deep == _MOST_DEEP:
            continue
        for name, part in _objects_of(at, one, modules):
            # A class or function has a name of its own, in the module where it is made.
            has_name = isinstance(part, (type, types.FunctionType))
            if id(part) not in met and not has_name and len(met) < _MOST_PARTS:
                met.add(id(part))
                todo.append((name, part, deep + 1))
    return found


def _defaults_in(place, value, modules):
    """Return the default values of a function, or of a class's methods, by their names."""
    found = {}
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
