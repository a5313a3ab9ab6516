"""A watched process requests a recording, whoever has started its watcher."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import state_of, wait_for

from headway.live.watching import Watch
from headway.native import library_path

LIMIT_S = 90
COMMAND = [str(Path(sys.executable).with_name("headway")), "watch", "--quiet", "-o", "out", sys.executable, "-c"]
RECORD = """
import headway, os, time
watch = headway.watch()
watch.record()
until = time.monotonic() + 30
while time.monotonic() < until and not list(watch.folder.glob(f"*-{os.getpid()}.hwt")):
    time.sleep(0.05)
print(os.path.basename(watch.folder), watch.watcher, len(list(watch.folder.glob(f"*-{os.getpid()}.hwt"))))
"""
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {RECORD!r}], check=True)"


@pytest.mark.parametrize(
    ("command", "folder"),
    [([*COMMAND, RECORD], ""), ([sys.executable, "-c", IN_A_CHILD], "out")],
    ids=["headway watch", "HEADWAY_WATCH"],
)
def test_a_process_under_another_s_watcher_gets_its_recording(command, folder, tmp_path):
    """The request reaches the watcher that another process has started, and no folder is made for it."""
    env = os.environ | {"HEADWAY_NATIVE": str(library_path()), "HEADWAY_WATCH": folder}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S, env=env, cwd=tmp_path)

    assert done.stdout == "out 0 1\n", done.stderr
    assert not (tmp_path / "stalls").exists()


def test_a_request_ends_no_other_process(tmp_path):
    """A process that has the id of a watcher that has ended gets no signal."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            other.send_signal(signal.SIGSTOP)
            wait_for(lambda: state_of(other.pid) == "T")
            Watch(tmp_path, other.pid).record()
            # A stopped process keeps a signal until it goes on.
            status = Path(f"/proc/{other.pid}/status").read_text()
        finally:
            other.kill()

    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    assert int(pending.split()[1], 16) == 0
