"""The command that runs a module of Headway's in a process of its own, with the modules that this process can import.

A service may have put Headway on its `sys.path` by code, as archives do that unpack themselves, or by a relative path.
A further process would not find it there.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["command_of"]

_RUN: Final = """
import json, sys
ours, *others = json.loads(sys.argv.pop(1))
sys.path.insert(0, ours)
import headway
sys.path.remove(ours)
sys.path += [path for path in [ours, *others] if path not in sys.path]
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""The service's own paths come last: no file of the service takes the place of a module of Python."""


def command_of(python: str, module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this Headway, and not of another one that the interpreter has.

    Args:
        python: The interpreter.
        module: The module's name.
        arguments: Its arguments.
    """
    # As `headway watch`, the interpreter ignores the PYTHON* variables, which are the service's.
    ignores = ["-E"] if sys.flags.ignore_environment else []
    ours = str(Path(__file__).absolute().parents[2])
    paths = json.dumps([ours, *(os.path.abspath(path) for path in sys.path if path)])
    return [python, *ignores, "-P", "-c", _RUN, paths, module, *arguments]
