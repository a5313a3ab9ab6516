"""The start of every process that the lab runs: its environment, and its end when the lab dies."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

from headway.host.paths import scratch_folder

__all__ = ["clean_environment", "marked", "signals_put_off", "start"]

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


_NAMES = (
    "ASYNCIODEBUG BREAKPOINT CASEOK COERCECLOCALE DEBUG DEVMODE DONTWRITEBYTECODE DUMPREFS DUMPREFSFILE EXECUTABLE "
    "FAULTHANDLER HASHSEED HOME INSPECT INTMAXSTRDIGITS IOENCODING ISOLATED LEGACYWINDOWSFSENCODING "
    "LEGACYWINDOWSSTDIO MALLOC MALLOCSTATS NODEBUGRANGES OLDPARSER OPTIMIZE PATH PERFSUPPORT PLATLIBDIR "
    "PROFILEIMPORTTIME PYCACHEPREFIX SAFEPATH SHOWALLOCCOUNT SHOWREFCOUNT STARTUP THREADDEBUG TRACEMALLOC "
    "UNBUFFERED UTF8 VERBOSE WARNDEFAULTENCODING WARNINGS _BASIC_REPL _COLORS _CONTEXT_AWARE_WARNINGS _CPU_COUNT "
    "_DISABLE_REMOTE_DEBUG _FROZEN_MODULES _GC_PRESET _GIL _HISTORY _JIT _LAZY_IMPORTS _LLTRACE _OPT_DEBUG "
    "_PATHCONFIG_WARNINGS _PERF_JIT_SUPPORT _PRESITE _PYMALLOC_HUGEPAGES _PYREPL_TRACE _SPECIALIZATION_OFF "
    "_SYSTEM_REMOTE_DEBUG _THREAD_INHERIT_CONTEXT _TLBC _UOPS_OPTIMIZE"
)
_OF_PYTHON = frozenset(f"PYTHON{name}" for name in _NAMES.split())
"""The variables that Python itself reads, other than those of its user's own site; others, as PYTHON_ENV, are a program's own."""
_OF_ITS_JIT = "PYTHON_JIT_"
"""The beginning of those for the JIT compiler, such as its thresholds; each release has others."""


def clean_environment(paths: Iterable[str] = ()) -> dict[str, str]:
    """Return this process's environment without the variables that affect a Python, other than its user's own site.

    A Python with `-s` does not heed those of its user's site; any other has the libraries that it has for its user.

    Args:
        paths: The folders for `PYTHONPATH`; without any, the variable is unset. The folders are in a variable and not
            in `sys.path`, so that grandchildren and sub-interpreters have them, too.
    """
    kept = {key: value for key, value in os.environ.items() if not _is_of_python(key) and key != "VIRTUAL_ENV"}
    joined = os.pathsep.join(paths)
    return {**kept, **_marks, **({"PYTHONPATH": joined} if joined else {})}


def _is_of_python(name: str) -> bool:
    return name in _OF_PYTHON or name.startswith(_OF_ITS_JIT)


_marks: dict[str, str] = {}


@contextlib.contextmanager
def marked(name: str, value: str) -> Iterator[None]:
    """Add this variable to the environment of processes started in the block, and not to the lab's own."""
    _marks[name] = value
    try:
        yield
    finally:
        del _marks[name]


def start(
    command: Sequence[str],
    paths: Iterable[str],
    *,
    stdout: int,
    stderr: IO[bytes],
    pass_fds: Sequence[int] = (),
    prepare: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own that dies with this process; its standard input is a pipe from this one.

    Args:
        command: The program and its arguments.
        paths: As for `clean_environment`.
        stdout: As for subprocess.
        stderr: The file for the process's standard error.
        pass_fds: Descriptors that the process inherits.
        prepare: Called between fork and exec. It must be short and import nothing: the child of a process with threads
            may find a lock held for ever.

    Raises:
        OSError, subprocess.SubprocessError: The process cannot be started. BaseException: An exception of a signal
            handler (KeyboardInterrupt) that ran in the meantime; the process has ended.
    """
    parent = os.getpid()

    def begin() -> None:
        _die_with(parent)
        if prepare is not None:
            prepare()

    process = None
    try:
        with signals_put_off():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                cwd=scratch_folder(),
                env=clean_environment(paths),
                start_new_session=True,  # Ctrl-C on the terminal is for the lab.
                preexec_fn=begin,  # noqa: PLW1509  (see `prepare`)
            )
    except BaseException:
        if process is not None:
            with process:
                process.kill()
        raise
    return process


@contextlib.contextmanager
def signals_put_off() -> Iterator[None]:
    """Delay the handlers of Ctrl-C and similar signals to the end of the block.

    With a `preexec_fn`, Python calls functions around the fork (`os.register_at_fork`; `logging` has some). An
    exception of a signal handler in such a function is printed as "Exception ignored", and the program continues.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # No handler runs in this thread.
        return
    arrived: list[int] = []
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(number))
    }
    for number in before:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in arrived:
            signal.raise_signal(one)


def _die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends: prctl(2), PR_SET_PDEATHSIG.

    Args:
        parent: The process that should be the parent; if it has ended already, this process exits at once.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # The parent died before the call of prctl.
