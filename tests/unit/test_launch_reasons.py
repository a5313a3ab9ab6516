"""The reason of a failed launch, from what its process wrote on standard error."""

import pytest

from headway.lab.launching.launch import _why

RAISED = """Traceback (most recent call last):
  File "app.py", line 3, in f
    raise ValueError(
        "no rows"
    )
ValueError: no rows
in two files
"""
IGNORED = """Exception ignored in: <function Pool.__del__>
Traceback (most recent call last):
  File "pool.py", line 9, in __del__
OSError: closed
"""
TRACKER = """resource_tracker.py:276: UserWarning: resource_tracker: There appear to be 3 leaked semaphore objects
  warnings.warn(
"""


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (RAISED, "exit code 1: ValueError: no rows"),
        (RAISED + TRACKER, "exit code 1: ValueError: no rows"),
        (RAISED + IGNORED + TRACKER, "exit code 1: ValueError: no rows"),
        (RAISED.replace("ValueError: no rows", "KeyError: 1") + "\nDuring handling of it:\n\n" + RAISED + TRACKER,
         "exit code 1: ValueError: no rows"),
        ("wrong key\n", "exit code 1: wrong key"),
        ("Traceback (most recent call last):\n  File", "exit code 1: File"),
        (RAISED.replace("ValueError: no rows", "MemoryError") + TRACKER, "out of memory: MemoryError"),
        ("", "exit code 1: nothing on stderr"),
    ],
)  # fmt: skip
def test_the_reason_is_the_exception_whatever_was_written_after_it(stderr: str, reason: str) -> None:
    """A resource tracker's warning after the traceback is no reason."""
    assert _why(1, stderr) == reason
