"""Run a program and record exactly who holds the GIL, who waits for it, how long and at which line.

The program runs as it would without headway; a summary follows on stderr. Child processes are followed, one file each.
Look at the trace with `headway report FILE`.

Examples:
  headway trace app.py --port 8000
  headway trace -o slow.hwt -m http.server
  headway trace --python python3.13 -- tests/load.py -v
  headway trace gunicorn app:app
"""

import argparse
import re
from pathlib import Path

from headway.cli import console
from headway.errors import UsageError

__all__ = ["add_output", "add_program", "prepare", "program", "run", "summarise"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "headway trace [-o FILE] [options] [--] SCRIPT|PROGRAM [ARGUMENT ...]\n       headway trace [-o FILE] [options] -m MODULE [ARGUMENT ...]"
    add_output(parser)
    add_program(parser)


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add what all commands that run a program take."""
    parser.add_argument(
        "--python", metavar="INTERPRETER", help="run the script or module with this one, as `python3.13` or a path"
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE ...", help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="run a script or a program")


def program(arguments: argparse.Namespace) -> tuple[list[str], str]:
    """Return the command line of the program that is to run, and what a user calls it. Raises UsageError."""
    from headway.live import launch

    module = arguments.module is not None
    words = arguments.module if module else arguments.program
    if words[:1] == ["--"]:
        words = words[1:]
    return launch.command_line(words, module=module, python=_interpreter(arguments.python))


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add what all commands that record take."""
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the trace; else named after the program")
    parser.add_argument("--force", action="store_true", help="overwrite FILE and the traces of its children")
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=_size,
        default="512MB",
        help="of one process's trace, as 64MB or 2GB; then the oldest events are overwritten (default %(default)s)",
    )
    parser.add_argument("--no-summary", action="store_true", help="say only where the trace is")


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)[iI]?[bB]?", text.strip())
    size = int(float(match[1]) * 1024 ** " kmg".index(match[2].lower() or " ")) if match else 0
    if not 1 << 20 <= size <= 1 << 40:
        raise argparse.ArgumentTypeError(f"{text!r} is no size from 1MB to 1TB, as 64MB or 2GB")
    return size


def run(arguments: argparse.Namespace) -> int:
    """Run the program, summarise its trace, and end as it ended."""
    from headway.live import files, launch

    command, name = program(arguments)
    if arguments.output is not None:
        file = files.check_new(arguments.output, force=arguments.force)
    else:
        file = files.check_new(files.unused_name(Path.cwd(), name))
    ending = launch.run(command, launch.environment(file, max_bytes=arguments.max_size), file)
    if not ending.files:
        console.say(f"{name} was not traced: no Python process of it started the recorder (python -I, -E or -S?)")
    else:
        summarise(file, brief=arguments.no_summary)
    return launch.end_like(ending)


def _interpreter(python: str | None) -> str | None:
    import shutil

    if python is None:
        return None
    found = shutil.which(python)
    if found is None:
        raise UsageError(f"there is no interpreter {python!r}", hint="name one on your PATH, or its path")
    return found


def summarise(file: Path, *, brief: bool = False) -> None:
    """Say on stderr what a finished trace shows, and where it is."""
    from headway.errors import TraceError

    console.say(f"the trace is in {file}; look at it with `headway report {file}`")
    if brief:
        return
    from headway.report.traced import short_summary
    from headway.traces.analysis import analyse
    from headway.traces.reader import read_family

    try:
        analyses = [analyse(trace) for trace in read_family(file)]
    except TraceError as error:
        console.complain(error.message, error.hint)
        return
    console.say_rendered(short_summary(analyses))
