"""The tables of `headway stalls`: by cause, by line, by holder, over time, by process."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from headway.printable import printable
from headway.report.figures import Table
from headway.report.layout import bold, render_table
from headway.traces.analysis.doing import Doing
from headway.traces.analysis.stall_sums import Held, StallSums, Sum
from headway.traces.analysis.words import duration, number, share, short_path

__all__ = ["render_stalls"]

_FEW = 10
_WORTH_ADVICE = 0.02
"""The share of all time from which on a cause has advice: each stall of a second has microseconds of own code."""
_NEWEST = 13
"""The intervals that are shown: as many as the sums of stalls choose, and one, as the first is seldom whole."""


def _cells(one: Sum, all_s: float) -> tuple[str, ...]:
    return (f"{one.count:,}", duration(one.time_s * 1e9), share(one.time_s, all_s), duration(one.longest_s * 1e9))


_DOING = {one.value: one.words for one in Doing}
_COLUMNS = ("stalls", "time", "of all", "longest")


def _table(
    title: str, names: tuple[str, ...], sums: Mapping[Any, Sum], all_s: float, caption: str, few: int
) -> list[RenderableType]:
    if not sums:
        return []
    rows = [tuple(map(printable, key)) + _cells(one, all_s) for key, one in list(sums.items())[:few]]
    if len(sums) > few:
        caption += f"\n... and {len(sums) - few:,} more: `--all` shows them"
    return [bold(title), render_table(Table(caption, (*names, *_COLUMNS), tuple(rows), len(names)))]


def _by_holder(found: StallSums, all_s: float, few: int) -> list[RenderableType]:
    """Return the table of the threads that had the GIL or a lock while something stalled."""
    sums: dict[tuple[str], Sum] = {}
    for held, one in found.by_holder.items():
        # As in the table by line, the holder that has cost most keeps the short names.
        short = (_held(held, short_path),)
        sums[(_held(held, str),) if short in sums else short] = one
    caption = "a lock has a holder here if it is known; *: any number, as in a pool's threads"
    return _table("By holder", ("holder",), sums, all_s, caption, few)


def _held(held: Held, path: Callable[[str], str]) -> str:
    """Return the words for a holder, with its places as `path` shows them."""
    what = f"the lock of {path(held.line)}" if held.line else "the GIL"
    doing = _DOING.get(held.doing, held.doing)
    place = "" if held.place == "?" else f" at {path(held.place)}"
    return f"{held.thread}: {what}{doing and f', {doing}'}{place}"


def _by_process(found: StallSums, all_s: float, few: int) -> list[RenderableType]:
    """Return the table of processes, with as much of the place of each as tells the processes apart."""
    places = {key[2:] for key in found.by_process}
    names = ["program", "process"]
    if len({host for host, _ in places}) > 1:
        names.append("host")
    if len(places) > len({host for host, _ in places}):
        names.append("PID namespace")
    columns = [("program", "process", "host", "PID namespace").index(name) for name in names]
    sums = {tuple(key[one] for one in columns): each for key, each in found.by_process.items()}
    return _table("By process", tuple(names), sums, all_s, "", few)


def render_stalls(found: StallSums, *, every: bool = False) -> RenderableType:
    """Return the report."""
    few = 1 << 30 if every else _FEW
    all_s = sum(float(row["length_s"]) for row in found.rows)
    parts: list[RenderableType] = [
        Text(f"{number(len(found.rows), 'stall')}, {duration(all_s * 1e9)} in total"),
    ]
    parts += _table(
        "By cause", ("stalled", "cause"), found.by_cause, all_s, "a stall counts under each of its causes", few
    )
    advice = [
        f"{cause}: {one.advice}"
        for (_, cause), one in found.by_cause.items()
        if one.advice and cause != "unexplained" and one.time_s >= _WORTH_ADVICE * all_s
    ]
    parts += [Text(f"  {printable(line)}") for line in dict.fromkeys(advice)]
    lines: dict[tuple[str, str], Sum] = {}
    for (cause, line), one in found.by_line.items():
        # Of files that differ in their outer folders only, the one that has cost most keeps the short name.
        short = (cause, short_path(line))
        lines[(cause, line) if short in lines else short] = one
    parts += _table("By line", ("cause", "line"), lines, all_s, "the program's own line, if there is one", few)
    parts += _by_holder(found, all_s, few)
    over_time = {(begin,): one for begin, one in found.over_time.items()}
    caption = f"intervals of {duration(found.bin_s * 1e9)}"
    left = 0 if every else max(0, len(over_time) - _NEWEST)
    if left:  # the newest ones, which stand last, are what one looks for in an incident
        over_time = dict(list(over_time.items())[left:])
        caption += f"\n{number(left, 'earlier one')} left out: `--all` shows them"
    parts += _table("Over time (UTC)", ("since",), over_time, all_s, caption, len(over_time))
    parts += _by_process(found, all_s, few)
    return Group(*parts)
