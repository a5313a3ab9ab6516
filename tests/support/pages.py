"""Run the commands that a page of the documentation shows, and compare their output with the page.

docs/contributing/documentation.md has the convention.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

NOT_RUN = "not run here: "
SHOWN_ONLY = "on a 2-core machine"
COLUMNS = 80
LIMIT_S = 90
"""The longest that a block may take, and the longest wait for output that comes after a block's end."""

_FENCE = re.compile(r'(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")? *')
_EXAMPLE = re.compile(r"\]\((examples/[^)#]+)\)")
_REPLACED = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r"), ""),
    (re.compile(r"[─━]+"), "─"),
    (re.compile(r"[▁-▏]+"), "█"),
    (re.compile(r"(?:[<>~] ?)?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"), "#"),
    (re.compile(r"# (?:ns|us|ms|s|min)\b"), "# s"),
    (re.compile(r"\s+"), " "),
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


@dataclass(frozen=True)
class Page:
    """The parts of a page that concern its test."""

    files: dict[str, str]
    steps: list[Step]
    not_run: list[str]
    """Reasons, one for each block that is not run."""
    examples: list[str]
    """Paths of the files in `examples` that the page links to."""


def blocks_of(text):
    """Return the fenced blocks of a page.

    Raises:
        PageError: A fence has no end, or an info string other than a language and a title.
    """
    found, opened, lines = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        if opened is None:
            if line.lstrip().startswith("```"):
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
        if block.language == "sh":
            last = None
            if not block.title:
                last = Step(block)
                page.steps.append(last)
            elif block.title.startswith(NOT_RUN) and block.title != NOT_RUN:
                page.not_run.append(block.title.removeprefix(NOT_RUN))
            else:
                raise PageError(f"line {block.line}: the title is {block.title!r}, expected `{NOT_RUN}` and a reason")
        elif block.language == "text":
            if block.title not in {"", SHOWN_ONLY}:
                raise PageError(f"line {block.line}: the title is {block.title!r}, expected `{SHOWN_ONLY}` or none")
            if last is not None and not block.title:
                last.outputs.append(block)
        elif block.title:
            if block.title in page.files or Path(block.title).name != block.title:
                raise PageError(f"line {block.line}: {block.title!r} is no name of a new file")
            page.files[block.title] = block.text
    return page


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


def run_page(path, folder, environment):
    """Run a page's commands in an empty folder, and compare their output with the page.

    Args:
        path: The page.
        folder: The folder for the page's files and commands.
        environment: Variables in addition to those of this process.

    Raises:
        PageError: A command fails, or prints something else than the page shows.
    """
    page = read_page(path.read_text(encoding="utf-8"))
    for example in page.examples:
        shutil.copy(path.parent / example, folder)
    for name, text in page.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_P", "PYTHON"))}
    for name in ("VIRTUAL_ENV", "COLUMNS", "LINES"):
        variables.pop(name, None)
    variables |= {"TERM": "dumb", "BROWSER": "true", "LC_ALL": "C.UTF-8", **environment}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    for step in page.steps:
        try:
            run_step(step, folder, variables)
        except PageError as error:
            raise PageError(f"{path.name}:{step.commands.line}: {error}") from None


def run_step(step, folder, variables, limit_s=LIMIT_S):
    """Run one block on a terminal of its own; return its output.

    A detached process may write after the block's end (the summary of `headway trace`), so the block is over as soon as
    everything that the page shows is there.

    Raises:
        PageError: The block fails, prints something else, or takes longer than the limit.
    """
    ours, theirs = pty.openpty()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, ours)
        # A process that opens the terminal by its name finds it as long as this descriptor is open.
        stack.callback(os.close, theirs)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = stack.enter_context(
            subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", step.commands.text],
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        )
        stack.callback(_kill_group, process.pid)
        return _output(process, ours, step, limit_s)


def _output(process, terminal, step, limit_s):
    data = b""
    until = time.monotonic() + limit_s
    ended = False
    while True:
        # The process is polled before the read: if it has ended, the terminal already has all of its output.
        over = process.poll() is not None
        if over and not ended:
            ended, until = True, time.monotonic() + limit_s
        if select.select([terminal], [], [], 0.05)[0]:
            data += os.read(terminal, 65536)
            continue
        output = data.decode(errors="replace")
        missing = next((one for one in (first_missing(out.text, output) for out in step.outputs) if one), "")
        if over and process.returncode:
            raise PageError(f"exit code {process.returncode}:\n{step.commands.text}\n{output}")
        if over and not missing:
            return output
        if time.monotonic() > until:
            why = f"the output lacks {missing!r}" if over else f"it takes longer than {limit_s} s"
            raise PageError(f"{why}:\n{step.commands.text}\n{output}")


def _kill_group(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
