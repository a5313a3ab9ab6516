"""Checks a policy of the user's own before a program runs under it: in a process of its own, since it may crash."""

import subprocess
import sys

from headway.agent.headway_agent.scheduler import options_text
from headway.errors import SchedulingError
from headway.library import library_path

__all__ = ["check_own"]

_LONGEST_S = 10
_CHECKED = b"checked by headway: "
# Code that a library runs when it is loaded may print, too.
_CODE = f"""
import ctypes, os, sys
library, policy, options = map(os.fsencode, sys.argv[1:])
headway = ctypes.CDLL(os.fsdecode(library))
headway.hw_policy_find.restype = ctypes.c_void_p
problem = ctypes.create_string_buffer(1024)
found = headway.hw_policy_find(policy, problem, len(problem))
if found:
    headway.hw_schedule_check(ctypes.c_void_p(found), options, problem, len(problem))
os.write(1, {_CHECKED!r} + problem.value)
"""


def check_own(policy: str, options: dict[str, int]) -> None:
    """Check that a policy's library can be loaded, holds a policy, and has these options.

    Raises:
        SchedulingError: It cannot, does not or has not; or to load it crashes, ends or stops a process.
        NativeError: Headway's library is missing or does not fit.
    """
    hint = "`headway policies --include` prints the folder of headway/policy.h, which says what a policy must have"
    command = [sys.executable, "-I", "-c", _CODE, str(library_path()), policy, options_text(options)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        raise SchedulingError(f"{policy} cannot be loaded within {_LONGEST_S} s", hint=hint) from None
    _, is_checked, problem = done.stdout.rpartition(_CHECKED)
    if not is_checked:
        ended = f"by signal {-done.returncode}" if done.returncode < 0 else f"with code {done.returncode}"
        raise SchedulingError(f"a process that loads {policy} ends {ended}", hint=hint)
    if problem:
        raise SchedulingError(problem.decode(errors="replace"), hint=hint)
