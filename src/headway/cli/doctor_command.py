"""Check whether this machine is fit for measurements; give remedies for warnings.

The last line names the command to run next.
"""

import argparse
import contextlib

from headway import lab
from headway.cli import console
from headway.cli.first_experiment import first_experiment
from headway.cli.options import add_json
from headway.errors import HeadwayError

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway doctor`."""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the checks of this machine; return 0 even with warnings, because a warning is not a failure."""
    checks = lab.examine()
    if arguments.json:
        console.print_json([check.to_json() for check in checks])
        return 0
    from headway.report import Table, render_table

    shown = {"ok": "OK", "skipped": "skipped", "warning": "WARNING"}
    rows: list[tuple[str, str, str]] = []
    for check in checks:
        rows.append((check.name, shown[check.status], check.fact))
        if check.remedy:
            rows.append(("", "", f"-> {check.remedy}"))
    console.print_rendered(
        render_table(Table("`headway lab` stores these checks with each run", ("check", "", "found"), tuple(rows)))
    )
    console.print_plain(f"\nnext: {_next_command()}")
    return 0


def _next_command() -> str:
    """Return the command to run next, with the reason."""
    names = {one.name for one in lab.discover()[0]}
    if not any(name.endswith("t") for name in names):
        return "headway interpreters --add 3.14t    (adds a free-threaded Python to compare with)"
    with contextlib.suppress(HeadwayError, OSError):  # a store that cannot be read has no last run
        store = lab.default_store()
        if store.exists():
            with lab.Store(store) as kept:
                if kept.runs():
                    return "headway report last    (shows the last run)"
    return f"headway lab {first_experiment()}    (measures what the GIL costs a server, in a minute)"
