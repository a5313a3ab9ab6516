"""Print the completion of this command for a shell.

For bash:
  headway completion bash > ~/.local/share/bash-completion/completions/headway
For zsh, into a folder of $fpath:
  headway completion zsh > ~/.zfunc/_headway
For tcsh:
  headway completion tcsh > ~/.headway.tcsh; source ~/.headway.tcsh
For fish:
  headway completion fish > ~/.config/fish/completions/headway.fish
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import shtab

from headway.cli import console

__all__ = ["SHELLS", "prepare", "run", "script"]

SHELLS: Final = ("bash", "zsh", "tcsh", "fish")

# The first words of metavars of arguments that may be files: a run that is reported may be a trace.
_FILES: Final = {"FILE", "PID", "RUN", "SCRIPT", "trace"}
_RUNS: Final = {"AFTER", "BEFORE", "RUN"}

_LIST_RUNS: Final = r"""headway runs --json 2>/dev/null | sed -n 's/^    "id": "\(.*\)",$/\1/p'"""
"""Prints the ids of the runs: the shell asks for them at the time of completion, as each lab adds one."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway completion`."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in parser._actions:  # noqa: SLF001 argparse has no other list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in dict.fromkeys(action.choices.values()):
                yield from _arguments(command)
        else:
            yield action


def _name_or_file(kind: str, names: Sequence[str]) -> dict[str, Any]:
    """Return how the shells complete these names, and names of files where no name fits."""
    words = " ".join(names)
    function = (
        f"_headway_{kind}_or_file"  # for shtab, `_file` says that bash is to quote what it finds as names of files
    )
    return {
        "bash": function,
        "zsh": f"{{compadd -- {words} || _files}}",
        "tcsh": f"({words})",
        "fish": f"{words} {shtab.FILE['fish']}",
        "preamble": {"bash": f"""{function}() {{ compgen -W "{words}" -- "$1" || compgen -f -- "$1"; }}"""},
    }


def _run() -> dict[str, Any]:
    """Return how the shells complete a stored run of the lab; tcsh, which has no functions, knows the last one alone."""
    return {
        "bash": "_headway_runs",
        "zsh": "_headway_runs",
        "tcsh": "(last)",
        "fish": "(_headway_runs)",
        "preamble": {
            "bash": f"""_headway_runs() {{ compgen -W "last $({_LIST_RUNS})" -- "$1"; }}""",
            "zsh": f"_headway_runs() {{ compadd -- last $({_LIST_RUNS}) }}",
            "fish": f"function _headway_runs\n  echo last\n  {_LIST_RUNS}\nend",
        },
    }


def _policies() -> list[str]:
    """Return the names of the built-in policies; none without the native library, which other commands tell of."""
    from headway.errors import NativeError
    from headway.native import policies

    try:
        return [one.name for one in policies()[0]]
    except NativeError:
        return []


def script(shell: str) -> str:
    """Return the completion script of one of SHELLS: commands, options, names that Headway knows, and names of files."""
    from headway.cli.main import parser
    from headway.lab.experiments import experiments
    from headway.sim import library

    whole = parser()
    for argument in _arguments(whole):
        if argument.choices is not None or argument.nargs == 0:
            continue
        called = str(argument.metavar or argument.dest).split()[0]
        if called == "EXPERIMENT":
            argument.choices = [one.name for one in experiments()]
        elif argument.dest == "show":
            argument.choices = library.names()
        elif called == "SCENARIO":
            argument.complete = _name_or_file("scenario", library.names())  # type: ignore[attr-defined]
        elif argument.dest == "policy":
            may_be_none = ["none"] if "none" in str(argument.help) else []
            kind = "policy_none" if may_be_none else "policy"
            argument.complete = _name_or_file(kind, [*_policies(), *may_be_none])  # type: ignore[attr-defined]
        elif called in _RUNS and (argument.option_strings or called != "RUN"):
            argument.complete = _run()  # type: ignore[attr-defined]
        elif called in _FILES:
            argument.complete = shtab.FILE  # type: ignore[attr-defined]
        elif called == "FOLDER":
            argument.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    text = shtab.complete(whole, shell=shell)
    # The script does not know a program's own arguments: bash completes names of files there.
    return text.replace("complete -o bashdefault -F", "complete -o bashdefault -o default -F")


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    console.print_plain(script(arguments.shell))
    return 0
