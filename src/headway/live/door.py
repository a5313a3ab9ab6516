"""The door at which recording processes call: a Unix socket, and the reception that answers there.

A process that records does not touch a file system (native/trace/session.h). The process sends the descriptor of its
memory to our socket, and keeps nothing open. From then on the reception's owner knows the process, until it is gone.

A process that is watched may also ask for its own counts (headway.live.own_counts). The answer is one JSON object, or
nothing where none are kept, as behind a trace's collector.
"""

import contextlib
import errno
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, final

from headway.errors import RecordingError
from headway.live.channel import DOOR, make_folder_again, private_folder
from headway.live.descriptors import above_streams

__all__ = ["HELLO_MAGIC", "PROCESS_MEMORY_BYTES", "Door", "Reception", "watch_process"]

PROCESS_MEMORY_BYTES = 128 << 20
"""What one of them may have, if it is alone: a thread has 16 KiB, of which it touches what it fills.

A memory that claims more is refused (HW_COLLECT_MOST_BYTES of native/include/headway/collect.h)."""
HELLO_MAGIC = 0x0A315448574F4C48
_QUESTION_MAGIC = 0x0A315448574B5341
_HELLO = struct.Struct("<QQ")
"""What a process sends: a magic number and the launch's number; a hello has a descriptor beside it."""
_HELLO_S = 5.0
"""How long a process that has called may take to send its hello."""
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 4096
_AT_ONCE = 64
"""The most calls that are taken before those are heard that have come: each takes a descriptor, of which there are few."""
_MOST_PATH_BYTES = 107
"""The longest path of a Unix socket (sun_path of unix(7), without the NUL)."""
_BUSY_S = 0.02


class Door:
    """A socket at which recording processes find their collector."""

    _arguments = False

    def __init__(self, *, record_arguments: bool = False) -> None:
        """Open the socket, in a new folder.

        Args:
            record_arguments: Traces contain their programs' arguments.

        Raises:
            RecordingError: The socket cannot be made.
        """
        self.family = int.from_bytes(os.urandom(8), "little") or 1
        """A random number that only processes of the launch know."""
        self._arguments = record_arguments
        self.called = threading.Event()
        """Set once a first process has called, and its file exists."""
        try:
            with contextlib.ExitStack() as half_open:
                self.folder = _new_folder()
                self.path = self.folder / DOOR
                half_open.callback(self.remove, self.path)
                self.socket = _listening_at(self.path)
                half_open.pop_all()
        except OSError as error:
            raise RecordingError(
                f"the socket cannot be created: {error.strerror or error}",
                hint="name another folder with XDG_RUNTIME_DIR or TMPDIR; a socket's path may have at most 107 characters",
            ) from error

    @classmethod
    def of(cls, descriptor: int, folder: Path, family: int) -> Self:
        """Return the door that another process has opened and passed to this one."""
        door = cls.__new__(cls)
        door.family, door.folder, door.path = family, folder, folder / DOOR
        door.called = threading.Event()
        door.socket = socket.socket(fileno=descriptor)
        return door

    @staticmethod
    def question(family: int) -> bytes:
        """Return the message by which a process of a launch asks for its own counts."""
        return _HELLO.pack(_QUESTION_MAGIC, family)

    def environment(self) -> dict[str, str]:
        """Return the variables by which a process's recorder finds the door."""
        found = {
            "HEADWAY_TRACE_DOOR": str(self.path),
            "HEADWAY_TRACE_FAMILY": str(self.family),
            "HEADWAY_TRACE_BYTES": str(PROCESS_MEMORY_BYTES),
        }
        if self._arguments:
            found["HEADWAY_TRACE_ARGUMENTS"] = "1"
        return found

    def moved(self, descriptor: int) -> None:
        """Use the socket's new descriptor, in a child that has closed all others."""
        self.socket.detach()
        self.socket = socket.socket(fileno=descriptor)

    def make_again(self) -> None:
        """Make the socket again, which has been removed: processes that begin later look for it at the same path.

        Raises:
            OSError: That is not possible, as where logind has removed the user's runtime folder at a logout.
        """
        make_folder_again(self.folder)
        fresh = _listening_at(self.path)
        self.socket.close()
        self.socket = fresh

    def close(self) -> None:
        """Close the socket, and remove it with its folder."""
        self.socket.close()
        self.remove(self.path)

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a door's socket with its folder."""
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _listening_at(path: Path) -> socket.socket:
    """Return a new socket that listens at a path. Raises OSError."""
    with contextlib.ExitStack() as half_open:
        listener = _beyond_the_streams(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        half_open.callback(listener.close)
        listener.bind(str(path))
        # All users may connect: root's process may drop its rights before it calls. Callers must know the family.
        path.chmod(0o666)
        listener.listen(_BACKLOG)
        half_open.pop_all()
    return listener


def _beyond_the_streams(one: socket.socket) -> socket.socket:
    """Return the socket with a number above those of the standard streams, which a process that inherits it may replace."""
    return socket.socket(fileno=above_streams(one.detach()))


@final
class Reception:
    """Answers at a door. Closing the reception closes the door, too."""

    def __init__(
        self,
        door: Door,
        begin: Callable[[int, int], None],
        fail: Callable[[str], None],
        counts_of: Callable[[int], bytes] | None = None,
    ) -> None:
        """Begin to answer.

        Args:
            door: Where processes call.
            begin: Called with a memory's descriptor, which is closed afterwards, and the process's id. Raises OSError.
            fail: Called with the reason why a calling process is not recorded; the process itself cannot be told.
            counts_of: Called with the id of a process that asks for its own counts; returns the answer, b"" for none.
                None: there are no counts.
        """
        self._door = door
        self._begin = begin
        self._fail = fail
        self._counts_of = counts_of
        self._callers: dict[socket.socket, float] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(door.socket, selectors.EVENT_READ)

    @property
    def busy(self) -> bool:
        """Whether a process is just calling."""
        return bool(self._callers)

    @property
    def descriptor(self) -> int:
        """A descriptor that is readable when there is something to answer."""
        return self._selector.fileno()

    def keep(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call `ready` once `descriptor` is readable, as a pidfd is after the end of its process."""
        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor that may not have been readable yet."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor)

    def make_door_again(self) -> str:
        """Make the door again, which is gone; return why that is not possible, "" if the door is there."""
        self._accept()  # those that have called before
        self._selector.unregister(self._door.socket)
        try:
            self._door.make_again()
        except OSError as error:
            return error.strerror or str(error)
        finally:
            self._selector.register(self._door.socket, selectors.EVENT_READ)
        return ""

    def answer(self, pause_s: float) -> bool:
        """Wait for calls for `pause_s`; return whether a process called."""
        called = at_door = False
        for key, _ in self._selector.select(pause_s):
            if key.fileobj is self._door.socket:
                called = at_door = True
            elif isinstance(key.fileobj, socket.socket):
                called = True
                self._hear(key.fileobj)
            else:  # it stays readable, and would end each wait at once
                self._selector.unregister(key.fileobj)
                key.data()
        if at_door:  # at last, when the others have given their descriptors back
            self._accept()
        now_s = time.monotonic()
        for caller in [one for one, since_s in self._callers.items() if now_s - since_s > _HELLO_S]:
            self._hang_up(caller)
        return called

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                caller = self._door.socket.accept()[0]
            except OSError as error:
                if error.errno != errno.EAGAIN:  # no descriptor is left: the caller waits until one is free
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
            magic, family = _HELLO.unpack(text) if len(text) == _HELLO.size else (0, 0)
            if family == self._door.family:
                credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                pid = _CREDENTIALS.unpack(credentials)[0]
                if magic == _QUESTION_MAGIC:
                    self._tell(caller, pid)
                elif magic == HELLO_MAGIC and descriptors:
                    self._begin(descriptors[0], pid)
                elif magic == HELLO_MAGIC:
                    self._fail(os.strerror(errno.EMFILE))
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error.strerror or str(error))
        finally:
            for one in descriptors:
                os.close(one)
        self._hang_up(caller)

    def _tell(self, caller: socket.socket, pid: int) -> None:
        """Answer a process that asks for its own counts. Only the kernel's word counts for which process asks."""
        answer = self._counts_of(pid) if self._counts_of is not None and pid > 0 else b""
        if answer:
            with contextlib.suppress(OSError):  # the caller may have given up; the answer fits the socket's buffer
                caller.send(answer)

    def close(self) -> None:
        """Hang up on all callers, and close the door."""
        for caller in list(self._callers):
            self._hang_up(caller)
        self._selector.close()
        self._door.close()


def watch_process(pid: int) -> tuple[int, bool]:
    """Return a pidfd of a process, or -1 if there can be none, and whether the process is gone already.

    Raises:
        OSError: No descriptor is left.
    """
    if pid <= 0:  # the process is in a PID namespace that we cannot see into
        return -1, False
    try:
        return os.pidfd_open(pid), False
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return -1, error.errno == errno.ESRCH  # other errors: a kernel before 5.3, or a seccomp filter


def _new_folder() -> Path:
    """Make a folder for a socket. Raises OSError."""
    # Without a runtime folder, and with no home, a full one or one of a long name: the recorder checks whose socket it is.
    with contextlib.suppress(RecordingError, OSError):
        private = private_folder()
        if len(os.fsencode(private / DOOR)) <= _MOST_PATH_BYTES:
            return private
        private.rmdir()
    import tempfile  # seldom needed, and half a megabyte of a service's memory

    try:
        folder = Path(tempfile.mkdtemp(prefix="headway-"))
    except FileNotFoundError:  # Python's own text is a list of all folders that it has tried
        raise OSError(errno.EROFS, "no folder for temporary files can be written to") from None
    if os.geteuid() == 0:
        folder.chmod(0o711)  # a process of root may give up its rights before it calls
    return folder
