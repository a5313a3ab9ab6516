"""The one recorder of this process. Needs no numpy, which a watched service need not have."""

import os
import threading

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.recorder import Recorder
from headway.errors import RecordingError
from headway.library import library_path

__all__ = ["present_recorder", "session_lock", "the_recorder"]

session_lock = threading.Lock()
"""Held while a thread of this process starts or stops a recording: another thread's `gil_times` must not begin between."""
os.register_at_fork(after_in_child=session_lock._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001 as threading's own do

_recorder: Recorder | None = None


def the_recorder() -> Recorder:
    """Return this process's recorder. Raises RecordingError, NativeError."""
    global _recorder  # noqa: PLW0603 there is one per process
    if _recorder is None:
        try:
            _recorder = Recorder(str(library_path()))
        except UnfitError as error:
            raise RecordingError(f"this process cannot be recorded: {error}") from error
    return _recorder


def present_recorder() -> Recorder | None:
    """Return this process's recorder if the_recorder() has made it; else None."""
    return _recorder
