"""Cleans up after a runner that was killed: ends what its last launch left behind.

The kernel tells a launch's first process that the runner is gone (PR_SET_PDEATHSIG), but not its pool workers, which
may be in the middle of a task, and nobody removes its files. The keeper is a process of its own that reads the launch's
process group and folders from a pipe which only the runner holds; when that pipe closes, however the runner ended, it
ends the group and removes the folders that it heard of last (`host.reaping`).
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
        # A session of its own: Ctrl-C on the terminal is for the runner.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaping.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def watch(self, group: int, folders: Iterable[str] = ()) -> None:
        """Kill this process group and remove these folders should the runner end now; 0 for no group."""
        assert self._process.stdin is not None
        # A keeper that somebody killed is no reason to stop measuring.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([group, list(folders)]).encode() + b"\n")
            self._process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Interrupted, we may not have come to remove the last launch's files: then it is the keeper's to do.
        if kind is None:
            self.watch(0)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
