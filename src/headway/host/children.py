"""What all processes that the lab starts have in common: what they inherit, and that they do not outlive us."""

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


def clean_environment(paths: Iterable[str] = ()) -> dict[str, str]:
    """Return our environment without what steers a Python.

    Args:
        paths: What `PYTHONPATH` is to be; a variable and not `sys.path`, so that grandchildren and sub-interpreters have
            it too; where there are none it is unset.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON") and key != "VIRTUAL_ENV"}
    joined = os.pathsep.join(paths)
    return {**kept, **_marks, **({"PYTHONPATH": joined} if joined else {})}


_marks: dict[str, str] = {}


@contextlib.contextmanager
def marked(name: str, value: str) -> Iterator[None]:
    """Have this variable in the environment of what we start meanwhile, and not in our own."""
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
    """Start a process in a session of its own that does not outlive us; we write to its standard input.

    Args:
        command: The program and its arguments.
        paths: As for `clean_environment`.
        stdout: As for subprocess.
        stderr: The file that it writes to.
        pass_fds: Descriptors that it keeps.
        prepare: Called between fork and exec. Short and without imports: the child of a process with threads may find a
            lock held for ever.

    Raises:
        OSError, subprocess.SubprocessError: It cannot be started.
        BaseException: What a signal's handler raised (KeyboardInterrupt) that came meanwhile; the process is gone.
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
                start_new_session=True,  # Ctrl-C on the terminal is for us.
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
    """Run the handlers of Ctrl-C and its like when the block is left, not within.

    With a `preexec_fn` Python calls functions around the fork (`os.register_at_fork`; `logging` has some). What a handler
    raises in one of them is printed as "Exception ignored", and the program goes on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler runs here
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
        parent: The process that should be our parent; where it has ended already we leave at once.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # It died before the line above.
