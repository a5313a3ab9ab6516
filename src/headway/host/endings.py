"""How a process ended, as text, and what it wrote last."""

import os
import signal
from typing import BinaryIO

__all__ = ["ended_by", "tail_of"]


def ended_by(code: int) -> str:
    """Return "exit code 3" or, for the negative code of a process that a signal ended, "killed by SIGSEGV"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # most real-time signals have no name
        name = f"signal {-code}"
    return f"killed by {name}"


def tail_of(file: BinaryIO, most_bytes: int) -> str:
    """Return the end of a file, at most that many bytes of it."""
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - most_bytes))
    return file.read().decode(errors="replace")
