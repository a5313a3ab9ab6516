"""Become a program that runs, together with all Python processes that it starts, under the recorder or a policy.

There is no launcher beside the program. The process that was `headway run` executes the program (execve), which
therefore keeps that process's parent, process group, terminal, signals and exit status; docs/decisions/011 has the
rejected alternatives. The environment brings the recorder into each Python process: PYTHONPATH leads to a
`sitecustomize` (agent/startup) that starts the recorder.
"""

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from headway.agent import STARTUP_PATH
from headway.agent.headway_agent.scheduler import options_text
from headway.errors import ProgramMissingError, ProgramUnfitError, UsageError
from headway.library import library_path
from headway.live.named import name_in
from headway.live.reach import first_line, out_of_reach

if TYPE_CHECKING:
    # `headway run` has none.
    from headway.live.collector import DetachedCollector

__all__ = [
    "COUNT_ONLY",
    "become",
    "command_line",
    "environment",
    "name_behind",
    "original_environment",
    "out_of_reach",
    "scheduled_environment",
    "unrecorded",
]

COUNT_ONLY: Mapping[str, str] = {"HEADWAY_TRACE_DOOR": ""}
"""Variables for environment(): processes have counters for `headway top`, and no events."""

_SCRIPT_SUFFIXES = (".py", ".pyw", ".pyz")
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_KEPT = "HEADWAY_KEPT_"
"""The prefix by which native/launcher/headway.c protects variables that would affect our own Python."""
_PYTHON = re.compile(r"python[\d.]*t?")
_WRAPPERS = frozenset(
    (
        "chrt",
        "env",
        "ionice",
        "nice",
        "nohup",
        "pdm",
        "pipenv",
        "poetry",
        "setsid",
        "stdbuf",
        "taskset",
        "timeout",
        "uv",
    )
)
"""Programs that become, or run, the one that their arguments name."""


def original_environment() -> dict[str, str]:
    """Return the environment that this process was started with.

    os.environ differs from it: in the C locale Python sets LC_CTYPE for itself (PEP 538).
    """
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return dict(os.environ)
    pairs = (os.fsdecode(entry).partition("=") for entry in entries)
    return {name.removeprefix(_KEPT): value for name, equals, value in pairs if equals and name}


def environment(variables: Mapping[str, str], *, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which Python processes record, as a collector's variables say.

    Args:
        variables: The variables of `Door.environment()`, or COUNT_ONLY.
        base: The environment to add to; by default this process's.

    Raises:
        NativeError: The native library is missing or does not fit.
    """
    found = dict(os.environ if base is None else base)
    _lead_to_startup(found)
    return {**unrecorded(found), **variables}  # without the variables of an outer `headway trace`


def unrecorded(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that make Python processes record."""
    return {name: value for name, value in variables.items() if not name.startswith("HEADWAY_TRACE_")}


def scheduled_environment(
    policy: str | None,
    options: Mapping[str, int] | None = None,
    *,
    switch_interval_s: float | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return an environment in which a policy schedules the GIL of each Python process, or its switch interval is set.

    A policy that `base` names takes no effect: None means no policy.

    Raises:
        NativeError: The native library is missing or does not fit.
    """
    found = dict(os.environ if base is None else base)
    _lead_to_startup(found)
    if policy is None:
        for name in ("HEADWAY_POLICY", "HEADWAY_POLICY_OPTIONS", "HEADWAY_WHY"):
            found.pop(name, None)  # of an outer `headway run`, or of the user's shell
    else:
        found["HEADWAY_POLICY"] = policy
        found["HEADWAY_POLICY_OPTIONS"] = options_text(options or {})
    if switch_interval_s is not None:
        found["HEADWAY_SWITCH_INTERVAL"] = repr(switch_interval_s)
    return found


def _lead_to_startup(found: dict[str, str]) -> None:
    """Put our folder in front of PYTHONPATH, and keep the rest unchanged: an empty entry means the current folder."""
    ours, theirs = str(STARTUP_PATH), found.get("PYTHONPATH", "")
    if theirs.split(os.pathsep, 1)[0] == ours:  # under another `headway run`
        theirs = theirs[len(ours) + 1 :]
    found["PYTHONPATH"] = f"{ours}{os.pathsep}{theirs}" if theirs else ours
    found["HEADWAY_NATIVE"] = str(library_path())


def command_line(arguments: Sequence[str], *, option: str = "", python: str | None = None) -> tuple[list[str], str]:
    """Return the command to execute, and the program's name for users.

    Without `python`, a script that is executable and has a `#!` line is executed itself. For another script, a module,
    code and a program from the standard input (`-`), the interpreter is `python`, else that of the active virtual
    environment, else python3 on the PATH, else our own.

    Args:
        arguments: A script, a module, code, a program on the PATH or `-`, and its arguments.
        option: The interpreter's option for the first argument: "-m" for a module, "-c" for code, else "".
        python: The interpreter for a script, a module or code.

    Raises:
        UsageError: There are no arguments, or `python` is given for a program that is no script.
        ProgramMissingError: There is no such script or program.
        ProgramUnfitError: The program exists and cannot be executed.
    """
    if not arguments:
        raise UsageError(
            "no program is given", hint="name a script, such as app.py, `-m MODULE`, `-c CODE` or `-` (stdin)"
        )
    first = arguments[0]
    if not first and not option:  # Python would take it for the current folder
        raise UsageError("the name of the program is empty", hint="name a script, such as app.py, or a program")
    if option:
        return [python or _default_python(), option, *arguments], "code" if option == "-c" else first
    if first == "-":
        return [python or _default_python(), *arguments], "stdin"  # Python reads the program from its input
    path = Path(first)
    runs = os.access(path, os.X_OK)
    is_read = path.is_file() or path.is_fifo()  # a pipe, as of `<(...)` in a shell, may be a script
    # The shell, too, prefers a program on the PATH to a folder here, such as `gunicorn/` with its settings.
    is_package = path.is_dir() and ("/" in first or shutil.which(first) is None)
    if is_package or (is_read and (path.suffix in _SCRIPT_SUFFIXES or not runs)):
        if python is None and runs and path.is_file() and first_line(path) is not None:
            _check_first_line(path)
            return [first if "/" in first else f"./{first}", *arguments[1:]], path.name
        return [python or _default_python(), *arguments], path.name
    found = _find_program(first)
    if python is not None:
        raise UsageError(
            f"--python is for a script, a module or code, and {first} is a program",
            hint="leave out --python, or name a module with -m, or a script that ends in .py",
        )
    _check_first_line(Path(found))
    return list(arguments), path.name


def _check_first_line(path: Path) -> None:
    """Raise ProgramMissingError if `env` will not find the interpreter of a script: its own error does not tell the script."""
    program, name = [*(first_line(path) or []), "", ""][:2]
    if Path(program).name != "env" or not name or name.startswith("-") or "=" in name or shutil.which(name):
        return
    hint = "correct that line, or name an interpreter with --python for a script that ends in .py"
    if name.endswith("\r"):
        hint = f"the line ends in a carriage return, as on Windows: remove it, as with `sed -i 's/\\r$//' {path}`"
    raise ProgramMissingError(
        f"the first line of {path} names the interpreter {name!r}, which is not on the PATH", hint=hint
    )


def _default_python() -> str:
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        found = shutil.which("python", path=str(Path(active, "bin")))
        if found is not None:
            return found
    return shutil.which("python3") or sys.executable


def _find_program(name: str) -> str:
    """Return the path of a program. Raises ProgramMissingError, ProgramUnfitError."""
    found = shutil.which(name)
    if found is not None:
        return found
    folders = [""] if "/" in name else os.get_exec_path()
    if any(os.path.exists(os.path.join(folder, name)) for folder in folders):
        raise ProgramUnfitError(
            f"{name} cannot be executed", hint="make the file executable with `chmod +x`, or name another program"
        )
    raise ProgramMissingError(
        f"there is no script or program {name!r}",
        hint="name a file, a program on your PATH, or a module with -m",
    )


def name_behind(command: Sequence[str]) -> str:
    """Return the name of the script or the module that a command has Python run; "" if the command line shows none.

    The command may begin with a wrapper, as in `setsid python app.py` or `uv run python -m uvicorn`.
    """
    is_wrapped = Path(command[0]).name in _WRAPPERS
    for at, word in enumerate(command if is_wrapped else command[:1], 1):
        if _PYTHON.fullmatch(Path(word).name):
            return name_in(command[at:])
    return ""


def become(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    cpus: frozenset[int] | None = None,
    collector: "DetachedCollector | None" = None,
) -> NoReturn:
    """Replace this process by a program, which keeps only what this process was started with.

    Args:
        command: The program and its arguments.
        env: The result of environment() or scheduled_environment() for original_environment().
        cpus: The only CPUs that the program may use; by default those of this process.
        collector: Dismissed if the program cannot be executed.

    Raises:
        ProgramMissingError: There is no such program.
        ProgramUnfitError: The program cannot be executed.
    """
    try:
        path = _find_program(command[0])
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        _restore_signals()
        os.execve(path, list(command), {**env, **_launched()})  # noqa: S606 it is what a user wants to run
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProgramUnfitError(
            f"{command[0]} cannot be executed: {reason}",
            hint="check that it is a program, and that the interpreter of its first line exists",
        ) from error
    finally:
        if collector is not None:
            collector.dismiss()


def _launched() -> dict[str, str]:
    """Return variables that tell a process whether it is the launched program, and whether its stderr is that of the launch.

    Their readers are agent/startup, and headway_agent.library.say.
    """
    found = {"HEADWAY_LAUNCHED": str(os.getpid())}
    with contextlib.suppress(OSError):
        stderr = os.fstat(2)
        found["HEADWAY_STDERR"] = f"{stderr.st_dev}:{stderr.st_ino}"
    return found


def _restore_signals() -> None:
    """Restore the default action of signals that only Python ignores (exec() resets Python's handlers by itself).

    Only native/launcher/headway.c knows which of the two signals were ignored before Python ignored them.
    """
    found = sys._xoptions.get("headway_ignored", "")  # noqa: SLF001 its documented name
    ignored = found.split(",") if isinstance(found, str) else []
    for number in _IGNORED_BY_PYTHON:
        if str(int(number)) not in ignored:
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(number, signal.SIG_DFL)
