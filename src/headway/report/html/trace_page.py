"""The traces of a launch as a page: the terminal's tables, and every hold and wait for the timeline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.printable import printable
from headway.report.figures import Table
from headway.report.html import schema
from headway.report.html.columns import Cut, LaneKey, pack
from headway.report.trace.heading import command_line, gil_use, process_name, program_name, trace_lines
from headway.report.trace.summary import worst_first
from headway.report.trace.tables import (
    blame_table,
    convoy_table,
    held_table,
    locks_table,
    long_holds_table,
    threads_table,
    waited_table,
)
from headway.traces.analysis import Analysis
from headway.traces.analysis.contention import CONTENDED
from headway.traces.analysis.cores import without_cores
from headway.traces.analysis.intervals import Intervals, Recorded, recorded
from headway.traces.analysis.turns import times_away
from headway.traces.analysis.words import duration, file_line, number, place, share
from headway.traces.export.parks import parks
from headway.traces.model import Frame, Trace

__all__ = ["Launches", "trace_page", "views_of"]

Launches = Sequence[tuple[str, Sequence[tuple[Trace, Analysis]]]]
"""By label, the traces of a launch's processes with their analyses."""

_HOLD_MARKS = 10
_CONVOY_MARKS = 5
_LOCK_MARKS = 3
"""The marks of each line at which threads are blocked on a lock of the program, and the most such lines."""
_LOCKS = -1
"""The index that stands for a GIL where threads wait for locks."""


def trace_page(launches: Launches, version: str) -> tuple[schema.TracePage, dict[str, bytes]]:
    """Return launches as a page's data, and its blocks by name.

    Args:
        launches: The launches; the label of a single one is "".
        version: Headway's version.
    """
    views, blocks = views_of(launches)
    title = " beside ".join(dict.fromkeys(_title([analysis for _, analysis in traces]) for _, traces in launches))
    return schema.TracePage("trace", title, version, views), blocks


def views_of(launches: Launches) -> tuple[tuple[schema.TraceView, ...], dict[str, bytes]]:
    """Return launches as views, and their blocks by name."""
    views: list[schema.TraceView] = []
    blocks: dict[str, bytes] = {}
    for label, traces in launches:
        of = {id(analysis): trace for trace, analysis in traces}
        analyses = [analysis for _, analysis in traces]
        launch = without_cores(analyses)
        for analysis in worst_first(analyses):
            view, block = _view(of[id(analysis)], analysis, (label, launch), f"view-{len(views)}")
            views.append(view)
            blocks[view.block] = block
    return tuple(views), blocks


def _title(analyses: Sequence[Analysis]) -> str:
    """Return the name of a launch: its program, and its process or the number of processes."""
    first = min((one.process for one in analyses), key=lambda one: (one.start_realtime_ns, one.pid))
    if len(analyses) == 1:
        return process_name(first)
    return f"{program_name(first)} ({number(len(analyses), 'process', 'processes')})"


def _view(trace: Trace, analysis: Analysis, launch: tuple[str, str], block: str) -> tuple[schema.TraceView, bytes]:
    label, about_launch = launch
    window = analysis.start_ns, analysis.end_ns
    found = recorded(trace)
    holds = Cut.to(window, found.holds)
    waits = _joined(Cut.to(window, found.waits), Cut.to(window, _parks(trace)))
    held, waited = dict(_by_lane(holds)), dict(_by_lane(waits))
    lanes = _lanes(analysis, held, waited)
    packed = pack(lanes, holds, waits, window, (trace.stack_parent, trace.stack_frame))
    view = schema.TraceView(
        title=process_name(analysis.process),
        label=label,
        launch=about_launch,
        lines=tuple(filter(None, (command_line(analysis.process), *trace_lines(analysis)))),
        begin_ns=analysis.start_ns - analysis.origin_ns,
        span_ns=analysis.wall_ns,
        bins=packed.bins,
        block=block,
        columns=packed.columns,
        gils=tuple(schema.Gil(one.name, gil_use(analysis, one)) for one in analysis.gils),
        lanes=tuple(_shown(analysis, trace, dict(zip(lanes, packed.rows, strict=True)), held, waited)),
        marks=(*_marks(analysis, lanes, waits), *([] if packed.bins else _lock_marks(trace, found, analysis, lanes))),
        findings=tuple(
            schema.TraceFinding(one.weight, one.fact, one.cause, one.advice, one.predicted) for one in analysis.findings
        ),
        sections=tuple(_sections(analysis)),
        frames=tuple(_frame(one) for one in trace.frames),
        what_if=analysis.what_if.line if analysis.what_if is not None else "",
    )
    return view, packed.block


def _parks(trace: Trace) -> Intervals:
    """Return waits for locks as waits for a GIL of their own."""
    found = parks(trace)
    none = np.zeros(len(found), dtype=np.bool_)
    gil: NDArray[Any] = np.full(len(found), _LOCKS, dtype=np.int16)  # joined with bytes it makes columns of int16
    return Intervals(found.start_ns, found.end_ns, found.thread, gil, found.stack, none, found.open)


def _joined(waits: Cut, others: Cut) -> Cut:
    columns = [(getattr(waits, one.name), getattr(others, one.name)) for one in fields(Cut)]
    return Cut(*(np.concatenate(both) for both in columns))


def _lanes(analysis: Analysis, held: Mapping[LaneKey, int], waited: Mapping[LaneKey, int]) -> list[LaneKey]:
    """Return GIL and thread of each lane: GILs in the report's order, and in each the busiest threads first."""
    order = {one.index: position for position, one in enumerate(analysis.gils)} | {_LOCKS: len(analysis.gils)}
    busy = {pair: held.get(pair, 0) + waited.get(pair, 0) for pair in held.keys() | waited.keys()}
    return sorted(busy, key=lambda pair: (order.get(pair[0], 0), -busy[pair], pair[1]))


def _by_lane(intervals: Intervals) -> Iterator[tuple[LaneKey, int]]:
    """Yield each lane that has intervals, with their total time."""
    if len(intervals):
        key = (intervals.gil.astype(np.int64) << 32) | intervals.thread
        known, which = np.unique(key, return_inverse=True)
        total = np.zeros(len(known), dtype=np.int64)
        np.add.at(total, which, intervals.length_ns)
        for one, time_ns in zip(known.tolist(), total.tolist(), strict=True):
            yield (one >> 32, one & 0xFFFFFFFF), time_ns


def _shown(
    analysis: Analysis,
    trace: Trace,
    rows: Mapping[LaneKey, tuple[int, int, int, int]],
    held: Mapping[LaneKey, int],
    waited: Mapping[LaneKey, int],
) -> Iterator[schema.Lane]:
    gils = {one.index: position for position, one in enumerate(analysis.gils)}
    for (gil, thread), (first_hold, count, first_wait, wait_count) in rows.items():
        one = trace.threads[thread]
        verb = "waited for locks" if gil == _LOCKS else "waited"
        words = [f"{verb} {duration(waited.get((gil, thread), 0))}"]
        if (gil, thread) in held:
            words.insert(0, f"held {share(held[gil, thread], analysis.wall_ns)}")
        end_ns = analysis.end_ns if one.end_ns is None else min(one.end_ns, analysis.end_ns)
        yield schema.Lane(
            label=analysis.labels[thread],
            thread=thread,
            gil=-1 if gil == _LOCKS else gils[gil],
            start_ns=max(one.start_ns - analysis.start_ns, 0),
            end_ns=max(end_ns - analysis.start_ns, 0),
            first_hold=first_hold,
            holds=count,
            first_wait=first_wait,
            waits=wait_count,
            held_ns=held.get((gil, thread), 0),
            waited_ns=waited.get((gil, thread), 0),
            summary=", ".join(words),
        )


def _marks(analysis: Analysis, lanes: list[LaneKey], waits: Intervals) -> Iterator[schema.Mark]:
    """Yield the longest holds, and the longest waits at each GIL of each thread or pool that waits in convoys there."""
    of = {key: position for position, key in enumerate(lanes)}
    threads = {label: index for index, label in enumerate(analysis.labels)}
    several = {one.index: one.name for one in analysis.gils} if len(analysis.gils) > 1 else {}
    for hold in analysis.longest[:_HOLD_MARKS]:
        lane = of.get((hold.gil, threads.get(hold.thread, -1)))
        if lane is not None:
            where = f" at {place(hold.stack[0])}" if hold.stack else ""
            which = f"{several[hold.gil]} for " if several else ""
            text = f"{hold.thread} held {which}{duration(hold.length_ns)}{where}"
            at_ns = hold.start_ns - analysis.start_ns
            yield schema.Mark("hold", text, lane, at_ns, at_ns + hold.length_ns)
    for gil in analysis.gils:
        for waiter in dict.fromkeys(convoy.waiter for convoy in gil.convoys):
            mine = [index for convoy in gil.convoys if convoy.waiter == waiter for index in convoy.waiter_ids]
            chosen = np.flatnonzero((waits.gil == gil.index) & np.isin(waits.thread, mine))
            longest: NDArray = chosen[np.argsort(-waits.length_ns[chosen], kind="stable")[:_CONVOY_MARKS]]
            for wait in longest.tolist():
                length_ns, thread = int(waits.length_ns[wait]), int(waits.thread[wait])
                text = f"{analysis.labels[thread]}, which waits in convoys, waited {duration(length_ns)}"
                text += f" for {gil.name}" if several else ""
                at_ns = int(waits.start_ns[wait]) - analysis.start_ns
                yield schema.Mark("convoy", text, of[gil.index, thread], at_ns, at_ns + length_ns)


def _lock_marks(trace: Trace, found: Recorded, analysis: Analysis, lanes: list[LaneKey]) -> Iterator[schema.Mark]:
    """Yield, with a GIL, the longest times for which threads were blocked on a lock of the program."""
    contended = [one for one in analysis.lock_waits if one.times.total_ns >= CONTENDED * one.lived_ns > 0]
    if not contended:
        return
    of = {thread: position for position, (_, thread) in reversed(list(enumerate(lanes)))}
    away = times_away(trace, found).clipped(analysis.start_ns, analysis.end_ns)
    length_ns = away.end_ns - away.start_ns
    for one in contended[:_LOCK_MARKS]:
        at = [frame == one.frame for frame in trace.frames]
        here = np.flatnonzero(np.array(at)[trace.stack_frame[away.stack]] & np.isin(away.thread, list(of)))
        for time in here[np.argsort(-length_ns[here], kind="stable")[:_LOCK_MARKS]].tolist():
            label, at_ns = analysis.labels[away.thread[time]], int(away.start_ns[time]) - analysis.start_ns
            text = f"{label} was blocked on a lock of the program for {duration(length_ns[time])} at {place(one.frame)}"
            yield schema.Mark("lock", text, of[int(away.thread[time])], at_ns, at_ns + int(length_ns[time]))


def _sections(analysis: Analysis) -> Iterator[schema.Section]:
    # Pools first; the table of each thread, which may have thousands of rows, is only made when a reader asks for it.
    each = threads_table(analysis, every=True, pools=False)
    yield from _section(
        "Threads", threads_table(analysis, every=True, pools=True), each=each if analysis.roles else None
    )
    for gil in analysis.gils:
        tables = blame_table(analysis, gil, every=True, pools=True), convoy_table(analysis, gil, every=True)
        each = None if gil.blame_by_role is None else blame_table(analysis, gil, every=True, pools=False)
        yield from _section(f"Waiters and holders: {gil.name}", *tables, each=each)
    yield from _section("Where the GIL was held", held_table(analysis, every=True))
    yield from _section("Longest holds", long_holds_table(analysis, every=True))
    yield from _section("Where threads waited", waited_table(analysis, every=True))
    yield from _section("Locks", locks_table(analysis, every=True))


def _section(title: str, *tables: Table | None, each: Table | None = None) -> Iterator[schema.Section]:
    there = tuple(table for table in tables if table is not None)
    if there:
        yield schema.Section(title, there, each)


def _frame(frame: Frame) -> schema.FlameFrame:
    return schema.FlameFrame(printable(frame.function), file_line(frame), printable(frame.filename))
