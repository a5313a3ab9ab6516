"""Pools of which each thread waits for a result of the pool itself: a deadlock without a lock."""

import os
from dataclasses import replace

import numpy as np
import pytest
from told_traces import Script, told

from headway.traces.model import Frame, Kind, Silent

FUTURES = "/usr/lib/python3.13/concurrent/futures"
FRAMES = (
    Frame("", 0, "", 0),
    Frame(f"{FUTURES}/thread.py", 90, "_worker", 70),
    Frame("/app/app.py", 7, "branch", 5),
    Frame(f"{FUTURES}/_base.py", 451, "Future.result", 428),
    Frame("/usr/lib/python3.13/threading.py", 359, "Condition.wait", 327),
    Frame("/app/app.py", 20, "leaf", 19),
    Frame("/usr/lib/python3.13/selectors.py", 468, "EpollSelector.select", 440),
    Frame("/usr/lib/python3.13/asyncio/base_events.py", 1989, "BaseEventLoop._run_once", 1950),
    Frame(f"{FUTURES}/process.py", 370, "_ExecutorManagerThread.run", 340),
    Frame("/app/app.py", 30, "<module>", 1),
)
PARENT = (0, 0, 1, 2, 3, 1, 7, 0, 0, 0, 8, 9)
FRAME = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 4)
IDLE, WAITS, WORKS, LOOP, MANAGER, MAIN = 1, 4, 5, 6, 10, 11
"""Stacks: a pool's thread without work; one in `branch` in `result()`; one in `leaf`; a loop; a manager; the main thread."""


def ended(*stacks, names=("MainThread", "pool_0", "pool_1"), last_ms=100, silent=()):
    """Return the trace of threads that released the GIL at these stacks, a second before its end."""
    script = Script()
    for thread, stack in enumerate(stacks):
        script.hold(thread, last_ms + thread, last_ms + thread + 0.5, stack=stack)
    trace = script.trace(1100, *names)
    return replace(
        trace,
        frames=FRAMES,
        stack_parent=np.array(PARENT, dtype=np.int64),
        stack_frame=np.array(FRAME, dtype=np.int64),
        silent=tuple(silent),
    )


def test_a_pool_of_which_each_thread_waits_is_a_finding():
    """The finding has the pool's name, the program's line and the threads, and is the only problem."""
    found = told(ended(MAIN, WAITS, WAITS))["full-pool"]

    assert found.fact == (
        "all 2 threads of the pool pool wait for results at /app/app.py:7 branch, the last one since 998 ms, until the end of "
        "the recording"
    )
    assert (found.weight, found.threads, found.frame) == ("problem", ("pool_0", "pool_1"), FRAMES[2])
    assert "nothing-to-improve" not in told(ended(MAIN, WAITS, WAITS))


def test_threads_that_stood_there_before_the_recording_count():
    """`headway attach` to a program that hangs records the stacks of threads without an event."""
    frames = tuple(FRAMES[FRAME[at]] for at in (4, 3, 2, 1))
    silent = [Silent(f"pool_{one}", frames) for one in (0, 1)]

    assert told(ended(MAIN, names=("MainThread",), silent=silent))["full-pool"].threads == ("pool_0", "pool_1")
    assert "full-pool" not in told(ended(MAIN, names=("MainThread",), silent=[*silent, Silent("other")]))


@pytest.mark.parametrize(
    ("stacks", "names"),
    [
        ((MAIN, WAITS, WORKS), ("MainThread", "pool_0", "pool_1")),
        ((MAIN, WAITS, IDLE), ("MainThread", "pool_0", "pool_1")),
        ((MAIN, WAITS, WORKS), ("MainThread", "pool_0", "other_0")),
        ((LOOP, WAITS, WAITS), ("MainThread", "pool_0", "pool_1")),
        ((MANAGER, WAITS, WAITS), ("Thread-1", "pool_0", "pool_1")),
    ],
    ids=["one-works", "one-is-idle", "another-pool-works", "a-loop", "processes"],
)
def test_a_pool_whose_results_may_still_come_is_none(stacks, names):
    """A thread of the pool, another pool, an event loop or another process may set the results."""
    assert "full-pool" not in told(ended(*stacks, names=names))


def test_another_pool_without_work_is_no_help():
    """A pool's thread that waits for work sets no result, and neither does a thread that computes outside of a pool."""
    trace = ended(MAIN, WAITS, IDLE, names=("MainThread", "pool_0", "other_0"))
    computes = replace(trace, events=trace.events[1:2].copy())
    computes.events["kind"] = Kind.ACQUIRE
    computes = replace(trace, events=np.concatenate([trace.events, computes.events]))
    computes.events["time_ns"][-1] = trace.end_ns

    for one in (trace, computes):
        assert told(one)["full-pool"].threads == ("pool_0",)
        assert told(one)["full-pool"].fact.startswith("the only thread of the pool pool waits for results")


def test_a_short_wait_is_none():
    """Threads that have waited for less than half a second may go on."""
    assert "full-pool" not in told(ended(MAIN, WAITS, WAITS, last_ms=700))


@pytest.mark.parametrize(
    ("call", "is_found"),
    [("result(timeout=5)", False), ("result(5)", False), ("result( )", True), ("result(timeout=None)", True)],
)
def test_a_wait_for_a_time_is_none(tmp_path, call, is_found):
    """A task whose line has a time-out goes on by itself."""
    file = tmp_path / "app.py"
    file.write_text("\n" * 6 + f"        return one.{call}\n")
    os.utime(file, (1, 1))
    trace = ended(MAIN, WAITS, WAITS)
    frames = tuple(replace(one, filename=str(file)) if one.line == 7 else one for one in FRAMES)

    assert ("full-pool" in told(replace(trace, frames=frames))) == is_found
