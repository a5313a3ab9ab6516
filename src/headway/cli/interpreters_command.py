"""List every CPython on this machine and what it can do."""

import argparse

from headway import lab
from headway.cli import console
from headway.cli.options import add_json

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway interpreters`."""
    add_json(parser)


def _gil(one: lab.Interpreter) -> str:
    if not one.free_threaded:
        return "GIL"
    return "free-threaded, GIL on" if one.gil_enabled else "free-threaded"


def _jit(one: lab.Interpreter) -> str:
    return "on" if one.jit_enabled else "available" if one.jit_available else "-"


def run(arguments: argparse.Namespace) -> int:
    """Do it."""
    found, passed_over = lab.discover()
    if arguments.json:
        console.print_json({"interpreters": [one.to_json() for one in found], "passed_over": passed_over})
        return 0
    from headway.report import Table, render_table

    rows = [
        (
            one.name,
            one.version,
            _gil(one),
            _jit(one),
            "shared" if one.shared_libpython else "static",
            "+".join(one.optimised) or "plain",
            f"{one.switch_interval_s * 1000:g} ms",
            "all" if not one.missing_models else f"without {', '.join(one.missing_models)}",
            one.origin,
            one.executable,
        )
        for one in found
    ]
    columns = ("", "version", "GIL", "JIT", "libpython", "build", "switch", "models", "from", "executable")
    console.print_rendered(
        render_table(Table("`headway lab` takes the newest patch of each name", columns, tuple(rows)))
    )
    for line in passed_over:
        console.say(f"passed over: {line}")
    return 0
