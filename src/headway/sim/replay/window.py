"""Chooses the part of a trace that is replayed: what the program does most of the time, without its start and end."""

from collections import Counter

import numpy as np

from headway.printable import printable
from headway.sim.replay.bursts import Seen
from headway.traces.analysis.words import duration, role
from headway.traces.model import Kind, Trace

__all__ = ["left_out", "window"]

_MOST_BURSTS = 40_000
"""The number of bursts in the window, if the trace is longer."""
_PARTS = 20
"""The number of parts into which a trace is divided to compare its beginning with the rest."""
_UNLIKE = 0.8
"""The least distance of an unlike part. Chance alone gives 0.35 for ten samples from ten places."""
_TELLS = 10
"""The places of fewer releases of the GIL in a part are not judged."""
_OFTEN = 5 * _TELLS
"""With this many releases in a usual part, a part that has too few is unlike it."""
_WAITED = 0.1
_LEAST_WAITED_NS = 10_000_000
"""The waiting for the GIL, in shares of all waiting of the trace and in ns, that the replay may not leave out silently."""


def window(trace: Trace) -> tuple[int, int]:
    """Return the window that is replayed: all but the start and the end of the program, or a part of a long trace.

    Left out are at least the first tenth and the last twentieth. Also left out are parts at the beginning in which
    other code releases the GIL than in the last quarter, or hardly any does: a program may compute for seconds before it
    starts its threads, and imports beside a CPU-bound thread take as long.
    """
    events = trace.events["time_ns"]
    elapsed_ns = trace.end_ns - trace.start_ns
    since_ns = trace.start_ns + elapsed_ns * max(2, _unlike(trace)) // _PARTS
    until_ns = trace.end_ns - elapsed_ns // _PARTS
    last = min(int(np.searchsorted(events, since_ns)) + 3 * _MOST_BURSTS, len(events) - 1)
    return since_ns, max(min(until_ns, int(events[last])), since_ns + 1)


def left_out(trace: Trace, seen: Seen) -> list[str]:
    """Return a sentence for each role that waited for the GIL, and of which no thread has it in the window."""
    names = {thread: role(printable(trace.threads[thread].name)) for thread in {*seen.bursts, *seen.waited_ns}}
    inside = {names[thread] for thread in seen.bursts}
    waited_ns = Counter[str]()
    for thread, one_ns in seen.waited_ns.items():
        waited_ns[names[thread]] += one_ns
    least_ns = max(_LEAST_WAITED_NS, int(_WAITED * waited_ns.total()))
    since, until = (duration(one - trace.start_ns) for one in (seen.since_ns, seen.until_ns))
    return [
        f"{name or 'a thread'} is not in the part that is replayed, {since} to {until} of the trace: "
        f"it waited {duration(one_ns)} for the GIL elsewhere"
        for name, one_ns in waited_ns.most_common()
        if name not in inside and one_ns >= least_ns
    ]


def _unlike(trace: Trace) -> int:
    """Return the number of first parts of the trace that differ from its last quarter in where the GIL is released.

    A part differs if most of its distribution would have to change to become the other (total variation distance).
    """
    released = trace.events[trace.events["kind"] == Kind.RELEASE]
    place = trace.stack_frame[released["value"]]
    part = (released["time_ns"] - trace.start_ns) * _PARTS // max(1, trace.end_ns - trace.start_ns)
    later = part >= _PARTS * 3 // 4
    if np.count_nonzero(later) < _TELLS:
        return 0
    often = np.count_nonzero(later) >= 5 * _OFTEN
    usual = np.bincount(place[later], minlength=len(trace.frames)) / np.count_nonzero(later)
    unlike = 0
    for one in range(_PARTS * 3 // 4):
        here = place[part == one]
        if len(here) < _TELLS:
            if often:
                unlike = one + 1  # the program is idle, or computes in one thread, as at its start
            continue
        share = np.bincount(here, minlength=len(trace.frames)) / len(here)
        if np.abs(share - usual).sum() / 2 < _UNLIKE:
            break
        unlike = one + 1
    return unlike
