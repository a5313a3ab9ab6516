"""Laps with very many short times, which are summed up: the sums are what each time alone would give."""

import random

import numpy as np
import pytest
from made_traces import START_NS
from test_stalls import AT_DEEP, AT_LOCK, AT_POLL, AT_SLEEP, MS, STACKS, with_stacks
from told_traces import Script

from headway.traces.analysis.stall_causes import Causes
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.stalls import _Finder, find_stalls
from headway.traces.frames import Collected, CoreTime, Sample
from headway.traces.model import RAN_ALL, RAN_SHIFT, Kind

LIMITS = Thresholds(50 * MS, 50 * MS, 50 * MS)
IN_THE_LOOP = (AT_SLEEP, AT_SLEEP, AT_LOCK, AT_DEEP, 0)


def lap(seed):
    """Return a trace of a long lap with holds and calls of random lengths, and with observations at random times."""
    drawn = random.Random(seed)
    script, now = Script().hold(0, 0, 1, stack=AT_POLL), 2.0
    for _ in range(drawn.choice((30, 300))):
        until = now + drawn.choice((0.01, 0.05, 0.2, 3, 12)) * drawn.random()
        script.hold(0, now, until, stack=drawn.choice(IN_THE_LOOP))
        now = until + drawn.choice((0.01, 0.05, 0.2, 3, 12)) * drawn.random()
    script.hold(0, now + 60, now + 61, stack=AT_POLL)
    trace = script.trace(now + 100, "MainThread")
    shares = np.array([drawn.choice((0, 0, 1, 1 + RAN_ALL // 3, 1 + RAN_ALL)) for _ in trace.events], dtype=np.uint16)
    trace.events["flags"][:] |= np.where(trace.events["kind"] == Kind.WAIT, 0, shares << RAN_SHIFT).astype(np.uint16)
    tid = trace.threads[0].tid
    looks, ran_ns, queued_ns = [], 0, 0
    for moment in sorted(drawn.random() * now for _ in range(drawn.choice((0, 1, 40)))):
        ran_ns, queued_ns = ran_ns + drawn.randrange(5 * MS), queued_ns + drawn.choice((0, drawn.randrange(5 * MS)))
        looks += [CoreTime(START_NS + round(moment * MS), tid, ran_ns, queued_ns)] * drawn.choice((1, 1, 2))
    moments = sorted(round(drawn.random() * now * MS) for _ in range(3))
    samples = [Sample(START_NS + moment, tid, STACKS[AT_SLEEP]) for moment in moments]
    begun = START_NS + round(drawn.random() * now * MS)
    return with_stacks(
        trace,
        core_times=tuple(looks),
        samples=tuple(samples),
        collections=(Collected(tid, begun, begun + MS, 2),),
    )


@pytest.mark.parametrize("seed", range(25))
def test_sums_are_those_of_single_times(seed, monkeypatch):
    """Each part has the same cause, line and length as if each time of the lap were explained on its own."""
    trace = lap(seed)
    found = find_stalls(trace, LIMITS)
    monkeypatch.setattr(Causes, "_summed", lambda _, __, begin, end: (np.zeros(end - begin, dtype=bool), []))

    assert found == find_stalls(trace, LIMITS)
    assert found


def test_most_times_of_a_busy_lap_are_not_looked_at_singly(monkeypatch):
    """A lap of 40,000 events takes no longer than its few long times: each single one costs some 30 us."""
    script = Script().hold(0, 0, 1, stack=AT_POLL)
    for place in range(20_000):
        script.hold(0, 2 + place / 100, 2.005 + place / 100, stack=AT_SLEEP)
    trace = with_stacks(script.hold(0, 203, 204, stack=AT_POLL).trace(300, "MainThread"))
    single, parts = [], Causes._parts

    def counted(*given):
        single.append(given)
        return parts(*given)

    monkeypatch.setattr(Causes, "_parts", counted)

    (stall,) = find_stalls(trace, LIMITS)
    assert stall.length_ns == 202 * MS
    assert len(single) < 5


class Counted(list):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_short_waits_are_not_looked_for_among_the_stalls():
    """With a million waits for the GIL and a thousand laps, that would be a billion comparisons."""
    script = Script()
    for place in range(2_000):
        script.wait(0, place).hold(0, place + 0.5, place + 0.6)
    trace = with_stacks(script.wait(0, 2_000).hold(0, 2_100, 2_101).trace(2_200, "MainThread"))
    known = Counted(find_stalls(trace, LIMITS))

    assert [one.length_ns for one in known] == [100 * MS]
    known.times = 0
    assert _Finder(trace, 0, frozenset(), {}).waits(0, LIMITS.wait_ns, known) == []
    assert known.times == 1
