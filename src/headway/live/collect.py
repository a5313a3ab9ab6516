"""Collects what processes record: they send us their memory, and we write a file for each.

A process that records does not touch a file system (native/trace/session.h). It sends the descriptor of its memory to
our Unix socket, and keeps nothing open. We look at the memory again and again, copy what is new into the process's file,
and go on doing so until the process is gone: however it ended, what it recorded is with us.
"""

import contextlib
import errno
import os
import selectors
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, final

from headway.errors import RecordingError
from headway.live.channel import DOOR, private_folder
from headway.live.files import begin_ticks
from headway.native import CHUNK_BYTES, Collection, CollectionState

__all__ = ["DEFAULT_MAX_BYTES", "DEFAULT_MEMORY_BYTES", "PROCESS_MEMORY_BYTES", "Collector", "Door", "collecting"]

DEFAULT_MAX_BYTES = 512 << 20
"""What the files of a launch may have together before the oldest events are overwritten."""
DEFAULT_MEMORY_BYTES = 128 << 20
"""What the processes of a launch may have together in memory, waiting to be written."""
PROCESS_MEMORY_BYTES = 128 << 20
"""What one of them may have, if it is alone: a thread has 16 KiB, of which it touches what it fills."""

_LEAST_SHARE = 64  # chunks of memory, for each process of however many
_LEAST_FILE = 16  # chunks, for each process
_RESERVE_BYTES = 256 << 20
_RESERVE_SHARE = 0.05
"""What we leave free on a file system: so many bytes, or this share of a smaller one."""
_SPACE_S = 1.0
"""How often we look what is free."""
_BUSY_S, _IDLE_S = 0.02, 0.2
"""Between two passes: while there is much to copy, and while there is nothing."""
_HELLO = struct.Struct("<QQ")
_HELLO_MAGIC = 0x0A315448574F4C48
_HELLO_S = 5.0
"""For a process to say what it wants, once it has called."""
_BACKLOG = 4096


class Door:
    """A socket at which processes that record find their collector."""

    def __init__(self, *, record_arguments: bool = False) -> None:
        """Open it, in a new folder.

        Args:
            record_arguments: The traces are to have their programs' arguments.

        Raises:
            RecordingError: There can be no socket.
        """
        self.family = int.from_bytes(os.urandom(8), "little") or 1
        """A random number, which only those know who belong to the launch."""
        self._arguments = record_arguments
        self.called = threading.Event()
        """A first process has called, and knows its file."""
        try:
            self.folder = _new_folder()
            self.path = self.folder / DOOR
            # A process of root's may give up its rights before it calls. Who calls must know the family.
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.socket.bind(str(self.path))
            self.path.chmod(0o666)
            self.socket.listen(_BACKLOG)
        except OSError as error:
            raise RecordingError(
                f"no socket can be made: {error.strerror or error}",
                hint="name another folder with TMPDIR; a socket's path may have 107 characters",
            ) from error

    def environment(self) -> dict[str, str]:
        """Return the variables by which the recorder in a process finds it."""
        found = {
            "HEADWAY_TRACE_DOOR": str(self.path),
            "HEADWAY_TRACE_FAMILY": str(self.family),
            "HEADWAY_TRACE_BYTES": str(PROCESS_MEMORY_BYTES),
        }
        if self._arguments:
            found["HEADWAY_TRACE_ARGUMENTS"] = "1"
        return found

    def moved(self, descriptor: int) -> None:
        """The socket has this descriptor now, in a child that has closed all others."""
        self.socket.detach()
        self.socket = socket.socket(fileno=descriptor)

    def close(self) -> None:
        """Take it away."""
        self.socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


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


class Collector:
    """What is behind a door: the files of those that call there. Use it in a `with`."""

    def __init__(
        self, door: Door, file: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, memory_bytes: int = DEFAULT_MEMORY_BYTES
    ) -> None:
        """Begin.

        Args:
            door: Where processes call; it is closed with the collector.
            file: Of the first process; that of each further one is named after it: `app.hwt`, `app.PID.hwt`.
            max_bytes: What all files may have together.
            memory_bytes: What all processes may have in memory together.

        Raises:
            NativeError: The native library is missing or does not fit.
        """
        self.file = file.absolute()
        self.files: list[Path] = []
        """Those that were written so far, the first process's first."""
        self.problems: list[str] = []
        """What could not be recorded, and why."""
        self._door = door
        self._max_chunks = max(_LEAST_FILE, max_bytes // CHUNK_BYTES)
        self._memory_chunks = memory_bytes // CHUNK_BYTES
        self._sessions: list[_Session] = []
        self._callers: dict[socket.socket, float] = {}
        self._looked_s = 0.0
        self._room = self._max_chunks
        self._selector = selectors.DefaultSelector()
        self._selector.register(door.socket, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def busy(self) -> bool:
        """There are processes that record, or that are just calling."""
        return bool(self._sessions or self._callers)

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
        called = self._answer(pause_s)
        self.copy()
        return called

    def copy(self) -> None:
        """Copy what all processes have recorded; let go of those that are gone."""
        self._share()
        for session in list(self._sessions):
            gone = session.gone or (session.began is not None and begin_ticks(session.pid) != session.began)
            session.state = session.collection.copy(last=gone)
            if gone or session.state.ended:
                if not gone:
                    session.collection.copy(last=True)
                self._let_go(session)

    def end(self) -> None:
        """Copy what all have, for the last time. What they record from now on is lost."""
        for session in list(self._sessions):
            session.collection.copy(last=True)
            self._let_go(session)

    def _answer(self, pause_s: float) -> bool:
        called = False
        for key, _ in self._selector.select(pause_s):
            if key.fileobj is self._door.socket:
                called = True
                self._accept()
            elif isinstance(key.fileobj, socket.socket):
                called = True
                self._hear(key.fileobj)
            else:
                key.data.gone = True
        now_s = time.monotonic()
        for caller in [one for one, since_s in self._callers.items() if now_s - since_s > _HELLO_S]:
            self._hang_up(caller)
        return called

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._door.socket.accept()
            except OSError as error:
                if error.errno != errno.EAGAIN:  # no descriptor is left: it waits until one is, and is heard then
                    time.sleep(_BUSY_S)
                return
            caller.setblocking(False)
            self._callers[caller] = time.monotonic()
            self._selector.register(caller, selectors.EVENT_READ)

    def _hang_up(self, caller: socket.socket) -> None:
        self._callers.pop(caller, None)
        self._selector.unregister(caller)
        caller.close()

    def _hear(self, caller: socket.socket) -> None:
        descriptors: list[int] = []
        try:
            text, descriptors, _, _ = socket.recv_fds(caller, _HELLO.size, 1)
            if len(text) == _HELLO.size and _HELLO.unpack(text) == (_HELLO_MAGIC, self._door.family):
                credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                if descriptors:
                    self._begin(descriptors[0], struct.unpack("3i", credentials)[0])
                else:
                    self._fail(os.strerror(errno.EMFILE))
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error.strerror or str(error))
        finally:
            for one in descriptors:
                os.close(one)
        self._hang_up(caller)

    def _fail(self, why: str) -> None:
        """A process that has called is not recorded; it cannot be told."""
        problem = f"some processes are not recorded: {why}"
        if problem not in self.problems:
            self.problems.append(problem)

    def _begin(self, memory: int, pid: int) -> None:
        try:
            file, path = self._new_file(pid)
        except OSError as error:
            self.problems.append(f"process {pid} is not recorded: no file beside {self.file}: {error.strerror}")
            _refuse(memory)
            return
        pidfd = -1
        try:
            pidfd, gone = _watch(pid)
            collection = Collection(memory, file, path)
        except OSError:
            os.close(file)
            path.unlink()
            if pidfd >= 0:
                os.close(pidfd)
            raise
        began = begin_ticks(pid) if pidfd < 0 and not gone else None
        session = _Session(pid, pidfd, began, file, path, collection, CollectionState(False, 0, 0, 0, 0, 0), gone)
        if pidfd >= 0:
            self._selector.register(pidfd, selectors.EVENT_READ, session)
        self._sessions.append(session)
        self.files.append(path)
        self._door.called.set()

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
            self.problems.append(
                f"{session.state.lost_children} children of process {session.pid} are not recorded: they did not reach us"
            )
        if session.state.error:
            self.problems.append(f"{session.path} lacks some events: {os.strerror(session.state.error)}")
        self._sessions.remove(session)
        if session.pidfd >= 0:
            self._selector.unregister(session.pidfd)
            os.close(session.pidfd)
        session.collection.close()
        os.close(session.file)

    def _share(self) -> None:
        """Share disk and memory out among the processes that there are."""
        if not self._sessions:
            return
        used = sum(one.state.chunks for one in self._sessions)
        now_s = time.monotonic()
        if now_s - self._looked_s > _SPACE_S:
            self._looked_s = now_s
            self._room = min(self._max_chunks, used + _free_chunks(self._sessions[0].file))
            with contextlib.suppress(OSError):
                os.utime(self._door.folder)  # what looks forgotten is removed
        fair = max(_LEAST_FILE, self._room // len(self._sessions))
        memory = max(_LEAST_SHARE, self._memory_chunks // len(self._sessions))
        for session in self._sessions:
            session.collection.limit(max(fair, self._room - (used - session.state.chunks)))
            session.collection.share(memory)

    def close(self) -> None:
        """Let go of all that is open. What processes record from now on is lost."""
        for session in list(self._sessions):
            self._let_go(session)
        for caller in list(self._callers):
            self._hang_up(caller)
        self._selector.close()
        self._door.close()


def _watch(pid: int) -> tuple[int, bool]:
    """Return a descriptor that tells of a process's end, -1 where there can be none, and whether it is gone already.

    Raises:
        OSError: No descriptor is left.
    """
    if pid <= 0:  # in a PID namespace that we do not see into
        return -1, False
    try:
        return os.pidfd_open(pid), False
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return -1, error.errno == errno.ESRCH  # else a kernel before 5.3, or a filter


def _refuse(memory: int) -> None:
    """Have a process that has just begun to record use no memory for it."""
    with open(os.devnull, "wb") as nothing:
        collection = Collection(memory, nothing.fileno())
        collection.share(0)
        collection.close()


def _free_chunks(file: int) -> int:
    """Return how much more may be written where a file is, without filling the file system."""
    try:
        room = os.fstatvfs(file)
    except OSError:
        return 1 << 40
    reserve = min(_RESERVE_BYTES, int(room.f_blocks * room.f_frsize * _RESERVE_SHARE))
    return max(0, room.f_bavail * room.f_frsize - reserve) // CHUNK_BYTES


def _new_folder() -> Path:
    """Make a folder for a socket. Raises OSError."""
    try:
        return private_folder()
    except RecordingError:  # no runtime folder, and no home: a process looks at whose socket it is
        return Path(tempfile.mkdtemp(prefix="headway-"))


@contextlib.contextmanager
def collecting(
    file: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, at_once: bool = False, record_arguments: bool = False
) -> Iterator[Door]:
    """Collect in a thread of ours while the `with` lasts, and until those that record are gone, or `at_once`.

    Gives the door, whose environment() is for what is to be recorded.

    Raises:
        RecordingError: There can be no socket.
        NativeError: The native library is missing or does not fit.
    """
    over = threading.Event()
    door = Door(record_arguments=record_arguments)
    with Collector(door, file, max_bytes=max_bytes) as collector:
        thread = threading.Thread(target=collector.run, args=(over.is_set,), kwargs={"at_once": at_once}, daemon=True)
        thread.start()
        try:
            yield door
        finally:
            over.set()
            thread.join()
