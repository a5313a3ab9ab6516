"""Tables whose rows have no names, such as lists of runs and interpreters, on terminals of different widths."""

import io

import pytest
from rich.console import Console

from headway.report import Table, render_table

ROWS = (
    ("3.13", "3.13.0", "GIL", "interpreters", "~/.cache/headway/interpreters/3.13/bin/python3.13"),
    ("3.13t", "3.13.5", "free-threaded, GIL on", "-", "~/.cache/headway/interpreters/3.13t/bin/python3.13t"),
)
TABLE = Table("a caption", ("", "version", "GIL", "cannot run", "executable"), ROWS)


def drawn(table, width):
    """Return the lines of a table on a terminal of some width."""
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(render_table(table))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [64, 80, 100, 120])
def test_no_word_is_cut_off(width):
    """Each word of a table stands whole on a line; only a path in the last column may be continued on the next line."""
    lines = drawn(TABLE, width)
    words = {word for line in lines for word in line.split()}

    assert max(len(line.rstrip()) for line in lines) <= width
    assert words >= {word for row in (TABLE.columns, *ROWS) for cell in row[:-1] for word in cell.split()}


def test_a_last_column_with_little_room_stands_below():
    """With room for all, each row is one line; with less, the last column follows below with the first one."""
    assert len(drawn(TABLE, 120)) == 2 + len(ROWS) + 1
    below = drawn(TABLE, 64)[-4:-1]
    assert below[1].split() == [ROWS[0][0], ROWS[0][-1]]
    assert below[2].split() == [ROWS[1][0], ROWS[1][-1]]


def test_a_path_that_is_too_long_for_any_line_is_broken():
    """A path that is longer than a line is continued on the next one."""
    lines = drawn(Table("", ("run", "size", "path"), (("1", "quick", "/x" * 60),)), 64)

    assert "".join(line.split()[-1] for line in lines if "/x" in line) == "/x" * 60


@pytest.mark.parametrize("names", [0, 1])
@pytest.mark.parametrize("heading", ["[/api] x", "cpu [red]", ":smile:"])
def test_headings_are_no_markup(heading, names):
    """A heading may be the name of a thread, which may have brackets and colons."""
    first, *_ = drawn(Table("", ("", heading, heading), (("a", "1", "2"),), names), 80)

    assert first.split() == heading.split() * 2
