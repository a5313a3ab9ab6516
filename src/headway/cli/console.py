"""Printing: data to stdout, talk to stderr. rich is imported where a table is printed, never to start a lab."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from headway.errors import UsageError
from headway.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "check_output",
    "complain",
    "discard_output",
    "print_json",
    "print_plain",
    "print_rendered",
    "progress",
    "say",
    "say_rendered",
    "write_json",
]

_LEAST_COLUMNS = 64
_PIPE_COLUMNS = 120
_TELL_S = 2.0


def say(text: str) -> None:
    """Tell the user something: stderr. What it quotes is shown, not obeyed.

    Where stderr is closed or full nobody listens, and what is to be done is done.
    """
    if sys.stderr is None:
        return
    try:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        # The descriptor stays as it is: it may be about to be a program's. Python would complain of the stream at exit.
        sys.stderr = None


def progress(noun: str) -> Callable[[int, int], None]:
    """Return what is told how many are done, and of how many, and tells a terminal every two seconds."""
    told_s = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _TELL_S and sys.stderr is not None and sys.stderr.isatty():
            told_s = time.monotonic()
            say(f"{done} of {total} {noun}")

    return tell


def discard_output() -> None:
    """Send what is still to go to stdout nowhere: Python would complain again at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str, hint: str = "") -> None:
    """Print an error in our form."""
    say(f"error: {message}")
    if hint:
        say(f"\nhint: {hint}")


def print_json(value: Any) -> None:
    """Print JSON to stdout."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_plain(text: str) -> None:
    """Print text to stdout, as it is."""
    print(text)


def print_rendered(what: "RenderableType") -> None:
    """Print tables and text to stdout: colour only on a terminal and without NO_COLOR."""
    _render(what, sys.stdout)


def say_rendered(what: "RenderableType") -> None:
    """Tell the user something that has a form: stderr."""
    _render(what, sys.stderr)


def _render(what: "RenderableType", stream: TextIO | None) -> None:
    if stream is None:  # it was closed when we began
        return
    from rich.console import Console

    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        width = int(columns)
    else:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else _PIPE_COLUMNS
    # Narrower, figures would be cut off, and half a figure reads like another one: let the terminal wrap the lines.
    width = max(width, _LEAST_COLUMNS)
    console = Console(width=width, highlight=False, soft_wrap=False, file=stream)
    with console.capture() as captured:
        console.print(what)
    # rich fills lines up with blanks, which pipes and small terminals have no use for.
    for line in captured.get().splitlines():
        print(line.rstrip(), file=stream)
    # Somebody may wait for it at the other end of a pipe.
    stream.flush()


def check_output(path: Path | None, *, force: bool) -> None:
    """Make sure before any work that `path` can be written.

    Raises:
        UsageError: It is there already (without `force`), is a folder, or its folder is missing or not writable.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a folder, expected a file name", hint="add a file name")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already", hint="use `--force` to replace it, or another name")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} is not there", hint="make it first, or use another name")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written", hint="choose a folder that you may write to")


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file checked by `check_output`."""
    path.write_text(json.dumps(value, allow_nan=False) + "\n", encoding="utf-8")
    say(f"wrote {path}")
