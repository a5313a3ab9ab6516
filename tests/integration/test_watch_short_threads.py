"""`headway watch` and a program that begins a thread for each of its tasks."""

import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

from headway.lab import discover
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150  # see tests/support/real_programs.py
BY_NAME = {one.name: one for one in discover()[0]}

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, sys, threading, time

def nap():
    time.sleep(0.4)

def tasks():
    for _ in range(1500):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

async def main():
    await asyncio.sleep(0.3)  # the loop is known to be one
    nap()
    await asyncio.to_thread(tasks)

sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.11", "3.13", "3.14"])
def test_the_cause_of_a_stall_outlives_many_short_threads(tmp_path, name):
    """None of 1,500 threads is lost, and none of them takes the place of the stall's events."""
    (tmp_path / "app.py").write_text(PROGRAM)
    command = [HEADWAY, "watch", "-o", "stalls", "--python", BY_NAME[name].executable, "app.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: list(tmp_path.glob("stalls/*.stalls.jsonl")))
        _, said = process.communicate("\n", timeout=LIMIT_S)

    assert process.returncode == 0
    assert "is full" not in said
    assert "app.py:5 nap" in said
    *_, last = sorted(tmp_path.glob("stalls/*.hwt"))
    assert read(last).loss.whole
