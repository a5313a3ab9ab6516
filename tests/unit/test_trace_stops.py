"""The threads that stopped the world of a build without a GIL, and their lines."""

import dataclasses
import os

import pytest
from told_traces import AT_COMPUTE, AT_SERVE, COMPUTE, Script, told

from headway.traces.analysis.stops import stoppers
from headway.traces.model import Park

FREE = {"gils": 0, "free_threaded": True, "gil_enabled": False}


def test_the_line_that_stopped_the_world_is_told():
    """Its thread's waits begin first and end once the others are suspended; theirs end together, when it goes on."""
    script = Script()
    for now in range(0, 200, 20):
        script.park(0, now, now + 0.05, Park.WORLD, stack=AT_COMPUTE)
        script.park(1, now + 0.01, now + 12, Park.WORLD).park(2, now + 0.06, now + 12.1, Park.WORLD)
    trace = script.trace(200, "collector", "one", "two", **FREE, python="3.13.5")
    one = told(trace)["stop-the-world"]

    assert one.cause.endswith(
        "; collector did so at app.py:12 compute 10 times, while others were stopped for 240 ms in total"
    )
    assert one.frame == COMPUTE
    assert "`gc.freeze()`" in one.advice


def test_threads_that_are_suspended_together_did_not_stop_the_world():
    """Without a wait of the thread that stops the world, which found no other one running, that thread is not known."""
    script = Script()
    for now in range(0, 200, 20):
        script.park(1, now + 0.01, now + 12, Park.WORLD).park(2, now + 0.06, now + 12.1, Park.WORLD)
    trace = script.trace(200, "collector", "one", "two", **FREE)
    one = told(trace)["stop-the-world"]

    assert one.cause.endswith("of a free-threaded build")
    assert (one.advice, one.frame) == ("", None)


def test_a_thread_that_is_suspended_first_did_not_stop_the_world():
    """A thread may be suspended before the one that stops the world begins to wait; a second stop follows at once."""
    script = Script()
    for now in range(0, 200, 40):
        script.park(1, now, now + 12, Park.WORLD, stack=AT_SERVE)
        script.park(0, now, now + 0.05, Park.WORLD, stack=AT_COMPUTE)
        script.park(0, now + 12.02, now + 12.06, Park.WORLD, stack=AT_COMPUTE)
        script.park(1, now + 12.03, now + 20, Park.WORLD, stack=AT_SERVE)
    trace = script.trace(200, "collector", "worker", **FREE)
    (one,) = stoppers(trace, trace.start_ns, trace.end_ns)

    assert (one.frame, one.threads, one.stops) == (COMPUTE, (0,), 10)
    assert one.stopped_ns / 1e6 == pytest.approx(5 * (12 + 7.97))


def test_a_second_stop_before_all_others_went_on_is_one_of_the_same_thread():
    """One of two suspended threads gets its core late, and is suspended again: neither of them stopped the world."""
    script = Script()
    for now in range(0, 200, 40):
        script.park(0, now, now + 0.03, Park.WORLD, stack=AT_COMPUTE)
        script.park(1, now, now + 12, Park.WORLD, stack=AT_SERVE)
        script.park(2, now + 0.04, now + 10, Park.WORLD, stack=AT_SERVE)
        script.park(0, now + 11.98, now + 12.01, Park.WORLD, stack=AT_COMPUTE)
        script.park(1, now + 12.005, now + 16, Park.WORLD, stack=AT_SERVE)
        script.park(2, now + 12.02, now + 12.06, Park.WORLD, stack=AT_SERVE)
    trace = script.trace(200, "collector", "one", "two", **FREE)
    (one,) = stoppers(trace, trace.start_ns, trace.end_ns)

    assert (one.frame, one.threads, one.stops) == (COMPUTE, (0,), 10)
    assert one.stopped_ns / 1e6 == pytest.approx(5 * (12 + 9.96 + 3.995 + 0.04))


def test_a_stop_at_a_line_that_is_not_known_is_told_too():
    """Without it, the time of the lines that are told would be a part of the whole, without a word why."""
    script = Script()
    for now in range(0, 200, 40):
        at = AT_COMPUTE if now else 0
        script.park(0, now, now + 0.05, Park.WORLD, stack=at).park(1, now + 0.01, now + 12, Park.WORLD)
    one = told(script.trace(200, "collector", "worker", **FREE))["stop-the-world"]

    assert one.frame == COMPUTE
    assert "; collector did so at app.py:12 compute 4 times, while " in one.cause
    assert "; collector did so at a line that is not known 1 time, while " in one.cause


@pytest.mark.parametrize("line", ["pid = os.fork()", "gc.collect()"])
def test_a_fork_stops_the_world_too(tmp_path, line):
    """The advice is about forks if that is the line's text: no setting of the garbage collector helps then."""
    file = tmp_path / "app.py"
    file.write_text(f"def work():\n    {line}\n")
    os.utime(file, (0, 0))
    script = Script()
    for now in range(0, 200, 20):
        script.park(0, now, now + 0.05, Park.WORLD, stack=AT_COMPUTE).park(1, now + 0.01, now + 12, Park.WORLD)
    trace = script.trace(200, "main", "worker", **FREE)
    frames = [dataclasses.replace(one, filename=str(file), line=2) if one == COMPUTE else one for one in trace.frames]
    one = told(dataclasses.replace(trace, frames=tuple(frames)))["stop-the-world"]

    assert one.cause.startswith("`os.fork()` stops all threads") == ("fork" in line)
    assert ("spawn" in one.advice, "gc.freeze" in one.advice) == ("fork" in line, "fork" not in line)
