"""Trace files on disk: their names, locks and completion; and the processes of a launch."""

import contextlib
import errno
import fcntl
import glob
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from headway.errors import UsageError
from headway.live.header import EXECUTED_OFFSET, FIELDS_BYTES, HEADER_BYTES, MISSING_OFFSET, header_in
from headway.live.options import BETWEEN_NAME, COLLECTOR_NAME, WATCHER_NAME
from headway.live.proc import BEGIN_TICKS, PARENT, STATE, stat

__all__ = [
    "began_realtime_ns",
    "begin_ticks",
    "check_new",
    "descendants",
    "family_files",
    "first_name",
    "identity_of",
    "lock",
    "lock_path",
    "locked",
    "note_executed",
    "note_missing",
    "parent_of",
    "remove_family",
    "ticks_of",
    "unlock",
    "unused_name",
    "wait_until_finished",
]

_OWN_NAMES = frozenset({WATCHER_NAME, COLLECTOR_NAME, BETWEEN_NAME})
_MISSING = struct.Struct("<II")
_EXECUTED = struct.Struct("<I")
_EXECUTED_RECORDED, _EXECUTED_UNRECORDED = 1, 2
_MOST = (1 << 32) - 1
_LOOK_S = 0.02
_DAEMON_S = 1.0
"""The time after which a trace that is not finished may be that of a launch whose other processes go on."""


def check_new(path: Path, *, force: bool = False) -> Path:
    """Return the absolute path of a trace file that can be written; with `force`, also that of an existing trace.

    The existing trace stays until `remove_family`, because a recording may fail before it has begun.
    The function waits for the collector of a program that has ended.

    Raises:
        UsageError: The file exists, or its folder does not exist or cannot be written to.
    """
    path = path.absolute()
    if path.suffix != ".hwt":
        raise UsageError(
            f"{path.name} is not the name of a trace, expected NAME.hwt",
            hint="choose a name that ends with .hwt, as app.hwt",
        )
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} is not there", hint="create the folder, or name another one")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {path.parent} cannot be written to", hint="name another file")
    if os.path.lexists(path) and not (force and path.is_file()):
        raise UsageError(
            f"{path} exists",
            hint="name another file, or remove this one (`headway trace` and `attach` overwrite it with --force)",
        )
    _check_takes_files(path.parent)
    wait_until_finished(path)  # the program may have ended while its collector still writes, if only its lock is left
    if force:
        unlock(path, lock(path))  # raises if another command records the trace
    return path


def remove_family(path: Path) -> None:
    """Remove a trace's file and those of its process's children. Raises OSError."""
    for old in family_files(path):
        old.unlink()


_FULL = (errno.ENOSPC, errno.EDQUOT)
"""The program runs on a full disk too, and the recorder says what is lost."""


def _check_takes_files(folder: Path) -> None:
    """Raise UsageError if no file can be made in a folder, as in /proc, whatever its permissions say."""
    try:
        name = folder / f".headway-{os.urandom(8).hex()}"
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in _FULL:
            return
        raise UsageError(
            f"no file can be created in the folder {folder}: {error.strerror}", hint="name another file"
        ) from error
    os.close(descriptor)
    os.unlink(name)


def first_name(folder: Path, program: str) -> Path:
    """Return the first name for a program's trace: `app.hwt`."""
    stem = "".join(c if c.isalnum() or c in "._-" else "-" for c in Path(program).stem).strip(".-") or "program"
    return folder / f"{stem}.hwt"


def unused_name(folder: Path, program: str) -> Path:
    """Return an unused name for a program's trace: `app.hwt`, `app-2.hwt`, ..."""
    path = first = first_name(folder, program)
    number = 1
    while os.path.lexists(path) or os.path.lexists(lock_path(path)):
        number += 1
        path = first.with_name(f"{first.stem}-{number}.hwt")
    return path


def family_files(path: Path) -> list[Path]:
    """Return a trace's file and those of its process's children: of the same launch, not only of a similar name."""
    if not path.exists():
        return []
    family = _family(path)
    others = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*.hwt")) if family is not None else []
    return [path, *(other for other in others if _family(other) == family)]


def _family(path: Path) -> int | None:
    """Return the id that all traces of a launch share; None if the file is no trace."""
    # A file with such a name may be anything: do not follow a link, do not wait for a FIFO.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), open(os.open(path, flags), "rb", buffering=0) as file:
        header = header_in(file.read(FIELDS_BYTES))
        return header.family if header is not None else None
    return None


def note_missing(path: Path, family: int, *, removed: int, unrecorded: int) -> None:
    """Note in the finished trace of a launch's first process how many processes of the launch have no file.

    Args:
        path: The trace. Another file at that path is not touched.
        family: The id that all traces of the launch share.
        removed: The number of files of ended children that were removed.
        unrecorded: The number of processes that were not recorded.

    Raises:
        OSError: The file cannot be written to.
    """
    _note(path, family, _MISSING.pack(min(removed, _MOST), min(unrecorded, _MOST)), MISSING_OFFSET)


def note_executed(path: Path, family: int, *, recorded: bool) -> None:
    """Note in the finished trace of a process that the process has executed another program.

    Args:
        path: The trace. Another file at that path is not touched.
        family: The id that all traces of the launch share.
        recorded: The other program is recorded, too.

    Raises:
        OSError: The file cannot be written to.
    """
    _note(path, family, _EXECUTED.pack(_EXECUTED_RECORDED if recorded else _EXECUTED_UNRECORDED), EXECUTED_OFFSET)


def identity_of(file: int) -> tuple[int, int, int]:
    """Return the identity of a finished trace: its device, inode and header. A later file may get the same inode.

    The note that the process has executed another program does not count, as it may come later.

    Args:
        file: A descriptor of the trace.
    """
    status = os.fstat(file)
    header = os.pread(file, HEADER_BYTES, 0)
    rest = header[:EXECUTED_OFFSET], header[EXECUTED_OFFSET + _EXECUTED.size :]
    return status.st_dev, status.st_ino, hash(rest)


def _note(path: Path, family: int, data: bytes, offset: int) -> None:
    if _family(path) != family:
        return
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.pwrite(file, data, offset)
    finally:
        os.close(file)


def ticks_of(pid: int) -> int:
    """Return when a process began, in the kernel's ticks.

    Raises:
        FileNotFoundError, ProcessLookupError: The process has ended, reaped or not.
        OSError: That cannot be read.
    """
    fields = stat(pid)
    # The main thread may end before other threads: then it is a zombie, and the process still runs.
    if fields[STATE] in "ZX" and len(os.listdir(f"/proc/{pid}/task")) == 1:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return int(fields[BEGIN_TICKS])


def begin_ticks(pid: int) -> int | None:
    """Return when a process began, in the kernel's ticks; None if the process has ended, or that cannot be read."""
    try:
        return ticks_of(pid)
    except (OSError, IndexError):
        return None


def began_realtime_ns(pid: int) -> int:
    """Return when a process began, in CLOCK_REALTIME, up to a tick of the kernel's too late; 0 if that is not known."""
    ticks = begin_ticks(pid)
    if ticks is None:
        return 0
    # A source that was written just before its program began must not seem to be newer.
    began_ns = (ticks + 1) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.time_ns() - max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began_ns)


def parent_of(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return the id of a process's parent; None if the process is gone, 0 if the parent is not visible to us."""
    try:
        return int(stat(pid, proc)[PARENT])
    except (OSError, IndexError, ValueError):
        return None


def descendants(pid: int) -> list[int]:
    """Return the ids of the running descendants of a process, without those of Headway's own processes.

    The collector and the watcher are orphans, and so are children of a program that is a container's first process.
    """
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        threads: list[str] = []
        folder = f"/proc/{waiting.pop()}/task"
        with contextlib.suppress(OSError):  # the process may have ended
            threads = os.listdir(folder)
        for thread in threads:
            with contextlib.suppress(OSError):
                path = Path(folder, thread, "children")
                children = {int(word) for word in path.read_text(encoding="ascii").split()} - found - {pid}
                children = {child for child in children if not _is_ours(child)}
                found |= children
                waiting += children
    return sorted(found)


def _is_ours(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_bytes().strip() in _OWN_NAMES
    return False


def lock_path(path: Path) -> Path:
    """Return the file beside a trace that names the trace's recorder, and exists until the trace is finished."""
    return path.with_name(f"{path.name}.lock")


def lock(path: Path) -> int | None:
    """Mark a trace as recorded by this process, or by the program that it becomes.

    Returns:
        A descriptor: the owner of it, or of a copy, must finish the trace. None if the lock file cannot be made.

    Raises:
        UsageError: Another process records the trace.
    """
    name = lock_path(path)
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(name, descriptor):  # it was removed before we had it
            os.close(descriptor)
            return lock(path)
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {begin_ticks(os.getpid())}\n".encode())
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(f"{path} is already being recorded", hint="name another file") from None
    except OSError:  # a full disk: other processes do not wait for us then
        pass
    return descriptor


def _is_at(name: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(name.lstat(), os.fstat(descriptor))
    return False


def unlock(path: Path, descriptor: int | None) -> None:
    """Mark a trace as finished."""
    if descriptor is not None:
        lock_path(path).unlink(missing_ok=True)
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Mark a trace as recorded by this process for the time of a block. Raises UsageError: see `lock`."""
    descriptor = lock(path)
    try:
        yield
    finally:
        unlock(path, descriptor)


def wait_until_finished(path: Path, patience_s: float = 30.0) -> None:
    """Wait until a trace whose program has ended is finished; return at once if the program still runs.

    The wait is short if other processes of the launch go on, such as a daemon whose parent has ended: the collector
    then works for as long as they do. A lock that nobody holds any more is removed: the end of a container's first process kills the collector, too.
    """
    name = lock_path(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        begun = time.monotonic()
        while not _recorded_by_a_live_one(descriptor) and (waited_s := time.monotonic() - begun) < patience_s:
            if waited_s > _DAEMON_S and _goes_on(path):
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_S)
            else:
                if _is_at(name, descriptor):
                    name.unlink()
                return
    except OSError:
        return
    finally:
        os.close(descriptor)


def _goes_on(path: Path) -> bool:
    """Tell whether a process lives whose trace is one of the launch's, and has not ended."""
    for each in family_files(path):
        with contextlib.suppress(OSError), each.open("rb") as file:
            header = header_in(file.read(FIELDS_BYTES))
            if header is not None and header.end_ns == 0 and begin_ticks(header.pid) is not None:
                return True
    return False


def _recorded_by_a_live_one(descriptor: int) -> bool:
    try:
        pid, begin = map(int, os.pread(descriptor, 64, 0).split())
    except ValueError:
        return False
    return begin_ticks(pid) == begin
