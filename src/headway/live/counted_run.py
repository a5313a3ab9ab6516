"""Runs a program beside us, counted but not traced, with its output kept away from a screen that is painted over.

The program runs as under `headway trace`, with three differences. It has its own process group, so that a Ctrl-C
reaches it once and through us. It records only counters, in memory. It has no terminal, to read from or to print to:
its output comes through a pipe. We pass it on to stderr, and keep the last part of it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headway.errors import UsageError
from headway.live.launch import COUNT_ONLY, environment, original_environment
from headway.printable import printable

__all__ = ["Beside"]

_PATIENCE_S = 5.0
_DRAINS_S = 2.0
"""How long we wait for the last output of a program that has ended: a process that it left may keep the pipe open."""
_TAIL_BYTES = 16384
_PART_BYTES = 65536


class Beside:
    """A program that runs while we do other things, until the end of the `with`."""

    def __init__(self, command: Sequence[str], output: Path | None = None, *, passes_on: bool = False) -> None:
        """Start the program.

        Args:
            command: The program and its arguments.
            output: A file for stdout and stderr; by default the end of both is kept for `tail`.
            passes_on: Without `output`, the program's stdout and stderr go to our stderr, too.

        Raises:
            UsageError: The program cannot be started, or the file cannot be made.
            NativeError: The native library is missing or does not fit.
        """
        env = environment(COUNT_ONLY, base=original_environment())
        self._file: IO[bytes] | None
        try:
            self._file = output.open("wb") if output else None
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}", hint="name another file") from error
        try:
            self._child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
                stdout=self._file or subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                process_group=0,
                # The program inherits what we did, such as the pipe of a shell's <(...); our own files are not inheritable.
                close_fds=False,
            )
        except OSError as error:
            if self._file is not None:
                self._file.close()
            raise UsageError(
                f"{command[0]} cannot be run: {error.strerror}", hint="name a program that can be executed"
            ) from error
        self._last = b""
        self._passes_on = passes_on
        self._reader = threading.Thread(target=self._read, name="output", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()
        if self._file is not None:
            self._file.close()

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
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_PATIENCE_S)
        self._reader.join(_DRAINS_S)

    def tail(self, lines: int) -> list[str]:
        """Return the last lines that the program printed, up to now; [] if they go to a file."""
        found = self._last.decode("utf-8", "replace").splitlines()[-lines:]
        return [printable(line.expandtabs()) for line in found]

    def _read(self) -> None:
        stream = self._child.stdout
        if stream is None:
            return
        with stream:
            while part := stream.read(_PART_BYTES):
                self._last = (self._last + part)[-_TAIL_BYTES:]
                if self._passes_on:
                    self._pass_on(part)

    def _pass_on(self, part: bytes) -> None:
        """Print to stderr; if that is closed or cannot be written to, the program still goes on."""
        try:
            sys.stderr.buffer.write(part)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            self._passes_on = False
