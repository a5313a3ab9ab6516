"""Helpers that the tests of real programs share: interpreters, environments, how a program ended, and waiting."""

import os
import re
import subprocess
from pathlib import Path

from headway.host.interpreters import discover, select
from headway.native import policies

PROGRAM = str(Path(__file__).parents[1] / "integration" / "lifecycle_program.py")
FOUND = select(discover()[0], ["all"])
WITH_A_GIL = [one for one in FOUND if not one.name.endswith("t")]
WITH_STACKS = [one for one in WITH_A_GIL if not one.name.startswith(("3.8", "3.9", "3.10"))]
# The oldest, the newest, and those in which visible behaviour has changed.
SOME = [one for one in FOUND if one.name in ("3.8", "3.11", "3.13", "3.14", "3.15")]
BY_NAME = {one.name: one for one in FOUND}
POLICIES = [one.name for one in policies()[0]]
LIMIT_S = 150
"""A free-threaded 3.13 may take most of it on a busy machine: where a thread has a type's lock already, it yields its core
40 times before it takes that lock again, and each import does so often."""


def ran(command, env, folder):
    """Run a program; return its exit status and its output, without the parts that differ from run to run."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, cwd=folder, check=False)
    said = [re.sub(r"pid=\d+|0x[0-9a-f]+", "", text) for text in (done.stdout, done.stderr)]
    return done.returncode, *said


def unobserved():
    """Return an environment that names no policy, no recorder and no setting of Python's."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("HEADWAY_P", "PYTHON"))}


def bare(**more):
    """Return an environment without any variable of Python's, the terminal's or Headway's, and with `more`."""
    own = ("HEADWAY_", "PYTEST", "PYTHON", "LC_", "LANG", "VIRTUAL_ENV", "COLUMNS", "LINES")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)} | {"LANG": "C.UTF-8"} | more
