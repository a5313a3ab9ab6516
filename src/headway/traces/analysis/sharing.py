"""Findings about threads that share one GIL and want it at the same times: more of them do no more work."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from headway.traces.analysis.advice import in_parallel
from headway.traces.analysis.result import Analysis, Finding, GilSummary
from headway.traces.analysis.threads import ThreadSummary
from headway.traces.analysis.words import duration, listed, names_or_roles, number, share_of_life

__all__ = ["FULL", "WORTH", "saturated", "used_up"]

FULL = 0.95
"""A share of the time: a GIL that is held for longer is used up."""
CROWDED = 0.75
"""A share of the time for which threads hold a GIL: threads that wait for longer want it at the same times."""
MOSTLY = 0.5
"""The least share of the time for which threads that block between their holds have the GIL."""
WORTH = 0.01
"""A share of the wall time: a thread that waits less does not gain from less waiting, nor has one a part that holds less."""

_BUSY = 0.9
"""The least share of the time without waits for the GIL for which a thread holds one, if it only ever awaits a lock."""
_LEAST_PART = 0.02
"""A thread with less of the GIL than this share of the most that one of them has does not share it: it waits for that one."""

_Found = tuple[list[ThreadSummary], str, str, int]
"""Threads, a word for them, how they waited, and for how long."""


def saturated(analysis: Analysis) -> Iterator[Finding]:
    """Yield a finding for each GIL for which threads wait so long that together they are as fast as one."""
    for gil in analysis.gils:
        found = _computing(analysis, gil)
        if found is not None:
            yield _finding(analysis, gil, found)


def used_up(analysis: Analysis) -> Iterator[Finding]:
    """Yield a finding for each GIL that threads use up though they block between their holds, as the workers of a server."""
    for gil in analysis.gils:
        found = None if _computing(analysis, gil) else _blocking(gil)
        if found is not None:
            yield _finding(analysis, gil, found)


def _finding(analysis: Analysis, gil: GilSummary, found: _Found) -> Finding:
    threads, which, fact, waited_ns = found
    names = [one.label for one in threads]
    at_once = _at_once(threads)
    beside = "" if at_once == len(threads) else f", at most {at_once} of them at a time"
    full = gil.holds.total_ns >= FULL * gil.wall_ns
    return Finding(
        kind="saturated",
        weight="problem",
        fact=(
            f"{gil.name} was held {share_of_life(gil.holds.total_ns, gil.wall_ns, analysis.wall_ns)}; "
            f"{number(len(names), which)} ({listed(names_or_roles(names))}) shared it{beside}, and waited {fact}"
        ),
        cause="one GIL lets one thread run Python code at a time, so together these threads "
        + ("are as fast as one" if full else "compute as fast as one"),
        advice=f"more threads do not help; instead use {in_parallel(analysis.process, gil)}",
        cost_ns=waited_ns,
        gil=gil.index,
        threads=tuple(names),
    )


def _computing(analysis: Analysis, gil: GilSummary) -> _Found | None:
    """Return the CPU-bound threads that share a GIL; None if they hardly wait for each other.

    A thread that takes a shared lock between its pieces of work may seldom be preempted: the others queue for the lock,
    which the thread that waits for the GIL has. It is as CPU-bound as they are, and its turn is what it waits for there.
    So is a thread that has the GIL nearly whenever it does not wait for it: its short waits for locks only end its holds.
    """
    queues = [one for one in analysis.lock_waits if one.behind_gil]
    queued = {thread for one in queues for thread in one.members}
    cut = {thread for one in analysis.lock_waits for thread in one.members}
    queued |= {one.index for one in gil.by_thread if one.index in cut and _is_hardly_away(one)}
    computing = [one for one in gil.by_thread if one.computes or (one.index in queued and _takes_part(one, gil))]
    least_ns = _LEAST_PART * max((one.holds.total_ns for one in computing), default=0)
    computing = [one for one in computing if one.holds.total_ns >= least_ns]
    if _at_once(computing) < 2:
        return None
    indices = {one.index for one in computing}
    locked_ns = sum(one.gil_ns for one in queues if indices.issuperset(one.members))
    waited_ns = sum(one.waits.total_ns if one.index in queued else one.pushed_ns for one in computing) + locked_ns
    held_ns = sum(one.holds.total_ns for one in computing)
    # Two threads that compute all the time wait as long as they hold; with less, they hardly met. If the GIL is not
    # always held, because of hand-overs, calls that release it, or pauses, the threads compute at the same times.
    in_use_ns, lasted_ns = _together(gil, indices)
    met = in_use_ns >= FULL * lasted_ns > 0 and 2 * waited_ns >= in_use_ns
    crowded = waited_ns >= CROWDED * held_ns
    ran_ns = held_ns - sum(one.off_core_ns for one in computing)
    is_worth = waited_ns >= WORTH * len(computing) * gil.wall_ns and ran_ns >= WORTH * gil.wall_ns
    if not (met or crowded) or not is_worth:
        return None
    at_lock = f", {duration(locked_ns)} of it for a lock that another of them had" if locked_ns else ""
    return (
        computing,
        "CPU-bound thread",
        f"{duration(waited_ns)} for their next turn{at_lock}",
        waited_ns,
    )


def _together(gil: GilSummary, indices: set[int]) -> tuple[float, float]:
    """Return for how long a GIL was held in the times in which several of the threads used it, and how long these lasted.

    The GIL is not shared while one thread computes and the others have not started.
    """
    use = gil.timeline
    if use is None:
        return 0.0, 0.0
    used_by = np.count_nonzero(use.held_by[np.isin(use.threads, list(indices))], axis=0)
    widths_ns = np.diff(use.edges_ns)[used_by >= 2]
    return float((use.held[used_by >= 2] * widths_ns).sum()), float(widths_ns.sum())


def _blocking(gil: GilSummary) -> _Found | None:
    """Return the threads that block between their holds, and that wait for the GIL mostly while others of them hold it.

    A CPU-bound thread that is preempted for them hardly waits, so it is none of them, and the waits behind it do not count.
    """
    among = [
        one for one in gil.by_thread if one.waits.total_ns >= CROWDED * one.holds.total_ns and _takes_part(one, gil)
    ]
    held_ns = sum(one.holds.total_ns for one in among)
    if _at_once(among) < 2 or held_ns < MOSTLY * gil.wall_ns:
        return None
    indices = [one.index for one in among]
    blame = gil.blame
    rows, columns = np.isin(blame.waiters, indices), np.isin(blame.holders, indices)
    of_thread_ns = {one.index: one.holds.total_ns for one in gil.by_thread}
    known_ns = {index: of_thread_ns[index] for index in blame.holders.tolist()}
    # The matrix has no columns for further holders: their part is that of their holds.
    further_ns = gil.holds.total_ns - sum(known_ns.values())
    among_further_ns = held_ns - sum(known_ns.get(index, 0) for index in indices)
    waited_ns = int(blame.held_ns[rows][:, columns].sum())
    if further_ns > 0:
        waited_ns += int(blame.others_ns[rows].sum()) * among_further_ns // further_ns
    if waited_ns < CROWDED * held_ns:
        return None
    return among, "thread", f"{duration(waited_ns)} for each other", waited_ns


def _at_once(threads: Sequence[ThreadSummary]) -> int:
    """Return the largest number of threads that lived at the same time: a program may embed Python, and begin it twice."""
    # A thread that ends when another one begins comes first.
    edges = sorted([(one.since_ns, 1) for one in threads] + [(one.until_ns, -1) for one in threads])
    return max(itertools.accumulate(step for _, step in edges), default=0)


def _is_hardly_away(one: ThreadSummary) -> bool:
    """Tell whether a thread has a GIL for most of the time for which it does not wait for one: alone, it would keep a core busy."""
    return one.holds.total_ns >= _BUSY * (one.lived_ns - one.waits.total_ns)


def _takes_part(one: ThreadSummary, gil: GilSummary) -> bool:
    """Tell whether a thread held a GIL for long enough to have a part in its use."""
    return one.holds.total_ns >= WORTH * min(gil.wall_ns, one.lived_ns) > 0
