"""What was simulated as a page: its tables, the curves of a sweep, and timelines as those of a trace."""

from collections.abc import Sequence
from typing import Literal

from headway.report.html import schema
from headway.report.html.trace_page import Launches, views_of

__all__ = ["simulation_page"]


def simulation_page(
    title: str,
    version: str,
    *,
    lines: Sequence[str] = (),
    sections: Sequence[schema.Section] = (),
    notes: Sequence[tuple[Literal["rests on", "outside the model", "note"], str]] = (),
    curves: Sequence[schema.Curve] = (),
    launches: Launches = (),
) -> tuple[schema.SimulationPage, dict[str, bytes]]:
    """Return what was simulated as a page's data, and its blocks by name.

    Args:
        title: What was.
        version: Headway's.
        lines: More of what it is.
        sections: Tables, as the terminal shows them.
        notes: What it rests on, and why it may be wrong.
        curves: Of a sweep.
        launches: Runs with a timeline, one above the other; a single one's label is "".
    """
    views, blocks = views_of(launches)
    page = schema.SimulationPage(
        kind="simulation",
        title=title,
        version=version,
        lines=tuple(lines),
        sections=tuple(sections),
        notes=tuple(notes),
        curves=tuple(curves),
        views=views,
    )
    return page, blocks
