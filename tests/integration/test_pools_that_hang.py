"""A pool whose tasks wait for tasks of the same pool, in real programs: with a GIL, without one, and by `attach`."""

import subprocess
import sys

import pytest
from real_programs import LIMIT_S

from headway.host.interpreters import discover, select
from headway.live.files import wait_until_finished
from headway.traces.analysis import analyse
from headway.traces.reader import read

BY_NAME = {one.name: one for one in reversed(select(discover()[0], ["all"]))}
PROGRAM = """import os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
both = threading.Barrier(2)
pool = ThreadPoolExecutor(2, thread_name_prefix="report")
def branch():
    both.wait()
    return pool.submit(len, "leaf").result()
tasks = [pool.submit(branch) for _ in range(2)]
while pool._work_queue.qsize() < 2:  # both have submitted
    time.sleep(0.001)
print("ready", flush=True)
end_s = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end_s:
    time.sleep(0.01)
os._exit(0)
"""
FACT = "all 2 threads of the pool report wait for results at "


def finding(file):
    """Return the finding about a pool in a trace."""
    wait_until_finished(file)
    (found,) = (one for one in analyse(read(file)).findings if one.kind == "full-pool")
    return found


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.11", "3.13", "3.13t", "3.14"])
def test_a_pool_that_waits_for_itself_is_found(tmp_path, name):
    """The finding has the line at which the tasks wait."""
    program, file = tmp_path / "hangs.py", tmp_path / "x.hwt"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "headway", "trace", "-o", file, "--python", BY_NAME[name].executable, program, "1"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=LIMIT_S)

    assert finding(file).fact.startswith(FACT)
    assert "hangs.py:7 branch, the last one since " in finding(file).fact


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.11", "3.14"])
def test_a_pool_that_hangs_already_is_found_by_attach(tmp_path, name):
    """Its threads have no event in the recording."""
    program, file = tmp_path / "hangs.py", tmp_path / "x.hwt"
    program.write_text(PROGRAM)
    command = [BY_NAME[name].executable, program, str(LIMIT_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        arguments = ["attach", "--duration", "2", "-o", str(file), str(child.pid)]
        subprocess.run([sys.executable, "-m", "headway", *arguments], check=True, capture_output=True, timeout=LIMIT_S)
        child.kill()

    assert finding(file).threads == ("report_0", "report_1")
