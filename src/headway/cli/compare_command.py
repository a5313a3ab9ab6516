"""Compare two stored runs: a ratio with its interval per cell, or "no difference"."""

import argparse

from headway import lab
from headway.cli import console
from headway.cli.html_output import add_html, check_html, write_run_page
from headway.cli.options import add_json, add_run, add_store
from headway.cli.trace_report import is_trace
from headway.errors import UsageError

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway compare`."""
    add_run(parser, "before", default=None)
    add_run(parser, "after", default=None)
    add_store(parser)
    add_html(parser)
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare two runs, and print or write the differences."""
    check_html(arguments)
    for name in (arguments.before, arguments.after):
        if is_trace(name):
            raise UsageError(
                f"`{name}` is a trace, and `headway compare` compares runs of the lab",
                hint="`headway report A.hwt --beside B.hwt --html FILE` puts two traces on one page",
            )
    before = lab.load_run(arguments.before, store=arguments.store)
    after = lab.load_run(arguments.after, store=arguments.store)
    differences = lab.compare(before, after)
    if arguments.html is not None:
        from headway.report.lab.comparison import compared

        found = compared(before, after, differences)
        write_run_page(after, arguments.html, show=arguments.open, compared=found)
        if not arguments.json:
            return 0
    if arguments.json:
        from headway.report import comparison_to_json

        console.print_json(comparison_to_json(before, after, differences))
    else:
        from headway.report import render_comparison

        console.print_rendered(render_comparison(before, after, differences))
    return 0
