"""Render the tables of `headway dask`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from headway.printable import printable
from headway.report.figures import Table
from headway.report.layout import bold, render_table
from headway.traces.analysis.words import duration, number

if TYPE_CHECKING:
    from headway.dask.figures import WorkerFigures

__all__ = ["render_workers"]

_MOST_TASKS = 10
_CAPTION = (
    "loop waited: exact share of the time that the event loop's thread waited for the GIL; knocked: share of the "
    "time of gilknocker's samples in which it waited for the GIL; stalls: number since the plugin started"
)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _row(one: "WorkerFigures") -> tuple[str, ...]:
    worst = one.worst_task
    return (
        printable(one.name),
        str(one.pid or "-"),
        _share(one.loop_wait_share),
        _share(one.held_share),
        _share(one.knocked_share),
        "-" if one.stall_count is None else f"{one.stall_count:,}",
        one.policy or ("stock" if one.is_told else "-"),
        "-" if worst is None else f"{printable(worst.prefix)}, {duration(worst.longest_hold_s * 1e9)}",
    )


def render_workers(found: Sequence["WorkerFigures"]) -> RenderableType:
    """Return the tables and lines of one interval."""
    columns = ("worker", "process", "loop waited", "GIL held", "knocked", "stalls", "policy", "longest hold by")
    parts: list[RenderableType] = [
        bold(number(len(found), "worker")),
        render_table(Table(_CAPTION, columns, tuple(map(_row, found)), 1)),
    ]
    tasks = sorted(
        ((task, one) for one in found for task in one.tasks), key=lambda pair: (-pair[0].hold_s, pair[0].prefix)
    )
    rows = tuple(
        (
            printable(task.prefix),
            printable(one.name),
            f"{task.count:,}",
            duration(task.run_s * 1e9),
            duration(task.hold_s * 1e9),
            duration(task.wait_s * 1e9),
            duration(task.longest_hold_s * 1e9),
        )
        for task, one in tasks[:_MOST_TASKS]
    )
    if rows:
        titles = ("key prefix", "worker", "tasks", "ran", "held", "waited", "longest hold")
        parts += [bold("Tasks that held the GIL since the plugin started"), render_table(Table("", titles, rows, 2))]
    if len(tasks) > _MOST_TASKS:
        parts.append(Text(f"{number(len(tasks) - _MOST_TASKS, 'more row')}: `--json` has all"))
    parts += [
        Text(f"{printable(one.name)}: {printable(one.last_stall)}", no_wrap=False) for one in found if one.last_stall
    ]
    without = [printable(one.name) for one in found if not one.is_told]
    if without:
        parts.append(Text(f"without Headway: {', '.join(without[:10])}; `--register` installs the plugin"))
    return Group(*parts)
