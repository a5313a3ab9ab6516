"""A convoy is a pattern of holds: many threads that wait during one hold are none, and its rate is that of the holds."""

import pytest
from told_traces import AT_COMPUTE, AT_RECV, Script, told

from headway.traces.analysis import analyse, as_json

SLEEPERS = 30


def crowd(holds: int, *, round_ms: float = 100.0):
    """Return a trace of a thread that computes in some holds, behind each of which all of the sleepers wait."""
    script = Script()
    for number in range(holds):
        now = number * round_ms
        for sleeper in range(1, SLEEPERS + 1):
            script.wait(sleeper, now, asks_ms=now + 5 if sleeper == 1 else None)
        script.hold(0, now, now + 5, forced=True, ran=1.0).wait(0, now + 5, stack=AT_COMPUTE)
        for sleeper in range(1, SLEEPERS + 1):
            script.hold(sleeper, now + 5 + 0.01 * sleeper, now + 5.01 + 0.01 * sleeper, stack=AT_RECV)
        script.hold(0, now + 6, now + 6.1)
    return script.trace(holds * round_ms, "once", *(f"sleeper {number}" for number in range(SLEEPERS)))


@pytest.mark.parametrize(("holds", "is_convoy"), [(1, False), (9, False), (10, True)])
def test_threads_that_wait_during_a_hold_are_no_convoy_unless_they_wait_again_and_again(holds, is_convoy):
    """The number of waits is thirty times that of the holds; the holds make the pattern."""
    trace = crowd(holds)

    assert bool(analyse(trace).gils[0].convoys) is is_convoy
    assert ("convoy" in told(trace)) is is_convoy


def test_the_rate_of_a_convoy_is_that_of_its_holds():
    """Thirty threads that wait during each of 20 holds in 2 s wait behind ten holds a second, and not 300 times a second."""
    found = analyse(crowd(20))
    one = next(one for one in found.findings if one.kind == "convoy")

    assert one.fact.startswith(
        "sleeper * (30 threads) waited 600 times for the GIL behind once, in 20 holds (10/s): 5.15 ms at the median (switch"
    )
    (convoy,) = as_json(found)["gils"][0]["convoys"]
    assert (convoy["waits"]["count"], convoy["holds"]) == (600, 20)
