"""The tables of a trace as plain data: threads, blame, convoys, lines of code, locks."""

from collections.abc import Collection, Sequence

import numpy as np

from headway.printable import printable
from headway.report.figures import EMPTY, Table, amount
from headway.traces.analysis import Analysis, GilSummary
from headway.traces.analysis.contention import ParkPlace
from headway.traces.analysis.hotspots import Place, caller
from headway.traces.analysis.threads import Distribution, ThreadSummary
from headway.traces.analysis.words import duration, place, share
from headway.traces.model import Park

__all__ = [
    "FEW",
    "blame_table",
    "convoy_table",
    "held_table",
    "locks_table",
    "long_holds_table",
    "threads_table",
    "waited_table",
]

FEW = 10
"""The number of rows of a table, unless all are asked for."""
_HOLDERS = 5
"""The number of columns of the blame matrix; `--json` has all. As many columns as rows would be a page of hyphens."""
_LONGEST = 5
_LOCKS = {Park.MUTEX: "internal", Park.WORLD: "stop the world", Park.LOCK: "own lock"}

_Row = tuple[str, ...]


def _time(time_ns: float) -> str:
    return duration(time_ns) if time_ns else EMPTY


def _count(count: int) -> str:
    return f"{count:,}" if count else EMPTY


def _kept(rows: int, *, every: bool, few: int = FEW) -> int:
    """Return the number of rows to show."""
    return rows if every or rows <= few + 1 else few


def _cut(rows: Sequence[_Row], caption: str, *, every: bool, few: int) -> tuple[tuple[_Row, ...], str]:
    """Return the rows to show, and the caption with the number of rows that are left out."""
    kept = _kept(len(rows), every=every, few=few)
    more = f"\n... and {len(rows) - kept:,} more: `--all` shows them" if kept < len(rows) else ""
    return tuple(rows[:kept]), caption + more


def _table(columns: Sequence[str], rows: Sequence[_Row], caption: str, *, every: bool, few: int = FEW) -> Table | None:
    if not rows:
        return None
    shown, caption = _cut(rows, caption, every=every, few=few)
    return Table(caption, tuple(columns), shown, 1)


def _spread(times: Distribution) -> _Row:
    return tuple(map(_time, (times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns)))


def _thread_name(one: ThreadSummary) -> str:
    if one.threads > 1:
        return _pool_name(one)
    return one.label if str(one.tid) in one.label else f"{one.label} [{one.tid}]"


def _pool_name(one: ThreadSummary) -> str:
    return f"{one.label} x {one.threads:,}" if one.threads > 1 else one.label


def _longest_waiter(one: ThreadSummary, analysis: Analysis) -> str:
    """Return the thread of a pool that had its longest wait."""
    return analysis.labels[one.longest_waiter] if one.threads > 1 and one.waits.max_ns else EMPTY


def _grouped(
    pools: Sequence[ThreadSummary], *, every: bool, wanted: bool | None, threads: Collection[int] | None
) -> bool:
    """Tell whether a table has a row for a pool, and not one for each of its threads."""
    return bool(pools) and (not every and threads is None if wanted is None else wanted)


def _each(*, every: bool) -> str:
    """Return the words on how to see each thread, for a table that leaves out rows."""
    return "" if every else "; `--all` shows each thread"


def _time_ns(one: ThreadSummary, analysis: Analysis) -> int:
    """Return the whole of a row's shares: the time for a thread, and the sum of the lives for a pool."""
    return one.lived_ns if one.threads > 1 else analysis.wall_ns


def threads_table(
    analysis: Analysis, *, every: bool = False, pools: bool | None = None, threads: Collection[int] | None = None
) -> Table | None:
    """Return the times that each thread held and waited, or None if none did.

    Args:
        analysis: The analysis of the trace.
        every: Leave out no row.
        pools: The threads of a pool are one row. None: unless the user asks for all rows, or names threads.
        threads: Indices of the threads that the table is about; None means all.
    """
    grouped = _grouped(analysis.roles, every=every, wanted=pools, threads=threads)
    columns = ["", "held", "of the time", "waited", "of the time", "holds", "forced", "waits"]
    columns += [f"wait {name}" for name in ("p50", "p90", "p99", "max")] + ["in thread"] * grouped
    columns += [f"hold {name}" for name in ("p50", "p90", "p99", "max")]
    rows = [
        (
            _thread_name(one),
            _time(one.holds.total_ns),
            share(one.holds.total_ns, _time_ns(one, analysis)),
            _time(one.waits.total_ns),
            share(one.waits.total_ns, _time_ns(one, analysis)),
            _count(one.holds.count),
            _count(one.forced),
            _count(one.waits.count),
            *_spread(one.waits),
            *[_longest_waiter(one, analysis)] * grouped,
            *_spread(one.holds),
        )
        for one in (analysis.roles if grouped else analysis.threads)
        if threads is None or one.index in threads
    ]
    caption = "by time held and waited; [native id]; forced: holds that ended on request; percentiles are nearest-rank"
    if grouped:
        caption += (
            f"\nthe threads of a pool are one row with shares of the time for which they lived{_each(every=every)}"
        )
    return _table(columns, rows, caption, every=every)


def blame_table(
    analysis: Analysis,
    gil: GilSummary,
    *,
    every: bool = False,
    pools: bool | None = None,
    threads: Collection[int] | None = None,
) -> Table | None:
    """Return how long each thread waited while which thread held the GIL, or None if no thread waited.

    The arguments are those of `threads_table`. A table of pools also has the longest single wait of each.
    """
    blame, of, names = gil.blame, {}, dict(enumerate(analysis.labels))
    if gil.blame_by_role is not None and _grouped(gil.by_role, every=every, wanted=pools, threads=threads):
        blame, of = gil.blame_by_role, {one.index: one for one in gil.by_role}
        names = {one.index: _pool_name(one) for one in gil.by_role}
    chosen = [row for row, waiter in enumerate(blame.waiters) if threads is None or waiter in threads]
    chosen = [row for row in chosen if blame.wait_ns[row]]
    if not chosen:
        return None
    # The columns with the most time in the rows that are shown.
    matter = np.argsort(-blame.held_ns[chosen].sum(axis=0), kind="stable")
    matter = matter[blame.held_ns[chosen].sum(axis=0)[matter] > 0]
    kept = matter if len(matter) <= _HOLDERS + 1 else matter[:_HOLDERS]
    others_ns = blame.others_ns + blame.held_ns.sum(axis=1) - blame.held_ns[:, kept].sum(axis=1)
    # On a narrow terminal the table may be turned: its captions and headings hold for both.
    columns = ["", *(f"behind {names[int(blame.holders[column])]}" for column in kept)]
    columns += ["behind others"] * bool(others_ns[chosen].any()) + ["no holder", "total"]
    columns += ["longest", "in thread"] * bool(of)
    rows = []
    for row in chosen:
        cells = [_time(int(blame.held_ns[row, column])) for column in kept]
        cells += [_time(int(others_ns[row]))] * bool(others_ns[chosen].any())
        cells += [_time(int(blame.nobody_ns[row])), _time(int(blame.wait_ns[row]))]
        waiter = int(blame.waiters[row])
        cells += [_time(of[waiter].waits.max_ns), _longest_waiter(of[waiter], analysis)] if of else []
        rows.append((names[waiter], *cells))
    caption = (
        "time that a thread waited behind the one that held the GIL meanwhile; no holder: from a release to the wake-up"
    )
    if of:
        caption += f"\nthe threads of a pool are summed up, with their longest single wait and the thread that had it{_each(every=every)}"
    return _table(columns, rows, caption, every=every)


def convoy_table(
    analysis: Analysis, gil: GilSummary, *, every: bool = False, threads: Collection[int] | None = None
) -> Table | None:
    """Return the convoys at a GIL, or None if there are none."""
    rows = [
        (
            f"{_several(one.waiter, one.waiters)} behind {_several(one.holder, one.holders)}",
            _time(one.cost_ns),
            _count(one.waits.count),
            _count(len(one.behind)),
            amount(len(one.behind) * 1e9 / max(analysis.wall_ns, 1), "per_s"),
            _time(one.waits.p50_ns),
            _time(one.waits.p99_ns),
            share(one.cost_ns, one.all_waits_ns),
        )
        for one in gil.convoys
        if threads is None or not {*one.waiter_ids, *one.holder_ids}.isdisjoint(threads)
    ]
    columns = ("convoy", "cost", "waits", "holds", "rate", "p50", "p99", "of its waiting")
    return _table(
        columns,
        rows,
        "waits of about a switch interval behind CPU-bound threads; cost: their time, less that in which the holder had no core;"
        " holds: those that ended the waits, and their rate",
        every=every,
    )


def _several(name: str, threads: int) -> str:
    return f"{name} ({threads} threads)" if threads > 1 else name


def _place_name(one: Place | ParkPlace) -> str:
    """Return the line, and the program's own line that led to it for most of the time."""
    own = caller(one.stack)
    others = f", {one.callers - 1} more" if isinstance(one, ParkPlace) and one.callers > 1 else ""
    further = f" (from {place(own)}{others})" if own is not None else ""
    return place(one.frame) + further


def held_table(analysis: Analysis, *, every: bool = False) -> Table | None:
    """Return the lines that held the GIL, or None if no line is known."""
    known = [one for one in analysis.held if one.frame is not None]
    rows = [
        (
            _place_name(one),
            _time(one.times.total_ns),
            _count(one.times.count),
            _count(one.forced),
            _time(one.times.p50_ns),
            _time(one.times.p99_ns),
            _time(one.times.max_ns),
            _time(one.overrun_max_ns),
            _time(one.blocked_ns),
        )
        for one in analysis.held
        if known
    ]
    columns = ("line at the release", "held", "holds", "forced", "p50", "p99", "max", "overrun", "others waited")
    caption = (
        "overrun: longest time from a request to the release, less the time in which the thread did not run meanwhile; "
        "others waited: total wait of other threads meanwhile"
    )
    if any(one.frame is None for one in analysis.held[: _kept(len(rows), every=every)]):
        caption += "\n?: no line, as at the end of a thread, and at the end of a callback that C code makes from its own thread"
    return _table(columns, rows, caption, every=every)


def waited_table(analysis: Analysis, *, every: bool = False) -> Table | None:
    """Return the lines that waited for a GIL, or None if no line is known."""
    known = [one for one in analysis.waited if one.frame is not None]
    rows = [
        (
            _place_name(one),
            _time(one.times.total_ns),
            _count(one.times.count),
            _count(one.forced),
            *_spread(one.times),
        )
        for one in analysis.waited
        if known
    ]
    columns = ("line", "waited", "waits", "preempted", "p50", "p90", "p99", "max")
    caption = "preempted: waits after a forced release; the other waits follow a blocking call"
    return _table(columns, rows, caption, every=every)


def long_holds_table(analysis: Analysis, *, every: bool = False) -> Table | None:
    """Return the longest single holds, or None if there are none."""
    gils = {gil.index: gil.name for gil in analysis.gils} if len(analysis.gils) > 1 else {}
    goes_on = " (still held)" if analysis.end_ns == analysis.trace_end_ns else " (goes on after the window)"
    rows = [
        (
            (place(one.stack[0]) if one.stack else "?") + goes_on * one.open,
            f"{one.thread}, {gils[one.gil]}" if one.gil in gils else one.thread,
            _time(one.length_ns),
            _time(one.overrun_ns),
            duration(one.start_ns - analysis.origin_ns),
        )
        for one in analysis.longest
        if one.length_ns
    ]
    columns = ("line at the release", "thread", "held", "overrun", "began at")
    caption = (
        "overrun: time from the request of another thread to the release, less the time in which the thread did not run "
        "meanwhile"
    )
    return _table(columns, rows, caption, every=every, few=_LONGEST)


def locks_table(analysis: Analysis, *, every: bool = False) -> Table | None:
    """Return the lines at which threads were blocked on locks, or None if there are none."""
    rows = [
        (
            f"{_LOCKS.get(one.kind, one.kind.name.lower())}{f' ({printable(one.type_name)})' if one.type_name else ''}, {_place_name(one)}",
            _time(one.times.total_ns),
            _count(one.times.count),
            _count(one.threads),
            *_spread(one.times),
        )
        for one in analysis.contention.places
    ]
    columns = ("lock and line", "blocked", "times", "threads", "p50", "p90", "p99", "max")
    caption = "own lock: `threading.Lock` and similar, where idle threads wait for work, too; object: the lock that each object has"
    return _table(columns, rows, caption, every=every)
