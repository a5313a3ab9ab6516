"""Collects what processes record: they send us their memory, and we write a file for each.

A process that records does not touch a file system (native/trace/session.h). It sends the descriptor of its memory to
our Unix socket, and keeps nothing open. We look at the memory again and again, copy what is new into the process's file,
and go on doing so until the process is gone: however it ended, what it recorded is with us.

One file, since who calls, what their files may have and which of those make room is one decision in each pass.
"""

import bisect
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, final

from headway.live.door import Door, Reception, watch_process
from headway.live.files import begin_ticks, parent_of
from headway.native import CHUNK_BYTES, Collection, CollectionState

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MEMORY_BYTES",
    "MOST_FILES",
    "MOST_SESSIONS",
    "Collector",
    "collecting",
]

DEFAULT_MAX_BYTES = 512 << 20
"""What the files of a launch may have together before the oldest events make room."""
DEFAULT_MEMORY_BYTES = 128 << 20
"""What the processes of a launch may have together in memory, waiting to be written."""
MOST_SESSIONS = 1024
"""So many processes of a launch are recorded at a time."""
MOST_FILES = 4096
"""So many files a launch may have."""

_LEAST_SHARE = 64  # chunks of memory, for each process of however many
_LEAST_FILE = 16  # chunks, for each process that lives
_MOST_PROBLEMS = 64  # lines, and how many further ones there are
_MOST_GENERATIONS = 256
"""From a process up to the one that is attached to."""
_RESERVE_BYTES = 256 << 20
_RESERVE_SHARE = 0.05
"""What we leave free on a file system: so many bytes, or this share of a smaller one."""
_SPACE_S = 1.0
"""How often we look what is free."""
_BUSY_S, _IDLE_S = 0.02, 0.2
"""Between two passes: while there is much to copy, and while there is nothing."""
_HEADER_BYTES = 4096
"""Of a trace's file."""


@final
@dataclass(slots=True)
class _Session:
    """One process that records."""

    pid: int
    pidfd: int
    """-1: it cannot be watched so, or is gone already."""
    began: int | None
    """When the process began (files.begin_ticks), where that is how it is watched."""
    file: int
    path: Path
    collection: Collection
    state: CollectionState
    gone: bool
    since_ns: int
    """When we first heard of it (CLOCK_MONOTONIC)."""
    rest: int = 1
    """What its file has besides the chunks, in chunks: the header, and the counters of its threads."""

    def end(self) -> None:
        """It has ended."""
        self.gone = True

    @property
    def chunks(self) -> int:
        """What its file occupies."""
        return self.state.chunks + self.rest

    @property
    def oldest_ns(self) -> int:
        """Its file has no older event."""
        return max(self.since_ns, self.state.overwritten_until_ns)


class _Ended(NamedTuple):
    """The file of a child that has ended."""

    end_ns: int
    """When it ended, as we saw it (CLOCK_MONOTONIC)."""
    path: Path
    identity: tuple[int, int, int]
    """As _identity() gave it."""
    chunks: int
    """What it occupies."""
    before: int
    """What those that ended before occupied together, whether they are still there or not."""


class Collector:
    """What is behind a door: the files of those that call there. Use it in a `with`."""

    def __init__(
        self,
        door: Door,
        file: Path,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        only: int | None = None,
    ) -> None:
        """Begin.

        Args:
            door: Where processes call; it is closed with the collector.
            file: Of the first process; that of each further one is named after it: `app.hwt`, `app.PID.hwt`.
            max_bytes: What all files may have together, those of children that have ended included. A process that
                lives may have 256 KiB in any case.
            memory_bytes: What all processes may have in memory together.
            only: The id of a process: it and its descendants are recorded, and nobody else is. None: all who call.

        Raises:
            NativeError: The native library is missing or does not fit.
        """
        self.file = file.absolute()
        self.files: list[Path] = []
        """Those that were written so far and that are still there, the first process's first."""
        self._problems: list[str] = []
        self._further_problems = 0
        self._strangers = 0
        self._refused = 0
        self._removed = 0
        self._max_bytes = max_bytes
        self._only = only
        self._door = door
        self._max_chunks = max(_LEAST_FILE, max_bytes // CHUNK_BYTES)
        self._memory_chunks = memory_bytes // CHUNK_BYTES
        self._sessions: list[_Session] = []
        self._ended: list[_Ended] = []
        """Those that may be removed, the oldest first."""
        self._ended_chunks = 0
        """What they occupy."""
        self._ever = 0
        """What they and those that were removed occupied."""
        self._kept = 0
        """What those occupy that are not removed: the first process's, and any that cannot be."""
        self._stuck = 0
        """How many could not be removed."""
        self._looked_s = 0.0
        self._room = self._max_chunks
        self._reception = Reception(door, self._begin, self._fail)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def problems(self) -> list[str]:
        """What could not be recorded or kept, and why, a line each."""
        found = list(self._problems)
        if self._further_problems:
            found.append(f"{self._further_problems} further processes are not recorded, or lack some events")
        if self._strangers:
            found.append(f"{self._strangers} processes are not recorded: they do not descend from process {self._only}")
        if self._refused:
            found.append(
                f"{self._refused} processes are not recorded: a launch may have {MOST_SESSIONS} at a time,"
                f" {MOST_FILES} files and {self._max_bytes >> 20} MB (--max-size)"
            )
        if self._removed:
            found.append(
                f"the traces of {self._removed} children that had ended were removed, the oldest first: a launch may have"
                f" {self._max_bytes >> 20} MB (--max-size) and {MOST_FILES} files"
            )
        return found

    @property
    def busy(self) -> bool:
        """There are processes that record, or that are just calling."""
        return bool(self._sessions) or self._reception.busy

    def run(self, over: Callable[[], bool], *, at_once: bool = False) -> None:
        """Collect until `over` says so, and no process records any more; or `at_once`, though some go on."""
        pause_s = _BUSY_S
        while True:
            finished = over()
            called = self.step(pause_s)
            if finished and at_once:
                self.end()
            if finished and not called and not self.busy:
                return
            closed = max((one.state.closed for one in self._sessions), default=0)
            pause_s = _BUSY_S if called or closed > _LEAST_SHARE // 4 else min(_IDLE_S, pause_s * 1.5)

    def step(self, pause_s: float) -> bool:
        """Wait so long for calls, then copy what is new; return whether somebody called."""
        called = self._reception.answer(pause_s)
        self.copy()
        return called

    def copy(self) -> None:
        """Copy what all processes have recorded; let go of those that are gone."""
        self._share()
        living = sum(one.chunks for one in self._sessions)
        for session in list(self._sessions):
            gone = session.gone or (session.began is not None and begin_ticks(session.pid) != session.began)
            others = living - session.chunks
            session.collection.limit(self._limit(session, others))
            session.state = session.collection.copy(last=gone)
            living = others + session.chunks
            if gone or session.state.ended:
                if not gone:
                    session.state = session.collection.copy(last=True)
                self._let_go(session)
                living = others
        if living + self._kept + self._ended_chunks > self._room:
            living = self._shrink(living)
            self._make_room(living)

    def _shrink(self, living: int) -> int:
        """Have processes that have more than they may give up their oldest events; return what all have then.

        Before files are removed: what has just ended may be newer than those events.
        """
        for session in self._sessions:
            others = living - session.chunks
            limit = self._limit(session, others)
            if session.state.chunks > limit:
                session.collection.limit(limit)
                session.state = session.collection.copy()
            living = others + session.chunks
        return living

    def end(self) -> None:
        """Copy what all have, for the last time. What they record from now on is lost."""
        self.copy()
        for session in list(self._sessions):
            session.state = session.collection.copy(last=True)
            self._let_go(session)
        self._make_room(0)

    def _fail(self, why: str) -> None:
        """A process that has called is not recorded; it cannot be told."""
        problem = f"some processes are not recorded: {why}"
        if problem not in self._problems:
            self._say(problem)

    def _say(self, problem: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(problem)
        else:
            self._further_problems += 1

    def _begin(self, memory: int, pid: int) -> None:
        if self._only is not None and not _descends(pid, self._only):
            self._strangers += 1
            _refuse(memory)
            return
        self._end_earlier(pid)
        if not self._has_room():
            self._refused += 1
            _refuse(memory)
            return
        try:
            file, path = self._new_file(pid)
        except OSError as error:
            self._say(f"process {pid} is not recorded: no file beside {self.file}: {error.strerror}")
            _refuse(memory)
            return
        pidfd = -1
        try:
            pidfd, gone = watch_process(pid)
            collection = Collection(memory, file, path)
        except OSError:
            # Without a further descriptor: there may be none, which may be why.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    path.unlink()
            os.close(file)
            if pidfd >= 0:
                os.close(pidfd)
            raise
        began = begin_ticks(pid) if pidfd < 0 and not gone else None
        state = CollectionState(False, 0, 0, 0, 0, 0, 0)
        session = _Session(pid, pidfd, began, file, path, collection, state, gone, time.monotonic_ns())
        if pidfd >= 0:
            self._reception.keep(pidfd, session.end)
        self._sessions.append(session)
        self.files.append(path)
        self._door.called.set()

    def _end_earlier(self, pid: int) -> None:
        """Let go of what a process recorded before it called again: it has executed another program.

        Its id alone would not tell us, as it is still alive. An id that another process has got by now is the same to us.
        """
        for session in [one for one in self._sessions if one.pid == pid > 0]:
            session.state = session.collection.copy(last=True)
            self._let_go(session)

    def _has_room(self) -> bool:
        """Make room for one more process; return whether there is."""
        if len(self._sessions) >= MOST_SESSIONS:
            self.copy()  # some may be gone
        if len(self._sessions) >= MOST_SESSIONS:
            return False
        while len(self.files) >= MOST_FILES and self._ended:
            self._remove_oldest()
        if len(self.files) >= MOST_FILES:
            return False
        living = sum(one.chunks for one in self._sessions)
        self._make_room(living, _LEAST_FILE)
        # Where files cannot be removed, each further one would be beyond the limit.
        return not self._stuck or living + self._kept + self._ended_chunks + _LEAST_FILE <= self._room

    def _new_file(self, pid: int) -> tuple[int, Path]:
        """Make a process's file; an existing one is never touched."""
        path = self.file
        attempt = 0
        while True:
            if attempt or self.files:
                name = f"{self.file.stem}.{pid}{f'-{attempt}' if attempt > 1 else ''}.hwt"
                path = self.file.with_name(name)
            attempt += 1
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                return os.open(path, flags, 0o600), path
            except FileExistsError:
                if attempt > 1000:
                    raise

    def _let_go(self, session: _Session) -> None:
        if session.state.lost_children:
            self._say(
                f"{session.state.lost_children} children of process {session.pid} are not recorded: they did not reach us"
            )
        if session.state.error:
            self._say(f"{session.path} lacks some events: {os.strerror(session.state.error)}")
        self._sessions.remove(session)
        if session.pidfd >= 0:
            self._reception.forget(session.pidfd)
            os.close(session.pidfd)
        session.collection.close()
        made = _identity(session.file)
        chunks = max(session.state.chunks + 1, _occupied(os.fstat(session.file)))
        os.close(session.file)
        if session.path == self.file:
            self._kept += chunks
            return
        end_ns = max(time.monotonic_ns(), self._ended[-1].end_ns if self._ended else 0)
        self._ended.append(_Ended(end_ns, session.path, made, chunks, self._ever))
        self._ended_chunks += chunks
        self._ever += chunks

    def _make_room(self, living: int, more: int = 0) -> None:
        """Remove files of children that have ended, the oldest first, until there is room for what others have."""
        while self._ended and living + self._kept + self._ended_chunks + more > self._room:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        oldest = self._ended.pop(0)
        self._ended_chunks -= oldest.chunks
        try:
            if _remove(oldest.path, oldest.identity):
                self._removed += 1
        except OSError:
            self._stuck += 1
            self._kept += oldest.chunks
        else:
            self.files.remove(oldest.path)

    def _limit(self, session: _Session, others: int) -> int:
        """Return how many chunks a process may have, beside what others that live have.

        The oldest events are to make room. So a process takes the place of files whose processes had ended before its own
        oldest event; and of all further ones only within a fair share, where they are together as one process.
        """
        parties = len(self._sessions) + bool(self._ended)
        fair = max(_LEAST_FILE, (self._room - self._kept) // parties)
        newer = 0
        if self._ended and self._ended[-1].end_ns >= session.oldest_ns:
            first = bisect.bisect_left(self._ended, session.oldest_ns, key=lambda one: one.end_ns)
            newer = self._ever - self._ended[first].before
        return max(fair, self._room - others - self._kept - newer) - session.rest

    def _share(self) -> None:
        """Share disk and memory out among the processes that there are."""
        if not self._sessions:
            return
        now_s = time.monotonic()
        if now_s - self._looked_s > _SPACE_S:
            self._looked_s = now_s
            for session in self._sessions:
                session.rest = max(1, _occupied(os.fstat(session.file)) - session.state.chunks)
            used = sum(one.chunks for one in self._sessions) + self._kept + self._ended_chunks
            self._room = min(self._max_chunks, used + _free_chunks(self._sessions[0].file))
            with contextlib.suppress(OSError):
                os.utime(self._door.folder)  # what looks forgotten is removed
        memory = max(_LEAST_SHARE, self._memory_chunks // len(self._sessions))
        for session in self._sessions:
            session.collection.share(memory)

    def close(self) -> None:
        """Let go of all that is open. What processes record from now on is lost."""
        for session in list(self._sessions):
            self._let_go(session)
        self._reception.close()


def _refuse(memory: int) -> None:
    """Have a process that has just begun to record use no memory for it."""
    with open(os.devnull, "wb") as nothing:
        collection = Collection(memory, nothing.fileno())
        collection.share(0)
        collection.close()


def _identity(file: int) -> tuple[int, int, int]:
    """Return what only this file has: where it is, and its header, as another file may get its inode when it is gone."""
    status = os.fstat(file)
    return status.st_dev, status.st_ino, hash(os.pread(file, _HEADER_BYTES, 0))


def _remove(path: Path, identity: tuple[int, int, int]) -> bool:
    """Remove a file that we made; return whether it was still there. What else stands there by now is not touched.

    Raises:
        OSError: It cannot be removed.
    """
    # By the folder's descriptor: looked at and removed in the same folder, whatever its path leads to meanwhile.
    with contextlib.ExitStack() as opened:
        try:
            folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, folder)
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            if (status.st_dev, status.st_ino) != identity[:2]:
                return False
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(path.name, flags, dir_fd=folder)
            opened.callback(os.close, file)
            if _identity(file) != identity:
                return False
            os.unlink(path.name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def _occupied(status: os.stat_result) -> int:
    """Return how many chunks a file has on its file system, rounded up."""
    return -(-status.st_blocks * 512 // CHUNK_BYTES)


def _descends(pid: int, ancestor: int) -> bool:
    """Return whether a process is another one's descendant, or that one, or has ended already.

    Of one that has ended nobody knows; it can do no more than to be there, and takes a file at most. Nor is it known of
    one whose parent has ended: it is nobody's descendant then.
    """
    at = pid
    for _ in range(_MOST_GENERATIONS):
        if at == ancestor:
            return True
        if at <= 1:
            return False
        parent = parent_of(at)
        if parent is None:
            if at == pid:
                return True
            parent = pid  # one in between has just ended, and its children have another parent now
        at = parent
    return False


def _free_chunks(file: int) -> int:
    """Return how much more may be written where a file is, without filling the file system."""
    try:
        room = os.fstatvfs(file)
    except OSError:
        return 1 << 40
    reserve = min(_RESERVE_BYTES, int(room.f_blocks * room.f_frsize * _RESERVE_SHARE))
    return max(0, room.f_bavail * room.f_frsize - reserve) // CHUNK_BYTES


@contextlib.contextmanager
def collecting(
    file: Path,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    at_once: bool = False,
    record_arguments: bool = False,
    only: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[Door]:
    """Collect in a thread of ours while the `with` lasts, and until those that record are gone, or `at_once`.

    Gives the door, whose environment() is for what is to be recorded. `only` is the id of a process: it and its descendants
    are recorded, and nobody else is. `say` is told at the end what could not be recorded or kept, a line each.

    Raises:
        RecordingError: There can be no socket.
        NativeError: The native library is missing or does not fit.
    """
    over = threading.Event()
    door = Door(record_arguments=record_arguments)
    with Collector(door, file, max_bytes=max_bytes, only=only) as collector:
        thread = threading.Thread(target=collector.run, args=(over.is_set,), kwargs={"at_once": at_once}, daemon=True)
        thread.start()
        try:
            yield door
        finally:
            over.set()
            thread.join()
        if say is not None:
            for problem in collector.problems:
                say(problem)
