"""The report's account of who had a lock, beside what the program itself wrote down."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S

from headway.host.interpreters import discover, select
from headway.live.files import wait_until_finished
from headway.traces.analysis import analyse
from headway.traces.analysis.doing import Doing
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.turns import times_away
from headway.traces.reader import read

PROGRAM = Path(__file__).with_name("lock_holders_program.py")
BY_NAME = {one.name: one for one in reversed(select(discover()[0], ["all"]))}
SLEEPS = 1 + PROGRAM.read_text(encoding="utf-8").splitlines().index("            time.sleep(0.03)")


def run(tmp_path, kind, python=sys.executable):
    """Return the program's trace, and its log of who had the lock."""
    file, log = tmp_path / "app.hwt", tmp_path / "log.json"
    command = [sys.executable, "-m", "headway", "trace", "-o", file, "--python", python, PROGRAM, kind, log]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=LIMIT_S)
    wait_until_finished(file)
    return read(file), json.loads(log.read_text())


def waited_ns(trace, rows):
    """Return for how long the lookups waited for the lock while the refresher had it, by the program's own log."""
    away = times_away(trace, recorded(trace))
    line = next(one for one in analyse(trace).lock_waits if one.frame.function == "lookup").frame
    at = [trace.frames[trace.stack_frame[one]] == line for one in away.stack]
    waits = list(zip(away.start_ns[at], away.end_ns[at], strict=True))
    had = [(begin, end) for name, begin, end in rows if name == "refresh-0"]
    return sum(max(0, min(end, over) - max(start, begin)) for start, over in waits for begin, end in had)


@pytest.mark.matrix("name")
@pytest.mark.parametrize("kind", ["sleeps", "hog"])
@pytest.mark.parametrize("name", ["3.11", "3.13", "3.14"])
def test_the_thread_that_had_the_lock_is_the_one_of_the_programs_log(tmp_path, name, kind):
    """The refresher slept with the lock; a thread that computes beside it never has it, whatever it does with the GIL."""
    found = next(one for key, one in BY_NAME.items() if key.split("_")[0] == name)
    trace, rows = run(tmp_path, kind, found.executable)
    analysis = analyse(trace)
    holders = next(one for one in analysis.lock_waits if one.frame.function == "lookup").holders
    slept_ns = sum(one.blocked_ns for one in holders if one.stack and one.stack[0].line == SLEEPS)

    assert analysis.labels[holders[0].threads[0]] == "refresh-0"
    assert (holders[0].doing, holders[0].stack[0].line) == (Doing.AWAY, SLEEPS)
    assert not {analysis.labels[thread] for one in holders for thread in one.threads} & {"hog-3", "MainThread"}
    assert slept_ns <= 1.05 * waited_ns(trace, rows)


def test_a_deadlock_is_found(tmp_path):
    """Two threads that take two locks in different order wait for each other until the program ends.

    The circle begins with the one that has waited longer.
    """
    trace, _ = run(tmp_path, "deadlock")
    (found,) = (one for one in analyse(trace).findings if one.kind == "deadlock")

    assert set(found.threads) == {"first-0", "second-1"}
    assert "for a lock that first-0 has" in found.fact
    assert "for a lock that second-1 has" in found.fact
