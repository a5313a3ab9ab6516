"""A sleep that the kernel counts as a wait for a core is a blocking call, if the thread was seen asleep."""

import pytest
from made_traces import MS
from test_stalls import AT_DEEP, AT_POLL, at, loop, only, with_stacks
from told_traces import Script

from headway.traces.analysis.stall_model import Cause
from headway.traces.frames import Asleep, CoreTime

LOOKS = ((5, 0), (110, 0), (140, 0), (170, 0), (320, 1))
"""The times of looks at the thread, and which share of the wait for a core its account has by then."""


def stalled(queued_ms, *asleep):
    """Return the stall of a loop in a call from 11 to 311 ms, whose account has a wait for a core at the call's end."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_DEEP).hold(0, 311, 312, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, MS, queued_ms * share * MS) for ms, share in LOOKS)
    return only(with_stacks(script.trace(400, "MainThread"), core_times=times, asleep=asleep))


@pytest.mark.parametrize("in_futex", [0, 1])
def test_a_wait_for_a_core_does_not_begin_before_the_thread_was_seen_asleep(in_futex):
    """The account has 299 ms without a core, but the thread was asleep 201 ms before the end: it was a sleep."""
    assert stalled(299).cause is Cause.CORE

    stall = stalled(299, Asleep(at(110), 101, in_futex))
    assert stall.cause is Cause.BLOCKED
    assert stall.parts[0].time_ns > 295 * MS
    assert not stall.parts[0].lock


@pytest.mark.parametrize(
    ("queued_ms", "seen"),
    [(195, Asleep(at(110), 101, 0)), (299, Asleep(at(110), 102, 0)), (299, Asleep(at(4), 101, 0))],
    ids=["after it", "another thread", "before the call"],
)
def test_a_wait_for_a_core_after_a_sleep_is_told(queued_ms, seen):
    """A wait that may have begun after the thread was seen asleep is one for a core, and so is one of another thread."""
    assert stalled(queued_ms, seen).cause is Cause.CORE
