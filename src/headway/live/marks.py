"""A watcher's mark beside its log, which stays there if the watcher is killed: the log then lacks the stalls after that.

The mark is a hidden file, which the watcher holds (flock) as long as it lives. Several watchers may have one log.
"""

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from headway.live.files import begin_ticks
from headway.live.stall_log import here, in_utc, note_gap

__all__ = ["Killed", "Mark", "has_unseen_end", "killed_watchers"]

_LOG: Final = ".stalls.jsonl"
_SEEN: Final = b"\nended"
"""What a mark has behind its words once the watcher has seen all processes that had ended when the program ended."""


@final
@dataclass(frozen=True)
class Killed:
    """A watcher that was killed."""

    mark: Path
    pid: int
    """The process that it watched together with its children."""
    began: str
    """When the watcher began, as `2026-11-29 16:20:05 UTC`."""
    is_needed: bool
    """Whether that process runs on, and is watched no more."""


@final
class Mark:
    """The mark of this watcher."""

    def __init__(self, log: Path, pid: int) -> None:
        """Set no mark yet.

        Args:
            log: The log that the watcher writes to, NAME.stalls.jsonl.
            pid: The process that is watched.
        """
        self._log, self._pid = log, pid
        self._path = log.with_name(f".{log.name.removesuffix(_LOG)}.{os.urandom(8).hex()}.watcher")
        self._file = -1
        self.is_end_noted = False
        """Whether the mark says that the watcher has seen its program's end."""

    def begin(self) -> None:
        """Set the mark, and note in the log's note of gaps which watchers before this one were killed."""
        if self._file >= 0:
            return
        with contextlib.suppress(OSError):
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                # A mark without words is one that is not held yet.
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                words = {"pid": self._pid, "began_ticks": begin_ticks(self._pid), "began": in_utc(time.time())} | here()
                os.write(self._file, json.dumps(words).encode())
            except OSError:  # a file system without locks, or a full one: nothing may be told there
                self.end()
                return
            for one in killed_watchers(self._log):
                if not one.is_needed:
                    note_gap(self._log, f"a watcher was killed between {one.began} and {in_utc(time.time())}")
                    one.mark.unlink(missing_ok=True)

    def note_end(self) -> None:
        """Note in the mark, if it is set, that the watcher has seen the program's end."""
        if self._file >= 0:
            self.is_end_noted = True
            with contextlib.suppress(OSError):
                os.write(self._file, _SEEN)

    def end(self) -> None:
        """Remove the mark."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file, self.is_end_noted = -1, False


def killed_watchers(log: Path) -> Iterator[Killed]:
    """Yield the watchers of a log that were killed, as far as no later watcher has noted that."""
    for mark in _marks(log.parent, re.escape(log.name.removesuffix(_LOG))):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            text, lives = _read(mark)
            if not lives:
                words = json.loads(text.removesuffix(_SEEN))
                yield Killed(mark, int(words["pid"]), str(words["began"]), _runs(words) is True)


def has_unseen_end(folder: Path) -> bool:
    """Tell whether a program has ended, and its watcher, which writes to a log in this folder, has not seen that yet."""
    for mark in _marks(folder, ".+"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            text, lives = _read(mark)
            if lives and not text.endswith(_SEEN) and _runs(json.loads(text)) is False:
                return True
    return False


def _marks(folder: Path, name: str) -> list[Path]:
    """Return the marks in a folder beside the logs whose names match a pattern."""
    pattern = re.compile(rf"\.{name}\.[0-9a-f]{{16}}\.watcher")
    with contextlib.suppress(OSError):
        return sorted(one for one in folder.iterdir() if pattern.fullmatch(one.name))
    return []


def _runs(words: dict[str, Any]) -> bool | None:
    """Tell whether the process in a mark's words runs; None if that cannot be told here."""
    if words["began_ticks"] is None or any(words[name] != value for name, value in here().items()):
        return None
    return bool(begin_ticks(words["pid"]) == words["began_ticks"])


def _read(mark: Path) -> tuple[bytes, bool]:
    """Return the text in a mark, b"" if its watcher has just ended, and whether the watcher lives. Raises OSError."""
    file = os.open(mark, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lives = False
        except BlockingIOError:
            lives = True
        return os.read(file, 4096) if os.fstat(file).st_nlink else b"", lives
    finally:
        os.close(file)
