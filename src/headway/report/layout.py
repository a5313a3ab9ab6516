"""Lays out a table on a terminal of some width: as it is, turned, or split, so that no figure is ever cut off."""

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from headway.report.figures import EMPTY, Table

__all__ = ["bold", "indented", "render_table", "turned"]

_FIGURE = re.compile(
    r"[-+<>~x±]?\s?\d[\d.,]*(\s?[%\w/]{1,10})?(\s?±\s?[\d.,]+\s?%?|\s?\[.*\]|\s?\(.*\))?$|\d[\d.,]*(/\s*\d[\d.,]*)+$"
)
"""A figure with its unit and its interval or half-width, or counts such as `5/ 30/ 6,000`; text with more words is not."""
_HEADING = 9
"""The least width of a broken heading; a heading is broken over lines if its column is narrower."""

_FEW_PARTS = 2

_GAP = 2
"""The blanks between two columns."""
_LAST_COLUMNS = 20
"""The least width of a table's last column, such as a path; in less room, it stands below the others."""

_NAME_SHARE = 0.6
"""The share of its length to which a row's name may be broken over lines, to make room for figures."""
_NAME_COLUMNS = 34
"""A row name that is longer may be broken to this width. Tables of one column each would be harder to read."""


def bold(text: str) -> Text:
    """Return a heading with a blank line above."""
    return Text(f"\n{text}", style="bold")


def indented(what: RenderableType, by: int = 2) -> Padding:
    """Return `what` moved to the right."""
    return Padding(what, (0, 0, 0, by))


def render_table(table: Table) -> RenderableType:
    """Return a table with its caption below."""
    caption, *notes = table.caption.split("\n")
    below = [Text(caption, style="dim"), *(_hanging(note) for note in notes)]
    return Group(_Fitted(table) if table.names else _Listed(table), *below)


def _hanging(note: str) -> RenderableType:
    """Return `A1: words` with the words in a column of their own."""
    mark, colon, words = note.partition(": ")
    grid = RichTable.grid(padding=(0, 1))
    grid.add_row(Text(mark + colon.strip(), style="dim"), Text(words, style="dim"))
    return grid


@final
class _Fitted:
    """A table whose rows have names, in the layout that its terminal has room for.

    Preferably every figure is on one line: the table as it is, turned, or in two parts. More than two parts are as hard
    to read as figures with their intervals below them, so the shorter of these two layouts is then used.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def measured(table: Table, *, folded: bool = False, tight: bool = False) -> Measurement:
            return Measurement.get(console, options.update(width=10_000), _drawn(table, folded=folded, tight=tight))

        def fits(table: Table, *, folded: bool = False) -> bool:
            return measured(table, folded=folded).minimum <= options.max_width

        def drawn(table: Table, *, folded: bool = False) -> RichTable:
            # By default rich takes width from the widest column, which is one of figures; here the names must give way.
            excess = measured(table, folded=folded).maximum - options.max_width
            tight = excess > _spare(table)
            if tight:  # then the headings, too
                excess = measured(table, folded=folded, tight=True).maximum - options.max_width
            return _drawn(table, folded=folded, tight=tight, less=max(0, excess))

        if fits(self._table):
            yield drawn(self._table)
            return
        flipped = turned(self._table)
        # A turned table with no more rows than before is as wide as before, and its headings are longer.
        if len(flipped.rows) > len(self._table.rows) and fits(flipped):
            yield drawn(flipped)
            return
        whole = _split(self._table, fits)
        folded = _split(self._table, lambda table: fits(table, folded=True))
        if len(whole) <= _FEW_PARTS or _lines(whole, 1) <= _lines(folded, 2):
            yield from map(drawn, whole)
        else:
            yield from (drawn(part, folded=True) for part in folded)


@final
class _Listed:
    """A table whose rows have no names: its cells are broken between words, and the last column may stand below."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, last = self._table, len(self._table.columns) - 1
        needed = sum(_least_width(table, position) + _GAP for position in range(last))
        if last < 2 or needed + min(_LAST_COLUMNS, _widest(table, last)) <= options.max_width:
            yield _drawn(table)
            return
        yield _Listed(_chosen(table, range(last)))
        yield _drawn(_chosen(table, (0, last)))


def _chosen(table: Table, positions: Sequence[int]) -> Table:
    rows = tuple(tuple(row[position] for position in positions) for row in table.rows)
    return replace(table, columns=tuple(table.columns[position] for position in positions), rows=rows)


def _cells(table: Table, position: int) -> list[str]:
    return [table.columns[position], *(row[position] for row in table.rows)]


def _widest(table: Table, position: int) -> int:
    return max(map(len, _cells(table, position)))


def _least_width(table: Table, position: int) -> int:
    """Return the length of a column's longest word."""
    return max(len(word) for cell in _cells(table, position) for word in cell.split() or [""])


def _lines(parts: Sequence[Table], by_row: int) -> int:
    return sum(len(part.rows) * by_row + 3 for part in parts)


def _split(table: Table, fits: Callable[[Table], bool]) -> list[Table]:
    """Return the table in as few parts as fit, of about equal width, each with the names of its rows."""
    parts = list(_filled(table, fits, len(table.columns)))
    for columns in range(1, len(table.columns)):
        even = list(_filled(table, fits, columns))
        if len(even) == len(parts):
            return even
    return parts


def _filled(table: Table, fits: Callable[[Table], bool], columns: int) -> Iterator[Table]:
    """Yield parts of at most `columns` columns of figures that fit; a part of one column may be too wide."""
    first, end = table.names, len(table.columns)
    while first < end:
        last = min(end, first + columns)
        while last > first + 1 and not fits(_part(table, first, last)):
            last -= 1
        yield _part(table, first, last)
        first = last


def _part(table: Table, first: int, last: int) -> Table:
    """Return some columns of a table, without the rows that are empty in them."""

    def cut(cells: tuple[str, ...]) -> tuple[str, ...]:
        return cells[: table.names] + cells[first:last]

    rows = [cut(row) for row in table.rows if set(row[first:last]) != {EMPTY} or last - first == len(row) - table.names]
    return replace(table, columns=cut(table.columns), rows=tuple(rows))


def turned(table: Table) -> Table:
    """Return the table with its columns as rows, and with the names of rows as headings."""
    names = table.names
    columns = ("", *(", ".join(filter(None, row[:names])) for row in table.rows))
    figures = zip(table.columns[names:], *(row[names:] for row in table.rows), strict=True)
    return replace(table, columns=columns, rows=tuple(figures), names=1)


def _name_width(table: Table, position: int) -> tuple[int, int]:
    """Return the least and the full width of a column of row names."""
    widest = max((len(row[position]) for row in table.rows), default=0)
    least = math.ceil(widest * _NAME_SHARE)
    return (min(least, _NAME_COLUMNS) if table.names == 1 else least), widest


def _spare(table: Table) -> int:
    """Return the number of characters by which the widest row names can be broken."""
    least, widest = max((_name_width(table, position) for position in range(table.names)), key=lambda one: one[1])
    return widest - least


def _drawn(table: Table, *, folded: bool = False, tight: bool = False, less: int = 0) -> RichTable:
    """Return the table as rich draws it.

    Args:
        table: The table.
        folded: Allow a figure to have its interval on a line of its own.
        tight: Break headings between all words that the figures below do not need.
        less: The number of characters of the widest row names to break over lines.
    """
    names = [max((len(row[position]) for row in table.rows), default=0) for position in range(table.names)]
    # Headings are `Text`, as rich takes a string for markup, and a heading may be the name of a thread.
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), show_edge=False)
    for position, column in enumerate(table.columns):
        widest = max((len(row[position]) for row in table.rows), default=0)
        if not table.names:
            # The last column may be a path: broken over lines it can still be read, cut off it cannot. A column of
            # single words keeps them whole.
            whole = position < len(table.columns) - 1 and _least_width(table, position) == _widest(table, position)
            justify: Literal["left", "right"] = "right" if position and _has_figures(table, position) else "left"
            shown.add_column(Text(column), justify=justify, overflow="fold", no_wrap=whole)
        elif position < table.names:
            least, _ = _name_width(table, position)
            gives_way = less and position == names.index(max(names))
            width = max(least, widest - less) if gives_way else None
            shown.add_column(Text(column), overflow="fold", min_width=least, width=width)
        else:
            width = max(widest, 1 if tight else _HEADING)
            heading = Text("\n".join(textwrap.wrap(column, width, break_long_words=False)))
            justify = "right" if _has_figures(table, position) else "left"
            shown.add_column(heading, justify=justify, overflow="fold", min_width=None if folded else widest)
    above: tuple[str, ...] = ()
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in _without_repeats(row, above, table.names)))
        above = row
    return shown


def _has_figures(table: Table, position: int) -> bool:
    """Return whether most of a column's cells are figures, which are aligned right; text is aligned left."""
    cells = [row[position] for row in table.rows if row[position] not in ("", EMPTY)]
    return 2 * sum(bool(_FIGURE.match(cell)) for cell in cells) >= len(cells)


def _without_repeats(row: tuple[str, ...], above: tuple[str, ...], names: int) -> Iterator[str]:
    """Yield a row's cells, with blanks for the names of the groups that it shares with the row above."""
    same = True
    for position, cell in enumerate(row):
        same = same and position < names - 1 and above[position : position + 1] == (cell,)
        yield "" if same else cell
