"""Trace files on disk: names, and what is to be done to one whose process is gone; and the processes of a launch."""

import contextlib
import fcntl
import glob
import os
import struct
import time
from pathlib import Path

from headway.errors import UsageError

__all__ = [
    "begin_ticks",
    "check_new",
    "descendants",
    "family_files",
    "lock",
    "lock_path",
    "parent_of",
    "unlock",
    "unused_name",
    "wait_until_finished",
]

# Not by traces.format, and so without numpy: `headway trace` starts a program at once, without threads of numpy's beside it
# when it forks, and in whatever memory there is.
_HEADER = struct.Struct("8s 8x 8s")
_MAGIC = b"\x89HWT\r\n\x1a\n"
"""The beginning of a trace: magic, version and length, and `family` (native/trace/format.h)."""
_BEGIN_TICKS = 19
"""Field of /proc/PID/stat behind the program's name: when the process began."""
_PARENT = 1
"""The same: who its parent is."""
_LOOK_S = 0.02


def check_new(path: Path, *, force: bool = False) -> Path:
    """Return the absolute path of a trace file that can be written; with `force`, what stands there is finished and removed.

    Raises:
        UsageError: It exists, or its folder does not, or cannot be written to.
    """
    path = path.absolute()
    if path.suffix != ".hwt":
        raise UsageError(f"{path.name} is no name of a trace", hint="end it with .hwt, as in `-o app.hwt`")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} is not there", hint="make it, or name another with -o")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {path.parent} cannot be written to", hint="name another file with -o")
    if os.path.lexists(path):
        if not force or not path.is_file():
            raise UsageError(f"{path} exists", hint="name another file with -o, or overwrite it with --force")
        wait_until_finished(path)  # its program has ended, and its collector is just writing the end
        for old in family_files(path):
            old.unlink()
    return path


def unused_name(folder: Path, program: str) -> Path:
    """Return a name for a program's trace that is not taken yet: `app.hwt`, `app-2.hwt`, ..."""
    stem = "".join(c if c.isalnum() or c in "._-" else "-" for c in Path(program).stem).strip(".-") or "program"
    number = 1
    while True:
        path = folder / (f"{stem}.hwt" if number == 1 else f"{stem}-{number}.hwt")
        if not os.path.lexists(path) and not os.path.lexists(lock_path(path)):
            return path
        number += 1


def family_files(path: Path) -> list[Path]:
    """Return a trace's file and those of its process's children: of the same launch, not only of a like name."""
    if not path.exists():
        return []
    family = _family(path)
    others = sorted(path.parent.glob(f"{glob.escape(path.stem)}.*.hwt")) if family is not None else []
    return [path, *(other for other in others if _family(other) == family)]


def _family(path: Path) -> bytes | None:
    """Return what is the same in all traces of a launch, None where it is no trace."""
    # Who knows what has such a name: no link is followed, and a FIFO is not waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), open(os.open(path, flags), "rb", buffering=0) as file:
        magic, family = _HEADER.unpack(file.read(_HEADER.size).ljust(_HEADER.size, b"\0"))
        return bytes(family) if magic == _MAGIC else None
    return None


def begin_ticks(pid: int) -> int | None:
    """Return when a process began, in the kernel's ticks; None where it has ended, also while nobody has waited for it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        # The main thread may end before others do: then it is a zombie, and the process is none.
        if fields[0] in "ZX" and len(os.listdir(f"/proc/{pid}/task")) == 1:
            return None
        return int(fields[_BEGIN_TICKS])
    except (OSError, IndexError):
        return None


def parent_of(pid: int) -> int | None:
    """Return the id of a process's parent; None where there is no such process any more. 0: one that we do not see."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[_PARENT])
    except (OSError, IndexError, ValueError):
        return None


def descendants(pid: int) -> list[int]:
    """Return the processes below a process that run still: its children, theirs, and so on."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for path in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = {int(word) for word in path.read_text(encoding="ascii").split()} - found - {pid}
                found |= children
                waiting += children
    return sorted(found)


def lock_path(path: Path) -> Path:
    """Return the file beside a trace that says who records it, and is there until the trace is finished."""
    return path.with_name(f"{path.name}.lock")


def lock(path: Path) -> int | None:
    """Say that this process, or the program that it becomes, records a trace.

    Returns:
        A descriptor: whoever holds it, or a copy, is to finish the trace. None where there can be no such file.

    Raises:
        UsageError: Somebody else records it.
    """
    name = lock_path(path)
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {begin_ticks(os.getpid())}\n".encode())
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(f"{path} is being recorded", hint="name another file with -o") from None
    except OSError:  # a full disk: then nobody waits for us
        pass
    return descriptor


def unlock(path: Path, descriptor: int | None) -> None:
    """Say that a trace is finished."""
    if descriptor is not None:
        lock_path(path).unlink(missing_ok=True)
        os.close(descriptor)


def wait_until_finished(path: Path, patience_s: float = 30.0) -> None:
    """Wait until a trace whose program has ended is finished; return at once where the program still runs."""
    try:
        descriptor = os.open(lock_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        deadline = time.monotonic() + patience_s
        while not _recorded_by_a_live_one(descriptor) and time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_S)
            else:
                return
    except OSError:
        return
    finally:
        os.close(descriptor)


def _recorded_by_a_live_one(descriptor: int) -> bool:
    try:
        pid, begin = map(int, os.pread(descriptor, 64, 0).split())
    except ValueError:
        return False
    return begin_ticks(pid) == begin
