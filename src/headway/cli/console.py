"""Print data to stdout and messages to stderr. rich is imported only to print a table, never to start a lab."""

import contextlib
import errno
import json
import os
import stat
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from headway.errors import UsageError
from headway.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = [
    "can_rewrite",
    "check_output",
    "check_outputs",
    "complain",
    "discard_output",
    "end_line",
    "occupy_streams",
    "print_json",
    "print_list",
    "print_plain",
    "print_rendered",
    "progress",
    "rewrite",
    "say",
    "say_rendered",
    "write_json",
    "write_text",
]

_USUAL_COLUMNS = 80
_LEAST_COLUMNS = 64
_PIPE_COLUMNS = 120
_UNLIMITED = 10_000
_LINES = 25
_DIGITS = 6
"""A value of COLUMNS with as many digits is no width, and would be filled with blanks."""
_TELL_S = 2.0
_STDERR = 2


def occupy_streams() -> None:
    """Open /dev/null in the place of each standard stream that is closed, until exec().

    A file of ours would get the descriptor otherwise, and count as the stream. A program that this process becomes, or
    starts, finds the stream closed, as it would without us.
    """
    with contextlib.suppress(OSError):  # there is no /dev/null, or no room for one more file
        while (nothing := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= _STDERR:
            pass
        os.close(nothing)


def say(text: str) -> None:
    """Print a message to stderr; control characters in it are made printable, so that the terminal does not obey them.

    If stderr is closed or cannot be written to, the message is lost and the command goes on.
    """
    _tell("\n".join(map(printable, text.split("\n"))) + "\n")


def can_rewrite() -> bool:
    """Tell whether stderr is a terminal that can replace its current line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def rewrite(line: str) -> None:
    """Replace the terminal's current line by the beginning of another one, as `say` would print it; `end_line` ends it.

    No more is printed than fits into one row: the terminal would wrap the rest, and only the last row can be replaced.
    """
    columns = 0
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # the terminal is gone
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
    # Some terminals wrap after a full row already. One without a size says 0.
    _tell(f"\r\x1b[K{_beginning(printable(line), (columns or _USUAL_COLUMNS) - 1)}")


def _beginning(text: str, columns: int) -> str:
    """Return as much of a text as fits into the columns of a terminal."""
    taken = 0
    for at, one in enumerate(text):
        if not unicodedata.combining(one):
            taken += 2 if unicodedata.east_asian_width(one) in "WF" else 1
        if taken > columns:
            return text[:at]
    return text


def end_line() -> None:
    """End the line that `rewrite` began."""
    _tell("\n")


def _tell(text: str) -> None:
    """Write text to stderr, unless stderr is closed or cannot be written to, as a terminal that is gone."""
    if sys.stderr is None:
        return
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError:
        # The descriptor stays open, because a program that this process becomes may need it. Without the stream,
        # Python does not report another error at exit.
        sys.stderr = None


def progress(noun: str) -> Callable[[int, int], None]:
    """Return a function of (done, total) that prints the progress, every two seconds and only to a terminal."""
    told_s = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _TELL_S and sys.stderr is not None and sys.stderr.isatty():
            told_s = time.monotonic()
            say(f"{done} of {total} {noun}")

    return tell


def discard_output() -> None:
    """Redirect stdout to /dev/null: otherwise Python would flush it at exit, and report the error again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _put(text: str, *, flush: bool = False) -> None:
    """Print text to stdout.

    If stdout is a terminal that is gone, the text is lost and the command goes on: it ignores SIGHUP, or ends by it.
    """
    try:
        print(text, flush=flush)
    except OSError as error:
        if error.errno != errno.EIO or sys.stdout is None or not stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode):
            raise
        discard_output()


def complain(message: str, hint: str = "") -> None:
    """Print an error and its hint in the form that all commands use."""
    say(f"error: {message}")
    if hint:
        say(f"\nhint: {hint}")


def print_json(value: Any) -> None:
    """Print JSON to stdout."""
    _put(json.dumps(value, indent=2, allow_nan=False))


def print_plain(text: str) -> None:
    """Print text to stdout, as it is."""
    _put(text)


def print_list(named: Iterable[tuple[str, str]], *, indent: int = 0) -> None:
    """Print names with a text each, wrapped to the width of the terminal; in a pipe, each in a line. It needs no rich."""
    rows = list(named)
    column = max((len(name) for name, _ in rows), default=0)
    blanks = " " * indent
    width = _columns(sys.stdout) or _UNLIMITED
    for name, text in rows:
        begin = f"{blanks}{name:<{column}}  " if column else blanks
        _put(
            textwrap.fill(text, width, initial_indent=begin, subsequent_indent=" " * len(begin), break_on_hyphens=False)
        )


def _columns(stream: TextIO | None) -> int | None:
    """Return the width of a stream's lines: as COLUMNS says, or the terminal's; None for a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and len(columns) < _DIGITS:
        # In fewer columns figures would be cut off, and a part of a figure looks like another figure. It is better that
        # the terminal wraps the lines.
        return max(int(columns), _LEAST_COLUMNS)
    if stream is not None and stream.isatty():
        return max(os.get_terminal_size(stream.fileno()).columns, _LEAST_COLUMNS)
    return None


def print_rendered(what: "RenderableType") -> None:
    """Print tables and text to stdout: colour only on a terminal and without NO_COLOR."""
    if sys.stdout is not None:
        # The reader at the other end of a pipe may wait for the output.
        _put(_rendered(what, sys.stdout), flush=True)


def say_rendered(what: "RenderableType") -> None:
    """Print tables and text to stderr."""
    if sys.stderr is not None:
        _tell(_rendered(what, sys.stderr) + "\n")


class _Harmless:
    """A drawing of rich, with control characters made printable: a run or a trace may come from elsewhere, with any names."""

    def __init__(self, what: "RenderableType") -> None:
        self._what = what

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment

        for one in console.render(self._what, options):
            lines = one.text.split("\n")
            yield one if one.control else Segment("\n".join(map(printable, lines)), one.style)


def _rendered(what: "RenderableType", stream: TextIO) -> str:
    """Return tables and text as lines for a stream."""
    from rich.console import Console

    width = _columns(stream) or _PIPE_COLUMNS
    # Without a height, rich would read COLUMNS and LINES, and fail on digits that are no decimal number.
    console = Console(width=width, height=_LINES, highlight=False, soft_wrap=False, file=stream)
    with console.capture() as captured:
        console.print(_Harmless(what))
    # rich pads lines with blanks. They are removed, because they are of no use in pipes and narrow terminals.
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def check_output(path: Path | None, *, force: bool) -> None:
    """Check, before any work, that `path` can be written; None is always fine.

    Raises:
        UsageError: The file exists (without `force`), is a folder or not writable, or its folder is missing or not
            writable; or it is `-`, which is stdout to other programs.
    """
    if path is None:
        return
    if str(path) == "-":
        raise UsageError("`-` is no file name: a file is written as a whole, and not to stdout", hint="name a file")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, expected a file name", hint="add a file name")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already", hint="use `--force` to replace it, or another name")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} is not there", hint="make it first, or use another name")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written", hint="choose a folder that you may write to")


def check_outputs(
    outputs: Mapping[str, Path | None], *, force: bool, inputs: Mapping[str, Path | str | None] | None = None
) -> None:
    """Check, before any work, that the files that options name can be written, and that each has a name of its own.

    Args:
        outputs: The file of each option; None is always fine.
        force: Whether a file that is there may be replaced.
        inputs: Files that the command reads, which it never replaces: each with words for it, such as "the trace".

    Raises:
        UsageError: A file cannot be written (see `check_output`), is an input, or is the file of two options.
    """
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        for words, read in (inputs or {}).items():
            if read and path.exists() and os.path.exists(read) and path.samefile(read):
                raise UsageError(f"{path} is {words} itself", hint="use another name")
        check_output(path, force=force)
        name = os.path.realpath(path)
        if name in seen:
            raise UsageError(
                f"`{seen[name]}` and `{option}` name the same file {path}", hint="use another name for one of them"
            )
        seen[name] = option


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file that `check_output` has checked; see `write_text`."""
    write_text(path, json.dumps(value, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write text to a file that `check_output` has checked, and say so; an error leaves an older file as it was.

    Raises:
        HeadwayError: The file cannot be written.
    """
    from headway.traces.export.output import written_whole

    with written_whole(path) as file:
        file.write(text.encode())
    say(f"wrote {path}")
