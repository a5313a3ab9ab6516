"""The findings about the cost of recording itself."""

import dataclasses

import pytest
from told_traces import Script, convoy, told

from headway.traces.model import Loss


def test_a_program_that_recording_slows_is_told():
    """A thread that releases every microsecond is told the cost of recording, and one that rarely does is not."""

    def trips(each_ms):
        script = Script()
        for number in range(200):
            script.hold(0, number * each_ms, (number + 0.5) * each_ms)
        return told(script.trace(200 * each_ms, "main"))

    assert trips(0.001)["slowed"].fact == (
        "recording itself took about 6.0 % of the time: 200 round trips at about 60 ns each"
    )
    assert trips(0.001)["slowed"].weight == "note"
    assert "slowed" not in trips(0.1)
    assert "slowed" not in told(convoy())


def test_threads_that_wait_often_are_told_that_recording_costs_more():
    """The cost of recording is a lower bound where threads hand the GIL on thousands of times a second."""

    def turns(each_ms):
        script = Script()
        for number in range(200):
            begin = number * each_ms
            script.wait(number % 2, begin).hold(number % 2, begin + 0.1 * each_ms, begin + 0.9 * each_ms)
        return told(script.trace(200 * each_ms, "one", "other"))

    assert "and more: " in turns(0.04)["slowed"].cause
    assert "slowed" not in turns(1)


@pytest.mark.parametrize(("executable", "is_real"), [("/usr/bin/python3", True), ("headway simulate", False)])
def test_a_simulated_run_is_not_told_of_a_recorder(executable, is_real):
    """No recorder has slowed a simulated run; a trace without room for all of its events ends early."""
    script = Script()
    for number in range(200):
        script.hold(0, number * 0.001, (number + 0.5) * 0.001)
    trace = script.trace(0.2, "main")
    process = dataclasses.replace(trace.process, executable=executable)
    found = told(dataclasses.replace(trace, process=process, loss=Loss(dropped_events=9)))

    assert ("slowed" in found) == is_real
    assert ("record with more room" in found["losses"].advice) == is_real
    assert found["losses"].fact.startswith(
        "this trace is incomplete: 9 events" if is_real else "this trace ends early: 9 later events"
    )
