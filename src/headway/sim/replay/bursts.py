"""Bursts: a burst is what a thread does with the GIL from one call to the next, over all the holds of that time.

A burst has several holds if the thread was preempted. A turn is a burst with the wait before it: from when the thread
wanted the GIL until it yielded. Between two bursts of a thread is a call, in which the thread neither has the GIL nor
wants it.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Holds, Intervals, Recorded, recorded
from headway.traces.model import RAN_ALL, Trace

__all__ = ["Bursts", "Seen", "see"]


@final
@dataclass(frozen=True, eq=False)
class Bursts:
    """One thread's bursts that ended in a window, as columns in their order.

    Attributes:
        want_ns: When the thread wanted the GIL.
        begin_ns: When the thread first acquired the GIL.
        end_ns: When the thread yielded.
        run_ns: How long it ran with the GIL, without the time that the operating system ran others.
        stack: The stack at which it yielded.
        away_ns: The length of the call after the burst, until the thread wanted the GIL again; -1 after the last burst.
        away_cpu_ns: The part of that time in which the thread ran on a core; -1: not measured.
        handed: The thread before was preempted, and slept until this one had the GIL; this one's acquire woke it.
        holds: The number of holds of each burst.
        first_hold: The index of a burst's first hold in the thread's holds.
        unfinished_ns: How long the thread ran in a burst that did not end in the window.
        goes_on: The thread has or wants the GIL at the end of the window.
    """

    want_ns: NDArray[np.int64]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    run_ns: NDArray[np.int64]
    stack: NDArray[np.uint32]
    away_ns: NDArray[np.int64]
    away_cpu_ns: NDArray[np.int64]
    handed: NDArray[np.bool_]
    holds: NDArray[np.int64]
    first_hold: NDArray[np.int64]
    unfinished_ns: int
    goes_on: bool

    def __len__(self) -> int:
        return len(self.want_ns)

    @property
    def turn_ns(self) -> NDArray[np.int64]:
        """The length of each turn."""
        return self.end_ns - self.want_ns

    def typical_away_ns(self) -> dict[int, int]:
        """Return the typical length of calls, by stack, for the stacks where some length is known."""
        known = self.away_ns >= 0
        stacks = np.unique(self.stack[known])
        return {int(stack): int(np.median(self.away_ns[(self.stack == stack) & known])) for stack in stacks}


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """The contents of a trace for one GIL in a window.

    Attributes:
        since_ns, until_ns: The window.
        holds: The holds of all threads in the window.
        bursts: The bursts by the thread's index in the trace.
        interval_ns: The switch interval.
    """

    since_ns: int
    until_ns: int
    holds: Holds
    bursts: dict[int, Bursts]
    interval_ns: int

    @property
    def elapsed_ns(self) -> int:
        """The length of the window."""
        return self.until_ns - self.since_ns


def see(trace: Trace, gil: int, since_ns: int, until_ns: int, found: Recorded | None = None) -> Seen:
    """Return the contents of a trace for a GIL between two times, with all threads that have the GIL then.

    `found` are the trace's holds and waits, if the caller has them.
    """
    found = found or recorded(trace)
    holds = found.holds.chosen(found.holds.gil == gil).clipped(since_ns, until_ns)
    waits = found.waits.chosen(found.waits.gil == gil)
    after_forced = np.append(False, holds.forced[:-1])
    bursts = {}
    for thread in np.unique(holds.thread):
        mine = holds.thread == thread
        bursts[int(thread)] = _bursts(
            holds.chosen(mine), waits.chosen(waits.thread == thread), after_forced[mine], until_ns
        )
    return Seen(since_ns, until_ns, holds, bursts, found.interval_of(gil).main_ns(since_ns, until_ns))


def _bursts(holds: Holds, waits: Intervals, after_forced: NDArray[np.bool_], until_ns: int) -> Bursts:
    ended = ~holds.forced & ~holds.open & (holds.end_ns < until_ns)
    last = np.flatnonzero(ended)
    first = np.append(0, last[:-1] + 1) if len(last) else np.zeros(0, dtype=np.int64)
    run_ns = holds.length_ns - holds.off_core_ns
    sums = np.add.reduceat(run_ns, first) if len(first) else np.zeros(0, dtype=np.int64)
    if len(last):
        sums[-1] = run_ns[first[-1] : last[-1] + 1].sum()
    begin_ns, end_ns = holds.start_ns[first], holds.end_ns[last]
    want_ns = begin_ns.copy()
    if len(waits) and len(first):
        at = np.minimum(np.searchsorted(waits.end_ns, begin_ns), len(waits) - 1)
        waited = waits.end_ns[at] == begin_ns
        want_ns[waited] = waits.start_ns[at][waited]
    away_ns = np.full(len(first), -1, dtype=np.int64)
    away_ns[:-1] = np.maximum(want_ns[1:] - end_ns[:-1], 0)
    away_cpu_ns = np.full(len(first), -1, dtype=np.int64)
    ran = holds.away_ran[first[1:]].astype(np.int64)
    away_cpu_ns[:-1] = np.where(ran > 0, away_ns[:-1] * (ran - 1) // RAN_ALL, -1)
    rest = int(run_ns[last[-1] + 1 :].sum()) if len(last) else int(run_ns.sum())
    goes_on = len(holds) > 0 and not bool(ended[-1])
    return Bursts(
        want_ns=want_ns,
        begin_ns=begin_ns,
        end_ns=end_ns,
        run_ns=sums,
        stack=holds.stack[last],
        away_ns=away_ns,
        away_cpu_ns=away_cpu_ns,
        handed=after_forced[first],
        holds=last - first + 1,
        first_hold=first,
        unfinished_ns=rest,
        goes_on=goes_on,
    )
