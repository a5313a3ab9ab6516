"""Tells what is known of a lap whose events were overwritten: the longest call in it, which a watcher has seen."""

from dataclasses import replace

from headway.traces.analysis.observed import Observed
from headway.traces.analysis.stall_model import Cause, Part, StallKind
from headway.traces.analysis.told_parts import ToldParts
from headway.traces.frames import Away, Lap
from headway.traces.loops import is_for_a_request, is_in_a_pool, serves_the_web, waits_for_a_lock
from headway.traces.model import Thread, Trace

__all__ = ["kind_of", "lost_parts", "with_late_threads"]


def with_late_threads(trace: Trace) -> Trace:
    """Return a trace that also has the threads of laps of which no event is left: they have ended since."""
    known = {one.serial for one in trace.threads}
    late = {one.serial: one for one in trace.evidence.laps if one.tid and one.serial not in known}
    threads = (Thread(one.serial, one.tid, one.name, one.begun_ns, one.ended_ns or None) for one in late.values())
    return replace(trace, threads=(*trace.threads, *threads)) if late else trace


def _longest_call(observed: Observed, lap: Lap) -> Away | None:
    """Return the longest time of a lap in which its thread was in one call; None if it was in none."""
    within = [
        one
        for one in observed.trace.evidence.longest_away
        if one.serial == lap.serial
        and lap.begun_ns <= one.since_ns
        and (not lap.ended_ns or one.until_ns <= lap.ended_ns)
    ]
    return max(within, key=lambda one: (one.until_ns or observed.trace.end_ns) - one.since_ns, default=None)


def kind_of(observed: Observed, lap: Lap) -> StallKind | None:
    """Return the kind of a lap; None for a pool's lap that is not seen to answer a request: it may be a job."""
    if not lap.of_a_pool:
        return StallKind.LOOP
    call = _longest_call(observed, lap)
    if call is None or not is_in_a_pool(call.frames):
        return None
    is_web = serves_the_web(observed.trace.frames)
    return StallKind.REQUEST if is_for_a_request(call.frames, is_web=is_web) else None


def lost_parts(observed: Observed, thread: int, lap: Lap, until_ns: int, told: ToldParts | None) -> list[Part]:
    """Return the parts of a lap up to a time, from which on its events are there.

    The parts of its begin are those that were told while it went on. Of the time after that, the system's account tells
    whether the thread computed in its longest call. The rest of the time is unexplained.
    """
    found = [] if told is None else told.up_to(lap.begun_ns, until_ns)
    begun_ns = lap.begun_ns if told is None else min(told.until_ns, until_ns)
    lost_ns = until_ns - begun_ns
    if (call := _longest_call(observed, lap)) is not None:
        call = replace(call, since_ns=max(call.since_ns, begun_ns))
        length_ns = min(call.until_ns or until_ns, until_ns) - call.since_ns
        if length_ns > 0:
            found += _parts_of(observed, thread, call, length_ns)
            lost_ns -= length_ns
    return [one for one in (*found, Part(Cause.UNEXPLAINED, lost_ns, lost=True)) if one.time_ns > 0]


def _parts_of(observed: Observed, thread: int, call: Away, length_ns: int) -> list[Part]:
    """Return how a thread spent the first time in a call."""
    tid, accounts, until_ns = observed.trace.threads[thread].tid, observed.accounts, call.since_ns + length_ns
    ran_ns, queued_ns = accounts.away_ns(tid, thread, call.since_ns, until_ns, rests=False)
    asleep = observed.trace.evidence.was_asleep(tid, call.since_ns, until_ns)
    lock = waits_for_a_lock(call.frames, observed.changed, asleep=asleep)
    waits = lock or asleep or accounts.is_known(tid, call.since_ns, until_ns) or observed.waits_at(call.frames)
    return [
        Part(Cause.OWN, ran_ns, thread, call.frames),
        Part(Cause.CORE, queued_ns, thread),
        Part(
            Cause.BLOCKED if waits else Cause.UNEXPLAINED,
            length_ns - ran_ns - queued_ns,
            thread,
            call.frames,
            lock=lock,
        ),
    ]
