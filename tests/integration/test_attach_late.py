"""Attaching to processes that end or become others before Headway is in them, or before the recording was to end, or make us wait."""

import contextlib
import os
import re
import subprocess
import sys

import pytest
from attached import next_line
from real_programs import LIMIT_S

from headway.host.interpreters import discover, select
from headway.traces.reader import read

BY_NAME = {one.name: one for one in reversed(select(discover()[0], ["all"]))}
NEW = next((one.executable for one in discover()[0] if one.name == "3.14"), "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="inject.py is for x86-64"),
]

JOINING = """
import os, threading
done = threading.Lock()
done.acquire()
threading.Thread(target=lambda: (os.read(0, 1), done.release())).start()
print("ready", flush=True)
done.acquire()
"""
LOOPING = """
import os, threading, time
told = threading.Event()
threading.Thread(target=lambda: (os.read(0, 1), told.set())).start()
print("ready", flush=True)
while not told.is_set():
    time.sleep(0.01)
"""


DEADLOCK = """
import threading, time
lock_a, lock_b = threading.Lock(), threading.Lock()
both = threading.Barrier(2)

def one_way():
    with lock_a:
        both.wait()
        with lock_b:
            pass

def other_way():
    with lock_b:
        both.wait()
        with lock_a:
            pass

for one in (one_way, other_way):
    threading.Thread(target=one, name=one.__name__, daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def beside(code, ends_at, *command):
    """Run a command of Headway, whose last argument is the process id of the code, and return what it did.

    The code ends once the command's stderr has a line with `ends_at`.
    """
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with contextlib.ExitStack() as ending:
        child = ending.enter_context(
            subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        ending.callback(child.kill)
        assert child.stdout.readline() == "ready\n"
        arguments = [sys.executable, "-m", "headway", *map(str, command), str(child.pid)]
        attached = ending.enter_context(subprocess.Popen(arguments, text=True, **pipes))  # type: ignore[call-overload]
        ending.callback(attached.kill)
        said = ""
        while ends_at not in said:
            line = attached.stderr.readline()
            assert line, said
            said += line
        child.communicate("\n", timeout=LIMIT_S)
        output, said = attached.stdout.read(), said + attached.stderr.read()
        code = attached.wait(LIMIT_S)
    return subprocess.CompletedProcess(arguments, code, output, said)


def test_a_recording_that_began_at_the_end_of_the_process_is_told(tmp_path):
    """A main thread that runs no Python until the process ends leaves a short trace, with a warning that says why."""
    done = beside(
        JOINING, "waiting up to", "attach", "--patience", LIMIT_S, "--duration", 2, "-o", tmp_path / "late.hwt"
    )

    assert done.returncode == 0, done.stderr
    (warning,) = (line for line in done.stderr.splitlines() if line.startswith("warning: "))
    assert " of the 2 s asked: process " in warning
    assert "; its main thread ran Headway's code only after " in warning


def test_a_process_that_ends_early_is_told(tmp_path):
    """The warning says how much of the time asked was recorded."""
    done = beside(
        LOOPING, "recording process", "attach", "--duration", 20, "--no-summary", "-o", tmp_path / "early.hwt"
    )

    (warning,) = (line for line in done.stderr.splitlines() if line.startswith("warning: "))
    # On a busy machine, it also says if it took longer to enter the process than to record it.
    assert re.search(
        r" of the 20 s asked: process \d+ has ended($|; its main thread ran Headway's code only after )", warning
    )


def test_top_tells_that_it_came_too_late():
    """A table that was never shown is a warning."""
    done = beside(JOINING, "waiting up to", "top", "--patience", LIMIT_S, "--plain", "--count", 1)

    assert (done.returncode, done.stdout) == (0, "")
    assert "warning: nothing was counted: process " in done.stderr
    assert "; its main thread ran Headway's code only after " in done.stderr


FOREVER = """
import threading
never = threading.Lock()
never.acquire()
print("ready", flush=True)
never.acquire()
"""


@pytest.mark.skipif(not NEW, reason="there is no CPython 3.14")
@pytest.mark.parametrize("words", [("attach", "--policy", "fair"), ("top", "--plain"), ("detach",)])
def test_a_command_says_what_it_waits_for(words):
    """Not only `headway attach` to record tells that the main thread must run Python."""
    with subprocess.Popen([NEW, "-c", FOREVER], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        command = [sys.executable, "-m", "headway", *words, "--patience", "60", str(child.pid)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as waiting:
            said = waiting.stderr.readline()
            waiting.kill()
        child.kill()
    assert said == f"waiting up to 60 s until the main thread of process {child.pid} runs Python\n"


BECOMING = """
import os, sys, threading, time
told = threading.Event()
threading.Thread(target=lambda: (os.read(0, 1), told.set()), daemon=True).start()
print("ready", flush=True)
while not told.is_set():
    time.sleep(0.005)
os.execv(sys.executable, [sys.executable, "-c", "import os; print('again', flush=True); os.read(0, 1)"])
"""


@pytest.mark.skipif(not NEW, reason="there is no CPython 3.14")
@pytest.mark.parametrize(
    ("words", "begun", "what"),
    [
        (("--policy", "fair"), " is scheduled by fair until Ctrl-C\n", "the policy"),
        (("--no-summary", "-o", "x.hwt"), " until Ctrl-C\n", "the recording"),
    ],
)
def test_a_process_that_becomes_another_program_ends_it(words, begun, what, tmp_path):
    """A program that executes itself anew keeps its process id, and is no longer what was attached to."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with contextlib.ExitStack() as ending:
        child = ending.enter_context(subprocess.Popen([NEW, "-c", BECOMING], text=True, **pipes))  # type: ignore[call-overload]
        ending.callback(child.kill)
        assert child.stdout.readline() == "ready\n"
        command = [sys.executable, "-m", "headway", "attach", *words, str(child.pid)]
        attached = ending.enter_context(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
        ending.callback(attached.kill)
        assert next_line(attached.stderr).endswith(begun)
        child.stdin.write("1")
        child.stdin.flush()
        assert child.stdout.readline() == "again\n"
        said = attached.communicate(timeout=LIMIT_S)[1].splitlines()
        assert child.poll() is None

    assert attached.returncode == 0
    assert said[0] == f"process {child.pid} has become another program, and {what} of the old one has ended"
    assert (tmp_path / "x.hwt").exists() == (what == "the recording")


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.8", "3.11", "3.13", "3.14"])
def test_a_deadlock_of_long_ago_is_found_by_attach(tmp_path, name):
    """Its threads have no event: the lines at which they stood when the recording began tell what they wait for."""
    program = tmp_path / "hangs.py"
    program.write_text(DEADLOCK)
    with subprocess.Popen([BY_NAME[name].executable, program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        arguments = [
            sys.executable,
            "-m",
            "headway",
            "attach",
            "--duration",
            "2",
            "-o",
            tmp_path / "x.hwt",
            str(child.pid),
        ]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        child.kill()
    told = " ".join(done.stderr.split())

    assert "one_way waits at " in told, done.stderr
    assert "hangs.py:9 one_way for a lock that other_way has and other_way waits at " in told
    assert "hangs.py:15 other_way for a lock that one_way has" in told


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.8", "3.11", "3.13", "3.13t", "3.14"])
def test_a_recording_knows_which_threads_were_there(tmp_path, name):
    """They may have been waiting when it began, which the bound of the missing waiting counts."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([BY_NAME[name].executable, "-c", LOOPING], text=True, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == "ready\n"
        tids = sorted(map(int, os.listdir(f"/proc/{child.pid}/task")))
        words = ["attach", "--duration", "0.1", "--no-summary", "-o", str(tmp_path / "x.hwt"), str(child.pid)]
        done = subprocess.run([sys.executable, "-m", "headway", *words], check=False, timeout=LIMIT_S)
        child.stdin.write("1")

    assert done.returncode == 0
    assert len(tids) == 2
    assert read(tmp_path / "x.hwt").evidence.there == tuple(one for one in tids if one != child.pid)
