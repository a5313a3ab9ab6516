"""Recording in this process: `with headway.trace() as t: ...`, and `headway.gil_times()`.

Where the process is recorded already (by `headway trace`, `headway attach`, or an outer `with`), that recording is
joined: nothing is started twice, and what is looked at is the time between the two ends of the `with`.
"""

import os
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, final

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.recorder import Recorder
from headway.errors import RecordingError
from headway.live.files import check_new
from headway.live.launch import DEFAULT_MAX_BYTES
from headway.native import library_path
from headway.traces.analysis import Analysis, analyse
from headway.traces.model import Trace
from headway.traces.reader import read

__all__ = ["GilTimes", "Recording", "gil_times", "trace"]


class GilTimes(NamedTuple):
    """How long a thread has held the GIL and waited for it, in nanoseconds, since counting began."""

    held_ns: int
    waited_ns: int


_recorder: Recorder | None = None
_lock = threading.Lock()  # protects _recorder's making, and that a session starts or stops


def _the_recorder() -> Recorder:
    global _recorder  # noqa: PLW0603 there is one per process
    if _recorder is None:
        try:
            _recorder = Recorder(str(library_path()))
        except UnfitError as error:
            raise RecordingError(f"this process cannot be recorded: {error}") from error
    return _recorder


def gil_times() -> GilTimes:
    """Return how long the calling thread has held the GIL and waited for it so far.

    The first call in a process starts the counting, for all threads; take differences. It costs less than a
    microsecond, and counting costs each hand-over of the GIL some tens of nanoseconds.

    Raises:
        RecordingError: This interpreter cannot be recorded.
        NativeError: The native library is missing or does not fit.
    """
    recorder = _recorder
    if recorder is None or not recorder.active:
        with _lock:
            recorder = _the_recorder()
            if not recorder.active:
                _start(recorder, "")
    return GilTimes(*recorder.times())


def _start(recorder: Recorder, path: str, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
    try:
        recorder.start(path, None, max_bytes)
    except UnfitError as error:
        raise RecordingError(f"this process cannot be recorded: {error}") from error


@final
class Recording:
    """What `trace()` gives: the recording of this process between the two ends of a `with`."""

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self._wanted = path
        self._max_bytes = max_bytes
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ours = False
        self._counted = False
        self._since_ns = 0
        self._until_ns: int | None = None
        self._path = Path()

    def __enter__(self) -> "Recording":
        with _lock:
            recorder = _the_recorder()
            self._counted = recorder.active and not recorder.path
            if self._counted:
                recorder.stop()
            self._ours = not recorder.active
            if self._ours:
                if self._wanted is None:
                    self._folder = tempfile.TemporaryDirectory(prefix="headway-")
                    self._path = Path(self._folder.name) / f"{os.getpid()}.hwt"
                else:
                    self._path = self._wanted
                _start(recorder, str(self._path), self._max_bytes)
            else:
                self._path = Path(recorder.path)
        self._since_ns = time.monotonic_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._until_ns = time.monotonic_ns()
        if self._ours:
            with _lock:
                recorder = _the_recorder()
                recorder.stop()
                if self._counted:
                    _start(recorder, "")

    @property
    def path(self) -> Path:
        """The trace's file; a temporary one goes with this object."""
        return self._path

    def trace(self) -> Trace:
        """Return the trace so far: of the whole process, from when it was first recorded.

        Raises:
            TraceError: The file is gone.
        """
        return read(self._path)

    def summary(self) -> Analysis:
        """Return what happened between the two ends of the `with`, or so far.

        Raises:
            TraceError: The file is gone.
        """
        return analyse(self.trace(), since_ns=self._since_ns, until_ns=self._until_ns)


def trace(path: str | os.PathLike[str] | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Recording:
    """Return a context manager that records who holds the GIL of this process, and who waits for it.

    Args:
        path: A new file for the trace, ending in .hwt; else a temporary one.
        max_bytes: How much to keep; older events are overwritten.

    Raises:
        UsageError: The file exists or cannot be made.
        RecordingError: On entry: this interpreter cannot be recorded.
        NativeError: On entry: the native library is missing or does not fit.
    """
    return Recording(None if path is None else check_new(Path(path)), max_bytes)
