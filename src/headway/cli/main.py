"""The parser, the list of commands, and the one handler of errors.

stdout is data, stderr is talk. Exit codes: 0; 1 for failed launches or any other `HeadwayError`; 2 for bad arguments;
3 to 8 for interpreters, stores, the native library, traces, recording and scheduling; `trace` and `run` end as their
program ended; 130 after Ctrl-C.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

from headway import __version__
from headway.cli import console
from headway.errors import HeadwayError

__all__ = ["Command", "main"]


class Command(Protocol):
    """What a module of a subcommand offers; its docstring's first line is the help."""

    __doc__: str | None

    def prepare(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit code. Raises HeadwayError."""


_COMMANDS = ("lab", "run", "policies", "trace", "attach", "top", "report", "compare", "runs", "interpreters", "doctor")

_DESCRIPTION = (
    "Measure Python's concurrency models on this machine's interpreters, see who holds the GIL in your program, and "
    "schedule it."
)


class _Parser(argparse.ArgumentParser):
    """Errors in our form: one message, a hint, exit code 2."""

    def error(self, message: str) -> NoReturn:
        console.complain(message, f"see `{self.prog} --help`")
        sys.exit(2)


def _command(name: str) -> Command:
    return importlib.import_module(f"headway.cli.{name}_command")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="headway", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"headway {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        command = _command(name)
        text = (command.__doc__ or "").strip()
        own = commands.add_parser(
            name,
            help=text.splitlines()[0].rstrip("."),
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.prepare(own)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    code = 1
    try:
        parsed = _parser().parse_args(arguments)
        code = _command(parsed.command).run(parsed)
        sys.stdout.flush()
    except HeadwayError as error:
        console.complain(error.message, error.hint)
        code = error.exit_code
    except KeyboardInterrupt:
        console.say("stopped")
        code = 130
    except BrokenPipeError:
        # The reader of our output (`| head`) has left.
        _discard_output()
        code = 0
    except OSError as error:
        _discard_output()
        where = f" ({error.filename})" if error.filename else ""
        console.complain(f"{error.strerror or error}{where}", "free space or choose another place, then try again")
    return code


def _discard_output() -> None:
    """Send what is still buffered nowhere: Python would complain again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
