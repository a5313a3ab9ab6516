"""Finds a user's function and its inputs, as a job names them.

A job's `target` is {"module", "name" (dotted below the module), "cwd", "inputs"}; the module's folder is on PYTHONPATH.
`inputs` is one of:

- {"kind": "none"}.
- {"kind": "named", "module", "name", "most"}: a list, a generator, or a function that returns one. An object
  that can be iterated, such as an Enum, is iterated; any other one that can be called is called.
- {"kind": "json", "value"}: one call's arguments; an object gives arguments by name.
- {"kind": "pickled", "path", "most"}: a file of pickles; each is bytes, which are the pickle of (args, kwargs). Calls
  that cannot be loaded are left out.

Only the first `most` inputs are used. An element of a named list that is a tuple is the positional arguments, and a
`functools.partial` of the function is its arguments by position and by name; any other element is the only argument.
"""

import functools
import importlib.util
import inspect
import io
import itertools
import operator
import os
import pickle
import reprlib
import sys

from .named import named

__all__ = [
    "InputsError",
    "bound",
    "calls_of",
    "class_of_method",
    "find",
    "inputs_of",
    "maker_of",
    "missing_module",
]


class InputsError(Exception):
    """Why there are no inputs, in one sentence.

    `about` is "inputs", "text", "pickled", "signature", or "none" if none were given.
    """

    def __init__(self, words, about):
        super().__init__(words)
        self.about = about


def find(target):
    """Import the target's module and return its function. Raises what the import raises, and MissingNameError."""
    return named(target["module"], target["name"], target["cwd"])


def missing_module(target):
    """Return the first module of the target that no folder of the import path has, or ""; runs none of their code."""
    os.chdir(target["cwd"])
    for name in (target["module"], target["inputs"].get("module", "")):
        top = name.partition(".")[0]
        try:
            if top and top not in sys.modules and importlib.util.find_spec(top) is None:
                return top
        except (ImportError, ValueError):
            continue  # the import itself will tell
    return ""


def class_of_method(target):
    """Return the class whose plain method the target is, after `find`; None if it is another function."""
    owner = sys.modules[target["module"]]
    *path, name = target["name"].split(".")
    for part in path:
        owner = getattr(owner, part)
    is_plain = inspect.isclass(owner) and inspect.isroutine(inspect.getattr_static(owner, name))
    # Static methods and class methods are routines of their own kinds from CPython 3.10 on.
    return (
        owner if is_plain and not isinstance(inspect.getattr_static(owner, name), (staticmethod, classmethod)) else None
    )


def inputs_of(target, function):
    """Return the inputs as a list of (args, kwargs). Raises InputsError, and what the user's own code raises."""
    return calls_of(target, function)[0]


def maker_of(target, function):
    """Return what makes the inputs anew with each call, as `inputs_of` gives them; None if they are from no function."""
    inputs = target["inputs"]
    make = named(inputs["module"], inputs["name"], target["cwd"]) if inputs["kind"] == "named" else None
    if not _makes(make):
        return None
    return lambda: [_call_of(one, function) for one in itertools.islice(make(), inputs["most"])]


def _makes(found):
    """Tell whether inputs come from a call of what is named, and not from that itself; the code to paste does the same."""
    is_iterable = any(hasattr(type(found), name) for name in ("__iter__", "__getitem__"))
    return callable(found) and not is_iterable


def calls_of(target, function):
    """Return the inputs, whether any is, or could be, given by name, and an error for each that was left out.

    Raises as `inputs_of`.
    """
    inputs = target["inputs"]
    kind = inputs["kind"]
    by_name, lost = False, []
    if kind == "none":
        calls = [((), {})]
    elif kind == "json":
        value = inputs["value"]
        calls = [((), value)] if isinstance(value, dict) else [(tuple(value), {})]
    elif kind == "pickled":
        calls, lost = _pickled(inputs["path"], inputs["most"], target["module"])
    else:
        elements = _named_inputs(inputs, target["cwd"])
        by_name = any(_is_call(one, function) for one in elements)
        calls = [_call_of(one, function) for one in elements]
    for args, kwargs in calls:
        _fit(function, args, kwargs, kind)
    return calls, by_name or any(kwargs for _, kwargs in calls), lost


def bound(function):
    """Return the number of arguments by position that a `functools.partial` of the function has before its own.

    A partial of a partial is one of the inner function, with the arguments of both.
    """
    return len(functools.partial(function).args)


def _is_call(element, function):
    if not isinstance(element, functools.partial):
        return False
    made = functools.partial(function)
    is_same = len(element.args) >= len(made.args) and all(map(operator.is_, made.args, element.args))
    return element.func == made.func and is_same


def _call_of(element, function):
    if _is_call(element, function):
        return element.args[bound(function) :], element.keywords
    return (element, {}) if isinstance(element, tuple) else ((element,), {})


class _Unpickler(pickle.Unpickler):
    """Finds what was in a program's main module in the target's module: that program may have been its file."""

    def __init__(self, data, module):
        super().__init__(io.BytesIO(data))
        self._module = module

    def find_class(self, module, name):
        if module != "__main__":
            return super().find_class(module, name)
        try:
            return super().find_class(self._module, name)
        except AttributeError:
            raise pickle.UnpicklingError("%s is in the program's own main module" % name) from None


def _pickled(path, most, module):
    calls, lost = [], []
    with open(path, "rb") as file:
        while len(calls) + len(lost) < most:
            try:
                data = pickle.load(file)
            except EOFError:
                break
            try:
                args, kwargs = _Unpickler(data, module).load()
            except (Exception, SystemExit) as error:  # whatever the import of a module of theirs raises
                lost.append("%s: %s" % (type(error).__name__, str(error).partition("\n")[0][:300]))
            else:
                calls.append((tuple(args), dict(kwargs)))
    if not calls:
        raise InputsError("none of the %d calls can be loaded: %s" % (len(lost), lost[0] if lost else ""), "pickled")
    return calls, lost


def _named_inputs(inputs, cwd):
    found = named(inputs["module"], inputs["name"], cwd)
    words = "%s is" % inputs["name"]
    if _makes(found):
        found = found()
        words = "%s() returns" % inputs["name"]
    if isinstance(found, (str, bytes, bytearray)):
        raise InputsError("%s %s, of which each element would be a call" % (words, reprlib.repr(found)), "text")
    try:
        iterator = iter(found)
    except TypeError:
        shown = "None" if found is None else "%s (%s)" % (reprlib.repr(found), type(found).__name__)
        raise InputsError(
            "%s %s, expected a list, a generator, or a function that returns one" % (words, shown), "inputs"
        )
    elements = list(itertools.islice(iterator, inputs["most"]))
    if not elements:
        raise InputsError("%s an empty %s, expected an element for each call" % (words, type(found).__name__), "inputs")
    return elements


def _fit(function, args, kwargs, kind):
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C function may have no signature
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        if kind == "none":
            raise InputsError("it takes arguments (%s) and got none" % error, "none")
        raise InputsError("an input does not fit its signature %s: %s" % (signature, error), "signature")
