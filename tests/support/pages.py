"""Read a page of the documentation: its files, its commands, and the output that it shows; page_runner.py runs them.

docs/contributing/documentation.md has the convention.
"""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

NOT_RUN = "not run here: "
SLOW = "takes "
SECOND_TERMINAL = "in a second terminal"
FROM_SECOND_TERMINAL = "from the second terminal"
SHOWN_ONLY = "on a 2-core machine"
CTRL_C = "<!-- Ctrl-C -->"
"""The line of a page at which a reader ends the commands of the second terminal."""

_SOONER = re.compile(r"^<!-- in a sample: `(?P<shown>.+)` is `(?P<run>.+)` -->$", re.MULTILINE)
_FENCE = re.compile(r'(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")? *')
_EXAMPLE = re.compile(r"\]\((examples/[^)#]+)\)")
_REPLACED = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r"), ""),
    (re.compile(r"[─━]+"), "─"),
    (re.compile(r"[▁-▏]+"), "█"),
    (re.compile(r"(?:[<>~] ?)?\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[+-]?\d+)?"), "#"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"# (?:ns|us|ms|s|min)\b"), "# s"),
)


class PageError(Exception):
    """A page breaks the convention, or does not show what its commands print."""


@dataclass(frozen=True)
class Block:
    """One fenced block, without its fence."""

    language: str
    title: str
    text: str
    line: int


@dataclass(frozen=True)
class Step:
    """A block of commands, and the blocks that show its output."""

    commands: Block
    outputs: list[Block] = field(default_factory=list)

    @property
    def beside(self):
        """True if the commands go on in a second terminal."""
        return self.commands.title.endswith(SECOND_TERMINAL)

    @property
    def slow(self):
        """True if only a test of everything runs the commands."""
        return self.commands.title.startswith(SLOW)


@dataclass(frozen=True)
class Awaited:
    """Output of the second terminal that comes while other commands run, or after them."""

    output: Block


@dataclass(frozen=True)
class CtrlC:
    """The end of the commands in the second terminal."""


@dataclass(frozen=True)
class Page:
    """The parts of a page that concern its test."""

    files: dict[str, str]
    steps: list[Step | Awaited | CtrlC]
    not_run: list[str]
    """Reasons, one for each block that is not run."""
    examples: list[str]
    """Paths of the files in `examples` that the page links to."""


def in_sample(text):
    """Return a page whose programs end sooner: each text that a comment of the page names is replaced by the one beside it.

    Raises:
        PageError: The page has no such text.
    """
    for found in _SOONER.finditer(text):
        before, comment, after = text.partition(found[0])
        if found["shown"] not in before + after:
            raise PageError(f"line {before.count(chr(10)) + 1}: the page has no {found['shown']!r}")
        text = comment.join(part.replace(found["shown"], found["run"]) for part in (before, after))
    return text


def blocks_of(text):
    """Return the fenced blocks of a page; a line `CTRL_C` is a block of the language of that name.

    Raises:
        PageError: A fence has no end, or an info string other than a language and a title.
    """
    found, opened, lines = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        if opened is None:
            if line.strip() == CTRL_C:
                found.append(Block(CTRL_C, "", "", number))
            elif line.lstrip().startswith("```"):
                opened = _FENCE.fullmatch(line)
                if opened is None:
                    raise PageError(f'line {number}: {line.strip()!r}, expected a language and perhaps title="..."')
                begin, lines = number, []
        elif line.lstrip().startswith("```"):
            if line.strip() != "```":
                raise PageError(f"line {begin}: the block has no end before line {number}")
            body = textwrap.dedent("\n".join(lines)) + "\n"
            found.append(Block(opened["language"], opened["title"] or "", body, begin))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        raise PageError(f"line {begin}: the block has no end")
    return found


def read_page(text):
    """Return the files of a page, its commands with their outputs, and the links to examples.

    Raises:
        PageError: The page breaks the convention.
    """
    page = Page({}, [], [], _EXAMPLE.findall(text))
    last = None
    for block in blocks_of(text):
        if block.language == CTRL_C:
            last = None
            page.steps.append(CtrlC())
        elif block.language == "sh":
            last = _commands(page, block)
        elif block.language == "text":
            if block.title == FROM_SECOND_TERMINAL:
                page.steps.append(Awaited(block))
            elif block.title not in {"", SHOWN_ONLY}:
                expected = f"`{SHOWN_ONLY}`, `{FROM_SECOND_TERMINAL}` or none"
                raise PageError(f"line {block.line}: the title is {block.title!r}, expected {expected}")
            elif last is not None and not block.title:
                last.outputs.append(block)
        elif block.title:
            if block.title in page.files or Path(block.title).name != block.title:
                raise PageError(f"line {block.line}: {block.title!r} is no name of a new file")
            page.files[block.title] = block.text
    return page


def _commands(page, block):
    """Add a block of commands to a page; return its step, or None if no test runs it."""
    if block.title.startswith(NOT_RUN) and block.title != NOT_RUN:
        page.not_run.append(block.title.removeprefix(NOT_RUN))
        return None
    if block.title not in {"", SECOND_TERMINAL} and not block.title.startswith(SLOW):
        expected = f"`{SECOND_TERMINAL}`, `{SLOW}` and a time, or `{NOT_RUN}` and a reason"
        raise PageError(f"line {block.line}: the title is {block.title!r}, expected {expected}")
    page.steps.append(Step(block))
    return page.steps[-1]


def plain(text):
    """Return a text with one form of all figures, units of time, rules, bars and line breaks."""
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text.strip()


def first_missing(shown, output):
    """Return the first part of `shown` that `output` lacks after the parts before it, or "" if it has all parts."""
    rest = plain(output)
    for piece in map(plain, shown.split("...")):
        _, found, behind = rest.partition(piece) if piece else ("", " ", rest)
        if not found:
            return piece
        rest = behind
    return ""
