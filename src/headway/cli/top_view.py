"""Render the output of `headway top`: for each process some lines and one row per thread, or JSON."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.printable import printable

if TYPE_CHECKING:
    from headway.live.counters import Rates, ThreadRates
    from headway.live.watch import Sample

__all__ = ["COLUMNS", "Row", "block", "fitted", "head", "rows", "to_json"]

COLUMNS = ("thread", "state", "hold %", "wait %", "waits/s", "p50 wait", "p99 wait", "worst", "forced/s")
"""The columns of the table. Those from `p50 wait` to `worst` are of the window, the others of the last interval."""

_WIDTHS = (28, 16, 7, 7, 9, 9, 9, 9, 9)
_NARROW = (14, 7, 6, 6, 7, 8, 8, 7, 8)
"""The widths for 80 columns; a state is then shown without its time."""

_LISTED = 4
"""The ids of threads that a line names."""

_NO_GIL = "no GIL; waits are for locks of objects and the interpreter and for ends of threads, not for `threading.Lock`"


@dataclass(frozen=True)
class Row:
    """One row: a thread, or all threads that ended, with the text and the sort key of each column."""

    key: str
    cells: tuple[str, ...]
    order: tuple[float | str, ...]


def _duration(time_ns: float | None) -> str:
    from headway.traces.analysis.words import duration

    return "-" if time_ns is None else duration(time_ns)


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 9.95 or per_s == 0 else f"{per_s:.1f}"


def rows(samples: "Sequence[Sample]") -> list[Row]:
    """Return a row per thread, process by process; within a process, the thread that held and waited most is first."""
    found = []
    for sample in samples:
        over = {one.now.serial: one for one in sample.window.threads}
        found += [
            _row(sample.pid, one, over.get(one.now.serial, one), alone=len(samples) == 1, has_gil=sample.has_gil)
            for one in sample.interval.threads
        ]
        if sample.interval.ended.count:
            found.append(_ended_row(sample, alone=len(samples) == 1))
    return found


def _ended_row(sample: "Sample", *, alone: bool) -> Row:
    """Return the row of the threads that ended in the last interval; many may have lived for less than an interval.

    Their worst wait is that of the threads that ended in the window, as the columns are.
    """
    ended = sample.interval.ended
    threads = f"{ended.count} thread{'s' * (ended.count > 1)}"
    name = threads if alone else f"{sample.pid} {threads}"
    worst = sample.window.ended.worst_wait_ns or None
    figures = (f"{100 * ended.hold_share:.1f}", f"{100 * ended.wait_share:.1f}", _rate(ended.waits_per_s))
    if not ended.known:
        figures = ("-", "-", "-")
    forced = _rate(ended.forced_per_s) if ended.known and sample.has_gil else "-"
    figures = figures if sample.has_gil else ("-", *figures[1:])
    cells = (name, "ended", *figures, "-", "-", _duration(worst), forced)
    order = (name, "ended", ended.hold_share, ended.wait_share, ended.waits_per_s, 0.0, 0.0, float(worst or 0))
    return Row(f"{sample.pid}:ended", cells, (*order, ended.forced_per_s))


def _row(pid: int, one: "ThreadRates", over: "ThreadRates", *, alone: bool, has_gil: bool) -> Row:
    now = one.now
    name = printable(now.name if alone else f"{pid} {now.name}")
    worst = over.worst_wait_ns or None
    # Without a GIL the counters only tell which threads wait for locks: one that is "away" may compute or sleep.
    is_known = has_gil or now.state == "waiting"
    cells = (
        name,
        f"{now.state} {_duration(now.state_ns)}" if is_known else "-",
        f"{100 * one.hold_share:.1f}" if has_gil else "-",
        f"{100 * one.wait_share:.1f}",
        _rate(one.waits_per_s),
        _duration(over.wait_p50_ns),
        _duration(over.wait_p99_ns),
        _duration(worst),
        _rate(one.forced_per_s) if has_gil else "-",
    )
    order = (
        name,
        now.state,
        one.hold_share,
        one.wait_share,
        one.waits_per_s,
        over.wait_p50_ns or 0.0,
        over.wait_p99_ns or 0.0,
        float(worst or 0),
        one.forced_per_s,
    )
    return Row(f"{pid}:{now.serial}", cells, order)


def head(sample: "Sample") -> list[str]:
    """Return the lines above one process's table: the holders of its GILs, and the worst wait of the window."""
    who = f"{printable(sample.program)} (pid {sample.pid})"
    lines = [] if sample.has_gil else [_NO_GIL]
    for gil in sample.interval.gils:
        holder = "free" if gil.holder is None else f"{printable(gil.holder.name)} for {_duration(gil.holder.state_ns)}"
        name = "GIL" if len(sample.interval.gils) == 1 else f"GIL {gil.index}"
        lines.append(
            f"{name} {100 * gil.utilisation:.1f} % held, {_rate(gil.handovers_per_s)} hand-offs/s, now: {holder}"
        )
    worst = max(sample.window.threads, key=lambda one: one.worst_wait_ns, default=None)
    worst_ns = 0 if worst is None else worst.worst_wait_ns
    waited = "no waits"
    if worst_ns < sample.window.ended.worst_wait_ns:
        waited = f"worst wait {_duration(sample.window.ended.worst_wait_ns)}: a thread that ended"
    elif worst is not None and worst_ns:
        waited = f"worst wait {_duration(worst_ns)}: {printable(worst.now.name)}"
    lines.append(f"{waited} (in the last {sample.window.wall_ns / 1e9:.2g} s)")
    if sample.gil_came_on:
        lines.append("this free-threaded Python began without a GIL: an extension module switched the GIL on")
    if sample.unreleased:
        lines.append(_unreleased(sample.unreleased))
    # A thread that came and went between the two readings counts as both.
    both = max(0, sample.interval.ended.count - len(sample.interval.went))
    changes = [
        f"{count} thread{'s' * (count > 1)} {what}"
        for count, what in ((len(sample.interval.came) + both, "started"), (sample.interval.ended.count, "ended"))
        if count
    ]
    return [f"{who}: {lines[0]}", *(f"  {line}" for line in [*lines[1:], *([", ".join(changes)] if changes else [])])]


def _unreleased(tids: Sequence[int]) -> str:
    """Return that threads are not in the table: of what the threads of a sub-interpreter do, only acquires are seen."""
    threads = f"thread{'s' * (len(tids) > 1)} {', '.join(map(str, tids[:_LISTED]))}{', ...' * (len(tids) > _LISTED)}"
    has = "have" if len(tids) > 1 else "has"
    return f"not counted: {threads}, which {has} not released a sub-interpreter's own GIL since before the counting"


def fitted(cells: Sequence[str], columns: int | None = None) -> list[str]:
    """Return the cells of a row, or of `COLUMNS`, padded to the widths for a terminal of `columns` columns (None: any).

    Names that are too long are cut. On a narrow terminal, states lose their time. Figures are never cut.
    """
    widths = list(_WIDTHS)
    if columns is not None and columns < sum(_WIDTHS) + len(_WIDTHS):
        widths = list(_NARROW)
        widths[0] = max(_NARROW[0], columns - sum(_NARROW[1:]) - len(_NARROW))
        cells = [cells[0], cells[1].split(" ")[0], *cells[2:]]
    name = cells[0] if len(cells[0]) <= widths[0] else cells[0][: widths[0] - 3] + "..."
    figures = [f"{cell:>{width}}" for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return [f"{name:<{widths[0]}}", f"{cells[1]:<{widths[1]}}", *figures]


def block(samples: "Sequence[Sample]", columns: int | None = None) -> list[str]:
    """Return all lines for a terminal of `columns` columns: the lines of `head`, the columns' names, the rows."""
    lines = [f"{time.strftime('%H:%M:%S')}  {line}" if i == 0 else line for i, line in enumerate(_heads(samples))]
    return [*lines, *(" ".join(fitted(cells, columns)) for cells in (COLUMNS, *(row.cells for row in rows(samples))))]


def _heads(samples: "Sequence[Sample]") -> list[str]:
    return [line for sample in samples for line in head(sample)] or ["nothing is counted yet"]


def to_json(samples: "Sequence[Sample]") -> dict[str, Any]:
    """Return one interval as JSON: times in seconds, shares from 0 to 1.

    Fields:
        time: The seconds since 1970.
        processes: The processes.
    """
    return {"time": time.time(), "processes": [process_to_json(sample) for sample in samples]}


def process_to_json(sample: "Sample") -> dict[str, Any]:
    """Return the figures of a process.

    Fields:
        pid, program: The process.
        has_gil: Whether it has a GIL.
        gil_came_on: Whether an extension module has switched the GIL of a free-threaded build on.
        unreleased: The ids of threads that have held a sub-interpreter's own GIL since before the counting.
        interval_s: The length of this interval.
        window_s: The length of the window that percentiles are about.
        gils: For each GIL its `index`, `utilisation`, `handovers_per_s`, and the `holder` at the end; null: nobody.
        came, went: Names of threads that began or ended in the interval.
        ended: The sums of the threads that ended in it.
        threads: The threads.
    """
    interval: Rates = sample.interval
    over = {one.now.serial: one for one in sample.window.threads}
    return {
        "pid": sample.pid,
        "program": sample.program,
        "has_gil": sample.has_gil,
        "gil_came_on": sample.gil_came_on,
        "unreleased": list(sample.unreleased),
        "interval_s": interval.wall_ns / 1e9,
        "window_s": sample.window.wall_ns / 1e9,
        "gils": [
            {
                "index": gil.index,
                "utilisation": gil.utilisation,
                "handovers_per_s": gil.handovers_per_s,
                "holder": None
                if gil.holder is None
                else {
                    "serial": gil.holder.serial,
                    "tid": gil.holder.tid,
                    "name": gil.holder.name,
                    "for_s": gil.holder.state_ns / 1e9,
                },
            }
            for gil in interval.gils
        ],
        "came": [one.name for one in interval.came],
        "went": [one.name for one in interval.went],
        "ended": {
            "threads": interval.ended.count,
            "known": interval.ended.known,
            "hold_share": interval.ended.hold_share,
            "wait_share": interval.ended.wait_share,
            "waits_per_s": interval.ended.waits_per_s,
            "forced_per_s": interval.ended.forced_per_s,
            "worst_wait_s": interval.ended.worst_wait_ns / 1e9,
        },
        "threads": [thread_to_json(one, over.get(one.now.serial, one)) for one in interval.threads],
    }


def thread_to_json(one: "ThreadRates", over: "ThreadRates") -> dict[str, Any]:
    """Return the figures of a thread.

    Fields:
        serial, tid, name: The thread.
        gil: The index of its GIL.
        state, state_s: What it does, and since when.
        hold_share, wait_share: The shares of the interval in which it had the GIL, and waited for it.
        holds_per_s, waits_per_s, forced_per_s: How often it had the GIL, waited for it, and was made to release it.
        window: Percentiles of its waits in the window, and the worst one; null: it did not wait.
    """

    def seconds(time_ns: float | None) -> float | None:
        return None if time_ns is None else time_ns / 1e9

    return {
        "serial": one.now.serial,
        "tid": one.now.tid,
        "name": one.now.name,
        "gil": one.now.gil,
        "state": one.now.state,
        "state_s": one.now.state_ns / 1e9,
        "hold_share": one.hold_share,
        "wait_share": one.wait_share,
        "holds_per_s": one.holds_per_s,
        "waits_per_s": one.waits_per_s,
        "forced_per_s": one.forced_per_s,
        "window": {
            "wait_p50_s": seconds(over.wait_p50_ns),
            "wait_p90_s": seconds(over.wait_p90_ns),
            "wait_p99_s": seconds(over.wait_p99_ns),
            "worst_wait_s": seconds(over.worst_wait_ns),
        },
    }
