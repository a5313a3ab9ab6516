"""Waits of tests for other processes: for a condition, never for a time."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
_LOOK_S = 0.01


def wait_for(condition: Callable[[], Found], what: str = "it did not happen in time", limit_s: float = 60.0) -> Found:
    """Wait until `condition` is true and return its value; fail, and say what was wrong, if it never is."""
    deadline_s = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, what
        time.sleep(_LOOK_S)
    return found


def state_of(pid: int) -> str:
    """Return the letter of the state of a process's main thread, as "T" for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
