"""Watches this process from its start if $HEADWAY_WATCH is set: headway_watch.pth imports it before the program runs.

$HEADWAY_WATCH is the folder for recordings; an empty one, or 0, off, false or no, switches nothing on; 1, on, true or
yes stands for the folder `stalls`. A process that this one starts inherits the variable, and is watched by the same
watcher if that still runs. Headway's own processes are not watched. The program runs even if the watch fails.
"""

import os
import sys
from pathlib import Path
from typing import Final

from headway.live.named import name_in, program_in
from headway.live.preset import preset_folder, reason_of, say_unwatched

__all__ = ["begin"]

_DOOR: Final = "HEADWAY_WATCH_DOOR"
"""The variable that tells child processes where the watcher is."""


def _is_ours() -> bool:
    """Return whether this is a process of Headway's own."""
    how, what = program_in(sys.orig_argv[1:])
    if how == "m":
        return what.partition(".")[0] == "headway"
    return how == "" and Path(what).name == "headway" and not Path(what).is_dir()


def _name() -> str:
    """Return the beginning of recordings' names: the module's or the script's name."""
    return name_in(sys.orig_argv[1:]) or "python"


def begin() -> None:
    """Start the watch, or join that of the parent process."""
    if not preset_folder() or "HEADWAY_TRACE_DOOR" in os.environ or _is_ours():
        return
    try:
        from headway.live.joining import join

        if not join(os.environ.get(_DOOR, "")):
            from headway.live.watching import watch  # large: a process that joins does without it

            os.environ[_DOOR] = watch(name=_name()).door
    except Exception as error:  # noqa: BLE001 the program must run, whatever failed
        say_unwatched(reason_of(error))


begin()
