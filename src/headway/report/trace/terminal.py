"""Traces for the terminal, through rich: readable at 80 columns and without colour.

Processes come in order of the time that they lost, the largest first; of many, some have no more than a line. Each other
one has its findings and its threads. For each GIL follow its use over time, which thread waited for which, and the
convoys. The lines of code that held a GIL and that waited come next, then waits for locks.
"""

from collections.abc import Collection, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from headway.report.layout import bold, indented
from headway.report.trace.bars import bars
from headway.report.trace.heading import command_line, gil_use, process_name, trace_lines
from headway.report.trace.long import shown
from headway.report.trace.summary import few_of, rest_lines, short_summary, worst_first
from headway.report.trace.tables import (
    FEW,
    blame_table,
    convoy_table,
    held_table,
    locks_table,
    long_holds_table,
    threads_table,
    waited_table,
)
from headway.traces.analysis import Analysis, Finding, GilSummary
from headway.traces.analysis.cores import without_cores
from headway.traces.analysis.words import place
from headway.traces.frames import CUT
from headway.traces.model import Frame

__all__ = ["render_trace", "render_traces", "short_summary", "worst_first"]

_STYLES = {"problem": "yellow", "fine": "green", "note": "dim"}
_MARKS = {"problem": "!", "fine": "ok", "note": "note"}
_PROCESSES = 5
"""The processes with a report in full, unless all are asked for, besides the parent."""
_GILS = 4
_STACKS = 3
_FRAMES = 12


def render_traces(
    analyses: Sequence[Analysis], *, every: bool = False, threads: Sequence[Collection[int] | None] | None = None
) -> RenderableType:
    """Return the traces of one launch for the terminal.

    Args:
        analyses: One per process.
        every: Leave out no process and no row.
        threads: Per process, the indices of the threads that the report is about; None means all.
    """
    chosen = dict(zip(map(id, analyses), threads or [None] * len(analyses), strict=True))
    parts: list[RenderableType] = []
    if told := without_cores(analyses):
        parts += [Text(told), Text("")]
    shown, rest = (worst_first(analyses), []) if every else few_of(analyses, _PROCESSES)
    for position, one in enumerate(shown):
        if len(analyses) > 1:
            parts += [Text("")] * (position > 0)
            parts.append(Rule(f"process {position + 1} of {len(analyses)}", style="dim", align="left"))
        parts.append(render_trace(one, every=every, threads=chosen[id(one)]))
    if rest:
        parts += [Text(""), Rule(f"{len(rest):,} more: `--all` shows them in full", style="dim", align="left")]
        parts += map(Text, rest_lines(rest))
    for one in analyses:
        if one.what_if is not None:
            of = f"{process_name(one.process)}: " if len(analyses) > 1 else ""
            parts += [Text(""), Text(f"{of}{one.what_if.line}")]
    return Group(*parts)


def render_trace(analysis: Analysis, *, every: bool = False, threads: Collection[int] | None = None) -> RenderableType:
    """Return one process's trace for the terminal.

    Args:
        analysis: The analysis of the trace.
        every: Leave out no row.
        threads: Indices of the threads that the report is about; None means all.
    """
    parts: list[RenderableType] = [*_header(analysis), *_findings(analysis.findings)]
    table = threads_table(analysis, every=every, threads=threads)
    if table is not None:
        parts += [bold("Threads"), shown(table)]
    gils = analysis.gils if every or len(analysis.gils) <= _GILS + 1 else analysis.gils[:_GILS]
    for gil in gils:
        parts += _gil(analysis, gil, every=every, threads=threads)
    if len(gils) < len(analysis.gils):
        parts += [
            Text(""),
            Text(f"... and {len(analysis.gils) - len(gils):,} more GILs: `--all` shows them", style="dim"),
        ]
    parts += _places(analysis, every=every)
    locks = locks_table(analysis, every=every)
    if locks is not None:
        parts += [bold("Locks"), shown(locks)]
    return Group(*parts)


def _header(analysis: Analysis) -> Iterator[RenderableType]:
    yield Text(f"Trace of {process_name(analysis.process)}", style="bold")
    if analysis.process.command:
        yield Text(command_line(analysis.process), style="dim")
    yield from map(Text, trace_lines(analysis))


def _findings(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    if not findings:
        return
    yield bold("Findings")
    for one in findings:
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=4)
        grid.add_column(overflow="fold")
        grid.add_row(Text(_MARKS[one.weight], style=_STYLES[one.weight]), Text(one.fact))
        for word, text in (("why", one.cause), ("try", one.advice), *(("predicted", text) for text in one.predicted)):
            if text:
                grid.add_row("", Text(f"{word}: {text}", style="dim" if word == "why" else ""))
        yield indented(grid)


def _gil(
    analysis: Analysis, gil: GilSummary, *, every: bool, threads: Collection[int] | None
) -> Iterator[RenderableType]:
    name = gil.name.removeprefix("the ")
    name = name[0].upper() + name[1:]
    yield bold(f"{name}: {gil_use(analysis, gil)}")
    if gil.timeline is not None:
        yield indented(bars(analysis, gil, gil.timeline, every=every, threads=threads))
    table = blame_table(analysis, gil, every=every, threads=threads)
    if table is not None:
        yield Text("")
        yield shown(table)
    table = convoy_table(analysis, gil, every=every, threads=threads)
    if table is not None:
        yield Text("")
        yield shown(table)


def _places(analysis: Analysis, *, every: bool) -> Iterator[RenderableType]:
    held = held_table(analysis, every=every)
    if held is not None:
        yield bold("Where the GIL was held")
        yield shown(held)
        for one in analysis.held[: FEW if every else _STACKS]:
            if len(one.stack) > 1:
                yield Text("")
                yield from _stack(f"{place(one.frame)}, by {', '.join(one.threads)}", one.stack)
    longest = long_holds_table(analysis, every=every)
    if longest is not None:
        yield bold("Longest holds")
        yield shown(longest)
    waited = waited_table(analysis, every=every)
    if waited is not None:
        yield bold("Where threads waited")
        yield shown(waited)


def _stack(title: str, stack: Sequence[Frame]) -> Iterator[RenderableType]:
    yield indented(Text(title, overflow="fold"))
    for frame in stack[1:_FRAMES]:
        yield indented(Text(f"called from {place(frame)}", style="dim", overflow="fold"), 4)
    if len(stack) > _FRAMES and stack[-1] == CUT:
        count = len(stack) - 1 - _FRAMES
        yield indented(Text(f"... and at least {count} frames further out; the rest is not recorded", style="dim"), 4)
    elif len(stack) > _FRAMES:
        yield indented(Text(f"... and {len(stack) - _FRAMES} frames further out", style="dim"), 4)
