"""A lock that threads have in turn while they hold the GIL: without it, they would wait for the GIL."""

import dataclasses
import os

import numpy as np
import pytest
from made_traces import UNKNOWN_FRAME
from told_traces import Script

from headway.traces.analysis import analyse
from headway.traces.model import Frame

SOURCE = """import threading
guard = threading.Lock()
def handler():
    with guard:
        loads()
    send()
def client():
    receive()
"""
AT_LOCK, AT_SEND, AT_RECEIVE = 1, 2, 3
TURNS, TURN_MS = 60, 4.2


def in_turns():
    """Return a script: threads 0 and 1 have a lock in turn and compute for 4 ms with it, and two clients wait for the GIL."""
    script = Script()
    for turn in range(TURNS):
        now, owner = turn * TURN_MS, turn % 2
        script.hold(1 - owner, now, now + 0.02, stack=AT_LOCK)
        script.wait(owner, now + 0.01, stack=AT_LOCK).hold(owner, now + 0.03, now + 4.03, stack=AT_SEND)
        for client in (2, 3):
            begun = now + 4.03 + 0.01 * (client - 1)
            script.wait(client, now + 0.5, stack=AT_RECEIVE).hold(client, begun, begun + 0.005, stack=AT_RECEIVE)
    return script


@pytest.fixture
def findings(tmp_path):
    """Return a function that returns the findings of a script, for which the GIL is free in a third of the time."""
    file = tmp_path / "app.py"
    file.write_text(SOURCE)
    os.utime(file, (0, 0))
    lines = (("handler", 4, 3), ("handler", 6, 3), ("client", 8, 7))
    frames = tuple(Frame(str(file), line, name, first) for name, line, first in lines)

    def found(script):
        trace = dataclasses.replace(
            script.trace(1.5 * TURNS * TURN_MS, "handler-0", "handler-1", "client-0", "client-1"),
            frames=(UNKNOWN_FRAME, *frames),
            stack_frame=np.arange(len(frames) + 1),
            stack_parent=np.zeros(len(frames) + 1, dtype=np.int64),
        )
        return analyse(trace).findings

    return found


def test_threads_that_compute_with_a_lock_in_turn_would_wait_for_the_gil_without_it(findings):
    """To compute before the lock is taken gains nothing there, though the GIL is free at other times."""
    (one,) = (one for one in findings(in_turns()) if one.kind in ("contended-lock", "turns"))

    assert "had the lock" in one.cause
    assert "holding the GIL" in one.cause
    assert one.advice.endswith("so without this lock they would wait for the GIL")


def test_such_a_lock_does_not_stand_for_the_function_that_has_it(findings):
    """The waiting for the GIL behind the function costs more, and has a finding of its own, which comes first."""
    first, *others = findings(in_turns())

    assert first.kind == "behind-a-function"
    assert "`handler`" in first.fact
    assert {"contended-lock", "turns"} & {one.kind for one in others}
