"""The finding about a switch interval that lets no waiter request the GIL, and how such an interval is shown."""

import pytest
from told_traces import Script, told

from headway.report.trace.heading import trace_lines
from headway.traces.analysis import analyse

LONGEST_US = (1 << 32) - 1


def in_turn(*, hold_ms, interval_us, forced=False, **process):
    """Return a trace of two threads that compute in turn, each until its hold ends."""
    script, now = Script(), 0.0
    for turn in range(4):
        asks_ms = now + interval_us / 1000 if forced else None
        script.wait(1 - turn % 2, now, asks_ms=asks_ms).hold(turn % 2, now, now + hold_ms, forced=forced)
        now += hold_ms
    return script.trace(now, "one", "other", interval_us=interval_us, **process)


@pytest.mark.parametrize(
    ("interval_us", "shown"), [(LONGEST_US, "more than 4,294 s"), (LONGEST_US - 967_295, "4,294 s"), (5000, "5 ms")]
)
def test_an_interval_beyond_what_a_recording_can_tell_is_shown_as_longer(interval_us, shown):
    """The greatest recorded value stands for all longer ones."""
    line, *_ = trace_lines(analyse(in_turn(hold_ms=1, interval_us=interval_us)))

    assert line.endswith(f"switch interval {shown}")


def test_an_interval_that_no_wait_reaches_is_the_cause_of_the_waits():
    """Waits of 300 ms, in which nobody could request the GIL, are told with the default that would have let them."""
    found = told(in_turn(hold_ms=300, interval_us=LONGEST_US))

    assert found["long-interval"].fact.startswith(
        "the switch interval of the GIL is more than 4,294 s, so no thread could request it: threads waited "
    )
    assert "`sys.setswitchinterval(0.005)`" in found["long-interval"].advice
    assert "waits" not in found


@pytest.mark.parametrize(
    "trace",
    [
        in_turn(hold_ms=300, interval_us=5000),
        in_turn(hold_ms=300, interval_us=100_000, forced=True),
        in_turn(hold_ms=4, interval_us=LONGEST_US),
        in_turn(hold_ms=300, interval_us=LONGEST_US, policy="fair"),
    ],
    ids=["default", "reached", "short waits", "a policy"],
)
def test_an_interval_that_is_no_cause_is_not_told(trace):
    """It is the default, or waits reach it, or the default would end them no sooner, or a policy makes the requests."""
    assert "long-interval" not in told(trace)
