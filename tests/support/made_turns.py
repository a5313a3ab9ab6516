"""Traces of a few turns, small enough to compute by hand."""

import numpy as np
from made_traces import made_process

from headway.traces.model import EVENT_DTYPE, RAN_ALL, RAN_SHIFT, Flag, Frame, Gil, Kind, Thread, Trace

US, MS = 1_000, 1_000_000
FRAMES = (Frame("", 0, "?"), Frame("app.py", 1, "one"), Frame("app.py", 2, "two"))


def trace_of(rows, *, names=("main", "other"), until_ns=1000 * MS, frames=FRAMES, has_gil=True, **process):
    """Return a trace of (time in us, thread, kind, stack, forced) rows, sorted by time."""
    events = np.zeros(len(rows), dtype=EVENT_DTYPE)
    for event, (time_us, thread, kind, stack, *forced) in zip(
        events, sorted(rows, key=lambda row: row[0]), strict=True
    ):
        event["time_ns"], event["thread"], event["kind"], event["value"] = time_us * US, thread, kind, stack
        event["flags"] = Flag.FORCED if forced and forced[0] else 0
    return Trace(
        process=made_process(**process),
        start_ns=0,
        end_ns=until_ns,
        events=events,
        threads=tuple(Thread(index + 1, 100 + index, name, 0, None) for index, name in enumerate(names)),
        gils=(Gil(0, True, 1, 0, None),) if has_gil else (),
        stack_parent=np.array([0, 0, 0], dtype=np.int64),
        stack_frame=np.array([0, 1, 2], dtype=np.int64),
        frames=frames,
    )


def ran(share):
    """Return the flags that tell for which share of a time the thread was running."""
    return 1 + round(share * RAN_ALL) << RAN_SHIFT


def turn(at_us, thread, *, waits_us=0, holds_us, stack):
    """Return the rows of one turn, whose wait begins at `at_us`."""
    rows = [(at_us, thread, Kind.WAIT, stack)] if waits_us else []
    got = at_us + waits_us
    return [*rows, (got, thread, Kind.ACQUIRE, 0), (got + holds_us, thread, Kind.RELEASE, stack)]
