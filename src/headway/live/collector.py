"""The process that writes the traces of a launch, and does what is left to do when the program has ended.

The program must not have it for a child, and nobody who waits for the program may wait for it: so it is orphaned, has a
session of its own, the root folder as its current one, no standard stream, and no descriptor but its own. It learns of the program's end
by a pidfd that was made before the launcher became the program, which keeps the process's id.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

from headway.live import collect, files
from headway.live.collect import DEFAULT_MAX_BYTES
from headway.live.door import Door

__all__ = ["DetachedCollector"]

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # <linux/prctl.h>
_CLONE = {"x86_64": 56, "aarch64": 220}  # <asm/unistd.h>
_NAME = b"headway-collect"  # 15 characters are the most that the kernel keeps
_LINGER_S = 1.0
"""For children of the program that begin to record after its end."""
_LEAST_OPEN_FILES = 16
"""Its own, and those of one process; each further process has three."""
_ARG_START, _ARG_END = 45, 46
"""Fields of /proc/PID/stat behind the program's name."""


def _check_open_files() -> None:
    """Raise OSError where the collector, which may do so, could not open the files that one process needs."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < _LEAST_OPEN_FILES:
        raise OSError(errno.EMFILE, f"it may open {most} files, expected {_LEAST_OPEN_FILES} (ulimit -n)")


@final
class DetachedCollector:
    """The collector as the launcher sees it."""

    def __init__(
        self,
        door: Door,
        file: Path,
        lock: int | None,
        afterwards: Callable[[Sequence[Path], Sequence[str]], None],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Start it. Where it cannot be, nothing of it is left: neither the door nor the lock.

        Args:
            door: Where the program, and its children, will call; the collector's from now on.
            file: The trace of the program that this process is about to become.
            lock: What files.lock() gave: held by the collector, and nobody else, from now on.
            afterwards: Called in the collector, when the traces are finished, with them and what could not be recorded, with the terminal as sys.stderr; not
                called where our stderr is no terminal now, or that terminal is gone then.
            max_bytes: What the traces may have together.

        Raises:
            OSError: There can be no further process, or it could open too few files.
        """
        terminal = _Terminal.of(2)

        def work() -> None:
            begun_, lock_, listener, program.descriptor = _alone(begun, lock, door.socket.fileno(), program.descriptor)
            if listener is not None:
                door.moved(listener)
            # However it ends, neither the door nor the lock stays.
            with contextlib.ExitStack() as last, contextlib.ExitStack() as locked:
                last.callback(door.close)
                locked.callback(files.unlock, file, lock_)
                if begun_ is not None and os.read(begun_, 1):
                    return  # it was never begun
                with collect.Collector(door, file, max_bytes=max_bytes) as collecting:
                    collecting.run(program.ended)
                    locked.close()
                    if terminal is not None and terminal.reopen():
                        afterwards(collecting.files, collecting.problems)
                    # A child that it has left behind may be just beginning to record.
                    deadline = time.monotonic() + _LINGER_S
                    collecting.run(lambda: time.monotonic() > deadline)

        with contextlib.ExitStack() as after, contextlib.ExitStack() as failed:
            if lock is not None:
                after.callback(os.close, lock)
                failed.callback(files.lock_path(file).unlink, missing_ok=True)
            failed.callback(door.close)
            _check_open_files()
            begun, self._tell = os.pipe()
            after.callback(os.close, begun)
            failed.callback(os.close, self._tell)
            program = _Program(os.getpid())
            after.callback(program.close)
            _detached(work)
            failed.pop_all()

    def dismiss(self) -> None:
        """Tell it that the program has not begun. Where it has, the closed pipe tells."""
        with contextlib.suppress(OSError):
            os.write(self._tell, b".")


class _Program:
    """The process that is waited for."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._begin = files.begin_ticks(pid)
        self.descriptor: int | None = None
        with contextlib.suppress(OSError):
            self.descriptor = os.pidfd_open(pid)

    def ended(self) -> bool:
        if self.descriptor is None:
            return files.begin_ticks(self._pid) != self._begin
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)


class _Terminal:
    """A terminal by its name: a descriptor of it, held, would keep whoever reads its other end waiting for us."""

    def __init__(self, name: str, identity: tuple[int, ...]) -> None:
        self._name = name
        self._identity = identity

    @classmethod
    def of(cls, descriptor: int) -> "_Terminal | None":
        try:
            return cls(os.ttyname(descriptor), cls._identify(descriptor)) if os.isatty(descriptor) else None
        except OSError:
            return None

    @staticmethod
    def _identify(descriptor: int) -> tuple[int, ...]:
        # The same name may later be another terminal, of another user: that one was created at another time.
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino, found.st_rdev, found.st_uid, found.st_ctime_ns

    def reopen(self) -> bool:
        """Make it stderr; return False where it is gone."""
        try:
            descriptor = os.open(self._name, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            if self._identify(descriptor) != self._identity:
                return False
            os.set_blocking(descriptor, True)
            os.dup2(descriptor, 2)
        except OSError:
            return False
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 to our end
        return True


def _detached(work: Callable[[], None]) -> None:
    """Do something in a process that is no child of this one.

    An orphan becomes a child of the nearest process above that has asked for orphans (PR_SET_CHILD_SUBREAPER). Where that is
    this process, it is made not to be for the moment. Where this is the first process of a container nobody is above it: then
    the collector is a child that sends no signal at its end, which waitpid() passes by unless it is asked for such
    (__WALL). The kernel kills it when the program ends, with all others of the container.
    """
    if os.getpid() == 1:
        if _clone_without_signal() == 0:
            os.setsid()
            _do(work)
        return
    reaper = ctypes.c_int(0)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(reaper), 0, 0, 0)
    if reaper.value:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    told = signal.SIGCHLD in signal.sigpending()
    try:
        between = os.fork()
        if between == 0:
            code = 1
            try:
                os.setsid()
                if os.fork() == 0:  # so that it leads no session, and no terminal can become its own
                    _do(work)
                code = 0
            finally:
                os._exit(code)
        status = 0
        with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored: it is gone, and how is not known
            status = os.waitpid(between, 0)[1]
        if not told and signal.SIGCHLD in signal.sigpending():
            signal.sigtimedwait({signal.SIGCHLD}, 0)  # blocked, it would wait for the program
        if status:
            raise BlockingIOError(os.strerror(11))
    finally:
        if reaper.value:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _clone_without_signal() -> int:
    """Fork a child that sends no signal at its end."""
    number = _CLONE.get(platform.machine())
    if number is None:
        raise OSError(f"not on {platform.machine()}")
    libc, python = ctypes.CDLL(None, use_errno=True), ctypes.pythonapi
    python.PyOS_BeforeFork()
    found: int = libc.syscall(number, 0, 0, 0, 0, 0)
    if found == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _do(work: Callable[[], None]) -> None:
    """Do it and end, without what Python does at its end: this is a copy of another process."""
    code = 1
    try:
        work()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)


def _alone(*kept: int | None) -> list[int | None]:
    """Let go of all that this process has from the launcher but some descriptors; returns these, as they are now."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    # Whoever ends a whole service or container sends SIGTERM to us at the same time as to the program. What that then
    # does belongs into the trace, and we end with it.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")
    with contextlib.suppress(OSError, ValueError):  # as many processes as the program may have
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    moved = [None if one is None else fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in kept]
    mine = {one for one in moved if one is not None}
    first = 0
    for one in [*sorted(mine), _open_max()]:
        os.closerange(first, one)
        first = one + 1
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1, 2):
        if one != nothing:
            os.dup2(nothing, one)
    with contextlib.suppress(OSError, ValueError, IndexError):
        _rename()
    return moved


def _open_max() -> int:
    """Return a number above all descriptors."""
    with contextlib.suppress(OSError):
        return max(map(int, os.listdir("/proc/self/fd"))) + 1
    return os.sysconf("SC_OPEN_MAX")


def _rename() -> None:
    """Take on a name of our own: who looks for the program by its command line (`pkill -f`) must not find us."""
    Path("/proc/self/comm").write_bytes(_NAME)
    command = Path("/proc/self/cmdline").read_bytes()
    fields: list[Any] = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    begin, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if begin and ctypes.string_at(begin, end - begin) == command:
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, _NAME, min(len(_NAME), end - begin - 1))
