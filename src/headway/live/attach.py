"""Start and stop the recorder in a process that runs already.

From CPython 3.14 on through `sys.remote_exec` (PEP 768), called by an interpreter of the process's own version. Before
that its main thread is made to queue a call (inject.py). In both cases what runs runs where Python runs signal handlers:
in the main thread, between two bytecodes; and nothing happens while that is inside one C call that does not return.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headway.agent import AGENT_PATH
from headway.errors import RecordingError
from headway.live.inject import run_soon
from headway.live.launch import DEFAULT_MAX_BYTES
from headway.native import library_path

__all__ = ["Target", "attach", "detach", "look_at", "schedule"]

_REMOTE_EXEC = (3, 14)
_BUSY_S = 60.0
"""For the recorder to start or stop, once the process has begun with it."""

_CODE = """\
import json, os, sys
def _headway_asked():
    # Neither a child forked meanwhile, nor after whoever asked has given up: who removes the script decides.
    try:
        return os.getpid() == {pid} and os.unlink({script!r}) is None
    except OSError:
        return False
def _headway():
    path = {agent!r}
    sys.path.insert(0, path)
    try:
        from headway_agent import {module}
    finally:
        sys.path.remove(path)
        sys.path_importer_cache.pop(path, None)
    return {module}.{call}
def _headway_answers():
    try:
        answer = {{"answer": _headway()}}
    except BaseException as error:
        answer = {{"error": "%s" % (error,), "kind": type(error).__name__}}
    with open({reply!r} + ".part", "w") as file:
        json.dump(answer, file)
    os.rename({reply!r} + ".part", {reply!r})
if _headway_asked():
    _headway_answers()
"""


@dataclass(frozen=True)
class Target:
    """A Python process."""

    pid: int
    version: tuple[int, int]
    executable: str
    """Of its interpreter; the process may have been embedded in another program."""


def look_at(pid: int) -> Target:
    """Return what runs in a process.

    Raises:
        RecordingError: It is not there, is not ours to look at, or runs no CPython that is known.
    """
    try:
        executable = str(Path(f"/proc/{pid}/exe").readlink())
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise RecordingError(f"there is no process {pid}", hint="`pgrep -a python` lists those of Python") from None
    except PermissionError:
        raise RecordingError(f"process {pid} belongs to someone else", hint="attach as its user, or as root") from None
    match = re.search(r"/libpython(3)\.(\d+)t?\.so", maps) or re.search(r"/python(3)\.(\d+)t?$", executable)
    if match is None:
        raise RecordingError(
            f"process {pid} ({executable}) runs no CPython that headway knows",
            hint="is it another process's child that you mean?",
        )
    return Target(pid, (int(match[1]), int(match[2])), executable)


def attach(target: Target, file: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, patience_s: float = 10.0) -> str:
    """Start recording a process into `file`, or with an empty name only counting.

    Returns the path of the file that is recorded to: another one where the process is recorded already.

    Raises:
        RecordingError: It cannot be done; the process goes on as it was.
        NativeError: The native library is missing or does not fit.
    """
    path = str(file.absolute()) if file.name else ""
    answer = _call(target, f"attach({str(library_path())!r}, {path!r}, {max_bytes})", patience_s)
    return str(answer)


def detach(target: Target, *, patience_s: float = 10.0) -> None:
    """End the recording of a process that was attached to. Raises RecordingError."""
    _call(target, f"detach({str(library_path())!r})", patience_s)


def schedule(target: Target, policy: str, options: str = "", *, patience_s: float = 10.0) -> str:
    """Put a policy on in a process in place of the one that is on, or with "" take that off.

    Returns the name of the one that was on before, or "".

    Raises:
        RecordingError: The process cannot be reached, or refuses; it goes on as it was.
        NativeError: The native library is missing or does not fit.
    """
    call = f"attach({str(library_path())!r}, {policy!r}, {options!r})"
    return str(_call(target, call, patience_s, module="scheduler", what="scheduled"))


def _call(target: Target, call: str, patience_s: float, *, module: str = "recorder", what: str = "recorded") -> object:
    """Have the process run a function of a module of the agent, and return what it returns."""
    with tempfile.TemporaryDirectory(prefix="headway-attach-") as folder:
        os.chmod(folder, 0o711)  # noqa: S103 the process may be another user's, and is to find two names in there
        own = Path(f"/proc/{target.pid}")
        with contextlib.suppress(OSError):
            os.chown(folder, own.stat().st_uid, own.stat().st_gid)  # as root: the process is to write its reply there
        reply, script = Path(folder, "reply"), Path(folder, "script.py")
        names = {"agent": str(AGENT_PATH), "script": str(script), "reply": str(reply)}
        script.write_text(_CODE.format(pid=_own_pid(target), call=call, module=module, **names), encoding="utf-8")
        script.chmod(0o644)
        if target.version >= _REMOTE_EXEC:
            _remote_exec(target, script)
        else:
            _pending_call(target, script)
        answer = _wait_for(reply, script, target, patience_s)
    if "error" in answer:
        raise RecordingError(f"process {target.pid} cannot be {what}: {answer['error']}")
    return answer["answer"]


def _own_pid(target: Target) -> int:
    """Return what the process calls itself: another number in a PID namespace."""
    try:
        status = Path(f"/proc/{target.pid}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise RecordingError(f"process {target.pid} has ended") from None
    found = re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)
    return int(found[1]) if found else target.pid


def _wait_for(reply: Path, script: Path, target: Target, patience_s: float) -> dict[str, str]:
    deadline = time.monotonic() + patience_s
    while not reply.exists():
        if not Path(f"/proc/{target.pid}").exists():
            raise RecordingError(f"process {target.pid} has ended")
        if time.monotonic() > deadline:
            with contextlib.suppress(FileNotFoundError):
                script.unlink()  # from now on it does nothing; unless it has begun: then it answers soon
                raise RecordingError(
                    f"the main thread of process {target.pid} has run no Python for {patience_s:g} s",
                    hint="it is inside one long C call, such as a blocking read or join(): wait longer (--patience), or"
                    " start the program with `headway trace`",
                )
            if time.monotonic() > deadline + _BUSY_S:
                raise RecordingError(f"process {target.pid} began to answer, and did not end in {_BUSY_S:g} s")
        time.sleep(0.01)
    answer: dict[str, str] = json.loads(reply.read_text(encoding="utf-8"))
    return answer


def _remote_exec(target: Target, script: Path) -> None:
    interpreter = sys.executable if sys.version_info[:2] == target.version else target.executable
    code = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
    done = subprocess.run(
        [interpreter, "-I", "-c", code, str(target.pid), str(script)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        hint = "run as the process's user or as root, or allow ptrace (kernel.yama.ptrace_scope)"
        if "disabled" in last.lower():
            hint = "the process was started with -X disable_remote_debug or PYTHON_DISABLE_REMOTE_DEBUG"
        raise RecordingError(f"sys.remote_exec on process {target.pid} failed: {last}", hint=hint)


def _pending_call(target: Target, script: Path) -> None:
    try:
        seen = Path(f"/proc/{target.pid}/root{script}").samefile(script)
    except FileNotFoundError:
        seen = False
    except PermissionError:
        seen = True  # or not: whoever may not look may not trace either, and that is a better message
    if not seen:
        raise RecordingError(
            f"process {target.pid} does not see the folder {script.parent}: it has files of its own",
            hint="run headway inside its container",
        )
    # No names are left in __main__, no file is left open, and nothing is raised in the middle of the program.
    code = script.read_text(encoding="utf-8")
    run_soon(target.pid, f"try:\n exec(compile({code!r}, 'headway', 'exec'), {{}})\nexcept BaseException:\n pass\n")
