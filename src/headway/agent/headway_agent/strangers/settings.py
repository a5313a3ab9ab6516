"""Reads the settings of a process that its threads share, as far as reading them costs little and changes nothing."""

import _locale
import gc
import sys
import time
import warnings

from .. import proc

__all__ = ["BY_IMPORTS", "settings"]

BY_IMPORTS = ("sys.path", "warnings.filters")
"""Settings that an import may change."""


def _umask():
    """Return the mode of the process's new files; None if the kernel does not tell it without a change of it."""
    try:
        lines = proc.read("/proc/self/status").splitlines()
    except OSError:
        return None
    return next((line.split()[1] for line in lines if line.startswith("Umask:")), None)


def _logging(module):
    root = module.root
    return root.level, list(root.handlers), root.manager.disable


def _decimal(module):
    context = module.getcontext()  # without its flags, which calculations set
    return context.prec, context.rounding, context.Emin, context.Emax, context.traps.copy()


def _socket(module):
    return (module.getdefaulttimeout(),)  # None alone would be an unknown value


_OF_MODULES = {
    "the root logger": _logging,
    "the decimal context": _decimal,
    "the default timeout of sockets": _socket,
}
"""The functions that read a module's settings; each has the name of its module."""
_AT_FIRST = {"the root logger": (30, [], 0), "the default timeout of sockets": (None,)}
"""Settings after the import of their module, which a call may import and change in one."""


def settings():
    """Return {name: value} of the settings; a module that is not imported has those that it begins with, as far as they are known."""
    found = {
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "sys.stdin": sys.stdin,
        "sys.path": list(sys.path),
        "sys.excepthook": sys.excepthook,
        "the recursion limit": sys.getrecursionlimit(),
        "the switch interval": sys.getswitchinterval(),
        "the garbage collector": (gc.isenabled(), gc.get_threshold()),
        "the umask": _umask(),
        "the time zone": time.tzname,
        "the locale": _locale.setlocale(_locale.LC_ALL),
        "warnings.filters": list(warnings.filters),
    }
    for name, read in _OF_MODULES.items():
        module = sys.modules.get(read.__name__.strip("_"))
        if module is not None:
            found[name] = read(module)
        elif name in _AT_FIRST:
            found[name] = _AT_FIRST[name]
    return found
