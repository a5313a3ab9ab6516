"""Read the headings of tables as the terminal shows them."""

import re

__all__ = ["headings"]


def headings(text: str) -> set[str]:
    """Return the columns' headings of every table in `text`, each on one line.

    A heading that is wider than its widest figure is broken over lines, so the number of its lines depends on the
    figures. Columns of figures are flush right, so parts that end at the same place belong to one heading. Text at the
    beginning of a line is a title, or the heading of the rows' names.
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
