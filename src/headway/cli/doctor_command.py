"""Check whether this machine is fit to measure on, with a remedy for each warning."""

import argparse

from headway import lab
from headway.cli import console
from headway.cli.options import add_json

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway doctor`."""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do it. Warnings are findings, not failures: exit code 0."""
    checks = lab.examine()
    if arguments.json:
        console.print_json([check.to_json() for check in checks])
        return 0
    from headway.report import Table, render_table

    shown = {"ok": "OK", "skipped": "skipped", "warning": "WARNING"}
    rows = tuple((check.name, shown[check.status], check.fact, check.remedy) for check in checks)
    console.print_rendered(
        render_table(Table("`headway lab` stores these checks with each run", ("check", "", "found", "remedy"), rows))
    )
    return 0
