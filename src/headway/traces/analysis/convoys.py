"""Convoys: a thread that needs the GIL only briefly waits a switch interval for it, again and again.

A CPU-bound thread releases the GIL only on a request, and a waiter makes a request only after a switch interval. A
thread that does little between blocking calls therefore waits one interval after each of them. A wait belongs to a
convoy if all of these hold:

- It follows a blocking call, and not a preemption of its thread.
- It lasted at least `WAIT_SHARE` of the interval.
- CPU-bound threads held the GIL, and ran, for at least `HELD_SHARE` of the wait, and one of them was preempted during it.
  While a holder has no core, the waiter waits for that core, and other programs decide how long that takes.
- All holders released the GIL within an interval after the request, and none was in one call of C for the whole hold.
  Otherwise the cause is that call, which no shorter interval helps. A holder that hardly ran in most of its holds slept
  in such a call.
- The waiter's own holds are short.

A hundred threads that wait during one hold are no pattern: behind several holds, the same threads wait again and again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.blame import Met
from headway.traces.analysis.groups import in_order
from headway.traces.analysis.intervals import Holds, Intervals, SwitchInterval
from headway.traces.analysis.late import LATE_SHARE, late
from headway.traces.analysis.threads import SLEEPS, Distribution, distribution
from headway.traces.model import RAN_ALL, Frame, Trace

__all__ = ["LEAST", "Convoy", "convoys"]

WAIT_SHARE = 0.8
"""The least length of a wait, as a share of the interval: the timer of a wait begins a little after the hold did."""
HELD_SHARE = 0.5
"""The least share of a wait in which CPU-bound threads hold the GIL: most of the wait is due to them."""
CPU_SHARE = 0.5
"""A thread is CPU-bound if at least this share of the time for which it ran in holds is in preempted holds."""
SHORT_HOLD = 0.1
"""The longest median hold of a thread that waits in a convoy, as a share of the interval."""
LEAST = 10
"""Fewer waits are not a pattern, nor are the waits of a thread or pool behind fewer holds."""


@final
@dataclass(frozen=True)
class Convoy:
    """The waits of one thread or pool behind another.

    Attributes:
        gil: Index of the GIL.
        waiter: The label of the waiting thread, or the role of a pool, as `worker-*`.
        waiter_ids: The indices of the waiting threads.
        holder: The label or role of the thread that held the GIL.
        holder_ids: The indices of the threads that held it.
        waits: The waits in the convoy.
        off_core_ns: The part of their total in which the CPU-bound threads held the GIL without a core, as far as is known.
        each_waits_ns: The total of all waits for this GIL of each waiting thread.
        interval_ns: The switch interval during most of the waits.
        waiter_stack: The stack that waited for most of the time, innermost frame first.
        holder_stack: The stack that the holder ran when it was preempted, for most of the time.
        answer_ns: The median time from the requests to the releases. Python code answers in microseconds.
        late_ns: The time that the latest tenth of these answers exceeds; 0 if for most it is not known whether the holder
            had a core.
        release_ns: The median of the same times with those in which the holder had no core.
        behind: The preempted holds that ended these waits, each once, as indices of the GIL's holds.
    """

    gil: int
    waiter: str
    waiter_ids: tuple[int, ...]
    holder: str
    holder_ids: tuple[int, ...]
    waits: Distribution
    off_core_ns: int
    each_waits_ns: tuple[int, ...]
    interval_ns: int
    waiter_stack: tuple[Frame, ...]
    holder_stack: tuple[Frame, ...]
    answer_ns: int
    late_ns: int
    release_ns: int
    behind: NDArray[np.int64] = field(compare=False, repr=False)

    @property
    def cost_ns(self) -> int:
        """The time that the convoy costs its waiters."""
        return self.waits.total_ns - self.off_core_ns

    @property
    def waiters(self) -> int:
        """The number of waiting threads."""
        return len(self.waiter_ids)

    @property
    def holders(self) -> int:
        """The number of threads that held the GIL."""
        return len(self.holder_ids)

    @property
    def all_waits_ns(self) -> int:
        """The total of all waits of these waiters for this GIL."""
        return sum(self.each_waits_ns)


def convoys(
    trace: Trace, gil: int, holds: Holds, waits: Intervals, met: Met, interval: SwitchInterval, roles: Sequence[str]
) -> tuple[Convoy, ...]:
    """Return the convoys at one GIL, the costliest first.

    Args:
        trace: The trace.
        gil: Index of the GIL.
        holds: The holds of the GIL, in order.
        waits: The waits for the GIL.
        met: The holds that each wait met.
        interval: The switch interval.
        roles: The name by which each thread is grouped.
    """
    if not len(holds) or not len(waits):
        return ()
    interval_ns = interval.at(waits.end_ns)
    too_late = _too_late(holds, float(np.median(interval_ns)), policy=bool(trace.process.policy))
    found_waits = _in_convoys(holds, waits, met, interval_ns, len(trace.threads), too_late)
    which, release = found_waits.which, found_waits.release
    if len(which) < LEAST:
        return ()
    members: dict[tuple[str, str], list[int]] = defaultdict(list)
    for pair in _pairs(waits.thread[which], holds.thread[release]):
        members[roles[pair.waiter], roles[pair.holder]] += pair.at.tolist()
    # Count the holds over all holders: behind several CPU-bound threads, each wait of a waiter meets another of them.
    of_waiter: dict[str, set[int]] = defaultdict(set)
    for (waiter, _), at in members.items():
        of_waiter[waiter].update(release[at].tolist())
    found = []
    waited_ns = waits.length_ns
    of_thread_ns = np.bincount(waits.thread, weights=waited_ns).astype(np.int64)
    for (waiter, holder), at in members.items():
        if len(of_waiter[waiter]) < LEAST:
            continue
        mine, behind = which[at], release[at]
        if _slept(holds.ran[behind]):
            continue
        length_ns = waited_ns[mine]
        waiters = np.unique(waits.thread[mine])
        values, counts = np.unique(interval_ns[mine], return_counts=True)
        found.append(
            Convoy(
                gil=gil,
                waiter=waiter,
                waiter_ids=tuple(waiters.tolist()),
                holder=holder,
                holder_ids=tuple(np.unique(holds.thread[behind]).tolist()),
                waits=distribution(length_ns),
                off_core_ns=int(found_waits.off_core_ns[at].sum()),
                each_waits_ns=tuple(of_thread_ns[waiters].tolist()),
                interval_ns=int(values[counts.argmax()]),
                waiter_stack=_heaviest(trace, waits.stack[mine], length_ns),
                holder_stack=_heaviest(trace, holds.stack[behind], length_ns),
                answer_ns=int(np.median(holds.overrun_ns[behind])),
                late_ns=_late_ns(holds.chosen(behind)),
                release_ns=int(np.median((holds.end_ns - holds.asked_ns)[behind])),
                behind=np.unique(behind),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.cost_ns, one.waiter, one.holder)))


@final
class _Waits(NamedTuple):
    """Columns of waits in convoys."""

    which: NDArray[np.int64]
    """The waits, as indices."""
    release: NDArray[np.int64]
    """The preempted hold that ended each."""
    off_core_ns: NDArray[np.int64]
    """The time of each in which CPU-bound threads held the GIL without a core."""


def _in_convoys(
    holds: Holds,
    waits: Intervals,
    met: Met,
    interval_ns: NDArray[np.int64],
    threads: int,
    too_late: NDArray[np.bool_],
) -> _Waits:
    """Return the waits that are in a convoy."""
    short = _median_hold_ns(holds, threads) < SHORT_HOLD * np.median(interval_ns)
    long_enough = waits.length_ns >= WAIT_SHARE * interval_ns
    candidates = np.flatnonzero(long_enough & ~waits.open & ~waits.forced & short[waits.thread] & (met.last >= 0))
    if not len(candidates):
        return _Waits(candidates, candidates, candidates)
    cpu_hold = _cpu_bound(holds, threads, float(np.median(interval_ns)))[holds.thread]
    preempted = cpu_hold & holds.forced
    forced = np.maximum.accumulate(np.where(preempted, np.arange(len(holds)), -1))
    first, last = met.first[candidates], met.last[candidates]

    def behind_ns(share: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return a share of each hold's time, summed up over the candidates' overlaps with holds."""
        sums = np.concatenate([[0], np.cumsum(share * holds.length_ns)])
        found_ns = share[first] * met.first_ns[candidates] + share[last] * met.last_ns[candidates]
        found_ns += np.where(last > first, sums[np.maximum(last, 0)] - sums[first + 1], 0)
        result: NDArray[np.int64] = np.rint(found_ns).astype(np.int64)
        return result

    # The place of the time without a core within a hold is not known: each part of the hold has its share of it.
    off = np.where(cpu_hold, holds.off_core_ns / np.maximum(holds.length_ns, 1), 0.0)
    off_core_ns = behind_ns(off)
    release = forced[last]
    meant = behind_ns(np.where(cpu_hold, 1.0, 0.0)) - off_core_ns >= HELD_SHARE * waits.length_ns[candidates]
    meant &= (release >= first) & (release >= 0)
    meant &= (holds.end_ns[release] > waits.start_ns[candidates]) & (holds.end_ns[release] <= waits.end_ns[candidates])
    count = np.concatenate([[0], np.cumsum(too_late)])
    begun = np.maximum(first, 0)
    meant &= count[last + 1] == count[begun]
    return _Waits(candidates[meant], release[meant], off_core_ns[meant])


def _too_late(holds: Holds, interval_ns: float, *, policy: bool) -> NDArray[np.bool_]:
    """Return a mask of the holds that a shorter interval would hardly have ended sooner."""
    of_each_ns = np.full(len(holds), interval_ns, dtype=np.int64)
    result: NDArray[np.bool_] = (holds.overrun_ns > interval_ns) | late(holds, of_each_ns, policy=policy)
    return result


def _slept(ran: NDArray[np.uint8]) -> bool:
    """Tell whether holds with these shares were asleep in a call of C, by the median of those that are known.

    No shorter interval and no policy ends such a hold sooner. A CPU-bound thread that has no core for a while runs more.
    """
    known = ran[ran > 0]
    return 2 * len(known) > len(ran) and float(np.median(known)) - 1 < SLEEPS * RAN_ALL


def _late_ns(holds: Holds) -> int:
    """Return the time after a request that a tenth of these holds exceeds, as in `Convoy.late_ns`."""
    known = holds.overrun_ns[holds.ran > 0]
    return int(np.percentile(known, 100 * (1 - LATE_SHARE))) if 2 * len(known) > len(holds) else 0


def _median_hold_ns(holds: Holds, threads: int) -> NDArray[np.float64]:
    """Return the median hold of each thread; infinity for a thread without holds, of which nothing is known."""
    result = np.full(threads, np.inf)
    order = in_order(holds.thread)
    bounds = np.cumsum(np.bincount(holds.thread, minlength=threads))
    for thread, mine in enumerate(np.split(holds.length_ns[order], bounds[:-1])):
        if len(mine):
            result[thread] = np.median(mine)
    return result


def _cpu_bound(holds: Holds, threads: int, interval_ns: float) -> NDArray[np.bool_]:
    """Return a mask of the CPU-bound threads: in holds, they run most of the time in preempted ones."""
    ran_ns = holds.length_ns - holds.off_core_ns
    forced = holds.forced & (holds.length_ns >= WAIT_SHARE * interval_ns)
    in_forced = np.bincount(holds.thread[forced], weights=ran_ns[forced], minlength=threads)
    in_all = np.bincount(holds.thread, weights=ran_ns, minlength=threads)
    return (in_forced > 0) & (in_forced >= CPU_SHARE * in_all)


@final
@dataclass(frozen=True, eq=False)
class _Pair:
    waiter: int
    holder: int
    at: NDArray[np.int64]


def _pairs(waiter: NDArray, holder: NDArray) -> Iterable[_Pair]:
    """Yield each pair of threads, with the positions at which it occurs."""
    key = waiter.astype(np.int64) << 32 | holder.astype(np.int64)
    order = np.argsort(key, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        yield _Pair(int(waiter[at[0]]), int(holder[at[0]]), at)


def _heaviest(trace: Trace, stack: NDArray, length_ns: NDArray[np.int64]) -> tuple[Frame, ...]:
    """Return the known stack with most of the time; () if no stack is known."""
    totals = np.bincount(stack, weights=length_ns)
    totals[0] = 0
    return trace.stack(int(totals.argmax())) if totals.any() else ()
