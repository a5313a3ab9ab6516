"""Run a program, and all Python processes that it starts, under the recorder or a policy, and be no one's business otherwise.

The program runs as it would without us: the same command line, `__main__`, standard streams and terminal. The recorder
gets into each Python process by its environment: PYTHONPATH leads to a `sitecustomize` (agent/startup) that starts it.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.agent import STARTUP_PATH
from headway.agent.headway_agent.scheduler import options_text
from headway.errors import UsageError
from headway.live.files import family_files, finish
from headway.native import library_path

__all__ = [
    "DEFAULT_MAX_BYTES",
    "Ending",
    "command_line",
    "end_like",
    "environment",
    "run",
    "scheduled_environment",
    "witness",
]

DEFAULT_MAX_BYTES = 512 << 20
"""What one process may record before the oldest events are overwritten."""

# What a terminal sends, it sends to the program too; what someone sends to us alone is meant for the program.
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_SENT_BY_A_PROCESS = (0, -1, -6)  # si_code SI_USER, SI_QUEUE, SI_TKILL of <asm-generic/siginfo.h>


@dataclass(frozen=True)
class Ending:
    """How the program ended."""

    code: int
    """Its exit code, or the negative number of the signal that killed it, as in subprocess."""
    files: tuple[Path, ...]
    """Its trace and its children's; empty when nothing was traced."""


def environment(
    file: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return an environment in which the first Python process records into `file`, each further one beside it.

    Raises:
        NativeError: The native library is missing or does not fit.
    """
    found = dict(os.environ if base is None else base)
    _lead_to_startup(found)
    found["HEADWAY_TRACE_FILE"] = str(file.absolute())
    found["HEADWAY_TRACE_FAMILY"] = str(int.from_bytes(os.urandom(8), "little"))
    found["HEADWAY_TRACE_BYTES"] = str(max_bytes)
    return found


def scheduled_environment(
    policy: str | None,
    options: Mapping[str, int] | None = None,
    *,
    switch_interval_s: float | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return an environment in which each Python process has its GIL scheduled by a policy, or another switch interval.

    Raises:
        NativeError: The native library is missing or does not fit.
    """
    found = dict(os.environ if base is None else base)
    _lead_to_startup(found)
    if policy is not None:
        found["HEADWAY_POLICY"] = policy
        found["HEADWAY_POLICY_OPTIONS"] = options_text(options or {})
    if switch_interval_s is not None:
        found["HEADWAY_SWITCH_INTERVAL"] = repr(switch_interval_s)
    return found


@contextlib.contextmanager
def witness(env: dict[str, str]) -> Iterator[Callable[[], bool]]:
    """Add to what scheduled_environment() made; gives whether a Python process was there to read it (python -I is not).

    Where no temporary file can be made that is not known, and the answer is that one was.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="headway-"))
        except OSError:
            yield lambda: True
            return
        env["HEADWAY_WITNESS"] = file.name
        yield lambda: os.fstat(file.fileno()).st_size > 0


def _lead_to_startup(found: dict[str, str]) -> None:
    paths = [str(STARTUP_PATH), *filter(None, found.get("PYTHONPATH", "").split(os.pathsep))]
    found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    found["HEADWAY_NATIVE"] = str(library_path())


def command_line(arguments: Sequence[str], *, module: bool = False, python: str | None = None) -> tuple[list[str], str]:
    """Return what to run, and what a user calls it.

    Args:
        arguments: A script, a module (with `module`) or a program on the PATH, and its arguments.
        module: The first argument is a module's name.
        python: The interpreter for a script or module; else the one that runs headway.

    Raises:
        UsageError: There is no such script or program.
    """
    if not arguments:
        raise UsageError("there is nothing to run", hint="name a script, as in `headway trace app.py`, or `-m MODULE`")
    interpreter = python or sys.executable
    first = arguments[0]
    if module:
        return [interpreter, "-m", *arguments], first
    path = Path(first)
    if path.is_dir() or (path.is_file() and (path.suffix in (".py", ".pyw", ".pyz") or not os.access(path, os.X_OK))):
        return [interpreter, *arguments], path.name
    program = shutil.which(first)
    if program is None:
        raise UsageError(
            f"there is no script or program {first!r}",
            hint="name a file, a program on your PATH, or a module with -m",
        )
    return [program, *arguments[1:]], path.name


def run(
    command: Sequence[str], env: Mapping[str, str], file: Path | None = None, *, cpus: frozenset[int] | None = None
) -> Ending:
    """Run a program to its end, passing on signals that were sent to us alone.

    Args:
        command: The program and its arguments.
        env: What environment() or scheduled_environment() made.
        file: Where it records, if it does.
        cpus: The only CPUs that it may run on; else those that we may.

    Raises:
        UsageError: The program cannot be started.
    """

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if cpus is not None:
            os.sched_setaffinity(0, cpus)

    waited = {signal.SIGCHLD, *_FORWARDED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        try:
            child = subprocess.Popen(
                command,
                env=env,
                close_fds=False,  # it has what it would have had from the shell
                preexec_fn=prepare,  # noqa: PLW1509 no threads here
            )
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be run: {error.strerror}", hint="is it a program?") from error
        while child.poll() is None:
            received = signal.sigwaitinfo(waited)
            if received.si_signo != signal.SIGCHLD and received.si_code in _SENT_BY_A_PROCESS:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(received.si_signo)
    finally:
        while signal.sigtimedwait(waited, 0) is not None:
            pass  # a Ctrl-C that ended the program is no reason to end before its report
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    files = tuple(family_files(file)) if file is not None else ()
    for path in files:
        finish(path)
    return Ending(child.returncode, files)


def end_like(ending: Ending) -> int:
    """Return the exit code that says how the program ended; where a signal killed it, this process dies of the same."""
    if ending.code >= 0:
        return ending.code
    number = -ending.code
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return 128 + number
