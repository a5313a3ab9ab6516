"""The channel by which an attached process answers: a script that it runs, and a socket that it connects to.

Script and socket lie in a folder that only we could ever have made at that path, before or after us, because the
process may run the script long after our end. The folder is therefore never below a folder that others may write to,
sticky or not (/tmp). For root that is /run/headway or /var/lib/headway, which all users may pass through and none may
list; otherwise it is a folder of the user's own.

We open nothing of the process's, and give nothing to its user. The answer is one message of bounded size, with
descriptors that are closed if they are not wanted; the kernel tells who sent it (SO_PEERCRED).
"""

import contextlib
import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import final

from headway.errors import RecordingError
from headway.host.paths import home_folder
from headway.live.readable import becomes_readable
from headway.live.script import EARLY

__all__ = ["DOOR", "Answer", "Channel", "close_all", "is_seen", "make_folder_again", "private_folder"]

_MOST_BYTES = 64 << 10
_MOST_DESCRIPTORS = 4
_MOST_STRANGERS = 1000
_LOOK_S = 0.1
_END_S = 1.0
"""The time within which a process ends that has closed its files because it was killed."""
_LONGEST_PATH = 107  # sockaddr_un.sun_path, without its NUL
_YOUNG_S = 60.0
"""The age, in seconds, below which a folder stays although nobody listens there: its owner may be about to."""
_LATE_S = 24 * 3600.0
"""The same for a script: its process may come to it late, and an interpreter complains of a script that is missing."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SCRIPT, _SOCKET = "script.py", "s"
DOOR = "door"
"""The name of a collector's socket, in a folder of its own."""


@final
class Answer:
    """The answer of a process."""

    def __init__(self, status: str, text: str, descriptors: list[int]) -> None:
        self.status = status
        """`done`, `failed`, or EARLY."""
        self.text = text
        """The answer's text, without control characters."""
        self.descriptors = descriptors
        """The descriptors that came with the answer; the caller must close them."""


@final
class Channel:
    """A folder with a socket, and with a script once written; both are removed at the end of the `with`."""

    def __init__(self) -> None:
        """Make the folder. Raises RecordingError if there is no place for it."""
        self._is_root = os.geteuid() == 0
        base, self._base = _base()
        self._name = os.urandom(8).hex()
        self.token = os.urandom(16).hex()
        """A secret that only readers of the script can know."""
        os.mkdir(self._name, 0o700, dir_fd=self._base)
        self._folder = os.open(
            self._name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._base
        )
        self.folder = base / self._name
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listen()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The socket's path."""
        return str(self.folder / _SOCKET)

    def close(self) -> None:
        """Stop listening, and remove the folder."""
        self._listener.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
            _remove(self._base, self._name)
            os.close(self._base)

    def _listen(self) -> None:
        if len(os.fsencode(self.path)) > _LONGEST_PATH:
            raise RecordingError(
                f"the path {self.path} is too long for a socket: {_LONGEST_PATH} bytes at most",
                hint="set XDG_RUNTIME_DIR to your own folder with a shorter path",
            )
        # The descriptor leads to our own folder, without a name that another user could redirect.
        own_name = f"/proc/self/fd/{self._folder}/{_SOCKET}"
        self._listener.bind(own_name)
        if self._is_root:
            os.chmod(own_name, 0o666)  # noqa: S103 the process's user must be able to connect
            os.fchmod(self._folder, 0o711)
        self._listener.listen(8)
        self._listener.setblocking(False)

    def write_script(self, text: str) -> Path:
        """Write the script; return its path."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(_SCRIPT, flags, 0o600, dir_fd=self._folder)
        with open(file, "w", encoding="utf-8") as script:
            script.write(text)
            if self._is_root:
                os.fchmod(file, 0o644)
        return self.folder / _SCRIPT

    def accept(self, pid: int, limit_s: float, check: Callable[[], None]) -> socket.socket | None:
        """Wait for the process to connect; return the connection, or None after `limit_s`.

        Args:
            pid: The process's id in our PID namespace.
            limit_s: How long to wait.
            check: Called now and then; may raise.

        Raises:
            RecordingError: Other processes connect, again and again.
        """
        deadline = time.monotonic() + limit_s
        strangers = 0
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            if becomes_readable(self._listener.fileno(), min(_LOOK_S, left_s)):
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    connection = self._listener.accept()[0]
                    if _is_of(connection, pid):
                        return connection
                    connection.close()
                    strangers += 1
            elif left_s == 0.0:
                return None
            if strangers > _MOST_STRANGERS:
                raise RecordingError(f"other processes than {pid} answer in its place repeatedly")
            check()

    def receive(self, connection: socket.socket, pid: int, limit_s: float, check: Callable[[], None]) -> Answer | None:
        """Return the process's answer, or None after `limit_s`.

        Raises:
            RecordingError: The process has hung up, or its answer is not valid. If it has ended, `check` may tell that.
        """
        deadline = time.monotonic() + limit_s
        while not becomes_readable(connection.fileno(), _LOOK_S):
            if time.monotonic() > deadline:
                return None
            check()
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                connection, _MOST_BYTES, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except OSError:
            data, descriptors, flags = b"", [], 0
        import hmac  # it loads OpenSSL, which a service that only opens a door need not have

        words = data.split(b"\0")
        is_whole = len(words) == 3 and not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        if (
            not is_whole
            or not hmac.compare_digest(words[0], self.token.encode())
            or words[1] not in (b"done", b"failed", EARLY.encode())
        ):
            close_all(descriptors)
            if not data:
                _wait_for_end(pid)
                check()
            raise RecordingError(
                f"process {pid} has {'sent an answer that is not valid' if data else 'closed the connection without an answer'}",
                hint="check that the process runs the interpreter that it seems to run",
            )
        text = words[2].decode("utf-8", "replace")
        return Answer(words[1].decode(), "".join(c if c.isprintable() else "?" for c in text), descriptors)


def close_all(descriptors: list[int]) -> None:
    """Close descriptors that are not wanted."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _wait_for_end(pid: int) -> None:
    """Give a process time to end that has hung up: a process that is killed closes its files before it has ended."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            becomes_readable(process, _END_S)
        finally:
            os.close(process)


def _is_of(connection: socket.socket, pid: int) -> bool:
    """Return whether the other end is the process, and still runs as the process's user."""
    size = struct.calcsize("3i")
    peer, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if peer != pid:  # an id in our own PID namespace, whatever the process's namespace is
        return False
    with contextlib.suppress(OSError, StopIteration, ValueError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        uids = next(line for line in status.splitlines() if line.startswith("Uid:"))
        return str(uid) in uids.split()[1:]
    return False


def _base() -> tuple[Path, int]:
    """Return the parent folder of our folders, and a descriptor of it. Raises RecordingError."""
    if os.geteuid() == 0:
        candidates, mode = [Path("/run/headway"), Path("/var/lib/headway")], 0o711
        hint = "make /run or /var/lib writable for root alone, as by a tmpfs in a read-only container"
    else:
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        own = [Path(runtime)] if runtime.startswith("/") else []
        own.append(Path(f"/run/user/{os.geteuid()}"))
        home = home_folder()
        if home is not None:
            own.append(home / ".cache")
        candidates, mode = [path / "headway" for path in own], 0o700
        hint = "set XDG_RUNTIME_DIR to a folder that only you can write to, not below /tmp"
    why = []
    for path in candidates:
        real = Path(os.path.realpath(path.parent)) / path.name
        try:
            folder = _open_own(real, mode)
        except OSError as error:
            why.append(f"{path.parent}: {error.strerror}")
            continue
        _remove_deserted(real, folder)
        return real, folder
    raise RecordingError(
        f"there is no folder for the code of the process that others cannot change ({'; '.join(why)})",
        hint=hint,
    )


def private_folder() -> Path:
    """Make a folder that only we could ever have made at its path; return it. All users may pass through root's folder.

    Raises:
        RecordingError: There is no place for one.
    """
    base, descriptor = _base()
    try:
        name = os.urandom(8).hex()
        os.mkdir(name, 0o700, dir_fd=descriptor)
        if os.geteuid() == 0:
            os.chmod(name, 0o711, dir_fd=descriptor)  # noqa: S103 the process's user must be able to connect
    finally:
        os.close(descriptor)
    return base / name


def make_folder_again(folder: Path) -> None:
    """Make a folder of `private_folder()` again, which has been removed. Raises OSError, as where its base is gone, too."""
    mode = 0o711 if os.geteuid() == 0 else 0o700
    base = _open_own(folder.parent, mode)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder.name, 0o700, dir_fd=base)
        os.chmod(folder.name, mode, dir_fd=base)
    finally:
        os.close(base)


def _open_own(path: Path, mode: int) -> int:
    """Return a descriptor of a folder of ours; make the folder and its parent if missing. Raises OSError."""
    folder = os.open("/", _FOLDER)
    try:
        parts = path.parts[1:]
        for i, part in enumerate(parts):
            if i >= len(parts) - 2:
                with contextlib.suppress(FileExistsError, PermissionError):
                    os.mkdir(part, 0o700, dir_fd=folder)
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
            found = os.fstat(folder)
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & _OTHERS_MAY_WRITE:
                raise PermissionError(1, f"others may write to /{'/'.join(parts[: i + 1])}")
        if found.st_uid != os.geteuid():
            raise PermissionError(1, f"{path} belongs to another user")
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    os.fchmod(readable, mode)
    return readable


def _remove(base: int, name: str) -> None:
    with contextlib.suppress(OSError):
        folder = os.open(name, _FOLDER, dir_fd=base)
        try:
            for file in (_SCRIPT, _SOCKET, DOOR):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=folder)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=base)


def _remove_deserted(path: Path, base: int) -> None:
    """Remove the folders whose owners were killed; `base` is a descriptor of `path`.

    Age alone tells nothing: a service may be watched for months, and its new workers need the folder.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(base):
            with contextlib.suppress(OSError):
                age_s = time.time() - os.stat(name, dir_fd=base, follow_symlinks=False).st_mtime
                least_s = _LATE_S if (path / name / _SCRIPT).exists() else _YOUNG_S
                if age_s > least_s and not any(_is_listened_at(path / name / one) for one in (_SOCKET, DOOR)):
                    _remove(base, name)


def _is_listened_at(path: Path) -> bool:
    """Tell whether a process listens at a socket; the process takes the call for one that was given up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as caller:
        # A socket of another type that is listened at gives EPROTOTYPE, a full queue EAGAIN.
        return caller.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def is_seen(pid: int, path: Path) -> bool:
    """Return whether a process sees the same file or folder at a path as we do. Opens no file, and follows no link.

    Raises:
        OSError: The process's root may not be looked at.
    """
    here = os.stat(path)
    # /proc/PID/root is a link that leads to the folder itself, not to a name.
    folder = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.parts[1:]:
            try:
                below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                return False
            os.close(folder)
            folder = below
        there = os.fstat(folder)
    finally:
        os.close(folder)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
