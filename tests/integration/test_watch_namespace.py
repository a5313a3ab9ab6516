"""`headway watch` and a program in a PID namespace below the watcher's, as in a container that the program starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway.live.untold import wait_until_told

COMMAND = [str(Path(sys.executable).with_name("headway")), "watch", "--quiet", "-o", "out"]
UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
LIMIT_S = 150  # see tests/support/real_programs.py

PROGRAM = """
import asyncio, pathlib, time

async def main():
    for _ in range(3):
        await asyncio.sleep(0.1)  # the watcher learns that this is a loop
    until = time.monotonic() + 60
    while time.monotonic() < until and not any("a blocking call" in one.read_text() for one in pathlib.Path("out").glob("*.jsonl")):
        time.sleep(0.5)  # a watcher without a core has no account of a stall that is over
    await asyncio.sleep(0.5)

asyncio.run(main())
"""


def test_the_account_of_a_thread_in_a_namespace_below_is_read(tmp_path):
    """A sleep is told as a blocking call: its cause was unexplained without the account of the thread."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no process namespace (unshare --pid)")
    command = [*COMMAND, *UNSHARE, sys.executable, "-c", PROGRAM]  # without a source that would tell of a sleep
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert wait_until_told(tmp_path / "out", LIMIT_S)
    (log,) = (tmp_path / "out").glob("*.stalls.jsonl")
    lines = [json.loads(line)["line"] for line in log.read_text().splitlines()]
    sleeps = [line for line in lines if "a blocking call at" in line]

    assert sleeps, (lines, done.stderr)
    assert not any("unexplained" in line for line in sleeps)
