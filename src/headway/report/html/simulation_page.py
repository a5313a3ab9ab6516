"""A simulation as a page: its tables, the curves of a sweep, and timelines like those of a trace."""

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
    """Return a simulation as a page's data, and its blocks by name.

    Args:
        title: The subject of the simulation.
        version: Headway's version.
        lines: Further lines about it.
        sections: Tables, as on the terminal.
        notes: The basis of the simulation, and reasons why it may be wrong.
        curves: The curves of a sweep.
        launches: Runs with a timeline, one above the other; the label of a single one is "".
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
