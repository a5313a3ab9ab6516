"""Recording in this process: `with headway.trace() as t: ...`, and `headway.gil_times()`.

If the process is recorded already (by `headway trace`, `headway attach`, or an outer `with`), the present recording is
used: nothing is started twice, and the summary covers the time between the two ends of the `with`.

A recording of ours stays in memory, where new events replace the oldest. The recording is written to a file when it is
read, and at the end. A forked child has a copy of our objects, but neither writes nor removes the files of its parent.
"""

import contextlib
import os
import shutil
import tempfile
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, final

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.recorder import Recorder
from headway.errors import RecordingError
from headway.live.files import check_new
from headway.live.own_recorder import present_recorder, the_recorder
from headway.native import Collection
from headway.traces.analysis import Analysis, analyse
from headway.traces.model import Trace
from headway.traces.reader import read

__all__ = ["GilTimes", "Recording", "gil_longest", "gil_times", "trace"]


DEFAULT_BYTES = 64 << 20
"""The memory for events of a recording of ours: about four million events."""
_COLLECTED_S = 5.0
"""How long to wait for another process's collector to write the events up to now."""


class GilTimes(NamedTuple):
    """How long a thread has held the GIL and waited for it, in nanoseconds, since counting began."""

    held_ns: int
    waited_ns: int


_lock = threading.Lock()  # held while a recording starts or stops


def gil_times() -> GilTimes:
    """Return how long the calling thread has held the GIL and waited for it so far.

    The first call in a process starts the counting for all threads; use differences of two calls. A call takes less
    than a microsecond, and counting costs some tens of nanoseconds for each hand-off of the GIL.

    Raises:
        RecordingError: This interpreter cannot be recorded.
        NativeError: The native library is missing or does not fit.
    """
    recorder = present_recorder()
    if recorder is None or not recorder.active:
        with _lock:
            recorder = the_recorder()
            if not recorder.active:
                _start(recorder, 0)
    return GilTimes(*recorder.times())


def gil_longest() -> GilTimes:
    """Return the calling thread's longest hold of the GIL and longest wait for it since its last call of this function.

    If a hold began before that call, only the part after the call counts. Before `gil_times` has started the counting,
    both are 0.
    """
    recorder = present_recorder()
    return GilTimes(*recorder.longest()) if recorder is not None else GilTimes(0, 0)


def _start(recorder: Recorder, memory_bytes: int) -> None:
    try:
        recorder.start("", None, memory_bytes)
    except UnfitError as error:
        raise RecordingError(f"this process cannot be recorded: {error}") from error


def _remove(folder: str, pid: int) -> None:
    """Remove the temporary folder of a process, in that process only."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


@final
class Recording:
    """The recording of this process between the two ends of a `with`; `trace()` returns it."""

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self._wanted = path
        self._max_bytes = max_bytes
        self._pid = 0
        """The process whose recording of ours this is; 0: the recording is another one's."""
        self._memory = -1
        self._counted = False
        self._since_ns = 0
        self._until_ns: int | None = None
        self._path = Path()

    def __enter__(self) -> "Recording":
        with _lock:
            recorder = the_recorder()
            self._counted = recorder.counts_only
            if self._counted:
                recorder.stop()
            if not recorder.active:
                self._pid = os.getpid()
                self._path = self._temporary() if self._wanted is None else self._wanted
                _start(recorder, self._max_bytes)
                self._memory = os.dup(recorder.memory_file)
            elif recorder.memory_file >= 0:  # the recording of an outer `with`
                self._pid = os.getpid()
                self._path = self._temporary()
            else:
                self._path = Path(recorder.path)
        self._since_ns = time.monotonic_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._until_ns = time.monotonic_ns()
        if self._is_parents():
            if self._memory >= 0:
                os.close(self._memory)
                self._memory = -1
        elif self._memory >= 0:
            with _lock:
                recorder = the_recorder()
                recorder.stop()
                self._save(self._memory)
                os.close(self._memory)
                self._memory = -1
                if self._counted:
                    _start(recorder, 0)
        else:
            self._bring_up_to_date()

    def _temporary(self) -> Path:
        """Return the path of a new file, whose folder is removed together with this object."""
        folder = tempfile.mkdtemp(prefix="headway-")
        weakref.finalize(self, _remove, folder, self._pid)
        return Path(folder, f"{self._pid}.hwt")

    def _is_parents(self) -> bool:
        """Tell whether this process is a forked child, and the recording is that of its parent's memory."""
        return self._pid not in (0, os.getpid())

    def _save(self, memory: int) -> None:
        """Write the events that are in memory now to our file."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        with open(self._path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            collection = Collection(memory, file.fileno())
            try:
                collection.copy()
            finally:
                collection.close()

    def _bring_up_to_date(self) -> None:
        """Make our file contain all that was recorded up to now."""
        with _lock:
            recorder = the_recorder()
            if recorder.memory_file >= 0:
                self._save(recorder.memory_file)
                return
        if not recorder.active:
            return
        until_ns = self._until_ns or time.monotonic_ns()
        deadline = time.monotonic() + _COLLECTED_S
        while recorder.active and recorder.collected_ns < until_ns and time.monotonic() < deadline:
            time.sleep(0.01)
        self._path = Path(recorder.path)

    @property
    def path(self) -> Path:
        """The trace's file; a temporary file is removed together with this object."""
        return self._path

    def trace(self) -> Trace:
        """Return the trace so far, of the whole process since its recording began.

        Raises:
            TraceError: The file is gone.
            RecordingError: This process is a forked child of the recorded process.
        """
        if self._is_parents():
            raise RecordingError(
                f"this is the recording of process {self._pid}, of which process {os.getpid()} is a forked child",
                hint="read it in the parent, or begin a recording in the child",
            )
        if self._until_ns is None:
            self._bring_up_to_date()
        return read(self._path)

    def summary(self) -> Analysis:
        """Return the analysis of the time between the two ends of the `with`, or so far.

        Raises:
            TraceError: The file is gone.
            RecordingError: This process is a forked child of the recorded process.
        """
        return analyse(self.trace(), since_ns=self._since_ns, until_ns=self._until_ns)


def trace(path: str | os.PathLike[str] | None = None, *, max_bytes: int = DEFAULT_BYTES) -> Recording:
    """Return a context manager that records which threads hold the GIL of this process, and which wait for it.

    The recording covers this process alone; `headway trace` follows its children, too.

    Args:
        path: A new file for the trace, ending in .hwt, which is written at the end; by default a temporary file.
        max_bytes: The memory for events; newer events overwrite older ones.

    Raises:
        UsageError: The file exists or cannot be made.
        RecordingError: On entry: this interpreter cannot be recorded.
        NativeError: On entry: the native library is missing or does not fit.
    """
    return Recording(None if path is None else check_new(Path(path)), max_bytes)
