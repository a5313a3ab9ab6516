"""Watches this process from its start if $HEADWAY_WATCH is set: headway_watch.pth imports it before the program runs.

$HEADWAY_WATCH is the folder for recordings; an empty one, or 0, switches nothing on. A process that this one starts
inherits the variable, and is watched by the same watcher if that still runs. Headway's own processes are not watched.
The program runs even if the watch fails.
"""

import os
import sys
from pathlib import Path
from typing import Final

from headway.live.preset import preset_folder, reason_of, say_unwatched

__all__ = ["begin"]

_DOOR: Final = "HEADWAY_WATCH_DOOR"
"""The variable that tells child processes where the watcher is."""


def _program() -> tuple[str, str]:
    """Return how Python was told what to run, as `m`, `c` or "" for a script, and the module, the code or the script.

    The script is "" if the program comes from stdin. Options behind the program are its own.
    """
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word == "-":
            break
        if not word.startswith("-"):
            return "", word
        if word == "--check-hash-based-pycs":
            next(words, "")
        at = next((at for at, letter in enumerate(word) if letter in "cmWX"), 0) if word[1] != "-" else 0
        if at:  # an option with a value, which may be a part of the word: `-um module`, `-Xdev`
            value = word[at + 1 :] or next(words, "")
            if word[at] in "cm":
                return word[at], value
    return "", ""


def _is_ours() -> bool:
    """Return whether this is a process of Headway's own."""
    how, what = _program()
    if how == "m":
        return what.partition(".")[0] == "headway"
    return how == "" and Path(what).name == "headway" and not Path(what).is_dir()


def _name() -> str:
    """Return the beginning of recordings' names: the module's or the script's name."""
    how, what = _program()
    return {"m": what.partition(".")[0], "c": ""}.get(how, Path(what).stem) or "python"


def begin() -> None:
    """Start the watch, or join that of the parent process."""
    if not preset_folder() or "HEADWAY_TRACE_DOOR" in os.environ or _is_ours():
        return
    try:
        from headway.live.watching import join, watch

        if not join(os.environ.get(_DOOR, "")):
            os.environ[_DOOR] = watch(name=_name()).door
    except Exception as error:  # noqa: BLE001 the program must run, whatever failed
        say_unwatched(reason_of(error))


begin()
