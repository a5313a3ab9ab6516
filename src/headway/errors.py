"""The errors that a user can cause or correct, and their exit codes.

Each of them is a `HeadwayError`. Its text has what was wrong, with its value, what was expected, and a hint.
The command line prints it without a traceback and exits with its `exit_code`.
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
    """An error that a user can correct.

    Attributes:
        message: One sentence without a final full stop; names the object and its value.
        hint: What to do next, or "".
        exit_code: The exit status of the command line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # The note shows the hint in a traceback, for example in a test; the command line prints the hint itself.
            self.add_note(f"hint: {hint}")


class UsageError(HeadwayError):
    """A bad argument, or two arguments that exclude each other; found before anything runs."""

    exit_code = 2


class ScenarioError(UsageError):
    """A description of a simulated program that makes no sense; names the key, its value and what was expected."""


class ProgramMissingError(HeadwayError):
    """A program to run does not exist; the exit code is the one that a shell uses."""

    exit_code = 127


class ProgramUnfitError(HeadwayError):
    """A program to run exists but cannot be executed; the exit code is the one that a shell uses."""

    exit_code = 126


class InterpreterError(HeadwayError):
    """An interpreter does not exist, does not start, or is not CPython 3.8 or later."""

    exit_code = 3


class StoreError(HeadwayError):
    """A results store cannot be opened, read or written, or does not have the run."""

    exit_code = 4


class NativeError(HeadwayError):
    """The native library is missing, does not load, or has another ABI version."""

    exit_code = 5


class TraceError(HeadwayError):
    """A trace, or a log of stalls, does not exist, is another file, or is too damaged to be read."""

    exit_code = 6


class SchedulingError(HeadwayError):
    """A process's GIL cannot be scheduled, a policy does not exist, or a policy has no such option."""

    exit_code = 8


class RecordingError(HeadwayError):
    """A process cannot be recorded, or cannot be attached to."""

    exit_code = 7
