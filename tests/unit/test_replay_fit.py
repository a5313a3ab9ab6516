"""The durations of a trace's hand-offs, from which `headway whatif` learns the costs of waking."""

from dataclasses import replace

import numpy as np
from made_turns import MS, US, trace_of, turn

from headway.sim.replay.fit import hand_overs
from headway.traces.calls import Call
from headway.traces.model import Kind


def test_hand_overs_are_from_the_release_until_somebody_else_goes_on():
    """A hand-off lasts from the release until another thread goes on.

    A thread that slept for the GIL goes on when it has the GIL. A thread that waited for another's lock goes on when it
    wants the GIL.
    """
    rows = [
        *turn(0, 0, holds_us=40, stack=2),  # thread 0 waits for a lock from here on
        *turn(50, 1, holds_us=100, stack=1),
        (60, 2, Kind.WAIT, 1),  # it sleeps for 90 us
        (162, 2, Kind.ACQUIRE, 0),  # 12 us after the release
        (200, 2, Kind.RELEASE, 2),  # and now it waits for a lock, too
        (217, 0, Kind.WAIT, 2),
        (218, 0, Kind.ACQUIRE, 0),
        (240, 0, Kind.RELEASE, 1),
        *turn(400, 1, waits_us=5, holds_us=10, stack=1),  # it slept for too short a time
    ]
    trace = trace_of(rows, names=("a", "b", "c"))
    other = trace.events[:2].copy()  # a sub-interpreter's GIL, just before the second thread has the main one
    other["gil"], other["time_ns"] = 1, (160 * US, 161 * US)
    trace = replace(trace, events=np.sort(np.append(trace.events, other), order="time_ns", kind="stable"))
    found = hand_overs(trace, 0, MS, {1: Call.UNKNOWN, 2: Call.LOCK})
    assert found.waited.tolist() == [12 * US]
    assert found.woken.tolist() == [17 * US]
