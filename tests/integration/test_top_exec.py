"""Real programs that execute another program while `headway top` shows them."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LIMIT_S = 60
FIRST = """import os, sys, time
while not os.path.exists("begin"): time.sleep(0.01)  # attaching needs a thread that comes back to Python
os.execv("/bin/sh", ["sh", "-c", "sleep 1; exec " + sys.executable + " second.py"])
"""
SECOND = """import sys
with open("end"): pass
sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the programs; the first one goes on when `begin` is there, the second one when the test writes to `end`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.py").write_text(FIRST)
    (tmp_path / "second.py").write_text(SECOND)
    os.mkfifo(tmp_path / "end")
    return tmp_path


def top(*arguments):
    """Start `headway top --json`."""
    command = [sys.executable, "-m", "headway", "top", "--json", "--interval", "0.1", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_shown(process, name):
    """Read tables until one is of this program."""
    for line in process.stdout:
        if any(one["program"] == name for one in json.loads(line)["processes"]):
            return
    raise AssertionError(f"{name} was never shown: {process.stderr.read()}")


def test_a_started_program_that_executes_others_is_not_ended(folder):
    """Neither the shell, which is not counted, nor the program after it is stopped; its exit code is the one of `top`."""
    with top("--", "first.py") as showing:
        try:
            until_shown(showing, "first.py")
            (folder / "begin").touch()
            until_shown(showing, "second.py")
            (folder / "end").write_text("")
            _, said = showing.communicate(timeout=LIMIT_S)
        finally:
            showing.kill()

    assert (showing.returncode, said) == (7, "first.py has ended with exit code 7\n")


def test_top_says_that_a_process_has_started_another_program(folder):
    """It has not ended, and nobody has ended its recording."""
    with subprocess.Popen([sys.executable, "first.py"]) as program:
        try:
            with top(program.pid) as showing:
                until_shown(showing, "first.py")
                (folder / "begin").touch()
                _, said = showing.communicate(timeout=LIMIT_S)
        finally:
            program.kill()

    assert said == f"process {program.pid} has started another program\n"
