"""Runs the whole analysis: clips a trace's intervals to a window and gives them to every module of this package."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.asleep import asleep
from headway.traces.analysis.blame import blame, meet, waited_during
from headway.traces.analysis.contention import contention, waits_for_locks
from headway.traces.analysis.convoys import convoys
from headway.traces.analysis.elsewhere import elsewhere
from headway.traces.analysis.findings import findings
from headway.traces.analysis.full_pools import full_pools
from headway.traces.analysis.handed import handed
from headway.traces.analysis.hotspots import blocking_functions, held_places, longest_holds, waited_places
from headway.traces.analysis.intervals import Holds, Intervals, Recorded, recorded
from headway.traces.analysis.measured import measured
from headway.traces.analysis.missing import missing
from headway.traces.analysis.result import Analysis, GilSummary
from headway.traces.analysis.standing import standstill
from headway.traces.analysis.stops import stoppers
from headway.traces.analysis.threads import (
    Names,
    ThreadSummary,
    distribution,
    names,
    role_summaries,
    thread_summaries,
)
from headway.traces.analysis.turns import times_away, turns
from headway.traces.analysis.unread import unread_lines
from headway.traces.analysis.unseen import late_loops, unseen_waits
from headway.traces.analysis.utilisation import timeline
from headway.traces.model import Gil, Trace
from headway.traces.sources import edited

__all__ = ["analyse"]

_GILS = 256
"""More than an event's number of a GIL can tell apart."""

_Users = tuple[tuple[ThreadSummary, ...], ...]


def analyse(
    trace: Trace,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    threads: Collection[int] | None = None,
    origin_ns: int | None = None,
) -> Analysis:
    """Return the analysis of a trace.

    Args:
        trace: The trace.
        since_ns: The begin of the window, in the trace's times; holds and waits are cut there. None: the trace's begin.
        until_ns: The end of the window. None: the trace's end.
        threads: Indices of the threads whose lines of code are wanted (`held`, `waited`, `longest`, `contention`); the
            rest is about all threads. None: all threads.
        origin_ns: The time from which reports count, in the trace's times. None: the trace's own origin.
    """
    start_ns = min(trace.end_ns, max(trace.start_ns, trace.start_ns if since_ns is None else since_ns))
    end_ns = max(start_ns, min(trace.end_ns, trace.end_ns if until_ns is None else until_ns))
    whole = recorded(trace)
    whole = replace(whole, holds=measured(trace, whole.holds))
    found = replace(whole, holds=whole.holds.clipped(start_ns, end_ns), waits=whole.waits.clipped(start_ns, end_ns))
    named = names(trace, found, start_ns, end_ns)
    by_thread = thread_summaries(trace, found, named, start_ns, end_ns)
    by_role = role_summaries(trace, found, named, start_ns, end_ns)
    gils, blocked_ns = _gils(trace, found, named, (start_ns, end_ns), (by_thread, by_role))
    holds, waits = found.holds, found.waits
    of_gil_ns = np.zeros(_GILS, dtype=np.int64)
    of_gil_ns[[gil.index for gil in gils]] = [gil.interval_ns for gil in gils]
    interval_ns = of_gil_ns[holds.gil]
    all_away = times_away(trace, whole)  # a thread may have released the GIL before the window
    away = all_away.clipped(start_ns, end_ns)
    changed = edited(trace)
    locks = contention(trace, changed, start_ns, end_ns)
    waited = sum(gil.waits.count for gil in gils), sum(gil.waits.total_ns for gil in gils)
    analysis = Analysis(
        process=trace.process,
        origin_ns=trace.origin_ns if origin_ns is None else origin_ns,
        trace_start_ns=trace.start_ns,
        cut_ns=trace.cut_ns,
        trace_end_ns=trace.end_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        events=_events(trace, start_ns, end_ns),
        interval_ns=found.interval.main_ns(start_ns, end_ns),
        labels=named.labels,
        threads=by_thread,
        roles=by_role,
        gils=gils,
        held=held_places(trace, holds, blocked_ns, interval_ns, named.labels),
        waited=waited_places(trace, waits, named.labels),
        longest=longest_holds(trace, holds, named.labels),
        behind=blocking_functions(trace, holds, blocked_ns, named.labels),
        contention=locks,
        turns=turns(trace, away, changed, start_ns, end_ns),
        lock_waits=waits_for_locks(trace, whole, away, changed, start_ns, end_ns),
        unseen_waits=unseen_waits(trace, holds, away, changed, start_ns, end_ns),
        unread_lines=unread_lines(trace, away, changed, start_ns, end_ns),
        late_loops=late_loops(trace, whole.holds, all_away, start_ns, end_ns),
        silent=trace.silent,
        standstill=standstill(trace.silent, changed),
        unreleased=trace.evidence.unreleased,
        full_pools=full_pools(trace, changed) if end_ns == trace.end_ns else (),
        loss=trace.loss,
        missing=missing(trace, whole, waited, locks, start_ns, end_ns),
        unpaired=found.unpaired,
        by_imports=found.by_imports,
        stoppers=stoppers(trace, start_ns, end_ns),
        watched=trace.evidence.watched,
        elsewhere=elsewhere(trace, away, changed, start_ns, end_ns),
    )
    analysis = replace(analysis, findings=findings(analysis))
    if threads is None:
        return analysis
    mine = np.isin(holds.thread, list(threads))
    holds, waits = holds.chosen(mine), waits.chosen(np.isin(waits.thread, list(threads)))
    return replace(
        analysis,
        held=held_places(trace, holds, blocked_ns[mine], interval_ns[mine], named.labels),
        waited=waited_places(trace, waits, named.labels),
        longest=longest_holds(trace, holds, named.labels),
        contention=contention(trace, changed, start_ns, end_ns, threads),
    )


def _events(trace: Trace, start_ns: int, end_ns: int) -> int:
    """Return the number of events in a window."""
    time_ns = trace.events["time_ns"]
    return int(np.searchsorted(time_ns, end_ns, "right") - np.searchsorted(time_ns, start_ns))


def _gils(
    trace: Trace, found: Recorded, named: Names, window: tuple[int, int], users: _Users
) -> tuple[tuple[GilSummary, ...], NDArray[np.int64]]:
    """Return the GILs that were used, the busiest first, and for each hold how long threads waited during it.

    `users` are the summaries of the threads and of the pools over all GILs.
    """
    holds, waits = found.holds, found.waits
    used = np.union1d(np.unique(holds.gil), np.unique(waits.gil)).tolist()
    blocked_ns = np.zeros(len(holds), dtype=np.int64)
    summaries = []
    for index in used:
        if len(used) == 1:
            held, waited = holds, waits
            blocked_ns = waited_during(held, waited)
        else:
            at = np.flatnonzero(holds.gil == index)
            held, waited = holds.chosen(at), waits.chosen(waits.gil == index)
            blocked_ns[at] = waited_during(held, waited)
            here = replace(found, holds=held, waits=waited)
            users = tuple(one(trace, here, named, *window) for one in (thread_summaries, role_summaries))
        several = len(used) > 1
        summaries.append(_gil(trace, found, named, index, held, waited, window, users, several=several))
    summaries.sort(key=lambda one: (-one.holds.total_ns - one.waits.total_ns, one.index))
    return tuple(summaries), blocked_ns


def _gil(
    trace: Trace,
    found: Recorded,
    named: Names,
    index: int,
    holds: Holds,
    waits: Intervals,
    window: tuple[int, int],
    users: _Users,
    *,
    several: bool,
) -> GilSummary:
    known = trace.gils[index] if index < len(trace.gils) else Gil(index, index == 0, 0, trace.start_ns, None)
    start_ns, end_ns = window
    met = meet(holds, waits)
    matrix = blame(index, holds, waits, met, len(trace.threads))
    threads = len(trace.threads)
    blame_by_role, timeline_by_role = None, None
    if (first := named.first) is not None:  # each pool as one: its first thread stands for all of them
        of_pools = replace(holds, thread=first[holds.thread]), replace(waits, thread=first[waits.thread])
        blame_by_role = blame(index, *of_pools, met, threads)
        timeline_by_role = timeline(*of_pools, threads, start_ns, end_ns)
    # Earlier in a wait, the GIL may have been free and then been acquired by another thread. Such times are not
    # counted.
    acquired = np.flatnonzero(~waits.open & (met.last >= 0))
    before = met.last[acquired]
    free_since = np.maximum(holds.end_ns[before], waits.start_ns[acquired])
    handover_ns = int(np.maximum(waits.end_ns[acquired] - free_since, 0).sum())
    since_ns = min(end_ns, max(start_ns, known.start_ns))
    until_ns = max(since_ns, end_ns if known.end_ns is None else min(end_ns, known.end_ns))
    interval = found.interval_of(index)
    name = "the GIL" if not several else "the main GIL" if known.main else f"GIL {index}"
    return GilSummary(
        index=index,
        main=known.main,
        name=name,
        threads=len(np.union1d(np.unique(holds.thread), np.unique(waits.thread))),
        by_thread=users[0],
        by_role=users[1],
        wall_ns=until_ns - since_ns,
        interval_ns=interval.main_ns(since_ns, until_ns),
        holds=distribution(holds.length_ns),
        waits=distribution(waits.length_ns),
        forced=int(np.count_nonzero(holds.forced)),
        off_core_ns=int(holds.off_core_ns.sum()),
        handovers=len(acquired),
        handover_ns=handover_ns,
        handed=handed(trace, holds, before[holds.end_ns[before] >= waits.start_ns[acquired]]),
        nobody_ns=int(matrix.nobody_ns.sum()),
        blame=matrix,
        blame_by_role=blame_by_role,
        timeline=timeline(holds, waits, threads, start_ns, end_ns),
        timeline_by_role=timeline_by_role,
        convoys=convoys(trace, index, holds, waits, met, interval, named.roles),
        asleep=asleep(trace, holds, interval.at(holds.end_ns)),
    )
