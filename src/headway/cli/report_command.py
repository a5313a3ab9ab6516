"""Show a stored run (tables, start-up costs, verdicts) or a recorded trace.

RUN is a run of the lab, or a file FILE.hwt that `headway trace` recorded. The
report of a trace shows which threads held the GIL, which threads waited for
which, and at which lines.
"""

import argparse
import os
import shlex
from pathlib import Path

from headway import lab
from headway.cli import console
from headway.cli.html_output import add_html, check_html, write_run_page
from headway.cli.options import add_json, add_run, add_store
from headway.cli.trace_report import add_trace_options, is_trace, report_trace, trace_only
from headway.errors import StoreError, TraceError

__all__ = ["prepare", "run"]

_PACKERS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
"""Programs that compress files, by the first bytes of what they write."""


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway report`."""
    add_run(parser, "run", default="last")
    add_html(parser)
    parser.add_argument("--pyperf", type=Path, metavar="FILE", help="write the timed cells as a pyperf suite")
    parser.add_argument("--verdicts", action="store_true", help="print the verdicts without the tables")
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_store(parser)
    add_json(parser)
    add_trace_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show or export a stored run or a recorded trace."""
    check_html(arguments, {"--pyperf": arguments.pyperf})
    if is_trace(arguments.run):
        return report_trace(arguments)
    trace_only(arguments)
    if "/" in arguments.run:  # a path, because a run's name has no slash
        raise _no_trace(arguments.run)
    try:
        results = lab.load_run(arguments.run, store=arguments.store)
    except StoreError:
        if os.path.isfile(arguments.run) or os.path.isdir(arguments.run):
            raise _no_trace(arguments.run) from None
        raise
    if arguments.pyperf is not None:
        from headway.report import run_to_pyperf
        from headway.report.lab.claimed import not_shown

        suite = run_to_pyperf(results)
        console.write_json(arguments.pyperf, suite)
        shown = (one for experiment in results.experiments() for one in results.of(experiment.name))
        left_out = sum(bool(one.metrics()) for one in shown) - len(suite["benchmarks"])
        if left_out:
            cells = "1 cell is" if left_out == 1 else f"{left_out} cells are"
            console.say(f"! {cells} left out of it: pyperf has times only, not counts or rates")
        for line in not_shown(results):
            console.say(f"! {line}")
    if arguments.html is not None:
        write_run_page(results, arguments.html, show=arguments.open)
    if (arguments.pyperf is not None or arguments.html is not None) and not arguments.json:
        return 0
    if arguments.json:
        from headway.report import run_to_json

        console.print_json(run_to_json(results))
    else:
        from headway.report import render_run

        console.print_rendered(render_run(results, tables=not arguments.verdicts))
    return 0


def _no_trace(path: str) -> TraceError:
    """Return the error about a path that is no trace."""
    if os.path.isdir(path):
        return TraceError(
            f"{path} is a folder, and no trace",
            hint=f"name a file FILE.hwt in it; `headway stalls {shlex.quote(path)}` sums up a folder of `headway watch`",
        )
    packed = _packed_by(path)
    if packed:
        return TraceError(
            f"{path} is not a trace: it is packed by {packed}", hint="unpack it, and name the unpacked file"
        )
    return TraceError(
        f"{path} is not a trace: {_why_none(path)}",
        hint="name a file that `headway trace` wrote, or a run of the lab (`headway runs` lists them)",
    )


def _packed_by(path: str) -> str:
    """Return the program that compressed a file; "" if none did."""
    if not os.path.isfile(path):
        return ""
    try:
        with Path(path).open("rb") as file:
            begin = file.read(8)
    except OSError:
        return ""
    return next((name for magic, name in _PACKERS.items() if begin.startswith(magic)), "")


def _why_none(path: str) -> str:
    if os.path.isfile(path):
        return "it does not begin like one"
    return "it is no regular file" if os.path.exists(path) else "there is no such file"
