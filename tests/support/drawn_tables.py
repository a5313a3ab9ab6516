"""Reads tables as the terminal has them."""

import re

__all__ = ["headings"]


def headings(text: str) -> set[str]:
    """Return the columns' headings of every table in `text`, each on one line.

    A heading is broken over lines where its widest figure is narrower, so how many it has depends on what was measured.
    Columns of figures are flush right: what ends below each other belongs together. What begins a line is a title, or the
    heading of the rows' names.
    """
    lines = text.splitlines()
    found = set()
    for rule in (place for place, line in enumerate(lines) if re.fullmatch(r"\s*\u2500+", line)):
        columns: dict[int, list[str]] = {}
        first = rule
        while first > 0 and lines[first - 1].strip():
            first -= 1
        for line in lines[first:rule]:
            for part in re.finditer(r"\S+(?: \S+)*", line):
                if part.start() > 0:
                    columns.setdefault(part.end(), []).append(part.group())
        found |= {" ".join(parts) for parts in columns.values()}
    return found
