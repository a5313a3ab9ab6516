"""Finds a user's function and its inputs, as a job names them.

A job's `target` is {"module", "name" (dotted below the module), "cwd", "inputs"}; the module's folder is on PYTHONPATH.
`inputs` is one of:

- {"kind": "none"}.
- {"kind": "named", "module", "name", "most"}: a list, a generator, or a function that returns one.
- {"kind": "json", "value"}: one call's arguments; an object gives arguments by name.
- {"kind": "pickled", "path", "most"}: a file of pickles, each (args, kwargs).

Only the first `most` inputs are used. An element of a named list that is a tuple is the positional arguments; any other
element is the only argument.
"""

import importlib
import inspect
import itertools
import os
import pickle
import sys

__all__ = ["InputsError", "MissingNameError", "find", "inputs_of", "named"]


class MissingNameError(Exception):
    """A module has no such name; the message is one sentence."""


class InputsError(Exception):
    """Why there are no inputs, in one sentence."""


def find(target):
    """Import the target's module and return its function. Raises what the import raises, and MissingNameError."""
    return named(target["module"], target["name"], target["cwd"])


def named(module, name, cwd):
    """Return the object with a dotted name in a module. Raises what the import raises, and MissingNameError."""
    os.chdir(cwd)
    if sys.argv[:1] == ["-c"]:
        sys.argv[:] = [module]
    found = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise MissingNameError(_not_there(found, part))
        found = getattr(found, part)
    return found


def _not_there(owner, name):
    import difflib

    near = difflib.get_close_matches(name, dir(owner), n=1)
    return "%s has no %s%s" % (getattr(owner, "__name__", "it"), name, "; did you mean %s?" % near[0] if near else "")


def inputs_of(target, function):
    """Return the inputs as a list of (args, kwargs). Raises InputsError, and what the user's own code raises."""
    inputs = target["inputs"]
    kind = inputs["kind"]
    if kind == "none":
        calls = [((), {})]
    elif kind == "json":
        value = inputs["value"]
        calls = [((), value)] if isinstance(value, dict) else [(tuple(value), {})]
    elif kind == "pickled":
        calls = _pickled(inputs["path"], inputs["most"])
    else:
        calls = _named_inputs(inputs, target["cwd"])
    if not calls:
        raise InputsError("there are no inputs: %s is empty" % inputs.get("name", kind))
    for args, kwargs in calls:
        _fit(function, args, kwargs, kind)
    return calls


def _pickled(path, most):
    calls = []
    with open(path, "rb") as file:
        while True:
            try:
                args, kwargs = pickle.load(file)
            except EOFError:
                return calls
            calls.append((tuple(args), dict(kwargs)))
            if len(calls) >= most:
                return calls


def _named_inputs(inputs, cwd):
    found = named(inputs["module"], inputs["name"], cwd)
    if inspect.isfunction(found) or inspect.ismethod(found):
        found = found()
    try:
        elements = list(itertools.islice(iter(found), inputs["most"]))
    except TypeError:
        raise InputsError(
            "%s is %s, expected a list, a generator, or a function that returns one"
            % (inputs["name"], type(found).__name__)
        )
    return [(one, {}) if isinstance(one, tuple) else ((one,), {}) for one in elements]


def _fit(function, args, kwargs, kind):
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C function may have no signature
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        if kind == "none":
            raise InputsError("it takes arguments (%s) and got none" % error)
        raise InputsError("an input does not fit its signature %s: %s" % (signature, error))
