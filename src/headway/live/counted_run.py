"""Runs a program beside us, counted but not traced, with its output kept away from the screen.

The program runs as under `headway trace`, with three differences. It has its own process group, so that a Ctrl-C
reaches it once and through us. It records only counters, in memory. It has no terminal to read from.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headway.errors import UsageError
from headway.live.launch import COUNT_ONLY, environment
from headway.printable import printable

__all__ = ["Beside"]

_PATIENCE_S = 5.0
_TAIL_BYTES = 16384


class Beside:
    """A program that runs while we do other things, until the end of the `with`."""

    def __init__(self, command: Sequence[str], output: Path | None = None) -> None:
        """Start the program.

        Args:
            command: The program and its arguments.
            output: A file for stdout and stderr; by default both are kept for `tail`.

        Raises:
            UsageError: The program cannot be started, or the file cannot be made.
            NativeError: The native library is missing or does not fit.
        """
        env = environment(COUNT_ONLY)
        self._kept: IO[bytes]
        try:
            self._kept = output.open("wb") if output else tempfile.TemporaryFile()  # noqa: SIM115 as long as we are
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}", hint="name another file") from error
        try:
            self._child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
                stdout=self._kept,
                stderr=subprocess.STDOUT,
                process_group=0,
                # The program inherits what we did, such as the pipe of a shell's <(...); our own files are not inheritable.
                close_fds=False,
            )
        except OSError as error:
            self._kept.close()
            raise UsageError(
                f"{command[0]} cannot be run: {error.strerror}", hint="name a program that can be executed"
            ) from error
        self._tail_of = None if output else self._kept

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()
        self._kept.close()

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._child.pid

    @property
    def code(self) -> int | None:
        """The program's exit code, or the negative number of the signal that killed it; None while it runs."""
        return self._child.poll()

    def wait(self) -> int | None:
        """Return the exit code if the program ends within seconds: the kernel frees its memory before it has a code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE_S)
        return self.code

    def end(self) -> None:
        """Stop the program as by Ctrl-C; if that does not help for some seconds, as by kill, then by kill -9."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_PATIENCE_S)

    def tail(self, lines: int) -> list[str]:
        """Return the last lines that the program printed; [] if they go to a file."""
        if self._tail_of is None:
            return []
        descriptor = self._tail_of.fileno()
        size = os.fstat(descriptor).st_size
        text = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode("utf-8", "replace")
        found = text.splitlines()[-lines:]
        return [printable(line.expandtabs()) for line in found]
