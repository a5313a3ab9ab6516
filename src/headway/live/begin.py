"""Watches this process from its start if $HEADWAY_WATCH is set: headway_watch.pth imports it before the program runs.

$HEADWAY_WATCH is the folder for recordings; an empty one, or 0, switches nothing on. A process that this one starts
inherits the variable, and is watched by the same watcher if that still runs. Headway's own processes are not watched.
The program runs even if the watch fails.
"""

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["begin"]

_DOOR: Final = "HEADWAY_WATCH_DOOR"
"""The variable that tells child processes where the watcher is."""


def _is_ours() -> bool:
    """Return whether this is a process of Headway's own."""
    words = sys.orig_argv[1:8]
    return any(
        Path(word).name == "headway" or (before == "-m" and word.partition(".")[0] == "headway")
        for before, word in zip(["", *words], words, strict=False)
    )


def _name() -> str:
    """Return the beginning of recordings' names: the module's or the script's name."""
    words = iter(sys.orig_argv[1:])
    for word in words:  # the options behind the script are its own
        if word in {"-W", "-X", "--check-hash-based-pycs"}:
            next(words, "")
        elif word == "-m":
            return next(words, "").partition(".")[0] or "python"
        elif word == "-c":
            break
        elif not word.startswith("-"):
            return Path(word).stem
    return "python"


def begin() -> None:
    """Start the watch, or join that of the parent process."""
    if os.environ.get("HEADWAY_WATCH", "").strip() in {"", "0"} or "HEADWAY_TRACE_DOOR" in os.environ or _is_ours():
        return
    try:
        from headway.live.watching import join, watch

        if not join(os.environ.get(_DOOR, "")):
            os.environ[_DOOR] = watch(name=_name()).door
    except Exception as error:  # noqa: BLE001 the program must run, whatever failed
        with_what = str(error) or type(error).__name__
        hint = getattr(error, "hint", "")
        if sys.stderr is not None:
            with_what += f"; {hint}" if hint else ""
            sys.stderr.write(f"headway: process {os.getpid()} is not watched: {with_what}\n")


begin()
