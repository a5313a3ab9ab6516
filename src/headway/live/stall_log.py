"""The log of stalls: is written a line for each stall, is added up for this process, and tells whether stalls are missing."""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, final

__all__ = ["Gaps", "StallLog", "append", "gap_in", "here", "in_utc", "note_gap", "note_gap_now"]

_LOOP: Final = "event loop"
_UNWRITTEN: Final = "the log could not be written"
_MOST_REASONS: Final = 4
_MOST_NOTE: Final = 400
"""The largest number of characters of a reason that are shown: it may hold the path of a socket, and a time at its end."""
_AGAIN_NS: Final = 1_000_000_000


def here() -> dict[str, Any]:
    """Return what tells a process from one with the same id elsewhere: containers may share a folder, and so a log."""
    found: dict[str, Any] = {"host": os.uname().nodename, "pid_namespace": 0}
    with contextlib.suppress(OSError):
        found["pid_namespace"] = Path("/proc/self/ns/pid").stat().st_ino
    return found


def in_utc(time_s: float) -> str:
    """Return a time (time.time()) as `2026-11-29 16:20:05 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_s))


def append(log: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append a line for each stall to a log; make the log if it is missing.

    A disk that becomes full takes a part of the lines. A part of a line stays there, and later lines begin after a newline.

    Raises:
        OSError: The log cannot be written, or took a part of the lines only.
    """
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    # Several watchers may have one log: only a single write is not mixed with theirs.
    file = os.open(log, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(file).st_size
        # The last line was cut off; or another watcher is just writing it, and an empty line follows it.
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data
        while (taken := os.write(file, data)) < len(data):
            data = b"\n" + data[data.rfind(b"\n", 0, taken) + 1 :]
    finally:
        os.close(file)


def _gap(log: Path) -> Path:
    return log.with_name(f"{log.name}.incomplete")


def note_gap(log: Path, why: str = "") -> bool:
    """Note that stalls are missing from a log, or may be; return whether that is noted.

    The note is a file beside the log with a line for each reason, the newest first. Reasons that differ by numbers only, as
    those of two processes or times, have one line. The file is empty if the log could not be written: a full disk mostly has
    room for that.

    Args:
        log: NAME.stalls.jsonl.
        why: The reason for which they may be, with its time; "": the log could not be written at this moment.
    """
    line = why.replace("\n", " ") or _last_now(_UNWRITTEN)
    others = [one for one in _reasons(_gap(log)) if _kind(one) != _kind(line)]
    data = "\n".join([line, *others][:_MOST_REASONS]).encode(errors="replace")
    with contextlib.suppress(OSError):
        file = os.open(_gap(log), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # The process may end in the midst of this: what is there is overwritten, and cut only after that.
            is_taken = _takes(file, data)
            if is_taken or not why:
                os.ftruncate(file, len(data) if is_taken else 0)
                os.utime(file)
                return True
        finally:
            os.close(file)
    return False


def _takes(file: int, data: bytes) -> bool:
    """Write to the begin of a file, and tell whether it has taken everything."""
    try:
        return os.pwrite(file, data, 0) == len(data)
    except OSError:
        return False


def _reasons(note: Path) -> list[str]:
    """Return the reasons that a note has, the newest first; none if there is no note."""
    with contextlib.suppress(OSError):
        noted = in_utc(note.stat().st_mtime)
        lines = note.read_text(encoding="utf-8", errors="replace").split("\n")
        return [one for one in lines if one] or [f"{_UNWRITTEN}; last at {noted}"]
    return []


def _last_now(why: str) -> str:
    return f"{why}; last at {in_utc(time.time())}"


def _kind(reason: str) -> str:
    return re.sub(r"\d+", "*", reason)


def note_gap_now(log: Path, why: str) -> None:
    """Note that stalls may be missing from a log, for a reason of this moment that may have had others before."""
    note_gap(log, _last_now(why))


@final
class Gaps:
    """The notes of one watcher that stalls may be missing from its log. One that cannot be written comes later."""

    def __init__(self, log: Path) -> None:
        """Note nothing yet."""
        self._log = log
        self._unwritten: list[str] = []
        self._tried_ns = 0

    def note(self, why: str) -> None:
        """Note it for a reason of this moment, which may have had others before."""
        line = _last_now(why)
        others = [one for one in self._unwritten if _kind(one) != _kind(line)]
        self._unwritten = [*others, line][-_MOST_REASONS:]
        self.write()

    def write(self) -> None:
        """Write what could not be noted: the log's folder may have been gone, or read only, for a while."""
        self._tried_ns = time.monotonic_ns()
        while self._unwritten and note_gap(self._log, self._unwritten[0]):
            del self._unwritten[0]

    def write_again(self, now_ns: int) -> None:
        """Do so at most once a second."""
        if now_ns - self._tried_ns >= _AGAIN_NS:
            self.write()


def gap_in(log: Path) -> tuple[Path, str] | None:
    """Return the note that stalls are missing from a log, and what it says, with the last time; None if there is none."""
    found = _reasons(_gap(log))
    if not found:
        return None
    are = "are" if any(one.startswith(_UNWRITTEN) for one in found) else "may be"
    return _gap(log), f"stalls {are} missing here, as {'; and as '.join(one[:_MOST_NOTE] for one in found)}"


@final
class StallLog:
    """The stalls of this process."""

    def __init__(self, path: Path) -> None:
        """Begin at the log's present end: earlier lines belong to other processes.

        Args:
            path: NAME.stalls.jsonl; need not exist yet.
        """
        self._path = path
        self._ours = {"pid": os.getpid()} | here()
        self._inode, self._at = self._stand()
        self.by_cause: dict[str, list[float]] = {}
        """(number, seconds) of ended stalls of event loops, by cause: each stall counts once, and its time for each cause."""
        self.last = ""
        """The line about the last stall."""

    def _stand(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0
        return found.st_ino, found.st_size

    def read(self) -> None:
        """Read the lines that have come in since the last call."""
        inode, size = self._stand()
        # Another file: the log was renamed, or has just begun. A shorter one: logrotate has copied and emptied it.
        if inode != self._inode or size < self._at:
            self._inode, self._at = inode, 0
        if size == self._at:
            return
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            text = file.read(size - self._at)
            whole = text.rfind(b"\n") + 1
            self._at += whole
            for line in text[:whole].splitlines():
                self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            row: dict[str, Any] = json.loads(line)
            is_ours = all(row[name] == value for name, value in self._ours.items())
            if not is_ours or row["goes_on"] or row["kind"] != _LOOP:
                return
            parts = [(0, str(part["cause"]), float(part["time_s"])) for part in row["parts"]]
            for number, cause, time_s in [(1, str(row["cause"]), 0.0), *parts]:
                count, sum_s = self.by_cause.get(cause, [0, 0.0])
                self.by_cause[cause] = [count + number, sum_s + time_s]
            self.last = str(row.get("line", ""))
        except (ValueError, KeyError, TypeError):
            return
