"""Failures of the user's code: where and why, without our own frames."""

import os
import sys
import traceback

__all__ = ["FailedError", "print_users_part", "said", "where_of"]

_OURS = os.path.dirname(os.path.abspath(__file__))


class FailedError(Exception):
    """A failure of the user's code in a stage."""


def where_of(error):
    """Return the innermost location outside this package and importlib: "app.py:17"."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((_OURS, "<frozen")) and "/importlib/" not in frame.filename:
            found = "%s:%d" % (frame.filename, frame.lineno)
    return found


def print_users_part(error):
    """Print a traceback without our own frames above the user's frames."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and (frames[0].filename.startswith((_OURS, "<frozen")) or "/importlib/" in frames[0].filename):
        del frames[0]
    if frames:
        sys.stderr.write("Traceback (most recent call last):\n%s" % "".join(traceback.format_list(frames)))
    sys.stderr.write("".join(traceback.format_exception_only(type(error), error)))


def said(error):
    text = str(error).strip().splitlines()
    return "%s: %s" % (type(error).__name__, text[0][:300]) if text else type(error).__name__
