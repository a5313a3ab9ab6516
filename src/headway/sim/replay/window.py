"""Which part of a trace is replayed: what the program does most of the time, and not how it starts and ends."""

import numpy as np

from headway.traces.model import Kind, Trace

__all__ = ["window"]

_MOST_BURSTS = 40_000
"""Of a longer trace a window with so many is replayed."""
_PARTS = 20
"""Of a trace: whether the program does in them what it does later."""
_UNLIKE = 0.8
"""So much of where the GIL is let go has to be elsewhere: of ten samples from ten places chance alone moves 0.35."""
_TELLS = 10
"""A part in which the GIL was let go less often does not tell."""


def window(trace: Trace) -> tuple[int, int]:
    """Return what is replayed: all but how a program starts and ends. Of a long trace it is a part.

    That is the first tenth and the last twentieth at least, and at the beginning all in which other code lets the GIL go than
    in the last quarter: imports beside a thread that computes take seconds.
    """
    events = trace.events["time_ns"]
    elapsed_ns = trace.end_ns - trace.start_ns
    since_ns = trace.start_ns + elapsed_ns * max(2, _unlike(trace)) // _PARTS
    until_ns = trace.end_ns - elapsed_ns // _PARTS
    last = min(int(np.searchsorted(events, since_ns)) + 3 * _MOST_BURSTS, len(events) - 1)
    return since_ns, max(min(until_ns, int(events[last])), since_ns + 1)


def _unlike(trace: Trace) -> int:
    """Return how many parts of the trace, from its beginning, are unlike the last quarter: where the GIL was let go differs.

    Two are unlike where most of one would have to be changed to be the other (the total variation distance).
    """
    released = trace.events[trace.events["kind"] == Kind.RELEASE]
    place = trace.stack_frame[released["value"]]
    part = (released["time_ns"] - trace.start_ns) * _PARTS // max(1, trace.end_ns - trace.start_ns)
    later = part >= _PARTS * 3 // 4
    if np.count_nonzero(later) < _TELLS:
        return 0
    usual = np.bincount(place[later], minlength=len(trace.frames)) / np.count_nonzero(later)
    unlike = 0
    for one in range(_PARTS * 3 // 4):
        here = place[part == one]
        if len(here) < _TELLS:
            continue
        share = np.bincount(here, minlength=len(trace.frames)) / len(here)
        if np.abs(share - usual).sum() / 2 < _UNLIKE:
            break
        unlike = one + 1
    return unlike
