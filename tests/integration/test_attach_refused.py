"""`headway attach` to a process in which its code cannot begin, or must not; the process goes on as usual.

Before CPython 3.14 that code is a pending call, and its failure would be an exception in the middle of the program. In
a process with a seccomp filter of its own, the code could end the process.
"""

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attached import next_line
from real_programs import LIMIT_S

from headway.host.interpreters import discover
from headway.live import filters, watch
from headway.live.lease import SPAN_S

HEADWAY = str(Path(sys.executable).with_name("headway"))
BY_NAME = {one.name: one for one in reversed(discover()[0])}
CALLED = [name for name in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t") if name in BY_NAME]
CONFINED = [name for name in ("3.8", "3.11", "3.13", "3.14", "3.15") if name in BY_NAME]
QUIET = ("3.11", "3.12", "3.13", "3.13t")

pytestmark = pytest.mark.slow

PROGRAM = """
import os, select, sys
seen, armed = [], False
def compute():
    print("ready", flush=True)
    while not select.select([0], [], [], 0)[0]:
        pass

def audits(event, arguments):
    if armed and event in ("compile", "exec", "open", "import"):
        raise RuntimeError(event)

def traces(frame, event, argument):
    if frame.f_code.co_filename != "<string>" or frame.f_code.co_name == "<module>":
        seen.append(frame.f_code.co_name)
        raise ValueError("no frame but the program's own")
    return traces

def deep(depth):
    return deep(depth - 1) if depth else compute()

if sys.argv[1] == "audit":
    sys.addaudithook(audits)
    armed = True
    compute()
elif sys.argv[1] == "trace":
    sys.settrace(traces)
    compute()
    print("tracing" if sys.gettrace() is traces else "not tracing", seen)
    sys.settrace(None)
else:
    sys.setrecursionlimit(200)
    for depth in range(199, 0, -1):
        try:
            deep(depth)
        except RecursionError:
            continue
        break
print("end")
"""


def played(name, way, patience_s="1"):
    """Attach to the program while it computes; return its exit code and output, and attach's exit code."""
    program = subprocess.Popen(
        [BY_NAME[name].executable, "-c", PROGRAM, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with program:
        lines = []
        while not lines or lines[-1] != "ready\n":
            lines.append(program.stdout.readline())
            assert lines[-1], program.stderr.read()
        words = [HEADWAY, "attach", str(program.pid), "--duration", "0.2", "--patience", patience_s, "-o", "x.hwt"]
        attach = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        output, errors = program.communicate("\n", timeout=LIMIT_S)
    return program.returncode, output.splitlines(), errors, attach


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("way", ["audit", "deep"])
def test_what_refuses_the_code_goes_on(name, way, tmp_path, monkeypatch):
    """A program goes on if an audit hook raises, or if its main thread is at its recursion limit."""
    monkeypatch.chdir(tmp_path)
    code, output, errors, attach = played(name, way)

    assert (code, output, errors) == (0, ["end"], "")
    assert attach.returncode != 0
    assert "error: " in attach.stderr


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", CALLED)
def test_a_trace_function_that_raises(name, tmp_path, monkeypatch):
    """A trace function is not called for our code where CPython allows that.

    Before 3.11, the program loses its trace function, and goes on.
    """
    monkeypatch.chdir(tmp_path)
    code, output, errors, attach = played(name, "trace", "60" if name in QUIET else "1")

    assert (code, output[-1:], errors) == (0, ["end"], "")
    if name in QUIET:
        assert output == ["tracing []", "end"]
        assert attach.returncode == 0, attach.stderr


# A program that serves until its stdin ends. For each line it installs a filter on itself: the action, and for which
# calls.
CONFINES_ITSELF = """
import ctypes, json, select, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def confine(action, calls):
    load = struct.pack("HBBI", 0x20, 0, 0, 0)
    tests = b"".join(struct.pack("HBBI", 0x15, len(calls) - i, 0, number) for i, number in enumerate(calls))
    program = load + tests + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000) + struct.pack("HBBI", 0x06, 0, 0, action)
    buffer = ctypes.create_string_buffer(program)
    argument = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, argument, 0, 0):
        sys.exit("no filter: errno %d" % ctypes.get_errno())
def elsewhere(*told):
    confine(*told)
    print("confined", flush=True)
    while True:
        time.sleep(0.01)
print("ready", flush=True)
while True:
    if select.select([0], [], [], 0.002)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        where, *told = json.loads(line)
        if where == "thread":
            threading.Thread(target=elsewhere, args=told, daemon=True).start()
        else:
            confine(*told)
            print("confined", flush=True)
print("served to the end", flush=True)
"""
KILL, EPERM = 0x80000000, 0x00050001
# The calls that attaching makes a process do: socket, connect and memfd_create. And a call that is never made: getppid.
OF_ATTACHING, NOBODY_S = {"x86_64": ([41, 42, 319], [110]), "aarch64": ([198, 203, 279], [173])}[platform.machine()]


class Confined:
    """CONFINES_ITSELF, running; `before` has the words of the command that starts it."""

    def __init__(self, name, *before):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        words = [*before, BY_NAME[name].executable, "-c", CONFINES_ITSELF]
        self.process = subprocess.Popen(words, text=True, **pipes)  # type: ignore[call-overload]
        self.pid = self.process.pid

    def __enter__(self):
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()
        return self

    def __exit__(self, *_):
        self.process.kill()
        with contextlib.suppress(ValueError):
            self.process.communicate()

    def confine(self, action, calls, where="process"):
        """Make it install a filter on itself, or on one of its threads."""
        self.process.stdin.write(json.dumps([where, action, calls]) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "confined\n"

    def finish(self):
        """End it; return its exit code and output."""
        output, errors = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, output, errors


UNHARMED = (0, "served to the end\n", "")


def headway(*words):
    return subprocess.run([HEADWAY, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def ways(name):
    yield "attach", "--duration", "0.2"
    yield "top", "--json", "--count", "1", "--interval", "0.1"
    yield ("detach",)
    if name in ("3.14", "3.15"):
        yield "attach", "--duration", "0.2", "--policy", "fair"


@pytest.mark.matrix("name")
@pytest.mark.parametrize("where", ["process", "thread"])
@pytest.mark.parametrize("name", CONFINED)
def test_a_filter_of_the_process_s_own(name, where, tmp_path, monkeypatch):
    """A process that such a filter may end is not entered; no trace of the attempt is left, and the process goes on."""
    monkeypatch.chdir(tmp_path)
    with Confined(name) as program:
        program.confine(KILL, OF_ATTACHING, where)
        for command, *options in ways(name):
            words = (command, program.pid, *options) if command == "top" else (command, *options, program.pid)
            done = headway(*words)
            assert (done.returncode, done.stdout) == (7, ""), done.stderr
            assert f"error: process {program.pid} has a seccomp filter of its own" in done.stderr
            assert "--despite-filter" in done.stderr

        assert program.finish() == UNHARMED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.matrix("name", "command")
@pytest.mark.parametrize("command", ["attach", "top", "detach"])
@pytest.mark.parametrize("name", CONFINED)
def test_despite_a_filter(name, command, tmp_path, monkeypatch):
    """An option attaches despite the filter: the process is unharmed if other calls are forbidden, and ends otherwise."""
    monkeypatch.chdir(tmp_path)
    options = {
        "attach": ["--duration", "0.2", "--no-summary"],
        "top": ["--json", "--count", "1", "--interval", "0.1"],
        "detach": [],
    }[command]
    with Confined(name) as program:
        program.confine(EPERM, NOBODY_S)
        done = headway(command, "--despite-filter", *options, program.pid)
        assert done.returncode == 0, done.stderr
        assert program.finish() == UNHARMED
    if command == "attach":
        assert [path.suffix for path in tmp_path.iterdir()] == [".hwt"]
    with Confined(name) as program:
        program.confine(KILL, OF_ATTACHING)
        assert headway(command, "--despite-filter", *options, program.pid).returncode == 7
        assert program.finish()[0] == -signal.SIGSYS


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", CONFINED)
def test_a_filter_that_comes_while_it_is_recorded(name, tmp_path):
    """A process that confines itself meanwhile is not told to stop: it stops by itself, and goes on."""
    with Confined(name) as program:
        words = [HEADWAY, "attach", str(program.pid), "-o", str(tmp_path / "x.hwt"), "--no-summary"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as attach:
            assert "recording process" in next_line(attach.stderr)
            program.confine(KILL, OF_ATTACHING)
            attach.send_signal(signal.SIGINT)
            said = attach.stderr.read()
        assert attach.returncode == 7
        assert f"error: process {program.pid} has a seccomp filter of its own" in said
        assert "the recording ends by itself" in said

        deadline_s = time.monotonic() + SPAN_S + LIMIT_S
        while watch.is_recorded(program.pid):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        assert program.finish() == UNHARMED


# Runs a command under a filter that forbids getppid, as a container may have it.
UNDER_A_FILTER = f"""{CONFINES_ITSELF.partition("def elsewhere")[0]}
import os
confine({EPERM}, {NOBODY_S})
os.execvp(sys.argv[1], sys.argv[1:])
"""
CONTAINED = [sys.executable, "-c", UNDER_A_FILTER, "unshare", "-p", "-f", "sh", "-c", '"$@"; exit $?', "sh"]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a namespace, which only root can")
@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", CONFINED)
def test_a_filter_of_the_whole_container(name, tmp_path):
    """A process with only its container's filter can be attached to, and one with an additional filter cannot."""
    with Confined(name, *CONTAINED) as program:
        inside = program.pid
        for _ in ("sh", "the program"):
            inside = int(Path(f"/proc/{inside}/task/{inside}/children").read_text())
        words = ("attach", inside, "--duration", "0.2", "--no-summary", "-o", tmp_path / "x.hwt", "--force")
        assert filters.own_filter(inside) == ""
        done = headway(*words)
        assert done.returncode == 0, done.stderr

        program.confine(EPERM, NOBODY_S)
        done = headway(*words)
        assert done.returncode == 7
        assert "a seccomp filter of its own (2 in total, 1 of them its container's)" in done.stderr
        assert program.finish() == UNHARMED


@pytest.mark.parametrize(
    ("name", "why", "hint"),
    [
        ("python3.13t", "a free-threaded CPython 3.13, so there is no GIL to schedule", "if its GIL is on"),
        ("python3.13", "CPython 3.13: its GIL cannot be scheduled from outside", "or use CPython 3.14 or later"),
    ],
)
def test_a_process_before_3_14_is_not_scheduled(name, why, hint, tmp_path):
    """The refusal speaks of a GIL only where the build has one; it is the executable's name that tells."""
    sleeper = tmp_path / name
    shutil.copy(shutil.which("sleep"), sleeper)
    with subprocess.Popen([sleeper, "60"]) as process:
        try:
            done = headway("attach", "--policy", "fair", process.pid)
        finally:
            process.kill()

    assert done.returncode == 8
    assert f"process {process.pid} runs {why}" in done.stderr
    assert hint in done.stderr


@pytest.mark.skipif("3.13t" not in BY_NAME, reason="no free-threaded CPython 3.13 here")
@pytest.mark.parametrize(
    ("gil", "why"),
    [("0", ", so there is no GIL to schedule"), ("1", ": its GIL is on, and cannot be scheduled from outside")],
)
def test_the_refusal_of_a_free_threaded_process_tells_whether_its_gil_is_on(gil, why):
    """The memory of the process tells that; a free-threaded build may have a GIL."""
    words = [BY_NAME["3.13t"].executable, "-c", "print('ready', flush=True); input()"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHON_GIL": gil}
    ) as process:
        process.stdout.readline()
        done = headway("attach", "--policy", "fair", process.pid)
        process.communicate(b"\n")

    assert done.returncode == 8
    assert f"process {process.pid} runs a free-threaded CPython 3.13{why}" in done.stderr
    assert "start the program with `headway run`" in done.stderr
