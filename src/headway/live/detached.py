"""Processes of ours that run beside a program and are children of no process.

The program must not have our process as a child, and a process that waits for the program must not wait for ours. Our
process is therefore orphaned. It has its own session, the root folder as its current folder, no standard stream, and no
descriptors but its own. A pidfd tells it of the program's end.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, final

from headway.live import files, proc
from headway.live.options import BETWEEN_NAME

__all__ = ["Program", "Terminal", "alone", "check_open_files", "detached", "let_be_killed_first", "start_detached"]

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # <linux/prctl.h>
_CLONE = {"x86_64": 56, "aarch64": 220}  # <asm/unistd.h>
_WCLONE = -(1 << 31)  # __WCLONE of <linux/wait.h> as an int: a child that sends no signal at its end
_between: Final[set[int]] = set()
"""The children that stand between this process, the first of a container, and orphans."""
_LEAST_OPEN_FILES = 16
"""The process's own files, and those of one program process; each further one needs three."""
_MOST_REASON_BYTES = 512
_KEPT_SIGNALS: Final = frozenset(
    {
        *(signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP),
        *(signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH),
        *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    }
)
"""The signals of a process's own faults, and those that end no process; a process of ours ignores all others."""
_KILLED_FIRST: Final = b"1000"
"""The oom_score_adj of a process of ours. To raise it takes no right."""
_ARG_START, _ARG_END = 45, 46
"""Indices of the fields of /proc/PID/stat behind the program's name."""


def let_be_killed_first(pid: int | str) -> None:
    """Let the kernel kill a process of ours where memory ends, and not the program; nothing happens if it is gone."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_bytes(_KILLED_FIRST)


def check_open_files() -> None:
    """Raise OSError if a process of ours, with its limit raised, could not open the files that one process needs."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < _LEAST_OPEN_FILES:
        raise OSError(errno.EMFILE, f"it may open {most} files, expected {_LEAST_OPEN_FILES} (ulimit -n)")


@final
class Program:
    """The process whose end we wait for."""

    def __init__(self, pid: int) -> None:
        """Watch a process that exists."""
        self._pid = pid
        self._begin = files.begin_ticks(pid)
        self.descriptor: int | None = None
        with contextlib.suppress(OSError):
            self.descriptor = os.pidfd_open(pid)

    def ended(self) -> bool:
        """Return whether the process has ended."""
        if self.descriptor is None:
            return files.begin_ticks(self._pid) != self._begin
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Stop watching."""
        if self.descriptor is not None:
            os.close(self.descriptor)


@final
class Terminal:
    """A terminal by its name. An open descriptor of it would make the reader of the other end wait for us."""

    def __init__(self, name: str, identity: tuple[int, ...]) -> None:
        """Take the values of `of`."""
        self._name = name
        self._identity = identity

    @classmethod
    def of(cls, descriptor: int) -> "Terminal | None":
        """Return the terminal that a descriptor refers to; None if it is no terminal."""
        try:
            return cls(os.ttyname(descriptor), cls._identify(descriptor)) if os.isatty(descriptor) else None
        except OSError:
            return None

    @staticmethod
    def _identify(descriptor: int) -> tuple[int, ...]:
        # The same name may later belong to another terminal, of another user: that terminal has another creation time.
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino, found.st_rdev, found.st_uid, found.st_ctime_ns

    def reopen(self) -> bool:
        """Make the terminal stderr; return False if the terminal is gone."""
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


def detached(work: Callable[[], None]) -> None:
    """Run `work` in a process that is no child of this one.

    An orphan becomes a child of the nearest ancestor that has asked for orphans (PR_SET_CHILD_SUBREAPER). If that is
    this process, the setting is cleared for the moment. If this is the first process of a container, it has no
    ancestor: the new process is then a child that sends no signal at its end, which waitpid() passes over unless called
    with __WALL. The kernel kills that child, and all others of the container, when the program ends.
    """
    if os.getpid() == 1:
        if _clone_without_signal() == 0:
            os.setsid()
            _do(work)
        return
    told = signal.SIGCHLD in signal.sigpending()
    with _orphans_pass_by():
        between = os.fork()
        if between == 0:
            code = 1
            try:
                os.setsid()
                if os.fork() == 0:  # not a session leader, so no terminal can become its controlling terminal
                    _do(work)
                code = 0
            finally:
                os._exit(code)
        status = 0
        with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored: the child is gone, and its status is unknown
            status = os.waitpid(between, 0)[1]
        if not told and signal.SIGCHLD in signal.sigpending():
            signal.sigtimedwait({signal.SIGCHLD}, 0)  # a blocked SIGCHLD would stay pending for the program
        if status:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def start_detached(command: list[str], kept: int, env: dict[str, str], timeout_s: float) -> int:
    """Start a command that calls detached() in a process of its own; return the id that the detached process prints.

    A command that fails may print the reason instead.

    The detached process is an orphan of the command, and must not become a child of this process. If this is the first
    process of a container, only a child that sends no signal at its end is passed over, and a child that executes
    another program sends one again. Such a child therefore stays between, and adopts the orphan.

    Args:
        command: The program and its arguments.
        kept: A descriptor that the command inherits.
        env: The command's variables.
        timeout_s: The time until the id must be there.

    Raises:
        OSError, ValueError: The command does not start, ends with an error, or prints no id.
    """

    def start(output: int) -> subprocess.CompletedProcess[bytes]:
        # The text of a SubprocessError has the whole command, which may tell a secret to the reader of a log.
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=_inherited_stderr(),
                pass_fds=[kept],
                env=env,
                timeout=timeout_s,
                check=True,
            )
        except subprocess.TimeoutExpired:
            raise late() from None
        except subprocess.CalledProcessError as error:
            raise ValueError(_reason_in(error.output) or f"it ended with exit code {error.returncode}") from None

    def late() -> TimeoutError:
        return TimeoutError(f"it is not ready after {timeout_s:g} s")

    if os.getpid() != 1:
        with _orphans_pass_by():
            return _id_of(start(subprocess.PIPE).stdout)
    _reap()
    reading, writing = os.pipe()
    try:
        between = _clone_without_signal()
        if between == 0:
            _do(lambda: _adopt(start, writing))
        _between.add(between)
    finally:
        os.close(writing)
    try:
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            os.kill(between, signal.SIGKILL)
            raise late()
        return _id_of(os.read(reading, _MOST_REASON_BYTES))
    finally:
        os.close(reading)


def _inherited_stderr() -> int | None:
    """Return the `stderr` of a subprocess that inherits ours, and has /dev/null if it would find stderr closed.

    A file of its own would get the descriptor otherwise, and count as stderr.
    """
    with contextlib.suppress(OSError):
        if os.get_inheritable(2):
            return None
    return subprocess.DEVNULL


def _reap() -> None:
    """Let go of the children between this process and orphans that have ended; no other wait takes them from us."""
    for pid in list(_between):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG | _WCLONE)[0] == 0:
                continue
        _between.discard(pid)


def _id_of(output: bytes) -> int:
    if not output.strip().isdigit():
        raise ValueError(_reason_in(output) or "it ended before it was ready")
    return int(output)


def _reason_in(output: bytes | None) -> str:
    return (output or b"")[:_MOST_REASON_BYTES].decode("utf-8", "replace").strip()


def _adopt(start: Callable[[int], object], output: int) -> None:
    """Start a command, and be the parent of its orphan until the orphan ends."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    start(output)
    alone(BETWEEN_NAME, killed_first=False)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


@contextlib.contextmanager
def _orphans_pass_by() -> Generator[None]:
    """Let orphans go to an ancestor for the moment, even if this process has asked for them."""
    reaper = ctypes.c_int(0)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(reaper), 0, 0, 0)
    if reaper.value:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        if reaper.value:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _clone_without_signal() -> int:
    """Fork a child that sends no signal at its end; return its id, or 0 in the child."""
    machine = os.uname().machine
    number = _CLONE.get(machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"not on {machine}")
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
    """Run `work` and end the process without Python's clean-up, as this process is a copy of another one."""
    code = 1
    try:
        work()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)


def alone(name: bytes, *kept: int | None, killed_first: bool = True) -> list[int | None]:
    """Drop all that this process has from the launcher, except some descriptors; return these with their new numbers.

    Args:
        name: The process's new name, of 15 characters at most.
        kept: The descriptors to keep.
        killed_first: Where memory ends, let the kernel kill this process and not the program. The program goes on alone.
    """
    # A signal may be sent to a whole service or container: SIGTERM to end it, SIGUSR1 to reopen its logs. The program's
    # reaction belongs in the trace, and we end with the program. A file that becomes too large is an error to be told.
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):  # SIGKILL and SIGSTOP
            signal.signal(number, signal.SIG_DFL if number in _KEPT_SIGNALS else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")
    with contextlib.suppress(OSError, ValueError):  # the limit bounds how many processes of the program we can serve
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
    if killed_first:
        let_be_killed_first("self")
    with contextlib.suppress(OSError, ValueError, IndexError):
        _rename(name)
    return moved


def _open_max() -> int:
    """Return a number above all open descriptors."""
    with contextlib.suppress(OSError):
        return max(map(int, os.listdir("/proc/self/fd"))) + 1
    return os.sysconf("SC_OPEN_MAX")


def _rename(name: bytes) -> None:
    """Set a name of our own, so that a search for the program's command line (`pkill -f`) does not find us."""
    Path("/proc/self/comm").write_bytes(name)
    command = Path("/proc/self/cmdline").read_bytes()
    fields = proc.stat("self")
    begin, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if begin and ctypes.string_at(begin, end - begin) == command:
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, name, min(len(name), end - begin - 1))
