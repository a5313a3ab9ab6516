"""`headway report FILE.hwt`: a recorded trace on the terminal, as JSON, or exported for another program."""

import argparse
import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console, options
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.traces.model import Trace

__all__ = ["add_trace_options", "is_trace", "report_trace", "trace_only"]

_SUFFIX = ".hwt"
_S_NS = 1_000_000_000
_NAMES_IN_HINT = 8
_EXPORTS = ("perfetto", "gecko", "collapsed", "parquet")


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that only a trace has."""
    group = parser.add_argument_group("for a trace (FILE.hwt)")
    group.add_argument("--all", action="store_true", help="leave out no row of a table")
    group.add_argument(
        "--thread", metavar="NAME", help="only what concerns this thread: name, native id, or pattern `io-*`"
    )
    group.add_argument(
        "--since",
        type=options.seconds(below=math.inf),
        metavar="S",
        help="only what happened later than S seconds after the start",
    )
    group.add_argument(
        "--until",
        type=options.seconds(below=math.inf),
        metavar="S",
        help="only what happened before S seconds after the start",
    )
    group.add_argument("--perfetto", type=Path, metavar="FILE", help="write the whole trace for ui.perfetto.dev")
    group.add_argument("--gecko", type=Path, metavar="FILE", help="write it for profiler.firefox.com")
    group.add_argument("--collapsed", type=Path, metavar="FILE", help="write collapsed stacks for flame graphs")
    group.add_argument(
        "--of", choices=("hold", "wait"), help="what collapsed stacks count: time held (default) or waited"
    )
    group.add_argument("--parquet", type=Path, metavar="FILE", help="write a table of events, for data frames")


def is_trace(name: str) -> bool:
    """Return if a report's argument names a trace: by its ending, or by the first bytes of the file."""
    if name.endswith(_SUFFIX):
        return True
    try:
        with Path(name).open("rb") as file:
            first = file.read(8)
    except (OSError, ValueError):
        return False
    from headway.traces.format import MAGIC

    return first == MAGIC


def trace_only(arguments: argparse.Namespace) -> None:
    """Make sure that no argument of a trace is given for a run.

    Raises:
        UsageError: One is.
    """
    for name in ("all", "thread", "since", "until", *_EXPORTS, "of"):
        if getattr(arguments, name) not in (None, False):
            raise UsageError(
                f"`--{name}` is for traces, and `{arguments.run}` is no trace file",
                hint="name a file that `headway trace` recorded, FILE.hwt",
            )


def report_trace(arguments: argparse.Namespace) -> int:
    """Show or export the trace that `arguments.run` names, with the traces of its child processes."""
    outputs = _outputs(arguments)
    if arguments.since is not None and arguments.until is not None and arguments.since >= arguments.until:
        raise UsageError(
            f"the window from {arguments.since:g} s to {arguments.until:g} s is empty",
            hint="`--until` is after `--since`",
        )
    from headway.traces.reader import read_family

    traces = read_family(Path(arguments.run))
    threads = _threads(traces, arguments.thread)
    if outputs:
        from headway.traces.export import FORMATS

        for name, path in outputs.items():
            FORMATS[name](traces, path)
            console.say(f"wrote {path}")
        if not arguments.json:
            return 0
    _show(arguments, traces, threads)
    return 0


def _outputs(arguments: argparse.Namespace) -> dict[str, Path]:
    """Return the files to write, by format, after checking all of them."""
    if arguments.of is not None and arguments.collapsed is None:
        raise UsageError(f"`--of {arguments.of}` says what collapsed stacks count", hint="add `--collapsed FILE`")
    for name in ("pyperf", "verdicts", "store"):
        if getattr(arguments, name):
            raise UsageError(f"`--{name}` is for runs of the lab, and {arguments.run} is a trace", hint="leave it out")
    outputs: dict[str, Path] = {}
    for name in _EXPORTS:
        path = getattr(arguments, name)
        if path is None:
            continue
        console.check_output(path, force=arguments.force)
        if path.exists() and Path(arguments.run).exists() and path.samefile(arguments.run):
            raise UsageError(f"{path} is the trace itself", hint="use another name")
        if path.resolve() in {one.resolve() for one in outputs.values()}:
            raise UsageError(f"{path} is named for two formats", hint="use another name for one of them")
        outputs[f"collapsed-{arguments.of or 'hold'}" if name == "collapsed" else name] = path
    return outputs


def _threads(traces: "Sequence[Trace]", name: str | None) -> list[set[int] | None]:
    """Return per trace the threads that are asked for; None: all."""
    if name is None:
        return [None] * len(traces)
    from headway.traces.analysis.words import labels

    found: list[set[int] | None] = []
    for trace in traces:
        known = zip(trace.threads, labels(trace.threads), strict=True)
        found.append(
            {
                index
                for index, (thread, label) in enumerate(known)
                if name in {thread.name, label, str(thread.tid)} or fnmatchcase(thread.name, name)
            }
        )
    if not any(found):
        names = sorted({thread.name for trace in traces for thread in trace.threads})
        more = f" and {len(names) - _NAMES_IN_HINT} more" if len(names) > _NAMES_IN_HINT else ""
        raise UsageError(
            f"no thread is called `{name}`", hint=f"there are {', '.join(names[:_NAMES_IN_HINT]) or 'none'}{more}"
        )
    return found


def _show(arguments: argparse.Namespace, traces: "Sequence[Trace]", threads: Sequence[set[int] | None]) -> None:
    from headway.traces.analysis import analyse, as_json

    begin_ns = min(trace.start_ns for trace in traces)
    since_ns, until_ns = (
        None if seconds is None else begin_ns + round(seconds * _S_NS) for seconds in (arguments.since, arguments.until)
    )
    # Threads of one process only, and processes of one window only, are what is asked for.
    chosen = [
        (trace, mine)
        for trace, mine in zip(traces, threads, strict=True)
        if (mine is None or mine)
        and (since_ns is None or since_ns <= trace.end_ns)
        and (until_ns is None or until_ns >= trace.start_ns)
    ]
    if not chosen:
        end_s = (max(trace.end_ns for trace in traces) - begin_ns) / _S_NS
        raise UsageError("nothing was recorded in this window", hint=f"the recording ends after {end_s:.3g} s")
    analyses = [analyse(trace, since_ns=since_ns, until_ns=until_ns, threads=mine) for trace, mine in chosen]
    from headway.report.traced import render_traces, worst_first

    if arguments.json:
        console.print_json({"processes": [as_json(one) for one in worst_first(analyses)]})
    else:
        rendered = render_traces(analyses, every=arguments.all, threads=[mine for _, mine in chosen])
        console.print_rendered(rendered)
