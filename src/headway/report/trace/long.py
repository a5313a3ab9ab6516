"""Tables of thousands of rows, laid out in one pass; the usual layout would try many."""

from collections.abc import Iterator, Sequence
from typing import final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from headway.report.figures import Table
from headway.report.layout import indented, render_table

__all__ = ["shown"]

_LONG = 40
_GAP = 2
_HEADING = 20
"""The width from which on a heading, such as the name of a thread, is broken over lines."""
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
        widths = _widths(table, options.max_width)
        cells = [
            [_folded(cell, width, console) for cell, width in zip(row, widths, strict=True)]
            for row in (table.columns, *table.rows)
        ]
        for part in _parts(widths, options.max_width):
            chosen = [0, *part]
            head, *rows = (list(_lines([row[at] for at in chosen], [widths[at] for at in chosen])) for row in cells)
            rule = "─" * (widths[0] + sum(_GAP + widths[column] for column in part))
            yield Text("\n".join([*head, rule, *(line for row in rows for line in row)]), no_wrap=True)
        yield from (Text(line, style="dim") for line in table.caption.split("\n"))


def _widths(table: Table, room: int) -> list[int]:
    """Return the width of each column: that of its widest figure, or of its heading up to `_HEADING`."""
    headings = [cell_len(heading) for heading in table.columns]
    cells = [max(cell_len(row[column]) for row in table.rows) for column in range(len(table.columns))]
    name = min(max(headings[0], cells[0]), int(room * _NAME_SHARE))
    figures = zip(headings[1:], cells[1:], strict=True)
    return [name, *(min(max(min(heading, _HEADING), cell), room - name - _GAP) for heading, cell in figures)]


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


def _folded(cell: str, width: int, console: Console) -> list[str]:
    """Return a cell in lines of at most some width."""
    if cell_len(cell) <= width:
        return [cell]
    return [line.plain.rstrip() for line in Text(cell).wrap(console, width, overflow="fold")]


def _lines(cells: Sequence[list[str]], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row; a cell of fewer lines than others stands on the last ones."""
    for below in range(max(map(len, cells)), 0, -1):
        name, *figures = (cell[-below] if below <= len(cell) else "" for cell in cells)
        line = name + " " * (widths[0] - cell_len(name))
        for figure, width in zip(figures, widths[1:], strict=True):
            line += " " * (_GAP + width - cell_len(figure)) + figure
        yield line.rstrip()
