"""Imports a user's module and returns an object of it by its name.

A sub-interpreter that only tries the import needs no more of our modules than this one: each has its modules anew.
"""

import importlib
import os
import sys

__all__ = ["MissingNameError", "named"]


class MissingNameError(Exception):
    """A module has no such name; the message is one sentence."""


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
