"""Recording in this process: `with headway.trace() as t: ...`, and `headway.gil_times()`.

If the process is recorded already (by `headway trace`, `headway attach`, or another `with`), the present recording is
used: nothing is started twice, and the summary covers the time between the two ends of the `with`. A recording of ours
ends with the last `with` that uses it: those of several threads may overlap. Under `headway watch` there is nothing to
read, because the watcher has the events; a line on stderr says so.

A recording of ours stays in memory, where new events replace the oldest. The recording is written to a file when it is
read, and at the end. A forked child has a copy of our objects, but neither writes nor removes the files of its parent.

The program may close all descriptors meanwhile, and the numbers may be those of its own files then. So we keep none: the
memory is mapped, and a recording is known by its number.
"""

import contextlib
import errno
import functools
import os
import shutil
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, final

from headway.agent.headway_agent.library import UnfitError
from headway.agent.headway_agent.recorder import WATCHED, RecordedError, Recorder
from headway.errors import RecordingError, UsageError
from headway.live.descriptors import above_streams
from headway.live.files import began_realtime_ns, check_new
from headway.live.own_recorder import present_recorder, session_lock, the_recorder
from headway.native import Collection, KeptMemory

if TYPE_CHECKING:
    from headway.traces.analysis import Analysis
    from headway.traces.model import Trace

__all__ = ["GilTimes", "Recording", "gil_longest", "gil_times", "trace"]

DEFAULT_BYTES = 64 << 20
"""The memory for events of a recording of ours: about four million events."""
_LEAST_BYTES = 64 << 10
_COLLECTED_S = 5.0
"""How long to wait for another process's collector to write the events up to now."""


class GilTimes(NamedTuple):
    """How long a thread has held the GIL and waited for it, in nanoseconds, since counting began."""

    held_ns: int
    waited_ns: int


def gil_times() -> GilTimes:
    """Return how long the calling thread has held the GIL and waited for it so far.

    The first call in a process starts the counting for all threads; use differences of two calls. Counting begins anew
    when a recording begins or ends: times that are less than those before are to be taken as they are. A call takes
    less than a microsecond, and counting costs some tens of nanoseconds for each hand-off of the GIL.

    Raises:
        RecordingError: This interpreter cannot be recorded.
        NativeError: The native library is missing or does not fit.
    """
    recorder = present_recorder()
    if recorder is None or not recorder.active:
        with session_lock:
            recorder = the_recorder()
            if not recorder.active:
                try:
                    _start(recorder, 0)
                except RecordingError as error:
                    # `headway attach` starts a recording in another thread, without this lock.
                    if not isinstance(error.__cause__, RecordedError):
                        raise
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


_WATCHED = "`headway watch` records this process, and keeps its events"
_THEIRS = "another process has created a file of that name"


def _name_new(file: Path, name: Path) -> None:
    """Give a file a further name that no file has. Raises OSError."""
    try:
        os.link(file, name)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, _THEIRS) from None
    except OSError:  # some file systems have no links
        if os.path.lexists(name):
            raise FileExistsError(errno.EEXIST, _THEIRS) from None
        file.replace(name)


def _open(name: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return above_streams(os.open(name, flags, 0o600))


def _say(text: str) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # None, broken or closed: the program goes on
        sys.stderr.write(f"headway: process {os.getpid()}: {text}\n")


@functools.cache  # once is enough for a service that records each request
def _say_watched() -> None:
    _say(f"{_WATCHED}; headway.trace() records nothing")


@final
class _Memory:
    """A recording of ours in memory. It ends with the last `with` that uses it."""

    def __init__(self, recorder: Recorder, max_bytes: int) -> None:
        """Start it. Raises RecordingError, OSError."""
        self._users = 0
        self._recorder, self._pid = recorder, os.getpid()
        self._counted = recorder.counts_only
        recorder.stop()
        try:
            _start(recorder, max_bytes)
            self._kept: KeptMemory | None = KeptMemory()
        except BaseException:
            self._count_again()
            raise

    def goes_on(self) -> bool:
        """Tell whether it is the present recording of this process: another command may have ended it."""
        return self._kept is not None and self._pid == os.getpid() and self._kept.is_present

    def join(self) -> KeptMemory | None:
        """Count a further user of a recording that goes on; return its memory."""
        self._users += 1
        return self._kept

    def leave(self) -> None:
        """Count a user less; the last one ends the recording, after which its memory has all events."""
        self._users -= 1
        if self._users == 0:
            if self.goes_on():
                self._count_again()
            self._kept = None

    def _count_again(self) -> None:
        self._recorder.stop()
        if self._counted:
            with contextlib.suppress(RecordingError):  # `gil_times` starts it, too, and says why it cannot
                _start(self._recorder, 0)


_present: _Memory | None = None


def _forget() -> None:
    """Let go of the recording of the parent, in a forked child."""
    global _present  # noqa: PLW0603
    _present = None


os.register_at_fork(after_in_child=_forget)


def _join(recorder: Recorder, max_bytes: int) -> tuple[_Memory | None, KeptMemory | None]:
    """Return the recording of ours that a `with` uses, and its memory. Raises RecordingError, OSError.

    None for both in a collected recording, and for the first if another's recording is going on.
    """
    global _present  # noqa: PLW0603 there is one per process
    if _present is None or not _present.goes_on():
        if recorder.active and not recorder.counts_only:
            return None, KeptMemory() if recorder.in_memory else None
        _present = _Memory(recorder, max_bytes)
    return _present, _present.join()


@final
class Recording:
    """The recording of this process between the two ends of a `with`; `trace()` returns it."""

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self._wanted = path
        self._max_bytes = max_bytes
        self._pid = 0
        """The process that has entered the `with`."""
        self._ours: _Memory | None = None
        self._memory: KeptMemory | None = None
        """The recording's memory; None if a collector has it, or after the end."""
        self._is_collected = False
        self._since_ns = 0
        self._until_ns: int | None = None
        self._path = Path()
        self._problem: RecordingError | None = None
        """Why the file could not be written at the end."""
        self._saved: tuple[int, int] | None = None
        """The device and inode of our file, once it is there."""

    def __enter__(self) -> "Recording":
        with session_lock:
            recorder = the_recorder()
            self._pid = os.getpid()
            try:
                path = self._temporary() if self._wanted is None else self._wanted
                self._ours, self._memory = _join(recorder, self._max_bytes)  # last: what it starts must be ended
            except OSError as error:
                raise RecordingError(f"this process cannot be recorded: {error.strerror}") from error
            self._is_collected = self._memory is None
            self._path = Path(recorder.path) if self._is_collected else path
            if recorder.path == WATCHED:
                _say_watched()
        self._since_ns = time.monotonic_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._until_ns = time.monotonic_ns()
        is_parents = self._pid != os.getpid()
        try:
            if self._is_collected:
                self._bring_up_to_date()
                if self._wanted is not None and not is_parents and self._path != Path(WATCHED):
                    self._take_over(self._path, self._wanted)
            elif is_parents:
                self._ours = self._memory = None
            else:
                self._end()
        except RecordingError as error_at_end:
            # A full disk is no reason for the program to fail here. To read the recording is.
            self._problem = error_at_end
            _say(str(error_at_end))

    def _end(self) -> None:
        with session_lock:
            try:
                if self._ours is not None:
                    self._ours.leave()
                self._save()
            finally:
                self._ours = self._memory = None

    def _temporary(self) -> Path:
        """Return the path of a new file, whose folder is removed together with this object."""
        import tempfile  # a service whose times are counted makes no file, and has no need of it

        folder = tempfile.mkdtemp(prefix="headway-")
        weakref.finalize(self, _remove, folder, self._pid)
        return Path(folder, f"{self._pid}.hwt")

    def _is_parents(self) -> bool:
        """Tell whether this process is a forked child, and the recording is that of its parent's memory."""
        return not self._is_collected and self._pid not in (0, os.getpid())

    def _save(self) -> None:
        """Write the events that are in memory now to our file, if no collector has them. Raises RecordingError."""
        memory = self._memory
        if memory is None:
            return

        def copy(file: BinaryIO) -> None:
            collection = Collection(memory, file.fileno())
            try:
                collection.began(began_realtime_ns(self._pid))
                number = collection.copy().error
            finally:
                collection.close()
            if number:
                raise OSError(number, os.strerror(number))

        self._write(copy)

    def _take_over(self, collected: Path, path: Path) -> None:
        """Copy the file that a collector writes to the file that is asked for. Raises RecordingError."""

        def copy(file: BinaryIO) -> None:
            with collected.open("rb") as whole:
                shutil.copyfileobj(whole, file)

        self._path = path
        self._write(copy)

    def _write(self, copy: Callable[[BinaryIO], None]) -> None:
        """Write our file anew, which then is complete; leave a file alone that another process has made meanwhile."""
        beside = self._path.with_name(f".headway-{os.urandom(8).hex()}")
        try:
            try:
                with open(beside, "xb", opener=_open) as file:
                    copy(file)
                    status = os.fstat(file.fileno())
                if self._saved is None:
                    _name_new(beside, self._path)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        old = self._path.lstat()
                        if self._saved != (old.st_dev, old.st_ino):
                            raise FileExistsError(errno.EEXIST, _THEIRS)
                    beside.replace(self._path)
                self._saved = status.st_dev, status.st_ino
            finally:
                with contextlib.suppress(OSError):
                    beside.unlink()
        except OSError as error:
            raise RecordingError(
                f"the recording cannot be written to {self._path}: {error.strerror or error}"
            ) from error

    def _bring_up_to_date(self) -> None:
        """Make our file contain all that was recorded up to now. Raises RecordingError."""
        if self._memory is not None:
            with session_lock:
                self._save()
            return
        recorder = the_recorder()
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

    def trace(self) -> "Trace":
        """Return the trace so far, of the whole process since its recording began.

        Raises:
            TraceError: The file is gone.
            RecordingError: The `with` has not begun, this process is a forked child of the recorded process, `headway watch`
                watches it, or the file cannot be written.
        """
        if not self._pid:
            raise RecordingError(
                "nothing is recorded yet: the recording begins with its `with`",
                hint="write `with headway.trace() as recording:` around what is to be recorded",
            )
        if self._is_parents():
            raise RecordingError(
                f"this is the recording of process {self._pid}, of which process {os.getpid()} is a forked child",
                hint="read it in the parent, or begin a recording in the child",
            )
        if self._problem is not None:
            raise self._problem
        if self._until_ns is None:
            self._bring_up_to_date()
        if self._path == Path():
            raise RecordingError(
                "the recording that this one has joined has no file yet: its collector has not begun",
                hint="read the recording later",
            )
        if self._path == Path(WATCHED):
            raise RecordingError(
                _WATCHED, hint="ask the watcher for its last seconds: `headway.watch().record()`, or SIGUSR2"
            )
        # Reading needs numpy: a service that only records or counts does not pay for it.
        from headway.traces.reader import read

        return read(self._path)

    def summary(self) -> "Analysis":
        """Return the analysis of the time between the two ends of the `with`, or so far.

        Raises:
            TraceError: The file is gone.
            RecordingError: As for `trace`.
        """
        from headway.traces.analysis import analyse

        return analyse(self.trace(), since_ns=self._since_ns, until_ns=self._until_ns)


def trace(path: str | os.PathLike[str] | None = None, *, max_bytes: int = DEFAULT_BYTES) -> Recording:
    """Return a context manager that records which threads hold the GIL of this process, and which wait for it.

    The recording covers this process alone; `headway trace` follows its children, too.

    Args:
        path: A new file for the trace, ending in .hwt, which is written at the end; by default a temporary file. If
            `headway trace` or `headway attach` records the process, it is a copy of their file up to then.
        max_bytes: The memory for events, at least 64 KB; newer events overwrite older ones.

    Raises:
        UsageError: The file exists or cannot be made, or `max_bytes` is too small.
        RecordingError: On entry: this interpreter cannot be recorded. If the file cannot be written at the end, or another
            process has created it, a line on stderr says so, and `trace` and `summary` raise.
        NativeError: On entry: the native library is missing or does not fit.
    """
    if max_bytes < _LEAST_BYTES:
        raise UsageError(
            f"max_bytes is {max_bytes}, expected at least {_LEAST_BYTES}", hint="a megabyte is `max_bytes=1 << 20`"
        )
    return Recording(None if path is None else check_new(Path(path)), max_bytes)
