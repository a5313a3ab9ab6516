"""A stall that its process's end cuts off is told once, and lasts until that end and no longer."""

import json
import os
import signal
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


def test_the_watcher_is_killed(tmp_path, monkeypatch):
    """The service runs on, and `headway stalls` says that it is watched no more."""
    monkeypatch.chdir(tmp_path)
    command = [
        HEADWAY,
        "watch",
        "-o",
        "stalls",
        sys.executable,
        "-c",
        "import sys; print('begun', flush=True); sys.stdin.read()",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == b"begun\n"
        # Without words the mark is not held yet, and its watcher is nobody's.
        wait_for(lambda: any(one.read_text() for one in Path("stalls").glob(".*.watcher")), "no mark")
        watchers = [
            int(one) for one in os.listdir("/proc") if one.isdigit() and is_watcher_in(one, tmp_path / "stalls")
        ]
        assert said_of_stalls() == ""
        for watcher in watchers:
            os.kill(watcher, signal.SIGKILL)
        wait_for(said_of_stalls, "nothing is said of the killed watcher")
        assert f"process {service.pid} is watched no more: its watcher" in said_of_stalls()
        service.communicate()
    assert service.returncode == 0
    assert "was killed, or ended with its container" in said_of_stalls()


def is_watcher_in(pid, folder):
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes()
        return name == b"headway-watch\n" and Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


def said_of_stalls():
    return subprocess.run(
        [HEADWAY, "stalls", "stalls"], capture_output=True, text=True, timeout=LIMIT_S, check=True
    ).stderr
