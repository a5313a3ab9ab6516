"""A program with thousands of live threads goes on under tracing, and under a policy, as it does without."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.lab import discover, select
from headway.live.files import wait_until_finished
from headway.traces.reader import read

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench"
HEADWAY = Path(sys.executable).with_name("headway")
# More threads than the recorder once had room for, when it stalled because of that.
MANY = 4400
SECONDS = "1"
# The time between two wake-ups of a thread. Thousands of threads that wait for the GIL, 5 ms at a time, keep two cores
# from everything else, without Headway too, for a moment or for seconds. The time after that is compared.
PAUSE_S = "300"
# A bare run takes 2 s on two quiet cores. With Headway it may take many times the time of the bare run.
LIMIT_S = 120
TIMES_BARE = 5
LEAST_LIMIT_S = 60
LEAST_OF_BARE = 1 / 3


def crowd(*before, limit_s=LIMIT_S):
    """Run the program with MANY threads; return its figures, its stderr, and a limit for the next one."""
    begun_s = time.monotonic()
    (interpreter,) = select(discover()[0], ["3.13"])
    command = [
        *map(str, before),
        interpreter.executable,
        str(BENCH / "crowd_workload.py"),
        str(MANY),
        SECONDS,
        PAUSE_S,
        "calm",
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=limit_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 0, errors
    found = json.loads(out)
    if found["started"] < MANY:
        pytest.skip(
            f"this machine starts {found['started']} threads only (ulimit -u, pid_max, max_map_count, pids.max)"
        )
    return found, errors, max(LEAST_LIMIT_S, TIMES_BARE * (time.monotonic() - begun_s))


def rate(found):
    """Return the rounds per second, without the time for which the machine gave the thread no core: load comes and goes."""
    return found["rounds"] * 1e9 / max(1, found["took_ns"] - found["queued_ns"])


@pytest.fixture(scope="module")
def bare():
    """Return the rate of the program without Headway, and a limit for a run with it."""
    found, _, limit_s = crowd()
    return rate(found), limit_s


@pytest.mark.times
def test_a_traced_program_with_thousands_of_threads_goes_on(bare, tmp_path):
    """A traced program does at least a third of its bare work, and one line tells what was not recorded."""
    bare_rate, limit_s = bare
    trace = tmp_path / "crowd.hwt"

    traced, said, _ = crowd(HEADWAY, "trace", "--no-summary", "-o", trace, "--", limit_s=limit_s)

    assert rate(traced) >= LEAST_OF_BARE * bare_rate
    wait_until_finished(trace)
    recorded = len(read(trace).threads)
    told = [line for line in said.splitlines() if line.startswith("headway: ")]
    # All threads are the program's own and its main one; a recorder with room for all of them prints nothing.
    assert recorded > MANY or len(told) == 1, (recorded, said)


@pytest.mark.times
def test_a_scheduled_program_with_thousands_of_threads_goes_on(bare):
    """A scheduled program does at least a third of its bare work."""
    bare_rate, limit_s = bare

    scheduled, _, _ = crowd(HEADWAY, "run", "--policy", "fair", "--", limit_s=limit_s)

    assert rate(scheduled) >= LEAST_OF_BARE * bare_rate


def test_the_bench_tells_each_way_beside_bare(tmp_path):
    """With few threads, each way has its launches and ratios, and none misses its target for not finishing."""
    file = tmp_path / "crowd.json"
    command = [sys.executable, BENCH / "crowd.py", "--threads", "20", "--launches", "2", "--seconds", "0.2"]

    done = subprocess.run([*command, "--json", file], capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert done.returncode in (0, 1), done.stderr
    rows = json.loads(file.read_text())["threads"]["20"]
    assert [len(rows[way]["launches"]) for way in ("bare", "traced", "run")] == [2, 2, 2]
    assert not any(launch["failure"] for row in rows.values() for launch in row["launches"])
    assert all(launch["started"] == 20 and launch["rounds"] > 0 for row in rows.values() for launch in row["launches"])
    assert rows["traced"]["rounds"]["value"] > 0


def test_the_bench_names_the_launch_that_does_not_finish():
    """A launch over its limit is reported, and there is no verdict if no bare launch finishes either."""
    command = [
        sys.executable,
        BENCH / "crowd.py",
        "--threads",
        "20",
        "--launches",
        "2",
        "--seconds",
        "9",
        "--limit",
        "1",
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert done.returncode == 0
    assert "not finished after 1 s" in done.stdout
    assert "within its targets" not in done.stdout
