"""The call in which a process's main thread stands is told, and only if it stands in one."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import BY_NAME
from waiting import wait_for

from headway.live.proc import status
from headway.live.standstill import Standstill

SLEEPS = ("230 ", "35 ", "115 ", "101 ", "23 0x0", "270 0x0", "72 0x0")  # of CPython, on x86-64 and aarch64
LIMIT_S = 60


@contextlib.contextmanager
def sleeping(each_s, python=sys.executable):
    """Start a process that sleeps again and again; return its id once it sleeps."""
    code = f"import time\nprint(flush=True)\nwhile True: time.sleep({each_s})"
    with subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        wait_for(lambda: Path(f"/proc/{process.pid}/syscall").read_text().startswith(SLEEPS))
        yield process.pid
        process.kill()


def times_off(pid):
    """Return how often the main thread has given up its core."""
    return int(status(pid)["voluntary_ctxt_switches"])


@pytest.mark.parametrize("name", ["3.8", "3.13"])  # before 3.11, CPython sleeps in select()
def test_a_long_sleep_is_told(name):
    """A thread that has been in one sleep stands in it."""
    with sleeping(60, BY_NAME[name].executable) as pid:
        assert Standstill(pid).words() == "a sleep (`time.sleep()`)"


def test_a_thread_that_sleeps_again_and_again_stands_nowhere():
    """A thread that was in many sleeps since the beginning is in none of them for long."""
    with sleeping(0.001) as pid:
        standstill, before = Standstill(pid), times_off(pid)
        wait_for(lambda: times_off(pid) > before + 10)

        assert standstill.words() == ""


def test_a_process_that_is_gone_stands_nowhere():
    """Nothing is known of a process that has ended."""
    with sleeping(60) as pid:
        standstill = Standstill(pid)

    assert standstill.words() == ""
    assert Standstill(pid).words() == ""
