"""Print the completion of this command for a shell.

For bash:  headway completion bash > ~/.local/share/bash-completion/completions/headway
For zsh:   headway completion zsh > ~/.zfunc/_headway    (a folder of $fpath)
For tcsh:  headway completion tcsh > ~/.headway.tcsh; source ~/.headway.tcsh
"""

import argparse

import shtab

from headway.cli import console

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway completion`."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    from headway.cli.main import parser

    console.print_plain(shtab.complete(parser(), shell=arguments.shell))
    return 0
