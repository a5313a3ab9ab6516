"""Hundreds of threads that wait for the GIL one after the other: the cost of analysing their waits."""

import pytest
from made_traces import MS
from test_stalls import AT_DEEP, AT_TARGET, with_stacks
from told_traces import Script

from headway.traces.analysis import spent_holds
from headway.traces.analysis.observed import Observed
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.stalls import find_stalls

LIMITS = Thresholds(50 * MS, 50 * MS, 50 * MS)


def queue(threads):
    """Return a trace of threads that ask for the GIL during one long hold, and then get it for 2 ms each."""
    script = Script().hold(0, 0, 100, stack=AT_DEEP)
    for thread in range(1, threads):
        begun, gets = 10 + thread / 10, 100 + 2 * thread
        script.wait(thread, begun, stack=AT_TARGET, asks_ms=begun + 5)
        script.hold(thread, gets, gets + 1.9, stack=AT_TARGET, forced=thread % 2 == 0)
    return with_stacks(script.trace(100 + 2 * threads + 10, *(f"poller-{number}" for number in range(threads))))


def test_a_hold_that_many_waited_for_is_examined_once(monkeypatch):
    """Twice as many threads wait for four times as many holds in all, and the work is twice as much."""
    calls = []
    collected_ns = Observed.collected_ns

    def counted(*words):
        calls.append(words)
        return collected_ns(*words)

    monkeypatch.setattr(Observed, "collected_ns", counted)
    costs = []
    for threads in (40, 80):
        calls.clear()
        assert len(find_stalls(queue(threads), LIMITS)) == threads - 1
        costs.append(len(calls))

    assert costs[1] < 3 * costs[0]


@pytest.mark.parametrize("threads", [20, 40])
def test_the_parts_of_a_hold_are_the_same_for_all_that_waited_for_it(monkeypatch, threads):
    """The stalls are those of an analysis that examines each hold anew for each of the threads."""
    found = find_stalls(queue(threads), LIMITS)

    def anew(self, holds, place):
        return self._held(holds, place, int(holds.start_ns[place]), int(holds.end_ns[place]))

    monkeypatch.setattr(spent_holds.SpentHolds, "_whole_hold", anew)
    assert found == find_stalls(queue(threads), LIMITS)
    assert {len(one.parts) for one in found} != {1}
