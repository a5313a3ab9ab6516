"""Adds the system's account of threads to the holds of a recording of `headway watch`.

The recorder measures no CPU times there, so the events do not tell for how long a holder had no core.
"""

from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Holds
from headway.traces.analysis.observed import Observed
from headway.traces.model import RAN_ALL, Trace

__all__ = ["collected_ns", "measured"]

_LATE_NS = 2_000_000
"""The account is up to a tick old, and long holds alone are looked at."""


def measured(trace: Trace, holds: Holds) -> Holds:
    """Return the holds; those that went on after a request have the time in which the thread may have had no core.

    A holder that slept in a call kept the GIL all the same: only a wait for a core, and a stop of the process, count.
    A hold before the first look at its thread stays unmeasured.
    """
    observed = Observed(trace)
    if not observed.accounts.has_looks:
        return holds
    ran = holds.ran.copy()
    for place in np.flatnonzero((ran == 0) & (holds.end_ns - holds.asked_ns >= _LATE_NS)).tolist():
        tid = trace.threads[int(holds.thread[place])].tid
        start_ns, asked_ns, end_ns = (int(one[place]) for one in (holds.start_ns, holds.asked_ns, holds.end_ns))
        looks = observed.accounts.looks(tid)
        queued_ns = observed.accounts.most_queued_ns(tid, asked_ns, end_ns)
        if queued_ns is None or looks[0].time_ns > end_ns:
            continue
        off_ns = min(end_ns - start_ns, queued_ns + observed.stopped_ns(asked_ns, end_ns)[1])
        ran[place] = RAN_ALL + 1 - min(RAN_ALL, -(-off_ns * RAN_ALL // (end_ns - start_ns)))
    return replace(holds, ran=ran)


def collected_ns(trace: Trace, holds: Holds, which: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each of some holds how long its thread collected garbage after the request; 0 for the others."""
    found = np.zeros(len(holds), dtype=np.int64)
    if not trace.evidence.collections:
        return found
    of_a_thread: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in trace.evidence.collections:
        of_a_thread[one.tid].append((one.start_ns, one.end_ns))
    times = {tid: np.array(some, dtype=np.int64).T for tid, some in of_a_thread.items()}
    for place in np.flatnonzero(which).tolist():
        tid = trace.threads[int(holds.thread[place])].tid
        if tid in times:
            begun_ns, over_ns = times[tid]
            within = np.minimum(over_ns, holds.end_ns[place]) - np.maximum(begun_ns, holds.asked_ns[place])
            found[place] = np.maximum(within, 0).sum()
    return np.minimum(found, holds.overrun_ns)
