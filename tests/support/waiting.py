"""Waits of tests for other processes: for a condition, never for a time."""

import time
from collections.abc import Callable
from pathlib import Path

_LOOK_S = 0.01


def wait_until(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    """Wait until the condition is true; fail if it still is not after `limit_s` seconds."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"the condition is not true after {limit_s:g} s"
        time.sleep(_LOOK_S)


def state_of(pid: int) -> str:
    """Return the letter of the state of a process's main thread, as "T" for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
