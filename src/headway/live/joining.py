"""Joins the watch of the process that has started this one. Nothing here is large: each Python does it at its start.

A process that starts a watcher needs headway.live.watching besides. To import that takes more CPU time than many a short
program does.
"""

from typing import Final

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.recorder import Recorder
from headway.agent.headway_agent.watched import let_watch
from headway.errors import RecordingError
from headway.live.own_recorder import session_lock, the_recorder

__all__ = ["DOOR", "enter", "join", "joined", "parts_of"]

DOOR: Final = ("HEADWAY_TRACE_FAMILY", "HEADWAY_TRACE_BYTES", "HEADWAY_TRACE_DOOR")
"""The variables whose values, with the watcher's id behind them, are the door of a watch."""

_joined = ""


def parts_of(door: str) -> tuple[int, int, str, int]:
    """Return the values of `DOOR` and the watcher's id of a `Watch.door`. Raises ValueError."""
    family, memory_bytes, rest = door.split(" ", 2)
    path, watcher = rest.rsplit(" ", 1)
    return int(family), int(memory_bytes), path, int(watcher)


def enter(recorder: Recorder, door: str) -> None:
    """Connect this process to the watcher at a door. Raises RecordingError, ValueError."""
    family, memory_bytes, path, watcher = parts_of(door)
    try:
        with session_lock:  # else another thread that asks for its times may count again after the stop
            recorder.stop()  # a recorder that only counts
            recorder.start(path, family, memory_bytes)
        let_watch(recorder, watcher)
    except UnfitError as error:
        raise RecordingError(f"this process cannot be watched: {error}") from error


def join(door: str) -> bool:
    """Let the watcher of the process that started this one watch this process, too; return whether that succeeded.

    Args:
        door: The `Watch.door` of that process; "": there is none.

    Raises:
        NativeError: The native library is missing or does not fit.
    """
    global _joined  # noqa: PLW0603 there is one per process
    if not door:
        return False
    try:
        enter(the_recorder(), door)
    except (RecordingError, ValueError):
        return False
    _joined = door
    return True


def joined() -> str:
    """Return the door at which this process, or the one that has forked it, has joined a watch; "" if it has not."""
    return _joined
