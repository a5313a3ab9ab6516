"""A program reads its child's stderr, or its own file at descriptor 2: no line of ours is in it."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import BY_NAME, LIMIT_S

from headway.agent import STARTUP_PATH

HEADWAY = str(Path(sys.executable).with_name("headway"))

pytestmark = pytest.mark.slow

BUSY = """
import threading, time
def work():
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        sum(range(500))
threads = [threading.Thread(target=work) for _ in range(2)]
[one.start() for one in threads]
[one.join() for one in threads]
"""
READS = """
import subprocess, sys
child = subprocess.run(sys.argv[1], shell=True, capture_output=True)
print(child.stdout, child.stderr)
"""
READS_WITHOUT_MEMORY = """
import resource, subprocess, sys
code = "import time; print(1); time.sleep(0.02)"
def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
for limit in range(17 << 19, 25 << 19, 1 << 18):
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, preexec_fn=limited)
    print([line for line in child.stderr.splitlines() if b"headway:" in line])
"""


def run(*words, **more):
    """Run a command of ours."""
    return subprocess.run([HEADWAY, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False, **more)


def test_a_shell_stands_between_a_program_and_its_child(tmp_path):
    """The child of a shell that a traced program has started tells the program nothing of why it is not traced."""
    shell = f"ulimit -n 4; {BY_NAME['3.13'].executable} -c 'print(1)'; true"
    done = run("trace", "-o", str(tmp_path / "x.hwt"), "--python", sys.executable, "-c", READS, shell)

    assert done.stdout == "b'1\\n' b''\n"


def test_what_a_policy_did_in_the_child_of_a_shell(tmp_path):
    """`--why` prints what the policy did in the program, and nothing into the stderr that the program reads."""
    busy = tmp_path / "busy.py"
    busy.write_text(BUSY)
    shell = f"{sys.executable} {busy}; true"
    done = run("run", "--policy", "fair", "--why", "--python", sys.executable, "-c", READS, shell)

    assert done.stdout == "b'' b''\n"
    assert done.stderr.count("fair ") == 1


def test_what_a_policy_did_is_not_written_into_a_file_of_the_program(tmp_path):
    """A program that closes its stderr and opens a file at descriptor 2 finds only its own data there."""
    program, data = tmp_path / "program.py", tmp_path / "data.bin"
    program.write_text(
        f"import os\nos.close(2)\nfile = open({str(data)!r}, 'wb')\nassert file.fileno() == 2\n{BUSY}\nfile.write(b'DATA')\n"
    )
    # The shell stands between, because this process has the library, too: it is no Python that reads its child's stderr.
    words = [HEADWAY, "run", "--policy", "fair", "--why", "--python", sys.executable, str(program)]
    subprocess.run(["sh", "-c", f"{shlex.join(words)}; true"], timeout=LIMIT_S, check=True)

    assert data.read_bytes() == b"DATA"


def test_a_child_without_memory_for_the_queue_tells_its_program_nothing():
    """The library's own lines are not in the stderr that a program reads of its child either."""
    done = run("run", "--policy", "fair", "--python", os.path.realpath(sys.executable), "-c", READS_WITHOUT_MEMORY)

    assert set(done.stdout.splitlines()) == {"[]"}


@pytest.mark.parametrize(("launch", "told"), [({}, 1), ({"HEADWAY_STDERR": "1:1", "HEADWAY_LAUNCHED": "1"}, 0)])
def test_a_startup_hook_that_fails_in_a_child(tmp_path, launch, told):
    """The startup hook, which cannot find the agent here, prints why, but not into a stderr that a program reads."""
    archive = shutil.copy(STARTUP_PATH, tmp_path)
    env = os.environ | {"PYTHONPATH": str(archive), "HEADWAY_TRACE_DOOR": "nowhere"} | launch
    done = subprocess.run(
        [sys.executable, "-c", "pass"], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )

    assert done.stderr.count("is not traced: ") == told
    assert done.stderr.count("\n") == told
