"""Attaching to processes in which a thread was alone at the GIL of a sub-interpreter before."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from attached import Attached
from real_programs import LIMIT_S
from waiting import wait_for

from headway.cli.main import main
from headway.host.interpreters import discover, select
from headway.live.attach import detach, look_at
from headway.live.own_gils import OwnGils
from headway.live.watch import Watch
from headway.traces.invariants import violations
from headway.traces.model import Kind
from headway.traces.reader import read

BY_NAME = {interpreter.name: interpreter for interpreter in reversed(select(discover()[0], ["all"]))}
NAMES = [name for name in ("3.12", "3.13") if name in BY_NAME] + ["3.14", "3.15"]
TOLD = [name for name in NAMES if BY_NAME[name].order >= (3, 13)]
"""Those that have the places of GILs in their memory."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="inject.py is for x86-64"),
]

PROGRAM = r"""
import os, sys, threading, time
sys.addaudithook(lambda event, _: event == "sys._current_frames" and os.write(1, b"touched\n"))
try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module
run = getattr(module, "exec", None) or module.run_string

LETS_GO = '''
import os, time, _thread
null = os.open("/dev/null", os.O_WRONLY)
print(_thread.get_native_id(), flush=True)
while True:
    sum(range(1000))
    time.sleep(0.001)
    os.write(null, b".")
'''
COMPUTES = '''
import _thread
print(_thread.get_native_id(), flush=True)
def depth(n):
    return n and depth(n - 1)
while True:
    depth(30)
'''
interpreter = module.create()
code = {"lets go": LETS_GO, "computes": COMPUTES}[sys.argv[1]]
threading.Thread(target=run, args=(interpreter, code), name="alone", daemon=True).start()
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    time.sleep(0.002)
"""


@contextlib.contextmanager
def running(name, does):
    """Run the program, and yield it with the id of the thread that is alone.

    The program must still run at the end. Nothing may have touched the frames of the other interpreter.
    """
    with subprocess.Popen(
        [BY_NAME[name].executable, "-c", PROGRAM, does], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child, int(child.stdout.readline())
            assert child.poll() is None
            child.stdin.close()
            assert child.stdout.read() == ""
            assert child.wait(LIMIT_S) == 0
        finally:
            child.kill()


def headway(*arguments):
    """Run a command of Headway, and return what it did."""
    command = [sys.executable, "-m", "headway", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def counted(pid, tid):
    """Return whether a thread has acquired another GIL than the main one."""
    with Watch(pid) as watch:
        return any(one.tid == tid and one.gil and one.holds for one in watch.snapshot().threads)


@pytest.mark.parametrize("name", NAMES)
def test_a_thread_that_was_alone_at_its_gil_is_recorded(name, tmp_path):
    """A GIL that only one thread uses is found at that thread's next acquire, in whichever way the compiler made it signal."""
    with running(name, "lets go") as (child, tid):
        target = look_at(child.pid)
        held = Attached(target, tmp_path / "x.hwt")
        try:
            wait_for(lambda: counted(child.pid, tid))
        finally:
            detach(target)
            held.close()
    trace = read(tmp_path / "x.hwt")

    assert violations(trace) == []
    assert [one.main for one in trace.gils] == [True, False]
    (thread,) = {int(one) for one in trace.events["thread"][trace.events["gil"] == 1]}
    assert trace.threads[thread].tid == tid
    assert trace.threads[thread].name == "alone"
    assert {Kind.ACQUIRE, Kind.RELEASE} <= {Kind(one) for one in trace.events["kind"][trace.events["gil"] == 1]}
    assert trace.evidence.unreleased == ()


@pytest.mark.parametrize("name", NAMES)
def test_top_shows_a_thread_that_was_alone_at_its_gil(name):
    """It has a row, and its GIL a line."""
    with running(name, "lets go") as (child, tid):
        command = [sys.executable, "-m", "headway", "top", str(child.pid), "--json", "--interval", "0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top:
            limit = threading.Timer(LIMIT_S, top.kill)
            limit.start()
            # On a busy machine, a thread may have no core for some intervals.
            for line in top.stdout:
                (process,) = json.loads(line)["processes"]
                if {one["gil"] for one in process["threads"]} >= {0, 1}:
                    break
            limit.cancel()
            top.send_signal(signal.SIGINT)
            top.stdout.read()
        assert top.returncode == 0

    assert tid in {one["tid"] for one in process["threads"] if one["gil"]}
    assert {0, 1} == {one["index"] for one in process["gils"]}
    assert process["unreleased"] == []


@pytest.mark.parametrize("name", TOLD)
def test_a_thread_that_never_releases_its_gil_is_named(name, tmp_path, capsys):
    """It has no event, and so the report must not say that all is well."""
    with running(name, "computes") as (child, tid):
        wait_for(lambda: tid in {one.tid for one in OwnGils(child.pid).held()})
        done = headway("attach", child.pid, "--duration", 0.5, "-o", tmp_path / "x.hwt")
    (kept,) = read(tmp_path / "x.hwt").evidence.unreleased
    assert main(["report", str(tmp_path / "x.hwt")]) == 0
    report = capsys.readouterr().out
    said = " ".join(done.stderr.split())

    assert done.returncode == 0, done.stderr
    assert (kept.tid, kept.name, kept.to_the_end) == (tid, "alone", True)
    assert "note alone held a sub-interpreter's own GIL from before the recording to its end" in said
    assert "from before the recording to its end" in " ".join(report.split())
    assert "nothing to improve" not in report


@pytest.mark.parametrize("name", TOLD)
def test_top_names_a_thread_that_never_releases_its_gil(name):
    """It has no row, and the head of the table says so from the first interval on."""
    with running(name, "computes") as (child, tid):
        wait_for(lambda: tid in {one.tid for one in OwnGils(child.pid).held()})
        done = headway("top", child.pid, "--plain", "--count", 1, "--interval", 0.2)

    assert done.returncode == 0, done.stderr
    assert f"not counted: thread {tid}, which has not released a sub-interpreter's own GIL" in done.stdout
