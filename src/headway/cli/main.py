"""The command line's parser, the list of commands, and the one handler of errors.

stdout has data, and stderr has messages; EXIT_CODES has the exit codes.
"""

import argparse
import errno
import importlib
import re
import signal
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from headway import __version__
from headway.cli import console
from headway.cli.first_experiment import first_experiment
from headway.errors import HeadwayError, UsageError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

__all__ = ["EXIT_CODES", "Command", "main", "parser"]

EXIT_CODES: Mapping[str, str] = {
    "0": "success",
    "1": "failed launches, or another error",
    "2": "bad arguments, or a scenario that makes no sense",
    "3": "an interpreter does not exist, or cannot be used",
    "4": "a results store or a run does not exist, or cannot be read",
    "5": "the native library is missing",
    "6": "a trace, or a log of stalls, does not exist or cannot be read",
    "7": "a process cannot be recorded or entered",
    "8": "a GIL cannot be scheduled, or `run` or `attach` finds no policy",
    "126, 127": "the program cannot be executed, or does not exist",
    "130, 143, 129": "ended by Ctrl-C, SIGTERM, SIGHUP",
}
"""The exit codes of all commands, for users. `run`, `trace` and `watch` become the program, which has its own."""


class Command(Protocol):
    """The interface of a subcommand's module. The first line of the module's docstring is the command's help."""

    __doc__: str | None

    def prepare(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return its exit code. Raises HeadwayError."""


_COMMANDS = (
    "lab",
    "advise",
    "run",
    "policies",
    "simulate",
    "trace",
    "watch",
    "stalls",
    "dask",
    "attach",
    "detach",
    "top",
    "calibrate",
    "report",
    "whatif",
    "compare",
    "runs",
    "interpreters",
    "doctor",
    "completion",
)

_BECOME = ("run", "trace", "watch")
"""Commands that become a program."""

_DESCRIPTION = (
    "Measure Python's concurrency models on this machine's interpreters, see who holds the GIL in your program, and "
    "schedule it."
)


_FRONT_DOOR = """\
Headway: what concurrency costs in Python, and what to do about it.

  headway lab {experiment:<20}measure what the GIL costs a server (1 minute)
  headway trace app.py            show which threads hold the GIL and which wait
  headway advise app:function     choose threads, processes, asyncio or others
  headway run app.py              schedule the GIL; `--why` reports the effect
  headway watch -o stalls app.py  in production: report each stall and its line

`headway doctor` checks whether this machine is fit for measurements.
`headway --help` lists all commands, `headway COMMAND --help` their options.
"""
"""The text of `headway` without arguments: commands for a new user, in at most 80 columns."""


def _meant(message: str, options: Iterable[str]) -> str:
    """Return the command, value or option that is nearest to the one that an error of argparse refuses; "" if none is."""
    import difflib

    if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
        known = re.findall(r"[\w.-]+", found[2])
    elif found := re.match(r"unrecognized arguments: (--[\w-]+)", message):
        known = [one for one in options if one.startswith("--")]
    else:
        return ""
    near = difflib.get_close_matches(found[1], known, n=1)
    return near[0] if near else ""


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in the form of all commands: one message, a hint, exit code 2."""

    def error(self, message: str) -> NoReturn:
        hint = f"see `{self.prog} --help`"
        found = re.match(r"argument (?:.*/)?(--[a-z-]+): expected one argument", message)
        if found:
            hint += f"; a value that begins with a dash needs `=`, as in `{found[1]}=-x`"
        elif near := _meant(message, self._option_string_actions):
            hint = f"did you mean `{near}`? Else {hint}"
        console.complain(message, hint)
        sys.exit(2)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        # argparse's own method ignores errors, or leaves them to the end of the process; `main` tells of them.
        if file is None or file is not sys.stdout:
            super()._print_message(message, file)
            return
        print(message, end="", flush=True)


def _command(name: str) -> Command:
    return importlib.import_module(f"headway.cli.{name}_command")


def parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    Args:
        wanted: The only command whose arguments are added, because the import of all commands takes time. If `wanted`
            is not a command, the arguments of all commands are added; `--version` needs none of them.
    """
    return _parsers(wanted)[0]


def _parsers(wanted: str | None) -> tuple[_Parser, dict[str, _Parser]]:
    """Return the parser of the command line, and the parsers of the commands by name."""
    codes = "\n".join(f"  {code:<15}{meaning}" for code, meaning in EXIT_CODES.items())
    whole = _Parser(
        prog="headway",
        description=textwrap.fill(_DESCRIPTION),
        epilog=f"Exit codes (run, trace and watch become the program, and end with its own):\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"headway {__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        if wanted in {*_COMMANDS, "--version"} and name != wanted:
            commands.add_parser(name)
            continue
        command = _command(name)
        text = (command.__doc__ or "").strip()
        own = commands.add_parser(
            name,
            help=text.splitlines()[0].rstrip("."),
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.prepare(own)
    return whole, commands.choices


def _separated(words: Sequence[str], parser: _Parser) -> Sequence[str]:
    """Return the words with `-m MODULE` in place of `-mMODULE`, and `-c CODE` likewise, as Python reads them.

    argparse would take what follows such a word for our own options, and not for the program's.
    """
    actions = parser._option_string_actions  # noqa: SLF001 argparse has no other list of its options
    is_value = False
    for at, word in enumerate(words[1:], 1):
        action = actions.get(word[:2])
        if is_value:
            is_value = False
        elif action is not None and action.nargs == argparse.REMAINDER:
            return words if len(word) == 2 else [*words[:at], word[:2], word[2:], *words[at + 1 :]]
        elif not word.startswith("-") or word in {"-", "--"}:
            return words  # the program
        else:
            fitting = [one for name, one in actions.items() if name.startswith(word)]
            is_value = bool(fitting) and fitting[0].nargs is None
    return words


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of the command line; exit with 2 if they are wrong."""
    whole, commands = _parsers(words[0] if words else None)
    own = commands.get(words[0]) if words else None
    if own is not None:
        words = _separated(words, own)
    if own is not None and any(action.nargs in {"*", "+"} for action in _positionals(own)):
        # The names may stand between the options; the parser of all commands would take only those before the first one.
        parsed, left = own.parse_known_intermixed_args(words[1:])
        parsed.command = words[0]
    else:
        parsed, left = whole.parse_known_args(words)
    _check_one(parsed.command, commands[parsed.command], left)
    if left:  # argparse would have the parser of all commands say so, whose help does not list the command's options
        commands[parsed.command].error(f"unrecognized arguments: {' '.join(left)}")
    return parsed


def _positionals(parser: _Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]  # noqa: SLF001 argparse has no other list


def _check_one(name: str, parser: _Parser, left: Sequence[str]) -> None:
    """Raise UsageError if a command that takes one file, run or process is given several."""
    takes = _positionals(parser)
    if not left or any(word.startswith("-") for word in left) or len(takes) != 1:
        return
    what = str(takes[0].metavar or takes[0].dest).upper()
    more = f"there is one more: {left[0]}" if len(left) == 1 else f"there are {len(left)} more: {' '.join(left)}"
    hint = "run the command once for each"
    if name == "report":
        hint += "; `--html FILE --beside OTHER.hwt` puts two traces on one page"
    raise UsageError(f"`{parser.prog}` takes one {what}, and {more}", hint=hint)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    wanted = words[0] if words else None
    console.occupy_streams()
    if wanted in _BECOME and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # This process is about to become the program, so Ctrl-C must do now what it would do to the program.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = 1
    try:
        if not words:
            console.print_plain(_FRONT_DOOR.format(experiment=first_experiment()).rstrip())
            code = 0
        else:
            parsed = _parse(words)
            code = _command(parsed.command).run(parsed)
        if sys.stdout is not None:
            sys.stdout.flush()
    except HeadwayError as error:
        console.complain(error.message, error.hint)
        code = error.exit_code
    except KeyboardInterrupt:
        console.say("stopped")
        code = 130
    except BrokenPipeError:
        # The reader of the output (`| head`) has closed the pipe.
        console.discard_output()
        code = 0
    except OSError as error:
        code = 1
        console.discard_output()
        where = f" ({error.filename})" if error.filename else ""
        if error.errno == errno.ENOENT and not where:  # of getcwd(), which has no name to tell
            console.complain("the current folder has been removed", "change to another folder, then try again")
        else:
            hint = "free space or choose another place, then try again"
            if error.errno in {errno.EACCES, errno.EPERM}:
                hint = "give this user the permission, or choose another place, then try again"
            console.complain(f"{error.strerror or error}{where}", hint)
    return code
