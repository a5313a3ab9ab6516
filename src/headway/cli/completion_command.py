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
from collections.abc import Iterator
from typing import Final

import shtab

from headway.cli import console

__all__ = ["SHELLS", "prepare", "run", "script"]

SHELLS: Final = ("bash", "zsh", "tcsh", "fish")

# The first words of metavars of arguments that may be files: a run may be a trace, a scenario a file.
_FILES: Final = {"FILE", "PID", "RUN", "SCENARIO", "SCRIPT", "trace"}


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


def script(shell: str) -> str:
    """Return the completion script of one of SHELLS: commands, options, experiments, and names of files."""
    from headway.cli.main import parser
    from headway.lab.experiments import experiments

    whole = parser()
    for argument in _arguments(whole):
        if argument.choices is not None or argument.nargs == 0:
            continue
        called = str(argument.metavar or argument.dest).split()[0]
        if called == "EXPERIMENT":
            argument.choices = [one.name for one in experiments()]
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
