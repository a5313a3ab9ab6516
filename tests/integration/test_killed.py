"""The trace of a process that hangs and is killed shows the hang, which has no events."""

import contextlib
import subprocess
import sys
from pathlib import Path

from real_programs import LIMIT_S
from waiting import wait_for

from headway.errors import TraceError
from headway.live.files import wait_until_finished
from headway.traces.analysis import analyse
from headway.traces.model import Executed
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))

HANGS = """
import ctypes, threading
forever = ctypes.PyDLL(None).pause  # keeps the GIL
threading.Thread(target=lambda: [threading.Event().wait(0.001) for _ in iter(int, 1)]).start()
threading.Thread(target=forever, name="keeper").start()
"""
BECOMES = """
import os, time
time.sleep(0.01)
print("ready", flush=True)
os.execv("/bin/sh", ["sh", "-c", "read x; kill -KILL $$"])
"""


def traced(path):
    """Return the trace so far; None if the collector has not written any of it yet."""
    with contextlib.suppress(TraceError, OSError):
        return read(path)


def hung_s(path):
    """Return for how long the trace has had no event since the thread that keeps the GIL began."""
    trace = traced(path)
    if trace is None or not any(one.name == "keeper" for one in trace.threads):
        return 0
    return (trace.end_ns - trace.events["time_ns"][-1]) / 1e9


def test_a_hang_is_in_the_trace_of_a_process_that_was_killed(tmp_path):
    """The hold that never ended is as long as the process lived, but for the time between two looks at it."""
    path, program = tmp_path / "x.hwt", tmp_path / "hangs.py"
    program.write_text(HANGS)
    with subprocess.Popen([HEADWAY, "trace", "-o", str(path), program], stderr=subprocess.DEVNULL) as one:
        before_s = wait_for(lambda: hung_s(path) > 1 and hung_s(path))
        one.kill()
        one.wait(LIMIT_S)
    wait_until_finished(path)
    trace = read(path)
    findings = {one.kind: one for one in analyse(trace).findings}

    assert hung_s(path) > before_s - 0.5
    assert (trace.process.ended, trace.process.growing) == (False, False)
    assert findings["long-hold"].fact.startswith("keeper kept the GIL for up to ")
    assert "had not returned" in findings["long-hold"].cause
    assert "was killed" in findings["unfinished"].fact


def test_the_life_of_another_program_is_not_in_the_trace(tmp_path):
    """A process that becomes another program was traced until then: its trace is finished, and has its length."""
    path, program = tmp_path / "x.hwt", tmp_path / "becomes.py"
    program.write_text(BECOMES)
    command = [HEADWAY, "trace", "-o", str(path), "--python", sys.executable, program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as one:
        assert one.stdout.readline() == b"ready\n"
        finished = wait_for(lambda: (found := traced(path)) is not None and not found.process.growing and found)
        assert Path(f"/proc/{one.pid}/comm").read_text() == "sh\n"
        one.communicate(b"\n", timeout=LIMIT_S)
    wait_until_finished(path)

    trace = read(path)
    assert trace.end_ns == finished.end_ns
    assert trace.process.executed is Executed.UNRECORDED


def test_another_program_that_is_recorded_is_known(tmp_path):
    """A process that becomes another Python has two traces, and the first one says so."""
    path, program = tmp_path / "x.hwt", tmp_path / "becomes.py"
    program.write_text("import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'input()'])\n")
    command = [HEADWAY, "trace", "-o", str(path), program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as one:
        # A collector that comes only when the process has ended takes the two for processes with the same id.
        wait_for(lambda: (found := traced(path)) is not None and found.process.executed is Executed.RECORDED)
        one.communicate(b"\n", timeout=LIMIT_S)
        assert one.returncode == 0
    wait_until_finished(path)

    assert len(list(tmp_path.glob("x*.hwt"))) == 2
    assert read(path).process.executed is Executed.RECORDED
