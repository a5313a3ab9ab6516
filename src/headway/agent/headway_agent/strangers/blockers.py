"""Finds the module that refuses a sub-interpreter, or that switches the GIL on in a free-threaded build.

The loader of extensions is watched while the function's module is imported. An extension that refuses is named if its
error ended the import, whatever other errors the packages that imported it raise later: a package may also go on without
it. Of those after which the GIL is on, the first one is named.
"""

import re
import sys
import warnings

__all__ = ["LoadWatch", "refused_by"]

_REFUSES = re.compile(r"module (\S+) does not support loading in subinterpreters")
_SWITCHES = re.compile(r"enabled to load module '([^']+)'")


def _gil():
    return getattr(sys, "_is_gil_enabled", lambda: True)()


class LoadWatch:
    """Watches extension modules as they are loaded, as a context manager.

    Attributes, afterwards: `switched`, the module that switched the GIL on, or ""; `failed`, [module, words] of the
    modules that could not be loaded, in their order; `errors`, the errors of these.
    """

    def __init__(self):
        self.switched = ""
        self.failed = []
        self.errors = []

    def __enter__(self):
        from importlib.machinery import ExtensionFileLoader

        self._loader = ExtensionFileLoader
        self._own = {name: getattr(ExtensionFileLoader, name) for name in ("create_module", "exec_module")}
        for name, original in self._own.items():
            setattr(ExtensionFileLoader, name, self._around(original))
        self._warnings = warnings.catch_warnings(record=True)
        self._heard = self._warnings.__enter__()
        warnings.simplefilter("always")
        return self

    def _around(self, original):
        def watched(loader, what):
            before = _gil()
            try:
                return original(loader, what)
            except BaseException as error:
                self.failed.append([loader.name, "%s: %s" % (type(error).__name__, str(error)[:300])])
                self.errors.append(error)
                raise
            finally:
                if not before and _gil() and not self.switched:
                    self.switched = loader.name

        return watched

    def __exit__(self, *_):
        for name, original in self._own.items():
            setattr(self._loader, name, original)
        self._warnings.__exit__(None, None, None)
        for warning in self._heard or ():
            named = _SWITCHES.search(str(warning.message))
            if named and not self.switched:
                self.switched = named.group(1)


def refused_by(error, watch):
    """Return the module that does not load in a sub-interpreter, by the error that it caused; "" if that is unknown.

    The error that the user sees is often another one: packages catch the first error and raise their own, in whose
    context the first one is.
    """
    refused = {id(one): module for (module, words), one in zip(watch.failed, watch.errors) if _REFUSES.search(words)}
    chain = _chain(error)
    for one in chain:
        if id(one) in refused:
            return refused[id(one)]  # the loader knows the whole name, CPython's message sometimes only its last part
    for one in chain:
        named = _REFUSES.search(str(one))
        if named:
            return named.group(1)
    # A package that keeps the words of an error alone ended the import soon after it.
    return list(refused.values())[-1] if refused else watch.failed[-1][0] if watch.failed else ""


def _chain(error):
    """Return an error, its cause or context, and so on."""
    found = []
    while error is not None and all(error is not one for one in found):
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
