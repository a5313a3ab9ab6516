"""The trace of the lab's echo server agrees with the measurements of its client and its CPU-bound threads."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from headway.agent import AGENT_PATH
from headway.host.interpreters import discover, select
from headway.library import library_path
from headway.live.collect import collecting
from headway.live.launch import environment
from headway.traces.analysis import analyse
from headway.traces.invariants import violations
from headway.traces.model import Kind
from headway.traces.reader import read

PROGRAM = str(Path(__file__).with_name("echo_program.py"))
CONVOY = AGENT_PATH / "headway_agent" / "workloads" / "convoy.py"
UNITS = CONVOY.with_name("units.py")
BY_NAME = {one.name: one for one in reversed(select(discover()[0], ["all"]))}
NAMES = ["3.11", "3.12", "3.13", "3.14", "3.15"]
TEXT = CONVOY.read_text(encoding="utf-8").splitlines()
MS = 1_000_000
BESIDE = [pytest.param(threads, marks=pytest.mark.times) for threads in (1, 4)]
"""CPU-bound threads beside the server. They are tested alone: where they have no core, the report tells that, and no convoy."""

pytestmark = pytest.mark.slow


def echo(name, cpu, file):
    """Run the server on one core and its client on another; return the trace, and the client's measurements."""
    found = next(one for key, one in BY_NAME.items() if key.split("_")[0] == name)
    cores = sorted(os.sched_getaffinity(0))
    params = {"cpu": cpu, "connections": 1, "duration_s": 1.0, "warmup_s": 0.0, "min_requests": 20}
    job = {"params": params, "library": str(library_path()), "seed": 1, "party_cpus": [cores[:1], cores[-1:]]}
    with collecting(file) as door:
        done = subprocess.run(
            [found.executable, PROGRAM, json.dumps(job)],
            env=environment(door.environment()),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return read(file), json.loads(done.stdout)


def line_of(trace, index):
    """Return the source line of a stack's innermost frame if it is the server's."""
    frame = trace.stack(index)[0] if index else None
    return TEXT[frame.line - 1].strip() if frame and frame.filename == str(CONVOY) else ""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("cpu", [0, *BESIDE])
@pytest.mark.parametrize("name", NAMES)
def test_the_trace_agrees_with_what_the_client_measured(name, cpu, tmp_path):
    """A request has exactly two releases, waits agree with the client's latency, and the CPU-bound line holds most."""
    trace, measured = echo(name, cpu, tmp_path / "echo.hwt")

    assert violations(trace) == []
    assert trace.loss.whole
    analysis = analyse(trace)
    server = next(one for one in analysis.threads if "_echo" in one.name)
    index = next(i for i, one in enumerate(trace.threads) if one.name == server.name)
    mine = trace.events[trace.events["thread"] == index]
    releases = mine[mine["kind"] == Kind.RELEASE]
    source = {index: line_of(trace, index) for index in set(releases["value"].tolist())}
    called = [source[index] for index in releases["value"].tolist()]
    # recv() and sendall() release once for each request, and recv() once more for the connection's end. The client
    # counts until its time is over, so a slow server may be in the middle of one more.
    answered = sum("sendall(" in line for line in called) - measured["requests"]
    assert answered in ((0,) if cpu == 0 else (0, 1))
    received = sum("recv(" in line for line in called) - measured["requests"] - answered
    # After its last answer, a slow server may wait for the GIL until the program ends.
    starved = cpu > 0 and "sendall(" in called[-1]
    assert received in ((1,) if cpu == 0 else (1, 2)) or (starved and received == 0)

    if cpu == 0:
        assert server.waits.total_ns < 0.05 * analysis.wall_ns
        return
    # A request waits for the GIL, unless the machine keeps the threads that compute from their core: then hundreds are
    # answered while no other thread wants the GIL.
    turns = mine[np.isin(mine["kind"], [Kind.WAIT, Kind.ACQUIRE])]
    sent_ns = releases["time_ns"][["sendall(" in line for line in called]][: measured["requests"]]
    last_ns = sent_ns[-1]
    begun = np.flatnonzero((turns["kind"][:-1] == Kind.WAIT) & (turns["time_ns"][:-1] < last_ns))
    wait_ns = turns["time_ns"][begun + 1] - turns["time_ns"][begun]
    assert np.percentile(wait_ns, 25) > 4.5 * MS  # a switch interval, by default 5 ms
    # The client counts from its first request to its last answer, all within the life of the server's thread and of the
    # process. On a busy machine that thread may be late at the begin, and in the middle of one more request at the end.
    counted_ns = measured["requests"] / measured["requests_per_s"] * 1e9
    assert last_ns - sent_ns[0] <= counted_ns <= mine["time_ns"][-1] - trace.start_ns
    # When the server does not wait for the GIL, it waits for the core, which the system may give to a CPU-bound thread
    # for long: then waits are half of the time.
    span_ns = last_ns - mine["time_ns"][0]
    assert 0.25 * span_ns < wait_ns.sum() <= span_ns

    # The main thread only starts the others, but on a busy machine it may have no core while it imports with the GIL.
    hog = next(one for one in analysis.held if any("burn" in thread or "_echo" in thread for thread in one.threads))
    assert hog.frame.filename == str(UNITS)
    assert hog.frame.function == "count"
    line = UNITS.read_text(encoding="utf-8").splitlines()[hog.frame.line - 1].strip()
    assert line in ("for _ in range(_STEPS):", "n += 1")
    assert sum("burn" in one for one in hog.threads) == min(cpu, len(hog.threads))
    convoys = [one for one in analysis.findings if one.kind == "convoy"]
    assert any(server.label in one.threads for one in convoys)
