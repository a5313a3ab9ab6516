"""The command that runs a module of Headway's in a process of its own, with the modules that this process can import.

A service may have put Headway on its `sys.path` by code, as archives do that unpack themselves, or by a relative path.
A further process would not find it there.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

from headway import __version__

__all__ = ["NOT_OURS", "command_of"]

NOT_OURS: Final = 70
"""The exit code of such a process if this Headway is not where it was, or another version is there (EX_SOFTWARE)."""

_RUN: Final = """
import json, sys
(version, ours, *others), gone = json.loads(sys.argv.pop(1)), int(sys.argv.pop(1))
sys.path.insert(0, ours)
try:
    import headway
    is_ours = headway.__version__ == version and headway.__file__.startswith(ours)
except ImportError:
    is_ours = False
if not is_ours:
    sys.exit(gone)
sys.path.remove(ours)
sys.path += [path for path in [ours, *others] if path not in sys.path]
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""The service's own paths come last: no file of the service takes the place of a module of Python."""


def command_of(python: str, module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this Headway, and not of another one that the interpreter has.

    The process of a service may outlive the files: they may be removed, or replaced by those of a later version. The
    command then ends at once, with NOT_OURS.

    Args:
        python: The interpreter.
        module: The module's name.
        arguments: Its arguments.
    """
    # As `headway watch`, the interpreter ignores the PYTHON* variables, which are the service's.
    ignores = ["-E"] if sys.flags.ignore_environment else []
    ours = str(Path(__file__).absolute().parents[2])
    paths = json.dumps([__version__, ours, *(os.path.abspath(path) for path in sys.path if path)])
    return [python, *ignores, "-P", "-c", _RUN, paths, str(NOT_OURS), module, *arguments]
