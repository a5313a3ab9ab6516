"""Finds the module that refuses a sub-interpreter, or that switches the GIL on in a free-threaded build.

The loader of extensions is watched while the function's module is imported. The first extension that refuses, or after
which the GIL is on, is named, whatever other errors the packages that imported it raise later.
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

    Attributes, afterwards: `switched`, the module that switched the GIL on, or ""; `failed`, [module, error] of the
    modules that could not be loaded, the innermost first.
    """

    def __init__(self):
        self.switched = ""
        self.failed = []

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


def refused_by(error, failed):
    """Return the module that does not load in a sub-interpreter, by the error that it caused; "" if that is unknown.

    The error that the user sees is often another one: packages catch the first error and raise their own.
    """
    for module, words in failed:
        if _REFUSES.search(words):
            return module  # the loader knows the whole name, CPython's message sometimes only its last part
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        named = _REFUSES.search(str(error))
        if named:
            return named.group(1)
        error = error.__cause__ or error.__context__
    return failed[0][0] if failed else ""
