"""Signals to the watcher of `headway watch`, as from a tool that signals all processes of a service."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 90
STALLS = """
import asyncio, sys, time

async def main():
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    time.sleep(0.3)
    await asyncio.sleep(0.01)

asyncio.run(main())
"""

pytestmark = pytest.mark.slow


def test_the_watcher_outlives_signals_to_a_whole_service(tmp_path):
    """A stall is reported after each signal that a service manager or a tool may send to all processes."""
    command = [HEADWAY, "watch", "-o", "stalls", sys.executable, "-c", STALLS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as one:
        assert one.stdout.readline() == "ready\n"
        watcher = int(re.search(r"USR2 (\d+)", one.stderr.readline())[1])
        for number in ("HUP", "INT", "TERM", "QUIT", "USR1", "ALRM", "VTALRM", "PROF", "IO", "PWR", "RTMIN"):
            os.kill(watcher, getattr(signal, f"SIG{number}"))
        _, said = one.communicate("\n", timeout=LIMIT_S)

    assert one.returncode == 0
    wait_for(lambda: not Path(f"/proc/{watcher}").exists(), "the watcher does not end", LIMIT_S)
    assert "MainThread stalled for" in said
    assert "MainThread stalled for" in (tmp_path / "stalls" / "python.stalls.jsonl").read_text()
