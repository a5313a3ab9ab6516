"""Python's own helper processes are known by their command lines."""

import subprocess
import sys

import pytest

from headway.live.standby import is_standby

TRACKER = ["python3", "-E", "-c", "from multiprocessing.resource_tracker import main;main(5)"]
FORK_SERVER = ["python3", "-c", "from multiprocessing.forkserver import main; main(6, 7, ['__main__'], **{})"]
SPAWNED = ["python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(3, 4)", "--multiprocessing-fork"]
LOKY = ["python3", "-c", "from joblib.externals.loky.backend.resource_tracker import main; main(4, False)"]

STARTS = """
import multiprocessing, os
from multiprocessing import resource_tracker
from headway.live.standby import is_standby
with multiprocessing.get_context("forkserver").Pool(1) as pool:
    pids = [pool.apply(os.getppid), pool.apply(os.getpid), os.getpid()]
    print([is_standby(pid) for pid in (resource_tracker._resource_tracker._pid, *pids)])
"""


def made(proc, pid, parent, words):
    """Write the /proc entries of a process."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (folder / "stat").write_text(f"{pid} (python3) S {parent} 1 1\n")


@pytest.mark.parametrize(
    ("words", "helps"),
    [
        (TRACKER, True),
        (FORK_SERVER, True),
        (LOKY, True),
        (["python3", "-c", "import sys; from multiprocessing.forkserver import main; main(6)"], True),
        (SPAWNED, False),
        (["python3", "app.py", TRACKER[-1]], False),
        (["python3", "-c"], False),
        ([], False),
    ],
)
def test_a_helper_is_known_by_the_code_that_it_runs(tmp_path, words, helps):
    """The resource trackers and the fork server are helpers, and a spawned worker or a program is none."""
    made(tmp_path, 20, 10, ["python3", "app.py"])
    made(tmp_path, 21, 20, words)

    assert is_standby(21, tmp_path) is helps


def test_the_worker_of_a_fork_server_is_no_helper(tmp_path):
    """It was forked, so that it has the command line of its parent."""
    made(tmp_path, 20, 10, ["python3", "app.py"])
    made(tmp_path, 21, 20, FORK_SERVER)
    made(tmp_path, 22, 21, FORK_SERVER)

    assert is_standby(21, tmp_path)
    assert not is_standby(22, tmp_path)


def test_a_process_that_has_ended_is_no_helper(tmp_path):
    """Nothing is known of it."""
    assert not is_standby(21, tmp_path)


def test_the_helpers_of_this_python_are_known():
    """The tracker and the fork server that this Python starts, and no worker of theirs."""
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "[True, True, False, False]\n"
