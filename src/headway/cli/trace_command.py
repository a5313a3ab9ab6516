"""Run a program and trace its GIL: holders, waiters, times, and lines of code.

headway becomes the program: process id, parent, terminal and signals are the
same as without it. Headway follows child processes, and writes one file for
each. Lines of code are known from CPython 3.11 on. It does not reach Python
processes with -I, -E or -S, without the environment of their parent, with
another PYTHONPATH, or with another `sitecustomize` before Headway's. One line
on stderr names the cause if Headway reaches no process at all in the first
minute; otherwise they are left out without a word. Another one says that a
program ended without any Python. If stderr is a terminal, a summary follows at
the end.

`headway report FILE` shows the trace. It waits until the trace is complete,
which is a moment after the program ends, when FILE.lock is removed. A script
that moves or deletes the trace must wait for that, too. If the program is the
first process of a container, the trace is complete when the container has
ended; FILE.lock may stay, and `headway report` or `headway stalls` removes it.

--python names the interpreter of a script, a module or code. Without it, an
executable script uses the interpreter of its first line (`#!`). All others use
the first of these: the active virtual environment ($VIRTUAL_ENV), python3 on
the PATH, Headway's own Python. `-` is a script from stdin. A program that is no
script, such as gunicorn, runs by itself, and --python is an error then.

The trace contains the name of the program, but not its arguments, because they
may hold passwords. --record-arguments adds them.

Examples:
  headway trace app.py --port 8000
  headway trace -o slow.hwt -m http.server
  headway trace --python python3.13 -- tests/load.py -v
  headway trace gunicorn app:app
"""

import argparse
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from headway.cli import console
from headway.errors import HeadwayError, UsageError

if TYPE_CHECKING:
    from headway.traces.model import Trace

__all__ = [
    "Recorded",
    "add_arguments",
    "add_output",
    "add_program",
    "become_traced",
    "new_path",
    "prepare",
    "program",
    "run",
    "summarise",
]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "headway trace [-o FILE] [options] [--] SCRIPT|PROGRAM [ARGUMENT ...]\n       headway trace [-o FILE] [options] -m MODULE|-c CODE|- [ARGUMENT ...]"
    add_output(parser)
    add_arguments(parser)
    add_program(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands that record a program from its start."""
    parser.add_argument(
        "--record-arguments",
        action="store_true",
        help="also record the arguments of the programs, not only their names",
    )


def add_program(
    parser: argparse.ArgumentParser, metavar: str = "SCRIPT ...", words: str = "run a script or a program"
) -> None:
    """Add the arguments of all commands that run a program."""
    parser.add_argument(
        "--python",
        metavar="INTERPRETER",
        help="interpreter for the script, module or code: `python3.13`, a path, or a name of `headway interpreters`, such as `3.13t`",
    )
    parser.add_argument("-c", dest="code", nargs=argparse.REMAINDER, metavar="CODE ...", help="run a piece of code")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE ...", help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar=metavar, help=words)


def program(arguments: argparse.Namespace) -> tuple[list[str], str]:
    """Return the command line of the program to run, and its name for messages. Raises UsageError or InterpreterError."""
    from headway.live import launch

    python = arguments.python
    if python is not None:
        from headway.host.interpreters import executable_of

        python = executable_of(python)
    given = {"-m": arguments.module, "-c": arguments.code, "": arguments.program}
    option, words = next((option, words) for option, words in given.items() if words is not None)
    if option:  # argparse ends an option's words at a `--`, which is the program's
        words = [*words, *arguments.program]
    elif words[:1] == ["--"]:
        words = words[1:]
    return launch.command_line(words, option=option, python=python)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands that record."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="file for the trace (default: named after the program)"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite FILE, or the file named after the program, and the traces of its children",
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=_size,
        default="512MB",
        help="limit for all traces together, such as 64MB or 2GB (default %(default)s); at the limit, new events replace the"
        " oldest, and the oldest traces of ended children are removed; a running process keeps at least 256 KB",
    )
    parser.add_argument("--no-summary", action="store_true", help="print only the path of the trace")


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)[iI]?[bB]?", text.strip())
    size = float(match[1]) * 1024 ** " kmg".index(match[2].lower() or " ") if match else 0
    if not 1 << 20 <= size <= 1 << 40:  # float() gives infinity for too many digits
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 1MB to 1TB, expected a form such as 64MB or 2GB")
    return int(size)


def run(arguments: argparse.Namespace) -> int:
    """Become the program under the recorder."""
    from headway.live import launch

    command, name = program(arguments)
    file, lock = _new_file(arguments, name)
    note = _note_of(arguments, file, name)
    recorded = Recorded(file, lock, arguments.max_size, arguments.record_arguments, note, overwrites=arguments.force)
    become_traced(command, name, launch.original_environment(), recorded, brief=arguments.no_summary)


def new_path(arguments: argparse.Namespace, name: str) -> Path:
    """Return the path of a new trace: as --output names it, else named after the program or the process.

    A name that is taken gets a number, unless --force is given.

    Raises:
        UsageError: The file cannot be written to, or exists and --force is not given.
    """
    from headway.live import files

    path = arguments.output
    if path is None:
        path = (files.first_name if arguments.force else files.unused_name)(Path.cwd(), name)
    return files.check_new(path, force=arguments.force)


def _new_file(arguments: argparse.Namespace, name: str) -> tuple[Path, int | None]:
    """Return the path of a new trace and its lock; try another number if another command takes the path first."""
    from headway.live import files

    while True:
        file = new_path(arguments, name)
        try:
            return file, files.lock(file)
        except UsageError:
            if arguments.output is not None or arguments.force:
                raise


def _note_of(arguments: argparse.Namespace, file: Path, name: str) -> str:
    """Return the words on a trace whose name has a number, for the line that names it; "" if there is nothing to say."""
    from headway.live import files

    if arguments.output is not None:
        return ""
    first = files.first_name(file.parent, name)
    return f" ({first.name} is there already: --force overwrites it)" if file != first else ""


class Recorded(NamedTuple):
    """The trace file of a program, and the limits of the recording."""

    file: Path
    lock: int | None
    """The result of files.lock()."""
    max_bytes: int
    has_arguments: bool
    note: str = ""
    """Words on the file's name, for the line that names it."""
    overwrites: bool = False
    """An earlier trace at that path is overwritten."""


def become_traced(
    command: Sequence[str],
    name: str,
    env: Mapping[str, str],
    recorded: Recorded,
    *,
    brief: bool = False,
    cpus: frozenset[int] | None = None,
) -> NoReturn:
    """Start the collector and become the program. Raises ProgramMissingError, ProgramUnfitError, RecordingError."""
    from headway.live import files, launch
    from headway.live.collector import DetachedCollector
    from headway.live.door import Door

    file, lock = recorded.file, recorded.lock

    def afterwards(found: Sequence[Path], problems: Sequence[str]) -> None:
        for problem in problems:
            console.say(problem)
        if found:
            summarise(file, brief=brief)
        else:
            console.say(f"{name} was not traced: no Python process of it started the recorder")
            if recorded.overwrites and file.exists():
                console.say(f"{file} is still the earlier trace")

    why = launch.out_of_reach(command)
    if why is not None:
        console.say(f"{name} is not traced: {why}")
    try:
        door = Door(record_arguments=recorded.has_arguments)
    except HeadwayError:
        files.unlock(file, lock)
        raise
    try:
        env = launch.environment(door.environment(), base=env)
        collector = DetachedCollector(
            door,
            file,
            lock,
            afterwards,
            max_bytes=recorded.max_bytes,
            overwrites=recorded.overwrites,
            is_told=why is not None,
        )
    except HeadwayError:
        door.close()
        files.unlock(file, lock)
        raise
    except OSError as error:
        collector, env = None, launch.unrecorded(env)
        console.say(f"{name} will not be traced: the collector cannot start: {error.strerror}")
    else:
        only = "" if why is None else "only the Python processes that it starts in another way "
        console.say(
            f"recording {only}into {file}; look at it with `headway report {shlex.quote(str(file))}`{recorded.note}"
        )
    launch.become(command, env, cpus=cpus, collector=collector)


def summarise(file: Path, *, brief: bool = False, traces: "Sequence[Trace] | None" = None) -> None:
    """Print the path of a finished trace to stderr, and, unless `brief`, a summary.

    Args:
        file: The trace.
        brief: Print no summary.
        traces: The traces of its launch's processes, if the caller has read them already.
    """
    from headway.errors import TraceError

    console.say(f"the trace is in {file}; look at it with `headway report {shlex.quote(str(file))}`")
    if brief:
        return
    from headway.report.trace.terminal import short_summary
    from headway.traces.analysis import analyse
    from headway.traces.family import read_family

    try:
        analyses = [analyse(trace) for trace in (read_family(file) if traces is None else traces)]
    except TraceError as error:
        console.complain(error.message, error.hint)
        return
    console.say_rendered(short_summary(analyses))
