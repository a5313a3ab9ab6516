"""Has this process watched from its start where $HEADWAY_WATCH is set: imported by headway_watch.pth, before the program runs.

$HEADWAY_WATCH is the folder for recordings. A process that this one starts has the variable, too; it is watched by the same
watcher where that lives still. Headway's own processes are not watched. Whatever fails here, the program runs.
"""

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["begin"]

_DOOR: Final = "HEADWAY_WATCH_DOOR"
"""What a process tells its children: where the watcher is."""


def _is_ours() -> bool:
    """Return whether this is a process of Headway's."""
    words = sys.orig_argv[1:8]
    return any(
        Path(word).name == "headway" or (before == "-m" and word.partition(".")[0] == "headway")
        for before, word in zip(["", *words], words, strict=False)
    )


def _name() -> str:
    """Return what recordings' names begin with: the module's or the script's."""
    words = sys.orig_argv[1:]
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1].partition(".")[0]
    script = next((word for word in words if not word.startswith("-")), "")
    return "python" if "-c" in words else Path(script).stem or "python"


def begin() -> None:
    """Do it."""
    if not os.environ.get("HEADWAY_WATCH") or "HEADWAY_TRACE_DOOR" in os.environ or _is_ours():
        return
    try:
        from headway.live.watching import join, watch

        if not join(os.environ.get(_DOOR, "")):
            os.environ[_DOOR] = watch(name=_name()).door
    except Exception as error:  # noqa: BLE001 whatever it is: the program runs
        with_what = str(error) or type(error).__name__
        if sys.stderr is not None:
            sys.stderr.write(f"headway: process {os.getpid()} is not watched: {with_what}\n")


begin()
