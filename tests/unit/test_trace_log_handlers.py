"""Advice about the lock of a handler of `logging`, which the threads that log have while a record is written."""

import dataclasses
import os

import numpy as np
import pytest
from made_traces import UNKNOWN_FRAME
from told_traces import Script, told

from headway.traces.frames import Frame
from headway.traces.model import Park

SOURCE = """import threading
class Handler:
    def handle(self, record):
        with self.lock:
            self.emit(record)
        return record
"""
TAKES, EMITS, RETURNS = 1, 2, 3
LIBRARY, OF_PROGRAM = "lib/python3.13/logging/__init__.py", "app/handlers.py"


def advice(folder, name, script, **process):
    """Return the advice about the lock for which the threads of a script wait in a file of that name."""
    file = folder / name
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    os.utime(file, (0, 0))
    frames = tuple(Frame(str(file), line, "Handler.handle", 3) for line in (4, 5, 6))
    trace = dataclasses.replace(
        script.trace(400, "a", "b", "c", **process),
        frames=(UNKNOWN_FRAME, *frames),
        stack_frame=np.arange(len(frames) + 1),
        stack_parent=np.zeros(len(frames) + 1, dtype=np.int64),
    )
    return told(trace)["contended-lock"].advice


@pytest.mark.parametrize(
    ("name", "begins"), [(LIBRARY, "let a `logging.handlers.QueueHandler` take"), (OF_PROGRAM, "make that call before")]
)
def test_a_handler_that_writes_with_its_lock_is_to_get_a_queue(tmp_path, name, begins):
    """A program cannot move the write out of the lock of `logging`, but a queue has other threads write."""
    script = Script()
    for now in range(0, 400, 40):
        script.hold(0, now, now + 0.1, stack=EMITS).hold(1, now + 1, now + 1.1, stack=TAKES)
        script.hold(0, now + 30, now + 30.2, stack=RETURNS).hold(1, now + 30.3, now + 30.4, stack=RETURNS)

    assert advice(tmp_path, name, script).startswith(begins)


@pytest.mark.parametrize(
    ("name", "begins"),
    [(LIBRARY, "let a `logging.handlers.QueueHandler` take"), (OF_PROGRAM, "hold the lock for less")],
)
def test_the_queue_is_advised_where_the_owner_is_not_known(tmp_path, name, begins):
    """A free-threaded build's trace tells the waits for a lock, and not which thread had it."""
    script = Script()
    for now in range(0, 400, 20):
        script.park(0, now, now + 9, Park.LOCK, stack=TAKES).park(1, now + 10, now + 19, Park.LOCK, stack=TAKES)
    process = {"gils": 0, "free_threaded": True, "gil_enabled": False}

    assert advice(tmp_path, name, script, **process).startswith(begins)


def test_a_queue_is_not_advised_where_the_owner_waits_for_the_gil(tmp_path):
    """A handler that only puts records into a queue has its lock for long only without the GIL: another queue gives nothing."""
    script = Script()
    for now in range(0, 400, 40):
        script.hold(0, now, now + 0.1, stack=EMITS).hold(1, now + 0.2, now + 0.3, stack=TAKES)
        script.wait(0, now + 0.4, stack=EMITS).hold(2, now + 0.4, now + 29.9, stack=RETURNS, forced=True)
        script.hold(0, now + 30, now + 30.2, stack=RETURNS).hold(1, now + 30.3, now + 30.4, stack=RETURNS)

    assert "QueueHandler" not in advice(tmp_path, LIBRARY, script)
