"""Recording in one's own process: `headway.trace()`."""

import subprocess
import sys

import pytest

from headway.live.collect import collecting
from headway.live.launch import environment

pytestmark = pytest.mark.slow

IN_PROCESS = """
import sys, threading, time
import headway

def work():
    for _ in range(50):
        time.sleep(0.001)

def events(recording):
    trace = recording.trace()
    assert trace.loss.whole, trace.loss
    return len(trace.events)

with headway.trace(*sys.argv[1:]) as outer:
    threads = [threading.Thread(target=work, name=f"worker-{i}") for i in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    begun = events(outer)
    with headway.trace() as inner:
        work()
    assert events(inner) > begun
names = {thread.name for thread in outer.trace().threads}
assert {"worker-0", "worker-1"} <= names, names
assert begun > 200
assert events(outer) > begun
print(outer.summary().wall_ns > 0, outer.path.name)
"""


def test_a_recording_of_ones_own(tmp_path):
    """`headway.trace()` records into a named or unnamed file, readable at any time; an inner call joins the outer one."""
    own = subprocess.run([sys.executable, "-c", IN_PROCESS], capture_output=True, text=True, timeout=60, check=False)
    assert own.returncode == 0, own.stderr
    file = tmp_path / "own.hwt"
    command = [sys.executable, "-c", IN_PROCESS, str(file)]
    named = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (named.returncode, named.stdout) == (0, "True own.hwt\n"), named.stderr
    assert file.stat().st_mode & 0o777 == 0o600

    with collecting(tmp_path / "app.hwt") as door:
        joined = subprocess.run(
            [sys.executable, "-c", IN_PROCESS],
            env=environment(door.environment()), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert (joined.returncode, joined.stdout) == (0, "True app.hwt\n"), joined.stderr
