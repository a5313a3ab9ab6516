"""A trace in about ten lines, as `headway trace` shows it when the program has ended."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from headway.report.layout import indented
from headway.report.trace.heading import process_name
from headway.traces.analysis import Analysis
from headway.traces.analysis.cores import needed_cores, without_cores
from headway.traces.analysis.missing import INSTEAD
from headway.traces.analysis.threads import ThreadSummary
from headway.traces.analysis.words import duration, number, place, share_of_life

__all__ = ["few_of", "rest_lines", "short_summary", "summary_lines", "worst_first"]

_PROCESSES = 3
_FINDINGS = 3
_REST = 10
"""The processes without a report of their own that have a line."""
_TOLD_NOTES = frozenset(
    {
        "contended-lock",
        "deadlock",
        "elsewhere",
        "executed",
        "late-loop",
        "silent-threads",
        "unreleased-gil",
        "unseen-wait",
    }
)
"""Notes about threads that did not get on, without the GIL's being the reason."""
_STUCK = _TOLD_NOTES - {"elsewhere", "unseen-wait"}
"""Those of them that are not about time which may be idle."""


def worst_first(analyses: Sequence[Analysis]) -> list[Analysis]:
    """Return analyses in order, the one that lost most time first; equal ones keep their order.

    The time is that of waits, and that of holds without a core.
    """
    return sorted(analyses, key=lambda one: -(_waited_ns(one) + _off_core_ns(one)))


def few_of(analyses: Sequence[Analysis], most: int) -> tuple[list[Analysis], list[Analysis]]:
    """Return the processes of a launch that lost most time, with the parent, and the rest; both worst first.

    The parent is the first of `analyses`.
    """
    ordered = worst_first(analyses)
    shown = [one for at, one in enumerate(ordered) if at < most or one is analyses[0]]
    return shown, [one for one in ordered[most:] if one is not analyses[0]]


def rest_lines(rest: Sequence[Analysis]) -> list[str]:
    """Return a line for each of a few processes that have no report, and one for all further ones."""
    lines = []
    for one in rest[:_REST]:
        parts = [duration(one.wall_ns), f"waited {duration(_waited_ns(one))}"]
        parts += [f"{duration(_off_core_ns(one))} without a core"] * any(needed_cores(one, gil) for gil in one.gils)
        told = sum(finding.weight == "problem" or finding.kind in _STUCK for finding in one.findings)
        parts += [number(told, "finding")] * bool(told)
        lines.append(f"{process_name(one.process)}: {', '.join(parts)}")
    return lines + _further(rest[_REST:])


def _further(rest: Sequence[Analysis]) -> list[str]:
    waited_ns = sum(map(_waited_ns, rest))
    more = f"... and {number(len(rest), 'process', 'processes')} more, which waited {duration(waited_ns)} in total"
    return [more] * bool(rest)


def _off_core_ns(one: Analysis) -> int:
    return sum(gil.off_core_ns for gil in one.gils)


def _waited_ns(one: Analysis) -> int:
    """Return how long threads waited: for GILs, or in a process without one for the locks that take a GIL's place."""
    if one.gils:
        return one.wait_ns
    return sum(times.total_ns for kind, times in one.contention.kinds.items() if kind in INSTEAD)


def short_summary(analyses: Sequence[Analysis]) -> RenderableType:
    """Return the lines of `summary_lines` for the terminal."""
    lines = summary_lines(analyses)
    return Group(*(indented(Text(line.strip()), len(line) - len(line.lstrip())) for line in lines))


def summary_lines(analyses: Sequence[Analysis]) -> list[str]:
    """Return the lines for one process, or for the few of several processes that lost most time."""
    if not analyses:
        return ["nothing was recorded"]
    if len(analyses) == 1:
        return _lines(analyses[0], findings=_FINDINGS)
    shown, rest = few_of(analyses, _PROCESSES)
    lines = [*filter(None, [without_cores(analyses)]), *(line for one in shown for line in _lines(one, findings=1))]
    return lines + _further(rest)


def _lines(one: Analysis, *, findings: int) -> list[str]:
    lines = [
        (
            f"{process_name(one.process)}: {duration(one.wall_ns)}, "
            f"{number(len(one.threads if one.gils else one.labels), 'thread')}, {number(one.events, 'event')}"
        )
    ]
    for gil in one.gils[:2]:
        waits = gil.waits
        waited = (
            f"waited for {duration(waits.total_ns)} in {number(waits.count, 'wait')} "
            f"(p50 {duration(waits.p50_ns)}, p99 {duration(waits.p99_ns)}, max {duration(waits.max_ns)})"
            if waits.count
            else "no waits"
        )
        lines.append(f"  {gil.name} held {share_of_life(gil.holds.total_ns, gil.wall_ns, one.wall_ns)}, {waited}")
    if len(one.gils) > 2:
        lines.append(f"  ... and {number(len(one.gils) - 2, 'GIL')} more")
    lines += _most(one)
    weights = {"problem": "!", "fine": "ok", "note": "note"}
    # Losses come first, because they qualify the rest.
    losses = [finding for finding in one.findings if finding.kind == "losses"]
    others = [finding for finding in one.findings if finding.weight != "note"]
    # A program that hangs, or whose event loop does, has little else.
    notes = [finding for finding in one.findings if finding.weight == "note" and finding.kind in _TOLD_NOTES]
    first = next((at for at, finding in enumerate(one.findings) if finding.weight != "note"), 0)
    leading = [finding for finding in one.findings[:first] if finding in notes]
    shown = (losses + leading + others)[:findings]
    advised = next((finding for finding in shown if finding.weight == "problem" and finding.advice), None)
    for finding in shown:
        lines.append(f"  {weights[finding.weight]} {finding.fact}")
        if finding.kind == "contended-lock" and finding.cause:  # it has the thread that had the lock
            lines.append(f"    why: {finding.cause}")
        if finding is advised:  # Only the first problem's advice; the report has the others'.
            lines.append(f"    try: {finding.advice}")
    more = sum(finding not in shown for finding in others)
    if more:
        lines.append(f"  ... and {number(more, 'finding')} more in the report")
    for finding in [finding for finding in notes if finding not in shown][:findings]:
        lines.append(f"  note {finding.fact}")
        if finding.kind in {"late-loop", "executed"} and finding.advice:
            lines.append(f"    try: {finding.advice}")
    return lines


def _several(one: ThreadSummary) -> str:
    return f"{one.label} ({one.threads:,} threads)" if one.threads > 1 else one.label


def _most(one: Analysis) -> list[str]:
    """Return the thread or pool that waited most, the one that it waited behind, and the longest hold."""
    lines = []
    users = one.roles or one.threads
    waiting = max(users, key=lambda thread: thread.waits.total_ns, default=None)
    if waiting is not None and waiting.waits.total_ns:
        text = f"  waited most: {_several(waiting)}, {duration(waiting.waits.total_ns)}"
        matrices = [(gil.blame_by_role if one.roles else None) or gil.blame for gil in one.gils]
        rows = [
            (each, each.waiters.tolist().index(waiting.index)) for each in matrices if waiting.index in each.waiters
        ]
        blame, row = max(rows, key=lambda at: int(at[0].wait_ns[at[1]]))
        if blame.held_ns.shape[1] and blame.held_ns[row].any():
            column = int(blame.held_ns[row].argmax())
            holder = next(each for each in users if each.index == blame.holders[column])
            same = "one another" if holder is waiting else _several(holder)
            text += f", {duration(int(blame.held_ns[row, column]))} of it behind {same}"
        if waiting.threads > 1:
            text += f"; longest wait {duration(waiting.waits.max_ns)}, of {one.labels[waiting.longest_waiter]}"
        lines.append(text)
    if one.longest and one.threads and len(one.threads) > 1:
        longest = one.longest[0]
        where = f", ended at {place(longest.stack[0])}" if longest.stack else ""
        lines.append(f"  longest hold: {longest.thread}, {duration(longest.length_ns)}{where}")
    return lines
