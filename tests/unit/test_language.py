"""The language check finds sentences that break its rules, and accepts correct ones."""

from pathlib import Path

import check_language
import pytest

LONG = "word " * 30


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.md", "Who waits sleeps on a futex.\n"),
        ("x.md", "The holder runs. What it holds is the GIL.\n"),
        ("x.md", f"{LONG}\n"),
        ("x.md", "- A list's item. It has two sentences.\n"),
        ("x.c", "/* Whom a release wakes. */\nint x;\n"),
        ("x.h", "int x; /* the count.\n * What is counted is a wait. */\n"),
        ("x.ts", "// What is drawn.\nlet x = 1;\n"),
        ("x.py", '"""Docs.\n\nWhoever calls it waits.\n"""\n'),
        ("x.py", "x = 1\n# What is measured,\n# and how.\n"),
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found(name, text):
    """Openings with Who or What, two sentences on a line and long lines are found, in each language."""
    assert len(check_language.problems_of(Path(name), text)) in (1, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.md", "What does the GIL do?\n"),
        ("x.md", "## What it costs\n"),
        ("x.md", "| Who holds it. What else. |\n"),
        ("x.md", f"```text\n{LONG}\n```\n"),
        ("x.md", f"[a link](https://example.org/{'x' * 140})\n"),
        ("x.md", "Version 3.14 is new, e.g. here.\n"),
        ("x.md", "`a. B` is code.\n"),
        ("x.c", 'char *x = "/* What is this. */"; // fine\n'),
        ("x.py", 'x = "# What is this."\n'),
        ("x.py", "x = 1  # the holder's count\n"),
    ],
)
def test_what_is_right_is_left_alone(name, text):
    """Questions, headings, tables, code, strings and links break no rule."""
    assert check_language.problems_of(Path(name), text) == []


def test_a_place_is_told_with_its_line():
    """A problem is reported at the line of the comment or of the sentence."""
    assert [line for line, _ in check_language.problems_of(Path("x.md"), "Good.\n\nWho waits sleeps.\n")] == [3]
    assert [line for line, _ in check_language.problems_of(Path("x.c"), "int x;\n/* Who waits. */\n")] == [2]
