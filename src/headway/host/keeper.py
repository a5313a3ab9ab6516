"""The keeper cleans up after a runner that was killed: it ends the processes of the last launch and removes its files.

The kernel kills a launch's first process when the runner dies (PR_SET_PDEATHSIG). It does not kill the launch's pool
workers, which may be in the middle of a task, and nothing removes its files. The keeper is a separate process. It reads
the launch's process group and folders from a pipe that only the runner holds open. When the pipe closes, however the
runner ended, the keeper ends the last group and removes the last folders that it has read (`host.reaping`).
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Self, final

from headway.host import reaping

__all__ = ["Keeper"]


@final
class Keeper:
    """Watches one launch at a time, as a context manager around a run."""

    def __enter__(self) -> Self:
        # The keeper has a session of its own: Ctrl-C on the terminal is for the runner.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaping.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def watch(self, group: int, folders: Iterable[str] = ()) -> None:
        """Tell the keeper which group to kill and which folders to remove if the runner ends now; 0 means no group."""
        assert self._process.stdin is not None
        # A killed keeper is no reason to stop measuring.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([group, list(folders)]).encode() + b"\n")
            self._process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an interrupt, the files of the last launch may be left: the keeper then removes them.
        if kind is None:
            self.watch(0)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
