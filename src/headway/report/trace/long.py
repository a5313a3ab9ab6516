"""Tables of thousands of rows, laid out in one pass; the usual layout would try many."""

from collections.abc import Iterator
from typing import final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from headway.report.figures import Table
from headway.report.layout import indented, render_table

__all__ = ["shown"]

_LONG = 40
_GAP = 2
_NAME_SHARE = 0.5
"""The share of the terminal that a name may take; a longer name goes on its own line."""


def shown(table: Table) -> RenderableType:
    """Return a table, indented, in the layout that suits its length."""
    return indented(_Long(table) if len(table.rows) > _LONG else render_table(table))


@final
class _Long:
    """A table in parts of as many columns as fit, each with the names of its rows; its first column is the names."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        cells = [table.columns, *table.rows]
        widths = [max(cell_len(row[column]) for row in cells) for column in range(len(table.columns))]
        widths[0] = min(widths[0], int(options.max_width * _NAME_SHARE))
        names = [_name(row[0], widths[0], console) for row in cells]
        for part in _parts(widths, options.max_width):
            lines = [line for name, row in zip(names, cells, strict=True) for line in _lines(name, row, part, widths)]
            head = len(names[0])
            rule = "─" * (widths[0] + sum(_GAP + widths[column] for column in part))
            yield Text("\n".join([*lines[:head], rule, *lines[head:]]), no_wrap=True)
        yield from (Text(line, style="dim") for line in table.caption.split("\n"))


def _parts(widths: list[int], room: int) -> Iterator[list[int]]:
    """Yield the columns of figures that stand side by side."""
    part: list[int] = []
    used = widths[0]
    for column in range(1, len(widths)):
        if part and used + _GAP + widths[column] > room:
            yield part
            part, used = [], widths[0]
        part.append(column)
        used += _GAP + widths[column]
    yield part


def _name(name: str, width: int, console: Console) -> list[str]:
    """Return a name in lines of at most some width."""
    if cell_len(name) <= width:
        return [name]
    return [line.plain.rstrip() for line in Text(name).wrap(console, width, overflow="fold")]


def _lines(name: list[str], row: tuple[str, ...], part: list[int], widths: list[int]) -> Iterator[str]:
    """Yield a row's line, after lines for the part of the name that does not fit into it."""
    *before, last = name
    yield from before
    figures = "".join(" " * (_GAP + widths[column] - cell_len(row[column])) + row[column] for column in part)
    yield last + " " * (widths[0] - cell_len(last)) + figures
