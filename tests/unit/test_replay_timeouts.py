"""Waits for other threads that end by their time-out, told from those that another thread ends."""

import inspect
import os
import queue
import threading

import numpy as np
import pytest
from made_traces import START_NS
from made_turns import FRAMES, MS, US, trace_of, turn

from headway.native_sim import OpKind
from headway.sim.machine import load
from headway.sim.replay.bursts import see
from headway.sim.replay.learn import learn
from headway.sim.replay.wakes import find_wakes
from headway.traces.calls import Call, timeout_ns_at
from headway.traces.frames import Frame

KINDS = {0: Call.UNKNOWN, 1: Call.RUN, 2: Call.LOCK}
TIMEOUT_US = 20_000
COSTS = load("preset")


def line_of(function, text):
    """Return the frame of the last line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    number = max(number for number, line in enumerate(lines, first) if text in line)
    return Frame(inspect.getsourcefile(function), number, function.__qualname__, first)


TIMED = line_of(threading.Condition.wait, "waiter.acquire(True, timeout)")
UNTIMED = line_of(threading.Condition.wait, "waiter.acquire()")
GET = line_of(queue.Queue.get, "self.not_empty.wait(remaining)")


def waits(lengths_us, woken=()):
    """Return the rows of a thread that waits again and again, and of another one that holds the GIL as the `woken` end.

    Args:
        lengths_us: The lengths of the waits.
        woken: The numbers of the waits at whose end the other thread has just had the GIL.
    """
    rows, now = [], 0
    for number, length_us in enumerate(lengths_us):
        rows += turn(now, 1, holds_us=10, stack=2)
        now += 10 + length_us
        if number in woken:
            rows += turn(now - 60, 0, holds_us=30, stack=1)
    return rows + turn(now, 1, holds_us=10, stack=2)


def wakes_of(rows, timeouts_ns):
    return find_wakes(see(trace_of(rows, until_ns=3000 * MS), 0, 0, 3000 * MS), KINDS, 40 * US, timeouts_ns)


def test_a_wait_that_lasted_for_its_time_out_was_ended_by_nobody():
    """Another thread that happened to hold the GIL woke only those that were shorter; the last wait is as most are."""
    lengths = [TIMEOUT_US + 80, 7_000, TIMEOUT_US + 4_000, TIMEOUT_US - 300, 12_000]
    wakes = wakes_of(waits(lengths, woken=range(5)), {2: TIMEOUT_US * US})

    assert wakes.timed_out == dict.fromkeys([(1, 0), (1, 2), (1, 3), (1, 5)], TIMEOUT_US * US)
    assert sorted(wakes.takes) == [(1, 1), (1, 4)]
    assert wakes.count == sum(map(len, wakes.posts.values())) == 2


@pytest.mark.parametrize(("alone", "is_over"), [(30, True), (10, False), (0, False)])
def test_waits_of_one_length_that_mostly_nobody_could_end_have_timed_out(alone, is_over):
    """The time-out is not known, so the waits of a place must be alike, and most must have no possible waker."""
    rng = np.random.default_rng(1)
    lengths = TIMEOUT_US + rng.integers(50, 150, 40)
    wakes = wakes_of(waits(lengths.tolist(), woken=range(alone, 40)), {2: 0})

    assert (len(wakes.timed_out), len(wakes.takes)) == ((41, 0) if is_over else (0, 40 - alone))
    assert all(TIMEOUT_US <= one / US <= TIMEOUT_US + 100 for one in wakes.timed_out.values())


def test_waits_without_a_time_out_or_of_different_lengths_are_as_before():
    """A thread that is fed at fixed times waits for its feeder, and not for a time."""
    same = waits([TIMEOUT_US] * 40, woken=range(30, 40))
    assert not wakes_of(same, {}).timed_out
    different = waits([2_000 + 900 * number for number in range(40)], woken=range(30, 40))
    assert (wakes_of(different, {2: 0}).timed_out, len(wakes_of(different, {2: 0}).takes)) == ({}, 10)


@pytest.mark.parametrize(
    ("line", "waits_at", "timeout_ms"),
    [
        ("while not stop.wait(0.02):", (TIMED,), 20),
        ("item = items.get(timeout=1_0)", (TIMED, GET), 10_000),
        ("item = items.get(timeout=INTERVAL)", (TIMED, GET), 0),
        ("stop.wait(due - now())", (TIMED,), 0),
        ("stop.wait(2 * STEP)", (TIMED,), 0),
        ("item = items.get()", (UNTIMED, GET), None),
        ("if lock.acquire(timeout=.5):", (), 500),
        ("stop.wait()", (), None),
        ("item = jobs.get(timeout=None)", (), None),
        ("with lock:", (), None),
    ],
)
def test_the_line_of_a_wait_tells_its_time_out(tmp_path, line, waits_at, timeout_ms):
    """The line that waits tells whether there is a time-out, and that of its caller in the program how long it is."""
    source = tmp_path / "app.py"
    source.write_text(f"{line}\n")
    told = timeout_ns_at((*waits_at, Frame(str(source), 1, "work")))

    assert told == (None if timeout_ms is None else timeout_ms * MS)


def test_a_model_sleeps_for_the_time_out(tmp_path):
    """A thread that nobody wakes does not wait for a thread that a change may leave out, not even in its last wait."""
    source = tmp_path / "app.py"
    source.write_text("\nwhile not stop.wait(0.02):\n")
    os.utime(source, (0, 0))
    frames = (FRAMES[0], FRAMES[1], Frame(str(source), 2, "beat"))
    rows = waits([TIMEOUT_US + 80] * 40, woken=range(40))
    model = learn(trace_of(rows, frames=frames, until_ns=900 * MS, start_realtime_ns=START_NS), COSTS, KINDS)
    (beat,) = (one for one in model.actors if one.role == "other")

    assert model.semaphores == 0
    rests = beat.ops[beat.ops["kind"] != OpKind.HOLD]
    assert set(rests["kind"].tolist()) == {OpKind.SLEEP}
    assert set(rests["value"].tolist()) == {TIMEOUT_US * US}
