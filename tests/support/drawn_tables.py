"""Read the headings of tables as the terminal shows them."""

import re

__all__ = ["headings"]


def headings(text: str) -> set[str]:
    """Return the columns' headings of every table in `text`, each on one line.

    A heading that is wider than its widest figure is broken over lines, so the number of its lines depends on the
    figures. The last line has a part of each heading. A part above it that shares places with one heading only belongs
    to that heading, flush left or right. Other text above is a title, and text at the beginning of a line is a title
    or the heading of the rows' names.
    """
    lines = text.splitlines()
    found = set()
    for rule in (place for place, line in enumerate(lines) if re.fullmatch(r"\s*\u2500+", line)):
        columns: list[tuple[range, list[str]]] = []
        for line in reversed(lines[:rule]):
            if not line.strip():
                break
            for part in re.finditer(r"\S+(?: \S+)*", line):
                if part.start() == 0:
                    continue
                below = [words for places, words in columns if part.start() < places.stop and part.end() > places.start]
                if len(below) == 1:
                    below[0].insert(0, part.group())
                elif line is lines[rule - 1]:
                    columns.append((range(*part.span()), [part.group()]))
        found |= {" ".join(words) for _, words in columns}
    return found
