"""An earlier trace is overwritten by a new one, and by nothing else."""

import subprocess
import sys
from pathlib import Path

from real_programs import LIMIT_S

from headway.live.files import wait_until_finished
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))


def test_an_earlier_trace_stays_until_the_new_one_begins(tmp_path):
    """A program without Python leaves the earlier trace under --force; a program with Python replaces it."""
    path = tmp_path / "app.hwt"
    path.write_bytes(b"an earlier trace")
    command = [HEADWAY, "trace", "--force", "--no-summary", "-o", path]

    subprocess.run([*command, "/bin/true"], capture_output=True, check=True, timeout=LIMIT_S)
    wait_until_finished(path)
    assert path.read_bytes() == b"an earlier trace"

    subprocess.run([*command, sys.executable, "-c", "pass"], capture_output=True, check=True, timeout=LIMIT_S)
    wait_until_finished(path)
    assert read(path).process.ended
