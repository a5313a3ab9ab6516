"""Report a recorded trace, for `headway report FILE.hwt`: on the terminal, as JSON, or exported for other programs."""

import argparse
import math
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console, options
from headway.cli.html_output import write_trace_page
from headway.cli.report_what_if import with_predictions
from headway.errors import UsageError
from headway.printable import printable

if TYPE_CHECKING:
    from headway.traces.analysis import Analysis
    from headway.traces.model import Trace

__all__ = ["add_trace_options", "is_trace", "report_trace", "trace_only"]

_SUFFIX = ".hwt"
_S_NS = 1_000_000_000
_NAMES_IN_HINT = 8
_EXPORTS = ("perfetto", "gecko", "collapsed", "parquet")


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that are only for traces."""
    group = parser.add_argument_group("for a trace (FILE.hwt)")
    group.add_argument(
        "--all",
        action="store_true",
        help="print the reports of all processes, all rows of each table, and each thread of a pool in a row",
    )
    group.add_argument(
        "--thread", metavar="NAME", help="show only this thread: a name, a native id, or a pattern such as `io-*`"
    )
    group.add_argument(
        "--since",
        type=options.seconds(below=math.inf),
        metavar="S",
        help="show only events later than S seconds after the first process began",
    )
    group.add_argument(
        "--until",
        type=options.seconds(below=math.inf),
        metavar="S",
        help="show only events before S seconds after the first process began",
    )
    group.add_argument(
        "--beside", type=Path, metavar="FILE", help="with --html: put another trace on the same page, below this one"
    )
    group.add_argument("--perfetto", type=Path, metavar="FILE", help="write the whole trace for ui.perfetto.dev")
    group.add_argument("--gecko", type=Path, metavar="FILE", help="write the trace for profiler.firefox.com")
    group.add_argument("--collapsed", type=Path, metavar="FILE", help="write collapsed stacks for flame graphs")
    group.add_argument(
        "--of",
        choices=("hold", "wait"),
        help="the time that collapsed stacks count: held (default) or waited, for the GIL or, without one, for locks",
    )
    group.add_argument("--parquet", type=Path, metavar="FILE", help="write a Parquet table of events, for data frames")


def is_trace(name: str) -> bool:
    """Return whether a report's argument names a trace: by its suffix, or by the first bytes of the file."""
    return name.endswith(_SUFFIX) or _begins_like_one(name)


def _begins_like_one(name: str | Path) -> bool:
    """Return whether a file begins with the magic number of a trace."""
    if not os.path.isfile(name):  # a FIFO without a writer would not even open
        return False
    try:
        with Path(name).open("rb") as file:
            first = file.read(8)
    except OSError:
        return False
    from headway.traces.format import MAGIC

    return first == MAGIC


def trace_only(arguments: argparse.Namespace) -> None:
    """Check that no argument for traces is given for a run.

    Raises:
        UsageError: Such an argument is given.
    """
    for name in ("all", "thread", "since", "until", "beside", *_EXPORTS, "of"):
        if getattr(arguments, name) not in (None, False):
            raise UsageError(
                f"`--{name}` is for traces, and `{arguments.run}` is not a trace file",
                hint="name a file that `headway trace` recorded, FILE.hwt",
            )


def report_trace(arguments: argparse.Namespace) -> int:
    """Show or export the trace that `arguments.run` names, with the traces of its child processes."""
    outputs = _outputs(arguments)
    if arguments.since is not None and arguments.until is not None and arguments.since >= arguments.until:
        raise UsageError(
            f"the window from {arguments.since:g} s to {arguments.until:g} s is empty",
            hint="choose an `--until` after `--since`",
        )
    from headway.live.files import wait_until_finished
    from headway.traces.family import read_family

    for path in filter(None, (Path(arguments.run), arguments.beside)):
        wait_until_finished(path)
    traces = read_family(Path(arguments.run))
    beside = read_family(arguments.beside) if arguments.beside is not None else []
    for path, found in ((Path(arguments.run), traces), (arguments.beside, beside)):
        if found and not found[0].process.simulated:
            _tell_other_names(path)
    threads = _threads(traces, arguments.thread)
    page = outputs.pop("html", None)
    if outputs:
        _check_held(outputs, traces)
        from headway.traces.export import FORMATS

        for name, path in outputs.items():
            FORMATS[name](traces, path)
            console.say(f"wrote {path}")
    if page is not None:
        _write_page(arguments, traces, beside)
    if (outputs or page) and not arguments.json:
        return 0
    _show(arguments, traces, threads)
    return 0


def _tell_other_names(path: Path) -> None:
    """Name the traces of the launch that are left out, because this one or they were renamed or copied."""
    from headway.traces.analysis.words import listed, number
    from headway.traces.family import under_other_names

    others = under_other_names(path)
    if others:
        names = listed([printable(one.name) for one in others])
        stem = printable(path.name.removesuffix(_SUFFIX))
        console.say(
            f"note: {number(len(others), 'trace')} of the same launch in this folder {'are' if len(others) > 1 else 'is'} left out,"
            f" by {'their names' if len(others) > 1 else 'its name'}: {names}; a report has `{stem}.hwt` and `{stem}.*.hwt`"
        )


def _check_held(outputs: dict[str, Path], traces: "Sequence[Trace]") -> None:
    """Refuse a flame graph of the time held if there was no GIL to hold."""
    from headway.traces.analysis.intervals import recorded

    if "collapsed-hold" not in outputs or not all(one.process.free_threaded for one in traces):
        return
    if not any(len(recorded(one).holds) for one in traces):
        raise UsageError(
            "the program ran without a GIL, so no stack held it",
            hint="add `--of wait` for the stacks that waited for locks",
        )


def _write_page(arguments: argparse.Namespace, traces: "Sequence[Trace]", beside: "Sequence[Trace]") -> None:
    """Write the page of a trace, and of the trace of `--beside`."""
    from headway.traces.analysis import analyse

    launches: list[tuple[str, Sequence[tuple[Trace, Analysis]]]] = []
    for path, found in ((Path(arguments.run), traces), (arguments.beside, beside)):
        if found:
            origin_ns, since_ns, until_ns = _window(arguments, found)
            chosen = _in_window(found, origin_ns, since_ns, until_ns)
            analyses = [analyse(one, since_ns=since_ns, until_ns=until_ns, origin_ns=origin_ns) for one in chosen]
            if found is traces and since_ns is None and until_ns is None:
                analyses = with_predictions(chosen, analyses, path)
            launches.append((path.stem, list(zip(chosen, analyses, strict=True))))
    write_trace_page(launches, arguments.html, show=arguments.open)


def _outputs(arguments: argparse.Namespace) -> dict[str, Path]:
    """Return the files to write, by format, after checking all of them."""
    if arguments.of is not None and arguments.collapsed is None:
        raise UsageError(f"`--of {arguments.of}` says what collapsed stacks count", hint="add `--collapsed FILE`")
    for name in ("pyperf", "verdicts", "store"):
        if getattr(arguments, name):
            raise UsageError(f"`--{name}` is for runs of the lab, and {arguments.run} is a trace", hint="leave it out")
    if arguments.beside is not None and arguments.html is None:
        raise UsageError("`--beside` puts two traces on one page", hint="add `--html FILE`")
    if arguments.html is not None and arguments.thread is not None:
        raise UsageError(
            "`--html` always shows all threads", hint="leave out `--thread`; search for the thread by name on the page"
        )
    part = next((one for one in ("since", "until", "thread") if getattr(arguments, one) is not None), None)
    named = {f"--{name}": getattr(arguments, name) for name in ("html", *_EXPORTS)}
    console.check_outputs(named, force=arguments.force, inputs={"the trace": arguments.run})
    outputs: dict[str, Path] = {}
    for name in ("html", *_EXPORTS):
        path = getattr(arguments, name)
        if path is None:
            continue
        if part is not None and name in _EXPORTS:
            raise UsageError(f"`--{name}` always writes the whole trace", hint=f"leave out `--{part}`")
        if _begins_like_one(path):
            # No trace is ever overwritten by an export: neither that of a child, nor that of `--beside`, nor another.
            raise UsageError(f"{path} is a trace", hint="use another name")
        outputs[f"collapsed-{arguments.of or 'hold'}" if name == "collapsed" else name] = path
    return outputs


def _threads(traces: "Sequence[Trace]", name: str | None) -> list[set[int] | None]:
    """Return for each trace the threads that `--thread` names; None: all threads."""
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
        names = sorted({printable(thread.name) for trace in traces for thread in trace.threads})
        more = f" and {len(names) - _NAMES_IN_HINT} more" if len(names) > _NAMES_IN_HINT else ""
        raise UsageError(
            f"no thread is called `{name}`", hint=f"the threads are {', '.join(names[:_NAMES_IN_HINT]) or 'none'}{more}"
        )
    return found


def _window(arguments: argparse.Namespace, traces: "Sequence[Trace]") -> tuple[int, int | None, int | None]:
    """Return the start of a launch, and the window of `--since` and `--until`, in the traces' times; None: no limit."""
    begin_ns = min(trace.origin_ns for trace in traces)
    since_ns, until_ns = (
        None if seconds is None else begin_ns + round(seconds * _S_NS) for seconds in (arguments.since, arguments.until)
    )
    return begin_ns, since_ns, until_ns


def _in_window(traces: "Sequence[Trace]", origin_ns: int, since_ns: int | None, until_ns: int | None) -> "list[Trace]":
    """Return the traces that overlap a window; times are told from the origin.

    Raises:
        UsageError: No trace does.
    """
    chosen = [
        trace
        for trace in traces
        if (since_ns is None or since_ns <= trace.end_ns) and (until_ns is None or until_ns >= trace.start_ns)
    ]
    if not chosen:
        first_s = (min(trace.start_ns for trace in traces) - origin_ns) / _S_NS
        last_s = (max(trace.end_ns for trace in traces) - origin_ns) / _S_NS
        raise UsageError(
            "nothing was recorded in this window", hint=f"the recording lasts from {first_s:.3g} s to {last_s:.3g} s"
        )
    return chosen


def _show(arguments: argparse.Namespace, traces: "Sequence[Trace]", threads: Sequence[set[int] | None]) -> None:
    from headway.traces.analysis import analyse, as_json

    origin_ns, since_ns, until_ns = _window(arguments, traces)
    of = dict(zip(map(id, traces), threads, strict=True))
    # Processes without a thread that `--thread` names are left out, and so are processes outside the window.
    wanted = [trace for trace in traces if of[id(trace)] is None or of[id(trace)]]
    chosen = [(trace, of[id(trace)]) for trace in _in_window(wanted, origin_ns, since_ns, until_ns)]
    analyses = [
        analyse(trace, since_ns=since_ns, until_ns=until_ns, threads=mine, origin_ns=origin_ns)
        for trace, mine in chosen
    ]
    if arguments.thread is None and since_ns is None and until_ns is None:
        # There are no predictions for a part of a trace, because a change affects the whole program.
        analyses = with_predictions([trace for trace, _ in chosen], analyses, Path(arguments.run))
    from headway.report.trace.terminal import render_traces, worst_first

    if arguments.json:
        shown = dict(zip(map(id, analyses), (mine for _, mine in chosen), strict=True))
        console.print_json({"processes": [as_json(one, shown[id(one)]) for one in worst_first(analyses)]})
    else:
        rendered = render_traces(analyses, every=arguments.all, threads=[mine for _, mine in chosen])
        console.print_rendered(rendered)
