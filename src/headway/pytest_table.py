"""The tables that a pytest session with benchmarks ends with, as lines for its terminal."""

import dataclasses
import io
import shutil
from collections.abc import Iterator

from rich.console import Console

from headway.report import render_table
from headway.report.benchmarks import Earlier, Groups, Shown, benchmark_tables

__all__ = ["table_lines"]

_LEAST_COLUMNS = 80


def table_lines(groups: Groups, earlier: Earlier | None, shown: Shown | None) -> Iterator[str]:
    """Return the lines of one table for each group of benchmarks, with an empty line after each table.

    Args:
        groups: The benchmarks by group.
        earlier: The stored session that they are compared with; None: there is none.
        shown: The columns and the order.
    """
    width = max(_LEAST_COLUMNS, shutil.get_terminal_size().columns)
    for table in benchmark_tables(groups, earlier, shown):
        # The title stands above its table, unlike the lab's, because many tables follow each other here.
        title, *notes = table.caption.splitlines()
        yield title
        console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False, markup=False, emoji=False)
        console.print(render_table(dataclasses.replace(table, caption="")))
        for line in console.file.getvalue().rstrip().splitlines():  # type: ignore[attr-defined]
            yield line.rstrip()
        yield from notes
        yield ""
