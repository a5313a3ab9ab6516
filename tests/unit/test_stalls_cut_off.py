"""Stalls that the end of their process, or of their loop, ends."""

import pytest
from made_traces import MS
from test_stalls import AT_SLEEP, at, loop, with_stacks
from told_traces import Script

from headway.live.stalled import stalls_to_tell, with_its_end
from headway.live.told import Told

LIMITS = {"loop_ns": 50 * MS, "wait_ns": 50 * MS, "request_ns": 50 * MS}


def told(trace, known=None, *, gone_ms=0, finished=False):
    """Return the stalls that are told of a recording, with their ends in ms, and whether the process's end was theirs."""
    gone_ns = at(gone_ms) if gone_ms else 0
    found = stalls_to_tell(
        with_its_end(trace, gone_ns),
        {"limits": LIMITS, "since_ns": 0, "gone_ns": gone_ns, "finished": finished},
        Told(known),
    )
    return [((one.until_ns - at(0)) / MS, one.cut_off) for one in found]


def hanging(*, ended, end_ms=800):
    """Return a trace that ends in a lap of 490 ms or more."""
    return with_stacks(loop(Script()).hold(0, 10, 500, stack=AT_SLEEP).trace(end_ms, "MainThread", ended=ended))


def test_a_stall_of_a_killed_process_ends_when_the_process_was_seen_gone():
    """The process recorded no end. The report may come seconds later."""
    assert told(hanging(ended=False), {f"1:{at(10)}": 400 * MS}, gone_ms=900) == [(900, True)]


@pytest.mark.parametrize("finished", [True, False])
def test_a_stall_of_a_process_that_ended_itself_ends_with_its_recording(finished):
    """The watcher sees the end of the process later than the recorder does."""
    assert told(hanging(ended=True), {f"1:{at(10)}": 400 * MS}, gone_ms=900, finished=finished) == [(800, True)]
