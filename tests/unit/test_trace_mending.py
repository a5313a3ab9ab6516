"""Events of one thread that belong together are brought together."""

import numpy as np
import pytest

from headway.traces import format as hwt
from headway.traces import mending
from headway.traces.model import EVENT_DTYPE, Kind

PARK, UNPARK, WAIT = Kind.PARK, Kind.UNPARK, Kind.WAIT
MUTEX, AGAIN, OBJECT, INNER = hwt.PARK_MUTEX, hwt.PARK_MUTEX | hwt.PARK_AGAIN, hwt.PARK_OBJECT, 0
WHOLE = [(PARK, MUTEX), (UNPARK, MUTEX)]


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([*WHOLE, *WHOLE], [0, 1, 2, 3]),
        ([*WHOLE, (PARK, AGAIN), (UNPARK, MUTEX)], [0, 3]),
        ([*WHOLE, (PARK, AGAIN), (UNPARK, MUTEX), (PARK, AGAIN), (UNPARK, MUTEX)], [0, 5]),
        ([*WHOLE, (PARK, INNER), (UNPARK, INNER), (PARK, AGAIN), (UNPARK, MUTEX)], [0, 5]),
        ([*WHOLE, (PARK, AGAIN)], [0]),  # it waits still
        ([(PARK, OBJECT), (UNPARK, OBJECT), (PARK, AGAIN), (UNPARK, MUTEX)], [0, 1, 2, 3]),
        ([*WHOLE, (WAIT, 0), (PARK, AGAIN), (UNPARK, MUTEX)], [0, 1, 2, 3, 4]),
        ([(PARK, AGAIN), (UNPARK, MUTEX)], [0, 1]),  # the beginning was overwritten
        ([(PARK, INNER), (UNPARK, INNER), (PARK, AGAIN), (UNPARK, MUTEX)], [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_a_call_that_wants_a_lock_has_one_wait(events, kept, before):
    """A wake-up in vain is no end of a wait, unless the file lacks the wait's beginning; other threads do not matter."""
    rows = [(0, *one) for one in WHOLE[:2] * before] + [(1, *one) for one in events] + [(2, *one) for one in WHOLE]
    made = np.zeros(len(rows), EVENT_DTYPE)
    for name, column in zip(("thread", "kind", "flags"), zip(*rows, strict=True), strict=True):
        made[name] = column
    made["time_ns"] = np.arange(len(rows))

    found = mending.whole_waits(made.copy())

    start = 2 * before
    assert found["time_ns"].tolist() == [
        *range(start), *(start + one for one in kept), *range(start + len(events), len(rows))
    ]  # fmt: skip
    assert not (found["flags"] & hwt.PARK_AGAIN).any()


@pytest.mark.parametrize(("lost", "gap_ns", "kept"), [(False, 10**9, 2), (True, 10**9, 4), (True, 1000, 2)])
def test_where_events_are_lost_only_what_follows_at_once_is_joined(lost, gap_ns, kept):
    """The beginning of another call may be among the lost events."""
    made = np.zeros(4, EVENT_DTYPE)
    made["kind"], made["flags"] = [PARK, UNPARK, PARK, UNPARK], [MUTEX, MUTEX, AGAIN, MUTEX]
    made["time_ns"] = [0, 10, 10 + gap_ns, 20 + gap_ns]

    assert len(mending.whole_waits(made, lost=lost)) == kept
