"""Collects what processes record: each process sends us its memory, and we write a file for each process.

A process that records does not touch a file system (native/trace/session.h). The process sends the descriptor of its
memory to our Unix socket, and keeps no descriptor open. The collector repeatedly copies new events from that memory
into the process's file until the process is gone. However the process ended, the collector has all that it recorded.

One file: each pass decides together about new processes, the size of their files, and the files to remove.
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
from headway.live.files import (
    began_realtime_ns,
    begin_ticks,
    identity_of,
    note_executed,
    note_missing,
    parent_of,
    remove_family,
)
from headway.live.lived import Lived
from headway.live.upkeep import LEAST_CHUNKS, Upkeep
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
"""The limit for all files of a launch together; beyond it, the oldest events are overwritten or removed."""
DEFAULT_MEMORY_BYTES = 128 << 20
"""The limit for events in memory of all processes of a launch together, before they are written."""
MOST_SESSIONS = 1024
"""The largest number of processes of a launch that are recorded at a time."""
MOST_FILES = 4096
"""The largest number of files of a launch."""

_LEAST_FILE = 16  # chunks in the file that each living process gets
_MOST_PROBLEMS = 64  # lines; further problems are only counted
_MOST_TAKEN = 1000
"""The largest number of names to pass over, because others have left files of these names."""
_MOST_GENERATIONS = 256
"""The largest number of generations from a process up to the attached one."""
_RESERVE_BYTES = 256 << 20
_RESERVE_SHARE = 0.05
"""The space to leave free on a file system: this number of bytes, or this share of a smaller file system."""
_SPACE_S = 1.0
"""The time between two checks of the free space."""
_BUSY_S, _IDLE_S = 0.02, 0.2
"""The time between two passes: while there is much to copy, and while there is nothing."""


@final
@dataclass(slots=True)
class _Session:
    """One process that records."""

    pid: int
    pidfd: int
    """-1: the process has no pidfd, or is gone already."""
    began: int | None
    """The process's start (files.begin_ticks), if the process is watched by that; otherwise None."""
    file: int
    path: Path
    collection: Collection
    state: CollectionState
    lived: Lived
    gone: bool
    since_ns: int
    """The time at which the process called (CLOCK_MONOTONIC)."""
    rest: int = 1
    """The size of the file without its event chunks, in chunks: the header, and the counters of threads."""

    def end(self) -> None:
        """Mark the process as ended."""
        self.gone = True

    @property
    def chunks(self) -> int:
        """The chunks that the process's file occupies."""
        return self.state.chunks + self.rest

    @property
    def oldest_ns(self) -> int:
        """A time before which the process's file has no events."""
        return max(self.since_ns, self.state.overwritten_until_ns)


class _Ended(NamedTuple):
    """The file of a child process that has ended."""

    end_ns: int
    """The time at which we noticed the process's end (CLOCK_MONOTONIC)."""
    path: Path
    identity: tuple[int, int, int]
    """The result of files.identity_of()."""
    chunks: int
    """The chunks that the file occupies."""
    before: int
    """The chunks that all files ended before this one occupied, including removed files."""


class Collector:
    """The collector behind a door, and the files of the processes that call there. Use it in a `with`."""

    def __init__(
        self,
        door: Door,
        file: Path,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        only: int | None = None,
        overwrites: bool = False,
    ) -> None:
        """Begin to accept processes that call at the door.

        Args:
            door: Where processes call; closed together with the collector.
            file: The file of the first process. Further files are named after it: `app.hwt`, `app.PID.hwt`.
            max_bytes: The limit for all files together, including those of children that have ended. A living process
                may have 256 KiB in any case.
            memory_bytes: The limit for the memory of all processes together; less where little memory is left.
            only: The id of a process: only this process and its descendants are recorded. None: all processes that
                call.
            overwrites: An earlier trace at `file` is removed once the first process calls, and stays if none does.

        Raises:
            NativeError: The native library is missing or does not fit.
        """
        self.file = file.absolute()
        self.files: list[Path] = []
        """The files that were written so far and still exist; the first process's file comes first."""
        self._problems: list[str] = []
        self._further_problems = 0
        self._strangers = 0
        self._refused = 0
        self._removed = 0
        self._removed_for_space = 0
        """Of these, the files that were removed because their file system had no more room."""
        self._failed = 0
        """The number of processes that called, or tried to, and have no file, apart from those refused."""
        self._max_bytes = max_bytes
        self._only = only
        self._overwrites = overwrites
        self._door = door
        self._max_chunks = max(_LEAST_FILE, max_bytes // CHUNK_BYTES)
        self._memory_chunks = memory_bytes // CHUNK_BYTES
        self._sessions: list[_Session] = []
        self._ended: list[_Ended] = []
        """The files that may be removed, the oldest first."""
        self._ended_chunks = 0
        """The chunks that the files in _ended occupy."""
        self._ever = 0
        """The chunks that the files in _ended and the removed files occupied."""
        self._kept = 0
        """The chunks of files that stay: the first process's file, and files that cannot be removed."""
        self._stuck = 0
        """The number of files that could not be removed."""
        self._looked_s = 0.0
        self._room = self._max_chunks
        self._executed: dict[int, Path] = {}
        """The traces of processes that have executed another program, which has not called, by process id."""
        self._numbers: dict[int, int] = {}
        """The number in the last file's name of each process that has several, by process id."""
        self._upkeep = Upkeep()
        self._reception = Reception(door, self._begin, self._fail)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def problems(self) -> list[str]:
        """Describe what could not be recorded or kept, and why, one line each."""
        found = list(self._problems)
        if self._further_problems:
            found.append(f"{self._further_problems} further processes are not recorded, or lack some events")
        if self._strangers:
            found.append(f"{self._strangers} processes are not recorded: they do not descend from process {self._only}")
        if self._refused:
            found.append(
                f"{self._refused} processes are not recorded: a launch may have at most {MOST_SESSIONS} at a time,"
                f" {MOST_FILES} files and {self._max_bytes >> 20} MB (--max-size)"
            )
        limits = f"a launch may have at most {self._max_bytes >> 20} MB (--max-size) and {MOST_FILES} files"
        space = f"there is too little free space for files beside {self.file}, of which Headway leaves some to others"
        beyond = self._removed - self._removed_for_space
        for number, why in ((beyond, limits), (self._removed_for_space, space)):
            if number:
                found.append(f"the traces of {number} ended children were removed, the oldest first: {why}")
        return found

    @property
    def busy(self) -> bool:
        """Tell whether any process records, or is just calling."""
        return bool(self._sessions) or self._reception.busy

    def run(self, over: Callable[[], bool], *, at_once: bool = False) -> None:
        """Collect until `over()` is true and no process records any more; with `at_once`, until `over()` is true."""
        pause_s = _BUSY_S
        while True:
            finished = over()
            called = self.step(pause_s)
            if finished and at_once:
                self.end()
            if finished and not called and not self.busy:
                self._note_missing()
                return
            closed = max((one.state.closed for one in self._sessions), default=0)
            pause_s = _BUSY_S if called or closed > LEAST_CHUNKS // 4 else min(_IDLE_S, pause_s * 1.5)

    def step(self, pause_s: float) -> bool:
        """Wait for calls for `pause_s`, then copy new events; return whether a process called."""
        called = self._reception.answer(pause_s)
        self.copy()
        return called

    def copy(self) -> None:
        """Copy what all processes have recorded; close the sessions of those that are gone."""
        self._share()
        living = sum(one.chunks for one in self._sessions)
        now_ns = time.monotonic_ns()
        for session in list(self._sessions):
            gone = session.gone or (session.began is not None and begin_ticks(session.pid) != session.began)
            others = living - session.chunks
            session.collection.limit(self._limit(session, others))
            if not gone:
                session.lived.look(now_ns)
                gone = session.lived.over
            session.state = session.collection.copy(last=gone)
            living = others + session.chunks
            if gone or session.state.ended:
                if not gone:
                    session.state = session.collection.copy(last=True)
                self._let_go(session)
                if session.lived.over:
                    self._executed[session.pid] = session.path
                    self._note_executed(session.path, recorded=False)
                living = others
        if living + self._kept + self._ended_chunks > self._room:
            living = self._shrink(living)
            self._make_room(living)

    def _shrink(self, living: int) -> int:
        """Make processes above their limit give up their oldest events; return the chunks of all living processes.

        This happens before files are removed, because the file of a process that has just ended may be newer than
        those events.
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
        """Copy the events of all processes for the last time. Events that they record later are lost."""
        self.copy()
        for session in list(self._sessions):
            session.state = session.collection.copy(last=True)
            self._let_go(session)
        self._make_room(0)

    def _fail(self, why: str) -> None:
        """Note that a process has called and is not recorded; the process itself cannot be told."""
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
            self._failed += 1
            self._say(f"process {pid} is not recorded: its file beside {self.file} cannot be created: {error.strerror}")
            _refuse(memory)
            return
        pidfd = -1
        try:
            pidfd, gone = watch_process(pid)
            collection = Collection(memory, file, path)
            collection.began(began_realtime_ns(pid))
        except OSError:
            # The clean-up opens no descriptor: a lack of descriptors may be the cause of the failure.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    path.unlink()
            os.close(file)
            if pidfd >= 0:
                os.close(pidfd)
            raise
        began = begin_ticks(pid) if pidfd < 0 and not gone else None
        state = CollectionState(False, 0, 0, 0, 0, 0, 0, 0)
        lived = Lived(pid, collection, memory)
        session = _Session(pid, pidfd, began, file, path, collection, state, lived, gone, time.monotonic_ns())
        if pidfd >= 0:
            self._reception.keep(pidfd, session.end)
        self._upkeep.add(collection, pid)
        self._sessions.append(session)
        self.files.append(path)
        self._door.called.set()

    def _end_earlier(self, pid: int) -> None:
        """End the earlier session of a process that calls again, because it has executed another program.

        The process's end would not tell us, as the process is still alive. An id that another process has got by now is
        treated in the same way.
        """
        for session in [one for one in self._sessions if one.pid == pid > 0]:
            session.state = session.collection.copy(last=True)
            self._let_go(session)
            if not session.gone:
                self._executed[pid] = session.path
        if pid in self._executed:
            self._note_executed(self._executed.pop(pid), recorded=True)

    def _note_executed(self, path: Path, *, recorded: bool) -> None:
        with contextlib.suppress(OSError):  # the file may have been removed
            note_executed(path, self._door.family, recorded=recorded)

    def _has_room(self) -> bool:
        """Make room for one more process; return whether there is room."""
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
        # If files cannot be removed, a further file must fit beside them.
        return not self._stuck or living + self._kept + self._ended_chunks + _LEAST_FILE <= self._room

    def _new_file(self, pid: int) -> tuple[int, Path]:
        """Make a process's file; return its descriptor and path. An existing file is not touched, unless we overwrite it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        if not self.files:
            if self._overwrites:
                remove_family(self.file)
                self._overwrites = False
            with contextlib.suppress(FileExistsError):
                return os.open(self.file, flags, 0o600), self.file
        # The numbers go on, also where a file was removed: a process may execute programs without end.
        first = self._numbers.get(pid, 0) + 1
        number = first
        while True:
            path = self.file.with_name(f"{self.file.stem}.{pid}{f'-{number}' if number > 1 else ''}.hwt")
            try:
                file = os.open(path, flags, 0o600)
            except FileExistsError:
                if number - first >= _MOST_TAKEN:
                    raise
                number += 1
            else:
                if number > 1:  # most processes have one file, and a launch may have millions of them
                    self._numbers[pid] = number
                return file, path

    def _let_go(self, session: _Session) -> None:
        self._failed += session.state.lost_children
        if session.state.lost_children:
            self._say(
                f"{session.state.lost_children} children of process {session.pid} are not recorded: they did not reach the collector"
            )
        if session.state.error:
            self._say(f"{session.path} lacks some events: {os.strerror(session.state.error)}")
        if session.state.lost_meta:
            kib = session.state.lost_meta * CHUNK_BYTES >> 10
            self._say(f"{session.path} lacks {kib} KiB of names, code and stacks: there was no room for them")
        self._sessions.remove(session)
        if session.pidfd >= 0:
            self._reception.forget(session.pidfd)
            os.close(session.pidfd)
        self._upkeep.remove(session.collection)
        session.collection.close()
        made = identity_of(session.file)
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
        """Remove files of ended children, the oldest first, until `living` chunks and `more` fit beside the rest."""
        while self._ended and living + self._kept + self._ended_chunks + more > self._room:
            self._remove_oldest(for_space=self._room < self._max_chunks)

    def _remove_oldest(self, *, for_space: bool = False) -> None:
        oldest = self._ended.pop(0)
        self._ended_chunks -= oldest.chunks
        try:
            if _remove(oldest.path, oldest.identity):
                self._removed += 1
                self._removed_for_space += for_space
        except OSError:
            self._stuck += 1
            self._kept += oldest.chunks
        else:
            self.files.remove(oldest.path)

    def _note_missing(self) -> None:
        """Note in the first process's trace how many processes have none: nobody may have read the problems."""
        unrecorded = self._refused + self._failed
        if (self._removed or unrecorded) and self.file in self.files:
            with contextlib.suppress(OSError):
                note_missing(self.file, self._door.family, removed=self._removed, unrecorded=unrecorded)

    def _limit(self, session: _Session, others: int) -> int:
        """Return how many chunks a process may have, if the other living processes have `others`.

        The oldest events must make room first. A process therefore takes the place of files whose processes had ended
        before its own oldest event. Beyond that, it takes the place of files only within a fair share, in which all
        files of ended processes together count as one process.
        """
        parties = len(self._sessions) + bool(self._ended)
        fair = max(_LEAST_FILE, (self._room - self._kept) // parties)
        newer = 0
        if self._ended and self._ended[-1].end_ns >= session.oldest_ns:
            first = bisect.bisect_left(self._ended, session.oldest_ns, key=lambda one: one.end_ns)
            newer = self._ever - self._ended[first].before
        return max(fair, self._room - others - self._kept - newer) - session.rest

    def _share(self) -> None:
        """Divide disk space and memory among the processes that record."""
        if not self._sessions:
            return
        now_s = time.monotonic()
        if now_s - self._looked_s > _SPACE_S:
            self._looked_s = now_s
            for session in self._sessions:
                session.rest = max(1, _occupied(os.fstat(session.file)) - session.state.chunks)
            used = sum(one.chunks for one in self._sessions) + self._kept + self._ended_chunks
            self._room = min(self._max_chunks, used + _free_chunks(self._sessions[0].file))
        memory = max(LEAST_CHUNKS, self._memory_chunks // len(self._sessions))
        for session in self._sessions:
            self._upkeep.share(session.collection, memory)

    def close(self) -> None:
        """Close everything. Events that processes record later are lost."""
        for session in list(self._sessions):
            self._let_go(session)
        self._upkeep.close()
        self._reception.close()


def _refuse(memory: int) -> None:
    """Set the memory share of a process that has just begun to record to 0."""
    with open(os.devnull, "wb") as nothing:
        collection = Collection(memory, nothing.fileno())
        collection.share(0)
        collection.close()


def _remove(path: Path, identity: tuple[int, int, int]) -> bool:
    """Remove a file that we made; return whether it was still there. Another file at that path is not touched.

    Raises:
        OSError: The file cannot be removed.
    """
    # The folder's descriptor makes the check and the removal use one folder, even if its path changes meanwhile.
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
            if identity_of(file) != identity:
                return False
            os.unlink(path.name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def _occupied(status: os.stat_result) -> int:
    """Return how many chunks a file occupies on its file system, rounded up."""
    return -(-status.st_blocks * 512 // CHUNK_BYTES)


def _descends(pid: int, ancestor: int) -> bool:
    """Return whether a process is `ancestor` or a descendant of it, or has ended already.

    The ancestors of a process that has ended are unknown; such a process takes one file at most. A process whose parent
    has ended counts as no descendant, because its ancestors are unknown, too.
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
            parent = pid  # an ancestor has just ended, and its children have another parent now: start again
        at = parent
    return False


def _free_chunks(file: int) -> int:
    """Return how many more chunks a file's file system can take, with the reserve left free."""
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
    overwrites: bool = False,
    say: Callable[[str], None] | None = None,
) -> Iterator[Door]:
    """Collect in a thread of this process while the `with` lasts, and then until all that record are gone.

    With `at_once`, collecting ends together with the `with`. The `with` gives the door, whose environment() is for the
    processes to record. `only` is the id of a process: only this process and its descendants are recorded. With
    `overwrites`, an earlier trace at `file` is removed once the first process calls. At the end, `say` is called with
    each line that describes what could not be recorded or kept.

    Raises:
        RecordingError: The socket cannot be made.
        NativeError: The native library is missing or does not fit.
    """
    over = threading.Event()
    door = Door(record_arguments=record_arguments)
    with Collector(door, file, max_bytes=max_bytes, only=only, overwrites=overwrites) as collector:
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
