"""Finds in the code of a function, and of the user's functions that it calls, the shared state that a call sets.

A call may set a name or a setting and take that back before it returns: a comparison of the values before and after the
call shows nothing, and calls beside each other overwrite each other's value meanwhile. So the instructions are read.
They tell what the code may do: a branch may not be taken.
"""

import contextlib
import dis
import functools
import gc
import inspect
import os
import sys
import threading
import types
import warnings

from .contents import is_container

__all__ = ["written"]

_MOST_FUNCTIONS = 500
_CHANGING = frozenset(
    "add append appendleft clear difference_update discard extend extendleft insert intersection_update pop popitem "
    "popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update".split()
)
"""The methods of containers that change them."""
_ENTERED = ("__init__", "__post_init__", "__call__", "__enter__", "__exit__", "__aenter__", "__aexit__")
"""Methods that run without being named."""
_NOT_DONE = frozenset("CACHE EXTENDED_ARG NOP NOT_TAKEN PUSH_NULL PRECALL".split())
"""Instructions that neither load nor store."""
_UNKNOWN = object()


def _setters():
    """Return (function, setting) of those functions that set what all threads of the process share."""
    found = [
        (contextlib.redirect_stdout, "sys.stdout"),
        (contextlib.redirect_stderr, "sys.stderr"),
        (os.umask, "the umask"),
        (sys.setrecursionlimit, "the recursion limit"),
        (sys.setswitchinterval, "the switch interval"),
        (gc.disable, "the garbage collector"),
        (gc.enable, "the garbage collector"),
        (warnings.simplefilter, "warnings.filters"),
        (warnings.filterwarnings, "warnings.filters"),
    ]
    if not getattr(sys.flags, "context_aware_warnings", False):  # else each context has filters of its own
        found.append((warnings.catch_warnings, "warnings.filters"))
    for module, name, words in (
        ("locale", "setlocale", "the locale"),
        ("socket", "setdefaulttimeout", "the default timeout of sockets"),
        ("logging", "disable", "the root logger"),
        ("time", "tzset", "the time zone"),
    ):
        setter = getattr(sys.modules.get(module), name, None)
        if setter is not None:
            found.append((setter, words))
    return found


class _Code:
    """The instructions of a code object, with what they load as far as that can be told."""

    def __init__(self, code, names, own_self):
        self._names, self._own_self = names, own_self
        self.here = names.get("__name__")
        self.done = [one for one in dis.get_instructions(code) if one.opname not in _NOT_DONE]
        self._lines = list(dis.findlinestarts(code))
        self.modules = {
            after.argval: sys.modules.get(one.argval.partition(".")[0])
            for one, after in zip(self.done, self.done[1:])
            if one.opname == "IMPORT_NAME" and after.opname == "STORE_FAST"
        }
        self._first = code.co_varnames[0] if code.co_argcount else None

    def line(self, offset):
        return max((line for start, line in self._lines if start <= offset and line), default=0)

    def loaded(self, place):
        """Return (words, value) of what an instruction puts on the stack; ("", _UNKNOWN) if that cannot be told."""
        one = self.done[place] if place >= 0 else None
        if one is None:
            return "", _UNKNOWN
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = self._names.get(one.argval, _UNKNOWN)
            return _named(value) or "%s.%s" % (self.here, one.argval), value
        if one.opname.startswith("LOAD_FAST"):
            name = one.argval[-1] if isinstance(one.argval, tuple) else one.argval  # one loads two
            if name == self._first and self._own_self is not None:
                return "self", self._own_self
            value = self.modules.get(name) or _UNKNOWN
            return _named(value), value
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            words, owner = self.loaded(place - 1)
            if owner is not _UNKNOWN:
                return "%s.%s" % (words, one.argval), _attribute(owner, one.argval)
        return "", _UNKNOWN


def _named(value):
    return value.__name__ if isinstance(value, types.ModuleType) else ""


def _attribute(owner, name):
    """Return an attribute without running code of the user's; _UNKNOWN if that is not possible."""
    if isinstance(owner, types.ModuleType):
        return vars(owner).get(name, _UNKNOWN)
    found = inspect.getattr_static(owner, name, _UNKNOWN)
    return getattr(found, "__func__", found)


def _below(value):
    """Return what a bound method, a partial call or a decorator calls, without running code of the user's; else None."""
    if isinstance(value, (types.MethodType, classmethod, staticmethod)):
        return value.__func__
    if isinstance(value, functools.partial):
        return value.func
    try:
        return vars(value).get("__wrapped__")
    except TypeError:
        return None


def _chain(value):
    """Return the functions that a value stands for: itself, and those below it."""
    found = []
    while value is not None and len(found) < _MOST_FUNCTIONS:
        found.append(value)
        value = _below(value)
    return [one for one in found if isinstance(one, types.FunctionType)]


class _Walk:
    def __init__(self, function, modules):
        self._modules, self._setters = modules, _setters()
        self._self = getattr(function, "__self__", None)
        self._todo, self._met, self._classes, self._named = [], set(), [], set(_ENTERED)
        self.found = {}
        self._meet(function, of=None if self._self is None else type(self._self))
        if self._self is not None:
            self._meet_class(type(self._self))
        if not _chain(function):  # an object that can be called
            self._meet_class(type(function))
        self._walk()

    def _walk(self):
        done = 0
        while self._todo and done < _MOST_FUNCTIONS:
            function, of = self._todo.pop(0)
            done += 1
            self._read(function, function.__code__, of)

    def _meet(self, value, of=None):
        """Remember a function, or the methods of a class, for reading, if it is the user's."""
        if isinstance(value, type):
            self._meet_class(value)
            return
        for function in _chain(value):
            if function not in self._met:
                self._met.add(function)
                if function.__globals__.get("__name__") in self._modules:
                    self._todo.append((function, of))

    def _meet_class(self, kind):
        if kind.__module__ in self._modules and kind not in self._classes:
            self._classes.append(kind)
            for name in list(self._named):
                self._meet_method(kind, name)

    def _meet_method(self, kind, name):
        method = inspect.getattr_static(kind, name, None)
        if isinstance(method, property):
            method = method.fget
        if method is not None and not isinstance(method, type):
            self._meet(method, of=kind)

    def _read(self, function, code, of):
        for name in code.co_names:
            if name not in self._named:
                self._named.add(name)
                for kind in list(self._classes):
                    self._meet_method(kind, name)
        is_own = of is not None and isinstance(self._self, of) and code.co_name not in ("__init__", "__post_init__")
        read = _Code(code, function.__globals__, self._self if is_own else None)
        for place, one in enumerate(read.done):
            at = "%s:%d" % (os.path.basename(code.co_filename), read.line(one.offset))
            self._take(read, place, one, at)
            # A cell that the function has from where it was made; those of its inner functions are a call's own.
            if one.opname in ("STORE_DEREF", "DELETE_DEREF") and code is function.__code__:
                if one.argval in code.co_freevars:
                    self._note("globals", "%s (of its closure)" % one.argval, "is bound", at)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self._read(function, inner, None)

    def _take(self, read, place, one, at):
        if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            self._note("globals", "%s.%s" % (read.here, one.argval), "is bound", at)
        elif one.opname in ("STORE_ATTR", "DELETE_ATTR"):
            self._store(*read.loaded(place - 1), one.argval, at)
        elif one.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            if place and read.done[place - 1].opname.startswith("LOAD_"):  # a key that is not calculated
                self._change(*read.loaded(place - 2), at)
        elif one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"):
            if one.argval in _CHANGING and one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                self._change(*read.loaded(place - 1), at)
            self._use(read.loaded(place)[1], at)

    def _store(self, words, owner, name, at):
        """Note that an attribute is set; those of a `threading.local` are each thread's own."""
        if owner is not _UNKNOWN and not isinstance(owner, threading.local):
            is_other = isinstance(owner, types.ModuleType) and words not in self._modules
            self._note("settings" if is_other else "globals", "%s.%s" % (words, name), "is bound", at)

    def _change(self, words, value, at):
        if value is not _UNKNOWN and is_container(value):
            of = words.rpartition(".")[0]
            self._note("settings" if of in sys.modules and of not in self._modules else "globals", words, "changes", at)

    def _use(self, value, at):
        for setter, words in self._setters:
            if value is setter:
                self._note("settings", words, "is set", at)
        if isinstance(value, type) or _chain(value):
            self._meet(value)
        elif type(value).__module__ in self._modules:
            self._meet_class(type(value))

    def _note(self, kind, name, what, at):
        if not name.rpartition(".")[2].startswith("__"):
            self.found.setdefault((kind, name), "%s %s within a call (%s)" % (name, what, at))


def written(function, modules):
    """Return {(kind, name): words} of the names and settings that a call may set, by the code of these modules."""
    try:
        return _Walk(function, modules).found
    except Exception:
        return {}  # the instructions of an unknown version, or an object that does not bear to be looked at
