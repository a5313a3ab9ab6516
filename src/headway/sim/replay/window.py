"""Chooses the part of a trace that is replayed: what the program does most of the time, without its start and end."""

from collections import Counter
from pathlib import Path

import numpy as np

from headway.printable import printable
from headway.sim.replay.bursts import Seen
from headway.traces.analysis.intervals import Recorded, recorded
from headway.traces.analysis.words import duration, role
from headway.traces.model import Kind, Trace
from headway.traces.overview import PARTS, Overview
from headway.traces.reader import read_part

__all__ = ["left_out", "overview_of", "read_window", "window"]

_MOST_BURSTS = 40_000
"""The number of bursts in the window, if the trace is longer."""
_MOST_EVENTS = 3 * _MOST_BURSTS
_UNLIKE = 0.8
"""The least distance of an unlike part. Chance alone gives 0.35 for ten samples from ten places."""
_TELLS = 10
"""The places of fewer releases of the GIL in a part are not judged."""
_OFTEN = 5 * _TELLS
"""With this many releases in a usual part, a part that has too few is unlike it."""
_WAITED = 0.1
_LEAST_WAITED_NS = 10_000_000
"""The waiting for the GIL, in shares of all waiting of the trace and in ns, that the replay may not leave out silently."""


def read_window(path: Path | str) -> tuple[Trace, Overview | None]:
    """Read a trace file; of a long one only what a replay needs, with the overview of the whole; None: it is the whole.

    Raises:
        TraceError: The file cannot be read, or is not a trace.
    """
    return read_part(path, lambda whole: (_since_ns(whole), _MOST_EVENTS))


def overview_of(trace: Trace, found: Recorded | None = None) -> Overview:
    """Return the overview of a trace that is in memory in whole; `found` as for `see`."""
    found = found or recorded(trace)
    released = trace.events[trace.events["kind"] == Kind.RELEASE]
    place = trace.stack_frame[released["value"]]
    elapsed_ns = max(1, trace.end_ns - trace.start_ns)
    part = np.minimum((released["time_ns"] - trace.start_ns) * PARTS // elapsed_ns, PARTS - 1)
    count = len(trace.frames)
    table = np.bincount(part * count + place, minlength=PARTS * count).reshape(PARTS, count)
    serials = [thread.serial for thread in trace.threads]
    waited_ns: dict[int, dict[int, int]] = {}
    for gil in trace.gils:
        waits = found.waits.chosen(found.waits.gil == gil.index)
        used = np.unique(np.append(found.holds.thread[found.holds.gil == gil.index], waits.thread)).tolist()
        sums_ns = np.bincount(waits.thread, weights=waits.length_ns, minlength=len(serials))
        waited_ns[gil.index] = {serials[thread]: int(sums_ns[thread]) for thread in used}
    return Overview(trace.start_ns, trace.end_ns, table, waited_ns)


def window(trace: Trace, whole: Overview) -> tuple[int, int]:
    """Return the window that is replayed: all but the start and the end of the program, or a part of a long trace.

    Left out are at least the first tenth and the last twentieth. Also left out are parts at the beginning in which
    other code releases the GIL than in the last quarter, or hardly any does: a program may compute for seconds before it
    starts its threads, and imports beside a CPU-bound thread take as long.

    Args:
        trace: The trace, or the part of it that `read_window` reads.
        whole: The overview of the whole.
    """
    events = trace.events["time_ns"]
    since_ns = _since_ns(whole)
    until_ns = whole.end_ns - (whole.end_ns - whole.start_ns) // PARTS
    last = min(int(np.searchsorted(events, since_ns)) + _MOST_EVENTS, len(events) - 1)
    return since_ns, max(min(until_ns, int(events[last])), since_ns + 1)


def _since_ns(whole: Overview) -> int:
    return whole.start_ns + (whole.end_ns - whole.start_ns) * max(2, _unlike(whole)) // PARTS


def left_out(trace: Trace, seen: Seen, whole: Overview, gil: int) -> list[str]:
    """Return a sentence for each role that waited for the GIL, and of which no thread has it in the window.

    Args:
        trace: The trace, or a part of it.
        seen: The window.
        whole: The overview of the whole.
        gil: The index of the GIL.
    """
    names = {thread.serial: role(printable(thread.name)) for thread in trace.threads}
    inside = {names[trace.threads[thread].serial] for thread in seen.bursts}
    waited_ns = Counter[str]()
    for serial, one_ns in whole.waited_ns.get(gil, {}).items():
        waited_ns[names.get(serial, "")] += one_ns
    least_ns = max(_LEAST_WAITED_NS, int(_WAITED * waited_ns.total()))
    since, until = (duration(one - whole.start_ns) for one in (seen.since_ns, seen.until_ns))
    return [
        f"{name or 'a thread'} is not in the part that is replayed, {since} to {until} of the trace: "
        f"it waited {duration(one_ns)} for the GIL elsewhere"
        for name, one_ns in waited_ns.most_common()
        if name not in inside and one_ns >= least_ns
    ]


def _unlike(whole: Overview) -> int:
    """Return the number of first parts of the trace that differ from its last quarter in where the GIL is released.

    A part differs if most of its distribution would have to change to become the other (total variation distance).
    """
    later = whole.released[PARTS * 3 // 4 :].sum(axis=0)
    if later.sum() < _TELLS:
        return 0
    often = later.sum() >= 5 * _OFTEN
    usual = later / later.sum()
    unlike = 0
    for one, here in enumerate(whole.released[: PARTS * 3 // 4]):
        if here.sum() < _TELLS:
            if often:
                unlike = one + 1  # the program is idle, or computes in one thread, as at its start
            continue
        if np.abs(here / here.sum() - usual).sum() / 2 < _UNLIKE:
            break
        unlike = one + 1
    return unlike
