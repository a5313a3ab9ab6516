"""Tells why a Python cannot be recorded or scheduled: from a command line, or from a process that runs.

The kernel keeps the environment that a process has executed its program with: the environment, the command line and
the mapped files are the evidence for a process. A process without such evidence may be slow to start, or may be no
Python, and nothing is said of it.
"""

import itertools
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headway.agent import STARTUP_PATH

__all__ = ["cause_of", "first_line", "may_chain", "out_of_reach"]

_FRONT: Final = "the sitecustomize in "
_PYTHON: Final = re.compile(r"python[\d.]*[td]*")
_CLEARS = ("-", "-i", "--ignore-environment")
"""Options by which `env` starts a program without any variable of ours."""
_DEAF_OPTIONS = {"I": "ignores PYTHONPATH", "E": "ignores PYTHONPATH", "S": "imports no sitecustomize"}
"""Python's options by which it does not run our `sitecustomize` on PYTHONPATH, and why."""


def first_line(path: str | Path) -> list[str] | None:
    """Return the interpreter that a script's `#!` line names, and its one argument; None if there is no such line."""
    try:
        with open(path, "rb") as file:
            line = file.read(256).split(b"\n", 1)[0]
    except OSError:
        return None
    text = os.fsdecode(line[2:]).strip(" \t") if line.startswith(b"#!") else ""
    return re.split("[ \t]+", text, maxsplit=1) if text else None  # as the kernel does: a `\r` is a part of the word


def out_of_reach(command: Sequence[str]) -> str | None:
    """Return why the first process of a command cannot be recorded or scheduled, if the command line shows it."""
    words = list(command)
    if not Path(words[0]).name.startswith(
        "python"
    ):  # a script of that name (pyenv's) passes its arguments on to Python
        words = (first_line(shutil.which(words[0]) or words[0]) or []) + words
    if Path(words[0]).name == "env":
        # `env -S "python3 -I" app.py`; in a `#!` line the words after `env` are one argument.
        rest = " ".join(words[1:3]).removeprefix("-S").split() + words[3:]
        own = list(itertools.takewhile(lambda word: word.startswith("-") or "=" in word, rest))
        taken = next((word for word in own if word in _CLEARS or word.startswith("PYTHONPATH=")), None)
        words = rest[len(own) :] or words
        if taken is not None and Path(words[0]).name.startswith("python"):
            what = taken if taken in _CLEARS else "PYTHONPATH=..."
            return f"`env {what}` leaves it without the PYTHONPATH that Headway needs"
    if not Path(words[0]).name.startswith("python"):
        return None
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
            continue
        if not word.startswith("-") or word in ("-", "--"):
            return None
        for position, letter in enumerate(() if word.startswith("--") else word[1:], 2):
            if letter in _DEAF_OPTIONS:
                return f"{Path(words[0]).name} -{letter} {_DEAF_OPTIONS[letter]}, which Headway needs"
            if letter in "cm":
                return None
            if letter in "WX":
                skip = position == len(word)
                break
        skip = skip or word == "--check-hash-based-pycs"
    return None


def cause_of(pid: int, proc: Path = Path("/proc")) -> str:
    """Return why the Python of a process does not load Headway; "" if there is no evidence for that."""
    process = proc / str(pid)
    try:
        name = os.path.basename(os.readlink(process / "exe"))
        maps = (process / "maps").read_bytes()
        words = [os.fsdecode(word) for word in (process / "cmdline").read_bytes().split(b"\0")[:-1]]
        pairs = (os.fsdecode(one).partition("=") for one in (process / "environ").read_bytes().split(b"\0"))
        variables = {name: value for name, _, value in pairs}
    except OSError:
        return ""  # it has ended, or belongs to another user
    library = os.path.basename(variables.get("HEADWAY_NATIVE", "")) or "libheadway.so"
    if os.fsencode(library) in maps or not (_PYTHON.fullmatch(name) or b"/libpython" in maps):
        return ""
    why = out_of_reach([name, *words[1:]]) if words else None
    if why is not None:
        return why
    if "HEADWAY_NATIVE" not in variables:
        return "it was started without the environment of its parent, which Headway needs"
    entries = variables.get("PYTHONPATH", "").split(os.pathsep)
    if str(STARTUP_PATH) not in entries:
        return "its PYTHONPATH was replaced, and does not lead to Headway any more"
    for entry in entries[: entries.index(str(STARTUP_PATH))]:
        if _has_hook(process / "root" / entry[1:] if entry.startswith("/") else process / "cwd" / entry):
            return f"{_FRONT}{entry or '.'} is found first, because it is before Headway's on PYTHONPATH"
    return ""


def may_chain(cause: str) -> bool:
    """Tell whether a cause of `cause_of()` is another sitecustomize, which may itself run Headway's in the end."""
    return cause.startswith(_FRONT)


def _has_hook(folder: Path) -> bool:
    """Tell whether Python finds a sitecustomize in a folder; False for one that may not be searched, or is none."""
    # Path.exists() raises for such a folder before Python 3.14.
    return any(os.path.exists(folder / name) for name in ("sitecustomize.py", "sitecustomize/__init__.py"))
