"""A stall that its process's end cuts off is told once, and lasts until that end and no longer."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import wait_for

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150
STALL_S = 0.25
"""Longer than the limit of a loop, and too short to be told while it goes on."""

pytestmark = pytest.mark.slow

PROGRAM = f"""
import asyncio, os, sys, time

async def main():
    await asyncio.sleep(0.3)  # the loop is known to be one
    since_ns = time.monotonic_ns()
    time.sleep({STALL_S})
    print(since_ns, time.monotonic_ns(), flush=True)
    os.kill(os.getpid(), 9) if sys.argv[1] == "killed" else os._exit(3)

asyncio.run(main())
"""


def rows():
    return [json.loads(line) for log in Path("stalls").glob("*.jsonl") for line in log.read_text().splitlines()]


@pytest.mark.parametrize("end", ["killed", "left"])
def test_a_process_that_ends_in_a_stall(tmp_path, monkeypatch, end):
    """The stall is told although it was not told while it went on; of `os._exit()` the moment is recorded."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HEADWAY_WATCH"))]:
        monkeypatch.delenv(name)
    Path("app.py").write_text(PROGRAM)
    found = subprocess.run(
        [HEADWAY, "watch", "-o", "stalls", sys.executable, "app.py", end],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    over_ns = time.monotonic_ns()
    since_ns, until_ns = map(int, found.stdout.split())
    wait_for(lambda: any(row["cut_off"] for row in rows()), found.stderr)

    (row,) = [row for row in rows() if row["cut_off"]]
    ended_ns = row["since_ns"] + round(1e9 * row["length_s"])
    assert row["since_ns"] <= since_ns < until_ns <= ended_ns
    assert end == "killed" or ended_ns <= over_ns
    assert "until the process ended: " in row["line"]
    assert "a blocking call" in row["line"]
