"""Start and stop the recorder, or a policy, in a process that runs already.

From CPython 3.14 on, the process is asked to run a script (remote.py). Before 3.14, the main thread of the process is
made to queue a call (inject.py). In both cases the code runs where Python runs signal handlers: in the main thread,
between two bytecodes. Nothing happens while the main thread is inside one C call that does not return.

The code (script.py) first connects to us, and does nothing if nobody answers there any more. The process answers with
a lease (lease.py): if we are gone, the process returns to CPython's own behaviour within seconds.
"""

import contextlib
import os
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headway.agent import AGENT_PATH
from headway.agent.headway_agent.recorder import WATCHED
from headway.errors import RecordingError
from headway.library import library_path
from headway.live import filters
from headway.live.channel import Answer, Channel, close_all, is_seen
from headway.live.door import PROCESS_MEMORY_BYTES, Door
from headway.live.files import descendants
from headway.live.inject import check_state, run_soon
from headway.live.lease import SPAN_S, Ended, Lease
from headway.live.proc import BEGIN_TICKS, STATE, ids_in, stat, status
from headway.live.remote import Request
from headway.live.script import EARLY, script
from headway.live.standby import is_standby
from headway.live.standstill import NoPythonError, StandsStillError, Standstill, once_python_runs
from headway.live.unreleased import KeptGils

__all__ = [
    "Attachment",
    "StandsStillError",
    "Target",
    "attach",
    "count",
    "detach",
    "look_at",
    "python_descendants",
    "schedule",
]

_ASKED = (3, 14)
"""The first version in which a process can be asked to run a script."""
_BUSY_S = 60.0
"""How long the recorder may take to start or stop, once the process has begun with it."""
_COLLECTED_S = 5.0
"""How long the collector may take to hear of the new recording."""
_AT_ONCE_S = 1.0
"""How long to wait for the connection of a process that has just begun when we give up."""
_DESPITE = "--despite-filter"
_STOPPED = "told to stop"
_FEW = 10
"""The child processes that a hint names."""


@dataclass(frozen=True)
class Target:
    """A Python process."""

    pid: int
    version: tuple[int, int]
    free_threaded: bool
    """Whether the name of its executable or library is that of a free-threaded build; its GIL may be on all the same."""
    started: int
    """The process's start, in ticks since the machine's: a later process with the same id has another start."""


def look_at(pid: int) -> Target:
    """Return the Python process with an id.

    Raises:
        RecordingError: The process does not exist, may not be traced by this user, or runs no known CPython.
    """
    try:
        said = status(pid)
        started = _started(pid)
        executable = os.readlink(f"/proc/{pid}/exe")  # used as a name only, never opened
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise RecordingError(f"there is no process {pid}", hint="`pgrep -a python` lists Python processes") from None
    except PermissionError:
        raise RecordingError(
            f"you may not read process {pid}",
            hint="attach as its user, or as root; in a container, root needs CAP_SYS_PTRACE",
        ) from None
    if said.get("Tgid") != str(pid):
        raise RecordingError(
            f"{pid} is a thread of process {said.get('Tgid')}", hint=f"attach to that process: {said.get('Tgid')}"
        )
    match = re.search(r"/libpython(3)\.(\d+)(t?)\.so", maps) or re.search(
        r"/python(3)\.(\d+)(t?)( \(deleted\))?$", executable
    )
    if match is None:
        raise RecordingError(
            f"process {pid} ({_printable(executable)}) does not run a CPython that Headway knows",
            hint="check the id: perhaps a child of that process runs Python",
        )
    return Target(pid, (int(match[1]), int(match[2])), match[3] == "t", started)


@final
class Attachment:
    """A recording or a policy in a process. It lasts until the process is told to stop, or no longer hears of us."""

    def __init__(self, text: str, lease: Lease) -> None:
        self.text = text
        """The process's answer: the path that it records to, or the policy that was on before."""
        self.kept: KeptGils | None = None
        """What threads held when a recording began, and the recording cannot see."""
        self._lease = lease

    @property
    def ended(self) -> Ended:
        """Whether and why the process has ended it: by itself, or because another process told it to."""
        return self._lease.ended

    def close(self) -> None:
        """Close the lease; a process that was not told to stop soon stops by itself."""
        self._lease.close()


def _go_on() -> None:
    """Check nothing."""


def attach(
    target: Target,
    door: Door,
    *,
    patience_s: float = 10.0,
    despite_filter: bool = False,
    check: Callable[[], None] = _go_on,
) -> Attachment:
    """Start recording a process, for the collector behind a door.

    Args:
        target: The process.
        door: Where the process reaches its collector.
        patience_s: How long to wait for the process's main thread to run Python.
        despite_filter: Attach even if a seccomp filter of the process may end the process for that.
        check: Called several times a second while this waits; what it raises ends the wait.

    Raises:
        StandsStillError: The main thread ran no Python in that time.
        RecordingError: The process cannot be recorded, or is recorded already; it goes on as before.
        NativeError: The native library is missing or does not fit.
    """
    _check_filter(target, despite=despite_filter)
    held = _recorded(target, str(door.path), door.family, PROCESS_MEMORY_BYTES, patience_s, door.folder, check=check)
    held.kept = KeptGils(target.pid)
    door.called.wait(_COLLECTED_S)
    return held


def count(
    target: Target,
    *,
    patience_s: float = 10.0,
    despite_filter: bool = False,
    check: Callable[[], None] = _go_on,
) -> Attachment:
    """Start counting holds and waits in a process, without events. The options are those of attach().

    Raises:
        RecordingError: The process cannot be recorded, or is recorded already; it goes on as before.
        NativeError: The native library is missing or does not fit.
    """
    _check_filter(target, despite=despite_filter)
    return _recorded(target, "", 0, 0, patience_s, check=check)


def _recorded(
    target: Target,
    door: str,
    family: int,
    memory_bytes: int,
    patience_s: float,
    *folders: Path,
    check: Callable[[], None] = _go_on,
) -> Attachment:
    library = str(library_path())
    with contextlib.suppress(OSError):  # a user who may not look may not trace either: a later step reports that
        _check_sees(target, *folders)
    call = f"recorder.attach({library!r}, {door!r}, {family}, {memory_bytes})"
    undo = f"recorder.detach({library!r})"
    return _held(target, _call(target, ("recorder",), call, patience_s, undo=undo, check=check))


def schedule(
    target: Target,
    policy: str,
    options: str = "",
    *,
    patience_s: float = 10.0,
    despite_filter: bool = False,
    check: Callable[[], None] = _go_on,
) -> Attachment:
    """Set a policy in a process, in place of the present one. The other options are those of attach().

    Raises:
        RecordingError: The process cannot be reached, or refuses; it goes on as before.
        NativeError: The native library is missing or does not fit.
    """
    _check_filter(target, despite=despite_filter)
    library = str(library_path())
    call = f"scheduler.attach({library!r}, {policy!r}, {options!r})"
    undo = f"scheduler.detach({library!r})"
    return _held(target, _call(target, ("scheduler",), call, patience_s, undo=undo, what="scheduled", check=check))


def detach(
    target: Target,
    *,
    recording: bool = True,
    policy: bool = False,
    patience_s: float = 10.0,
    despite_filter: bool = False,
    check: Callable[[], None] = _go_on,
) -> str:
    """End the recording or the policy of a process, whoever began it; return what was ended, or "" for nothing.

    `despite_filter`: connect even if a seccomp filter of the process may end the process for that. The process connects
    to us as for attach(), and may have installed the filter since then. `check`: as for attach().

    Raises:
        RecordingError: The process cannot be reached.
        NativeError: The native library is missing or does not fit.
    """
    _check_filter(
        target,
        despite=despite_filter,
        hint=f"whatever `headway attach` or `top` began ends by itself {SPAN_S:g} s after that command; {_DESPITE} ends it now",
    )
    modules = (("recorder",) if recording else ()) + (("scheduler",) if policy else ())
    calls = ", ".join(f"{module}.detach({str(library_path())!r})" for module in modules)
    call = f"' and '.join(filter(None, [{calls}])), ()"
    answer = _call(target, modules, call, patience_s, what=_STOPPED, check=check)
    close_all(answer.descriptors)
    return answer.text


def python_descendants(pid: int) -> list[int]:
    """Return the ids of the running Python processes that descend from a process, without Python's own helpers."""
    found = []
    for one in (one for one in descendants(pid) if not is_standby(one)):
        with contextlib.suppress(RecordingError):
            found.append(look_at(one).pid)
    return found


def _check_filter(
    target: Target,
    *,
    despite: bool,
    hint: str = f"start the program with `headway trace` or `run`; {_DESPITE} attaches in spite of the filter",
) -> None:
    if not despite:
        with contextlib.suppress(OSError):  # the filter's hint would not help from outside the process's container
            _check_sees(target, AGENT_PATH)
        filters.check(target.pid, hint)


def _held(target: Target, answer: Answer) -> Attachment:
    if len(answer.descriptors) != 1:
        close_all(answer.descriptors)
        raise RecordingError(f"process {target.pid} has sent no lease page")
    return Attachment(answer.text, Lease(target.pid, answer.descriptors[0]))


def _call(
    target: Target,
    modules: Sequence[str],
    call: str,
    patience_s: float,
    *,
    undo: str = "pass",
    what: str = "recorded",
    check: Callable[[], None] = _go_on,
) -> Answer:
    """Make the process run a function of a module of the agent; return the process's answer."""
    check = _Check(target, check)
    check()
    _check_goes_on(target)

    def answered() -> Answer | None:
        with Channel() as channel:
            _check_sees(target, channel.folder, AGENT_PATH, Path(os.path.realpath(library_path())))
            own_pid = ids_in(status(target.pid))[-1]
            code = script(own_pid, modules, call, undo, socket=channel.path, token=channel.token)
            with _asked(target, channel, code, patience_s, what, check) as connection:
                answer = channel.receive(connection, target.pid, _BUSY_S, check)
        if answer is not None and answer.status == EARLY:
            close_all(answer.descriptors)
            raise NoPythonError(target.pid)
        return answer

    try:
        answer = once_python_runs(answered, patience_s, check)
    except (FileNotFoundError, ProcessLookupError):
        raise RecordingError(f"process {target.pid} has ended") from None
    except PermissionError as error:
        raise RecordingError(
            f"process {target.pid} may not be traced: {error.strerror}",
            hint="run as the process's user or as root, or allow ptrace (kernel.yama.ptrace_scope, a container's seccomp)",
        ) from None
    if answer is None:
        raise RecordingError(
            f"process {target.pid} started to answer, but did not finish in {_BUSY_S:g} s",
            hint=f"whatever it has begun ends by itself {SPAN_S:g} s later",
        )
    if answer.status == "failed":
        close_all(answer.descriptors)
        raise RecordingError(f"process {target.pid} cannot be {what}: {answer.text}", hint=_hint(answer.text, target))
    return answer


def _hint(text: str, target: Target) -> str:
    if text.endswith(f"into {WATCHED}"):
        return (
            "`kill -USR2` to its watcher (`pgrep headway-watch`), or /dump, writes a recording of the last seconds now;"
            f" `headway detach {target.pid}` ends the watching until the process is restarted"
        )
    if "already" in text:
        return f"`headway detach {target.pid}` ends that"
    if "headway_agent" in text or "does not load" in text:
        return (
            f"let the user of the process read {AGENT_PATH} and {library_path()}, and enter each folder above them;"
            " or install Headway where that user can read it, as in a venv under /opt"
        )
    if "Permission denied" in text or "Read-only" in text:
        return "the process cannot reach Headway's socket: its user may not, or its sandbox does not let it"
    return ""


def _asked(
    target: Target, channel: Channel, code: str, patience_s: float, what: str, check: Callable[[], None]
) -> socket.socket:
    """Make the process run the code; return the process's connection."""
    standstill = Standstill(target.pid)
    if target.version < _ASKED:
        # The code leaves no names in __main__ and no open file, and raises nothing in the middle of the program.
        run_soon(target.pid, code)
        standstill = Standstill(target.pid)  # the thread was stopped meanwhile
        connection = channel.accept(target.pid, patience_s, check)
    else:
        path = os.fsencode(channel.write_script(code))
        with contextlib.closing(Request(target.pid, target.version, path)) as request:
            try:
                connection = channel.accept(target.pid, patience_s, check)
            finally:
                # If the process has just begun with the request, it is opening the script, which must not vanish yet.
                undone = request.cancel()
            if connection is None:
                connection = channel.accept(target.pid, _AT_ONCE_S / 10 if undone else _AT_ONCE_S, check)
    if connection is None:
        _check_goes_on(target)
        raise _stands_still(target, standstill.words(), patience_s, what)
    return connection


def _stands_still(target: Target, where: str, patience_s: float, what: str) -> StandsStillError:
    """Return the error for a main thread that is in a call `where`; "": not known."""
    is_to_stop = what == _STOPPED
    hint = (
        "wait until that call is over (--patience SECONDS)"
        if where
        else "the thread is inside one long C call, or refuses new code (an audit hook, the recursion limit):"
        " wait longer (--patience SECONDS)"
    )
    if is_to_stop:
        hint += f"; whatever `headway attach` or `top` began ends by itself {SPAN_S:g} s after that command"
    elif where:
        hint += (
            "; if it never is, start the program with `headway trace`, or let its main thread wait with a time-out,"
            " again and again"
        )
    else:
        hint += ", or start the program with `headway trace`"
    below = [] if is_to_stop else python_descendants(target.pid)
    if below:
        some = ", ".join(map(str, below[:_FEW])) + (", ..." if len(below) > _FEW else "")
        hint += f"; or name one of its child processes, which may do the work: {some}"
    return StandsStillError(
        f"the main thread of process {target.pid} has run no Python for {patience_s:g} s"
        + (f": it is in {where}" if where else ""),
        hint=hint,
    )


def _check_goes_on(target: Target) -> None:
    """Raise RecordingError if the process runs nothing now: it is stopped, traced, or has ended."""
    with contextlib.suppress(OSError):
        if status(target.pid).get("State", "?")[0] in "TtZX":
            check_state(target.pid)


def _check_sees(target: Target, *paths: Path) -> None:
    for path in paths:
        if not is_seen(target.pid, path):
            raise RecordingError(
                f"process {target.pid} does not see {path}: it has its own file system",
                hint="run headway inside its container",
            )


class _Check:
    """Raises RecordingError if the process has ended; a later process may have its id. Calls the caller's check, too."""

    def __init__(self, target: Target, check: Callable[[], None]) -> None:
        self._target = target
        self._check = check

    def __call__(self) -> None:
        self._check()
        try:
            is_it = _started(self._target.pid) == self._target.started
        except OSError:
            is_it = False
        if not is_it:
            raise RecordingError(f"process {self._target.pid} has ended")


def _started(pid: int) -> int:
    fields = stat(pid)
    if fields[STATE] in "ZX":
        raise ProcessLookupError(3, "No such process")
    return int(fields[BEGIN_TICKS])


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
