"""Show `headway top` in a terminal with textual: a table to sort and pause. Imported only if textual is installed."""

import os
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from headway.cli import top_view
from headway.cli.top_lost import Lost
from headway.live.watch import Monitor

__all__ = ["TopApp"]


class TopApp(App[None]):
    """The one screen: the lines of `top_view.head`, and a table of threads."""

    CSS = "#head { height: auto; padding: 0 1; } DataTable { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "Quit", priority=True),
        Binding("p", "pause", "Pause"),
        Binding("s", "sort", "Sort by the next column"),
        Binding("r", "reverse", "Reverse"),
    ]

    def __init__(
        self,
        monitor: Monitor,
        interval_s: float,
        count: int | None = None,
        *,
        children: bool = False,
        lost: Lost | None = None,
    ) -> None:
        """Create the screen.

        Args:
            monitor: The monitor of the processes to show.
            interval_s: The time between two updates.
            count: The number of updates after which the app quits; None: no limit.
            children: Whether child processes are shown, which may come when no process is counted.
            lost: For a started program, which is shown again after a time without counters; None for another one.
        """
        # If NO_COLOR is set, the terminal's own colours are needed: with others, textual still shows greys.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self._monitor = monitor
        self._interval_s = interval_s
        self._left = count
        self._children = children
        self._lost = lost
        self._paused = False
        self._column: int | None = None  # None: sorted by hold and wait
        self._reversed = False
        self._width = 0  # of the terminal when the columns were made
        self._rows: list[top_view.Row] = []
        self._lines = ["counting ..."]
        self.has_shown = False
        """Whether the table has had rows."""

    def compose(self) -> ComposeResult:
        """Yield the widgets of the screen."""
        yield Static("\n".join(self._lines), id="head", markup=False)
        yield DataTable(id="threads", cursor_type="row", cell_padding=0)
        yield Footer()

    def on_mount(self) -> None:
        """Show the empty table, and start the updates."""
        self._show()
        self._monitor.sample()
        self.set_interval(self._interval_s, self.look)

    def _cells(self, cells: Sequence[str]) -> list[Text]:
        # Cells are Text, because a thread's name may look like markup, and markup can bind actions to a click. The
        # scroll bar takes two columns.
        return [Text(f"{cell} ") for cell in top_view.fitted(cells, self.size.width - 2)]

    def look(self) -> None:
        """Read the counters and show them, unless paused; quit if the process has ended.

        Quit also if it counts no more, unless it is a program that we have started.
        """
        if not self._monitor.alive:
            self.exit()
            return
        samples = self._monitor.sample()
        if self._paused:
            return
        if not samples:
            line = self._lost.line(self._monitor) if self._lost else ""
            if line:
                self._lines, self._rows = [line], []
                self._show_head()
                self._show()
            elif not (self._monitor.watched or self._children or self._lost):
                self.exit()
            return
        self._rows = top_view.rows(samples)
        self.has_shown = True
        self._lines = [line for sample in samples for line in top_view.head(sample)]
        self._show_head()
        self._show()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.exit()

    def _show_head(self) -> None:
        lines = [*self._lines, "paused: p continues"] if self._paused else self._lines
        self.query_one("#head", Static).update("\n".join(lines))

    def _show(self) -> None:
        rows = list(self._rows)
        if self._column is not None:
            column = self._column
            # Names and states ascend, and figures descend.
            rows.sort(key=lambda row: row.order[column], reverse=column > 1)
        if self._reversed:
            rows.reverse()
        table = self.query_one(DataTable)
        cursor, top = table.cursor_row, table.scroll_y
        # If the width of the terminal has changed, the columns are made again.
        resized, self._width = self._width != self.size.width, self.size.width
        table.clear(columns=resized)
        if resized:
            table.add_columns(*self._cells(top_view.COLUMNS))
        for row in rows:
            table.add_row(*self._cells(row.cells), key=row.key)
        table.move_cursor(row=min(cursor, max(0, len(rows) - 1)), scroll=False)
        table.scroll_to(y=top, animate=False)

    def action_pause(self) -> None:
        """Pause the display, or continue it; the watched program runs on."""
        self._paused = not self._paused
        self._show_head()

    def action_sort(self) -> None:
        """Sort by the next column; after the last column, sort by hold and wait again."""
        following = 0 if self._column is None else self._column + 1
        self._column = following if following < len(top_view.COLUMNS) else None
        self._show()

    def action_reverse(self) -> None:
        """Reverse the order of the rows."""
        self._reversed = not self._reversed
        self._show()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column that was clicked; a second click reverses the order."""
        self._reversed = self._column == event.column_index and not self._reversed
        self._column = event.column_index
        self._show()
