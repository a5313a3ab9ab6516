"""Starts a watcher: beside a program that this process is about to become, or beside this process itself."""

import contextlib
import errno
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, final

from headway.agent.headway_agent.recorder import WATCHED, Recorder
from headway.arguments import check_flag, check_number, check_text, check_whole
from headway.errors import RecordingError, UsageError
from headway.live.detached import check_open_files, start_detached
from headway.live.door import Door
from headway.live.joining import DOOR, enter, joined, parts_of
from headway.live.options import LEAST_NS, LEAST_RING, MOST_NS, MOST_RING, WATCHER_NAME, Limits, Options, family_of
from headway.live.ours import command_of
from headway.live.own_recorder import the_recorder
from headway.live.preset import PRESET, preset_folder, reason_of, say, say_unwatched
from headway.live.readable import becomes_readable

__all__ = ["Watch", "check_address", "check_folder", "own_door", "start_watcher", "watch"]

_PATIENCE_S = 20


def check_folder(folder: Path) -> Path:
    """Return the absolute path of a folder for recordings; make the folder if it is missing.

    Raises:
        UsageError: The folder cannot be made, or cannot be written to.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder {folder} cannot be created: {error.strerror}", hint="name another folder"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {folder} cannot be written to", hint="name another folder")
    return folder


def check_address(text: str, *, may_be_taken: bool = False) -> str:
    """Return `text` if it is a HOST:PORT that can be served.

    Args:
        text: The address.
        may_be_taken: Another process may serve it now.

    Raises:
        UsageError: It is no address, or cannot be served.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(
            f"{text!r} is not an address, expected HOST:PORT with a port from 1 to 65535",
            hint="name an address such as 127.0.0.1:9464",
        )
    try:
        with socket.create_server((host.strip("[]"), int(port)), family=family_of(host)):
            return text
    except OSError as error:
        if may_be_taken and error.errno == errno.EADDRINUSE:
            return text
        raise UsageError(
            f"the address {text} cannot be served: {error.strerror}",
            hint="name an address of this machine, and a free port",
        ) from error


def _interpreter() -> str:
    """Return the path of this Python's interpreter.

    A program that embeds Python, such as uWSGI, is itself sys.executable: it must not be started a second time.

    Raises:
        RecordingError: There is none.
    """
    if "python" in os.path.basename(sys.executable or ""):
        return sys.executable
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for folder in (sys.exec_prefix, sys.base_exec_prefix):
        for name in (version + sys.abiflags, version):
            path = os.path.join(folder, "bin", name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    raise RecordingError(
        f"the watcher does not start: {sys.executable or 'this program'} is no interpreter, and"
        f" {sys.exec_prefix}/bin has no {version}",
        hint="install the interpreter of the Python that this program embeds",
    )


def start_watcher(options: Options) -> tuple[dict[str, str], int]:
    """Start the process that watches; return the variables by which processes find it, and its id.

    Raises:
        RecordingError: The socket cannot be made, the process does not start, or there is no interpreter to start.
    """
    python = _interpreter()
    try:
        check_open_files()
    except OSError as error:
        raise RecordingError(
            f"the watcher does not start: {error.strerror}", hint="raise the limit of open files (ulimit -n)"
        ) from error
    door = Door()
    listener = door.socket.fileno()
    words = (json.dumps(options.to_json()), str(listener), str(door.folder), str(door.family))
    command = command_of(python, "headway.live.watcher", *words)
    # The watcher must not inherit the variables for recording of this process's children.
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    env |= {"HEADWAY_NATIVE": os.environ["HEADWAY_NATIVE"]} if "HEADWAY_NATIVE" in os.environ else {}
    try:
        pid = start_detached(command, listener, env, _PATIENCE_S)
    except (OSError, ValueError) as error:
        door.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RecordingError(f"the watcher does not start: {reason}", hint="try `headway doctor`") from error
    with contextlib.suppress(OSError):
        door.socket.close()  # the watcher has it
    return {**door.environment(), "HEADWAY_TRACE_WATCHER": str(pid)}, pid


@final
class Watch:
    """The watch of this process, which `watch()` returns."""

    def __init__(self, folder: Path, watcher: int, door: str = "", *, others: int = 0, log: Path | None = None) -> None:
        """Take the values of `watch`, and the id of the watcher that another process has started; 0: there is none."""
        self.door = door
        """The address by which a process that this one starts finds the watcher: see headway.live.joining."""
        self.folder = folder
        """The folder of recordings and of the log of stalls."""
        self.log = log
        """The log of stalls; None if another process has begun the watch, and so has given the log its name."""
        self.watcher = watcher
        """The id of the watcher's process; 0 if this process was started under another watcher."""
        self._recording = watcher or others
        self._pid = os.getpid()

    @classmethod
    def of_another(cls, watcher: int, folder: Path, door: str = "") -> "Watch":
        """Return the watch of a process whose watcher another process has started; `folder` if the watcher's is unknown."""
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{watcher}/cwd").readlink()
        return cls(folder, 0, door, others=watcher)

    @property
    def watches(self) -> bool:
        """Whether there is a watcher; there is none where the process is traced, or cannot be watched."""
        return self._recording != 0

    def of_this_process(self) -> "Watch":
        """Return this watch; if it is that of the process that has forked this one, return this process's part in it."""
        if self._pid == os.getpid():
            return self
        return Watch(self.folder, 0, self.door, others=self._recording, log=self.log)

    def record(self) -> None:
        """Request a recording of the last seconds, stall or not. The file is there a moment later."""
        if not self._recording:
            return
        with contextlib.suppress(OSError), _opened(self._recording) as process:
            if process is not None:
                signal.pidfd_send_signal(process, signal.SIGUSR2)

    def stop(self) -> None:
        """End the watch. Stalls up to now are still reported.

        A second call does nothing: it does not end a watch or a recording that came later. In a forked child nothing is
        ended either, as the child is watched together with its parent.
        """
        global _watch  # noqa: PLW0603 there is one per process
        with _lock:
            if self is not _watch or not self._is_own():
                return
            _watch = None
            recorder = the_recorder()
            if _is_watched(recorder):  # another command may have ended the watch, and a recording may have begun
                recorder.stop()

    def finish(self, timeout_s: float = 30.0) -> bool:
        """End the watch, and wait until all stalls are reported; return whether that happened in time.

        Where `stop` ends nothing because another process has the watcher, there is nothing to wait for.
        """
        self.stop()
        if not self._is_own():
            return True
        with _opened(self.watcher) as process:
            return process is None or becomes_readable(process, timeout_s)

    def _is_own(self) -> bool:
        """Tell whether this process, and not the one that it was forked from, has started the watcher."""
        return self.watcher != 0 and self._pid == os.getpid()


@contextlib.contextmanager
def _opened(watcher: int) -> Iterator[int | None]:
    """Yield a descriptor of the watcher with an id; None if the watcher has ended. Raises OSError.

    The watcher is no child: another process may have its id once it has ended.
    """
    try:
        process = os.pidfd_open(watcher)
    except ProcessLookupError:
        yield None
        return
    try:
        name = b""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name = Path(f"/proc/{watcher}/comm").read_bytes().strip()
        yield process if name == WATCHER_NAME else None
    finally:
        os.close(process)


_watch: Watch | None = None
_lock = threading.RLock()  # protects _watch; a signal handler may end a watch meanwhile
os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001 as threading's own do


def _is_watched(recorder: Recorder) -> bool:
    """Tell whether a watcher, and neither a trace's collector nor this process itself, has the events."""
    # The watcher says who it is a moment after the recording has begun.
    return recorder.active and not recorder.counts_only and not recorder.in_memory and recorder.path in {"", WATCHED}


def watch(
    folder: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    over_s: float = 0.1,
    requests_over_s: float = 1.0,
    ring_bytes: int = 4 << 20,
    keep: int = 20,
    quiet: bool = False,
    listen: str = "",
    sparing: bool = True,
    required: bool = False,
) -> Watch:
    """Watch this process, and the children that it forks, from now on, as `headway watch` does from outside.

    The function starts another process, which keeps the last seconds of GIL events. If an event loop is late, a thread
    waits too long for the GIL, or a request takes too long, that process writes the events as a trace, and gives the
    cause in one line on stderr. The function does nothing if this process is watched or traced already; if it is
    watched, the function says on stderr which of its options have no effect. If the process cannot be watched, the
    function reports that once on stderr and does nothing: the service runs all the same.

    Args:
        folder: For recordings and the log; by default $HEADWAY_WATCH, else `stalls`.
        name: The beginning of the files' names; by default the script's name.
        over_s: The length in seconds from which an event loop's lap, or a wait for the GIL, is a stall.
        requests_over_s: The same for a request in a server's thread.
        ring_bytes: The memory for events.
        keep: The number of recordings to keep.
        quiet: Print nothing on stderr; the log has everything.
        listen: The address that serves metrics and `/dump`, as 127.0.0.1:9464; "": none. As long as another process
            has that address, this one is watched without it.
        sparing: After more than 20 recordings in 10 minutes, write at most one in 20 s; otherwise one in 2 s.
        required: Raise if the process cannot be watched.

    Raises:
        UsageError: The folder or the address cannot be used, or a setting is out of its range: 0.01 to 600 s, 1 MB to 1 GB,
            one recording or more, a name without a slash.
        RecordingError: If `required`: this interpreter cannot be recorded, or no process can be started.
        NativeError: If `required`: the native library is missing or does not fit.
    """
    if not isinstance(folder, str | os.PathLike | None):
        raise UsageError(f"folder is {folder!r}, expected a path")
    where = Path(folder).absolute() if folder else _preset_folder()
    limits = _limits(over_s, requests_over_s, ring_bytes)
    check_whole("keep", keep, 1, expected="1 or more", hint="keep at least one recording")
    if name is not None:
        check_text("name", name)
        if "/" in name:
            raise UsageError(f"name is {name!r}, expected a name without a slash", hint="give the place as `folder`")
    check_text("listen", listen, hint="name an address such as 127.0.0.1:9464")
    for word, value in (("quiet", quiet), ("sparing", sparing), ("required", required)):
        check_flag(word, value)
    script = name or Path(sys.argv[0] if sys.argv else "").stem or "python"
    options = Options(str(where), script, os.getpid(), limits, keep, quiet, listen, own=True, sparing=sparing)
    try:
        with _lock:
            found = _watched_already(where)
            if found is not None:
                _say_ignored(options, found, has_folder=bool(folder))
            return found or _begin(options)
    except UsageError:
        raise
    except Exception as error:
        # Also an error that nobody expects, as in a process that has replaced parts of the standard library.
        if required:
            raise
        say_unwatched(reason_of(error))
        return Watch(where, 0)


def _watched_already(where: Path) -> Watch | None:
    """Return the watch of this process if it is watched or recorded already. Raises RecordingError, NativeError."""
    global _watch  # noqa: PLW0603 there is one per process
    recorder = the_recorder()
    if not recorder.active or recorder.counts_only:
        return None
    if not _is_watched(recorder):
        return Watch.of_another(0, where)
    if _watch is None:
        door = joined()
        watcher = parts_of(door)[3] if door else int(os.environ.get("HEADWAY_TRACE_WATCHER", "0"))
        _watch = Watch.of_another(watcher, _preset_folder() if door else where, door)
    _watch = _watch.of_this_process()
    return _watch


def _begin(options: Options) -> Watch:
    """Start a watcher, and connect this process to it. Raises UsageError, RecordingError, NativeError."""
    global _watch, _options
    where = check_folder(Path(options.folder))
    if options.listen:
        check_address(options.listen, may_be_taken=True)
    variables, watcher = start_watcher(options)
    door = " ".join([*(variables[name] for name in DOOR), str(watcher)])
    try:
        enter(the_recorder(), door)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(watcher, signal.SIGKILL)  # it has nothing to watch, and ignores SIGTERM
        Door.remove(Path(variables["HEADWAY_TRACE_DOOR"]))
        raise
    _watch, _options = Watch(where, watcher, door, log=options.log), options
    return _watch


def _preset_folder() -> Path:
    """Return the folder for recordings if the caller names none."""
    return Path(preset_folder() or PRESET).absolute()


_PRESET: Final = Options("", "", 0, Limits())
_options = _PRESET
"""The settings of this process's watch; the presets if another process has begun it, as with $HEADWAY_WATCH."""
_said_ignored = False


def _say_ignored(options: Options, found: Watch, *, has_folder: bool) -> None:
    """Report on stderr, once in each process, which settings of a call are not those of the watch that there is."""
    global _said_ignored  # noqa: PLW0603 once in each process
    ignored = ["folder"] if has_folder and Path(options.folder) != found.folder else []
    for name, of in _SETTINGS.items():
        if of(options) not in (of(_options), of(_PRESET)):
            ignored.append(name)
    if ignored and found.watches and not _said_ignored:
        _said_ignored = True
        have = "have" if len(ignored) > 1 else "has"
        say(f"process {os.getpid()} is watched already: {', '.join(ignored)} of this headway.watch() {have} no effect")


_SETTINGS: Final[dict[str, Callable[[Options], object]]] = {
    "over_s": lambda one: one.limits.loop_ns,
    "requests_over_s": lambda one: one.limits.request_ns,
    "ring_bytes": lambda one: one.limits.ring_bytes,
    "keep": lambda one: one.keep,
    "listen": lambda one: one.listen,
    "sparing": lambda one: one.sparing,
}


def _limits(over_s: float, requests_over_s: float, ring_bytes: int) -> Limits:
    seconds = LEAST_NS / 1e9, MOST_NS / 1e9
    for name, value in (("over_s", over_s), ("requests_over_s", requests_over_s)):
        check_number(name, value, *seconds, expected=f"{seconds[0]:g} to {seconds[1]:g} seconds")
    check_whole("ring_bytes", ring_bytes, LEAST_RING, MOST_RING, expected=f"{LEAST_RING} to {MOST_RING}")
    return Limits(round(over_s * 1e9), round(over_s * 1e9), round(requests_over_s * 1e9), ring_bytes)


def own_door() -> tuple[str, int] | None:
    """Return the socket of this process's watcher, and the launch's number; None if no watcher watches this process."""
    door = _watch.door if _watch is not None else joined()
    with contextlib.suppress(ValueError):
        if door:
            family, _, path, _ = parts_of(door)
        else:  # Under `headway watch`. A trace's collector is no watcher.
            path = os.environ.get("HEADWAY_TRACE_DOOR", "")
            family = int(os.environ.get("HEADWAY_TRACE_FAMILY", "0"))
            if not int(os.environ.get("HEADWAY_TRACE_WATCHER", "0")):
                return None
        if path and 0 < family < 1 << 64:
            return path, family
    return None
