"""The part of a trace that is replayed, and what is said of the rest."""

import pytest
from made_turns import trace_of

from headway.sim.machine import load
from headway.sim.replay.bursts import see
from headway.sim.replay.learn import learn
from headway.sim.replay.window import left_out, overview_of, window
from headway.traces.model import Kind

COSTS = load("preset")


def phases(waits=98, wait_us=5_000, late=0):
    """Return a trace in which thread 1 waits for thread 0, which then works alone; `late` more waits come at the end."""
    rows, now = [], 0
    for number in range(waits + late):
        if number == waits:
            now = 1_850_000
        rows += [(now, 0, Kind.ACQUIRE, 0), (now + 10, 1, Kind.WAIT, 2), (now + wait_us, 0, Kind.RELEASE, 2, True)]
        rows += [(now + wait_us + 1, 1, Kind.ACQUIRE, 0), (now + wait_us + 50, 1, Kind.RELEASE, 2)]
        now += wait_us + 100
        if number == waits - 1:
            for begin in range(now, 1_840_000, 1_000):
                rows += [(begin, 0, Kind.ACQUIRE, 0), (begin + 500, 0, Kind.RELEASE, 1)]
    return trace_of(rows, until_ns=max(2_000_000, now) * 1000)


def said(trace):
    """Return what is said of the part that is not replayed."""
    whole = overview_of(trace)
    return left_out(trace, see(trace, 0, *window(trace, whole)), whole, 0)


def test_a_thread_that_waited_in_another_phase_only_is_named():
    """A program of two phases is replayed as in its last one, and the thread that waited in the first one is told."""
    trace = phases()
    name = trace.threads[1].name

    (text,) = said(trace)
    assert text.startswith(f"{name} is not in the part that is replayed, ")
    assert text.endswith("it waited 489 ms for the GIL elsewhere")
    assert text in learn(trace, COSTS).outside


@pytest.mark.parametrize(
    "trace", [phases(waits=1), phases(wait_us=80), phases(late=4)], ids=["seldom", "shortly", "still there"]
)
def test_little_waiting_and_threads_that_are_replayed_are_not_named(trace):
    """A wait at the start, as that of an import, says nothing about the rest of the program."""
    assert said(trace) == []
