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

FORKED = """
import os, sys, time
import headway
from headway.errors import RecordingError

child = 0
with headway.trace(*sys.argv[1:]) as ours:
    with headway.trace() as inner:
        child = os.fork()
        if child == 0:
            try:
                ours.trace()
            except RecordingError as error:
                print(error, flush=True)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for _ in range(50):
            time.sleep(0.001)
assert len(inner.trace().events) > 100
assert len(ours.trace().events) > 100
after = os.fork()
if after == 0:
    sys.exit(0)
assert os.waitpid(after, 0)[1] == 0
assert ours.path.exists() and inner.path.exists()
print(len(os.listdir(inner.path.parent)))
"""


@pytest.mark.parametrize("name", [None, "own.hwt"])
def test_a_forked_child_leaves_its_parents_recording(tmp_path, name):
    """A child that leaves the `with`, or ends after it, neither writes nor removes a file of its parent."""
    words = [sys.executable, "-c", FORKED, *([] if name is None else [str(tmp_path / name)])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told, left = done.stdout.splitlines()
    assert "forked child" in told
    assert left == "1"
    assert done.stderr == ""


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
