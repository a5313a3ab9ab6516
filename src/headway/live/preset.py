"""The folder that $HEADWAY_WATCH names, and the line that says why a process is not watched.

Nothing here is large: an interpreter reads the variable at its start, before the program runs.
"""

import contextlib
import os
import sys

from headway.errors import HeadwayError

__all__ = ["PRESET", "preset_folder", "reason_of", "say", "say_unwatched"]

PRESET = "stalls"
"""The folder for recordings if none is named."""
_OFF = ("", "0", "false", "no", "off")
_ON = ("1", "on", "true", "yes")
"""Other switches have such values, and a folder with such a name is nobody's wish; `./off` is one."""


def preset_folder() -> str:
    """Return the folder that $HEADWAY_WATCH names; "" if the variable is empty or says "off", and switches nothing on.

    A variable that says "on" names no folder, and stands for the preset one.
    """
    named = os.environ.get("HEADWAY_WATCH", "").strip()
    word = named.lower()
    return "" if word in _OFF else PRESET if word in _ON else named


def say(text: str) -> None:
    """Print a message on stderr, which a service may have closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"headway: {text}\n")


_said = False


def reason_of(error: Exception) -> str:
    """Return in one line why a process is not watched; an error that nobody expects is told with its type."""
    if isinstance(error, HeadwayError):
        return error.message + (f"; {error.hint}" if error.hint else "")
    return " ".join(f"{type(error).__name__}: {error}".split())


def say_unwatched(reason: str) -> None:
    """Report on stderr, once in each process, why it is not watched."""
    global _said  # noqa: PLW0603 once in each process
    if not _said:
        say(f"process {os.getpid()} is not watched: {reason}")
    _said = True
