"""What can go wrong for a user, and what to do about it.

Every error that a user can cause or mend is a `HeadwayError`: what was wrong with its value, what was expected, and a
hint. The command line prints it without a traceback and exits with `exit_code`.
"""

from typing import ClassVar

__all__ = [
    "HeadwayError",
    "InterpreterError",
    "NativeError",
    "ProgramMissingError",
    "ProgramUnfitError",
    "RecordingError",
    "ScenarioError",
    "SchedulingError",
    "StoreError",
    "TraceError",
    "UsageError",
]


class HeadwayError(Exception):
    """Something a user can mend.

    Attributes:
        message: One sentence without a final period; names the object and its value.
        hint: What to do next, or "".
        exit_code: What the command line exits with.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # For tracebacks, in a test say; the command line prints it itself.
            self.add_note(f"hint: {hint}")


class UsageError(HeadwayError):
    """A bad argument or a contradictory pair of them: found before anything runs."""

    exit_code = 2


class ScenarioError(UsageError):
    """A description of a program to simulate that makes no sense: which key, its value, what was expected."""


class ProgramMissingError(HeadwayError):
    """A program to run that is not there; the exit code is a shell's."""

    exit_code = 127


class ProgramUnfitError(HeadwayError):
    """A program to run that is there and cannot be executed; the exit code is a shell's."""

    exit_code = 126


class InterpreterError(HeadwayError):
    """An interpreter that is not there, does not start, or is no CPython 3.8 or later."""

    exit_code = 3


class StoreError(HeadwayError):
    """A results store that cannot be opened, read or written, or a run that is not in it."""

    exit_code = 4


class NativeError(HeadwayError):
    """The native library is missing, does not load, or has another ABI."""

    exit_code = 5


class TraceError(HeadwayError):
    """A trace file that is not there, is none, or is damaged beyond reading."""

    exit_code = 6


class SchedulingError(HeadwayError):
    """A process whose GIL cannot be scheduled, a policy that is none, or an option that it has not."""

    exit_code = 8


class RecordingError(HeadwayError):
    """A process that cannot be recorded, or attached to."""

    exit_code = 7
