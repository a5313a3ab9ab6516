"""Start and stop the recorder in a process that runs already.

From CPython 3.14 on through `sys.remote_exec` (PEP 768), called by an interpreter of the process's own version. Before
that through gdb, which has the process call `Py_AddPendingCall`: no memory of the process's own is touched (the text
lies in a mapping made for it), no lock of the interpreter's is waited for, and what runs runs where Python runs signal
handlers: in the main thread, between two bytecodes. In both cases nothing happens while the main thread is inside one C
call that does not return.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headway.agent import AGENT_PATH
from headway.errors import RecordingError
from headway.live.launch import DEFAULT_MAX_BYTES
from headway.native import library_path

__all__ = ["Target", "attach", "detach", "look_at"]

_REMOTE_EXEC = (3, 14)
_GDB_PATIENCE_S = 60.0

_CODE = """\
import json, os, sys
def _headway():
    path = {agent!r}
    sys.path.insert(0, path)
    try:
        from headway_agent import recorder
    finally:
        sys.path.remove(path)
        sys.path_importer_cache.pop(path, None)
    return recorder.{call}
try:
    answer = {{"answer": _headway()}}
except BaseException as error:
    answer = {{"error": "%s" % (error,), "kind": type(error).__name__}}
finally:
    del _headway
with open({reply!r} + ".part", "w") as file:
    json.dump(answer, file)
os.rename({reply!r} + ".part", {reply!r})
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


def _call(target: Target, call: str, patience_s: float) -> object:
    """Have the process run a function of the agent's recorder, and return what it returns."""
    with tempfile.TemporaryDirectory(prefix="headway-attach-") as folder:
        os.chmod(folder, 0o711)
        own = Path(f"/proc/{target.pid}")
        with contextlib.suppress(OSError):
            os.chown(folder, own.stat().st_uid, own.stat().st_gid)  # as root: the process is to write its reply there
        reply, script = Path(folder, "reply"), Path(folder, "script.py")
        script.write_text(_CODE.format(agent=str(AGENT_PATH), call=call, reply=str(reply)), encoding="utf-8")
        script.chmod(0o644)
        if target.version >= _REMOTE_EXEC:
            _remote_exec(target, script)
        else:
            _pending_call(target, script)
        answer = _wait_for(reply, target, patience_s)
    if "error" in answer:
        raise RecordingError(f"process {target.pid} cannot be recorded: {answer['error']}")
    return answer["answer"]


def _wait_for(reply: Path, target: Target, patience_s: float) -> dict[str, str]:
    deadline = time.monotonic() + patience_s
    while not reply.exists():
        if not Path(f"/proc/{target.pid}").exists():
            raise RecordingError(f"process {target.pid} has ended")
        if time.monotonic() > deadline:
            raise RecordingError(
                f"the main thread of process {target.pid} has run no Python for {patience_s:g} s",
                hint="it is inside one long C call, such as a blocking read or join(); it will start recording when"
                " that returns, unless you stop it",
            )
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
    gdb = shutil.which("gdb")
    if gdb is None:
        version = ".".join(map(str, target.version))
        raise RecordingError(
            f"process {target.pid} runs CPython {version}: before 3.14 attaching needs gdb, which is not installed",
            hint="install gdb, or start the program with `headway trace`",
        )
    # One expression, which leaves no names in __main__.
    text = f"exec(compile(open({str(script)!r}).read(), 'headway', 'exec'), {{}})".encode() + b"\0"
    code = script.with_suffix(".txt")
    code.write_bytes(text)
    commands = [
        "set confirm off",
        "set pagination off",
        "set debuginfod enabled off",
        "set unwindonsignal on",
        # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
        "set $text = ((void *(*)(void *, unsigned long, int, int, int, long))mmap)(0, 4096, 3, 0x22, -1, 0)",
        f"restore {code} binary $text",
        "set $queued = ((int (*)(void *, void *))Py_AddPendingCall)((void *)PyRun_SimpleString, $text)",
        'printf "headway queued %d\\n", $queued',
        "detach",
    ]
    arguments = [word for line in commands for word in ("-ex", line)]
    try:
        done = subprocess.run(
            [gdb, "-q", "-nx", "-batch", "-p", str(target.pid), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_GDB_PATIENCE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RecordingError(f"gdb did not come back from process {target.pid} in {_GDB_PATIENCE_S:g} s") from error
    if "headway queued 0" not in done.stdout:
        said = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["nothing"]
        refused = any("ptrace" in line.lower() or "permitted" in line.lower() for line in said)
        hint = "run as the process's user or as root, or allow ptrace (kernel.yama.ptrace_scope)" if refused else ""
        raise RecordingError(f"gdb could not reach process {target.pid}: {said[-1]}", hint=hint)
