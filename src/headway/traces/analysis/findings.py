"""Describes in words what a trace shows: a fact with numbers, its cause, and advice if there is evidence for it.

Rules are functions that yield findings; `RULES` lists them. "Nothing to improve" is a finding, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from headway.printable import printable
from headway.traces.analysis.advice import (
    UNREACHED,
    another_gil,
    by_policy,
    in_parallel,
    shorter_interval,
)
from headway.traces.analysis.behind import BEHIND, behind_a_function, guilty_function, told_already
from headway.traces.analysis.convoys import LEAST, Convoy
from headway.traces.analysis.cores import MORE_CORES, lacks_cores, needed_cores
from headway.traces.analysis.handed import Handed
from headway.traces.analysis.hotspots import at_place, own_frame
from headway.traces.analysis.intervals import DEFAULT_NS
from headway.traces.analysis.late import LATE_NS
from headway.traces.analysis.lock_findings import another_way, is_for_the_gil, lock_waits, who_had
from headway.traces.analysis.long_holds import long_holds
from headway.traces.analysis.long_intervals import long_intervals
from headway.traces.analysis.off_core import without_running
from headway.traces.analysis.remarks import FAR_BEYOND, NOTES, elsewhere, look_next, unread, unseen
from headway.traces.analysis.result import Analysis, Finding, GilSummary
from headway.traces.analysis.sharing import FULL, WORTH, saturated, used_up
from headway.traces.analysis.standstills import deadlocks, exhausted_pools
from headway.traces.analysis.threads import ThreadSummary
from headway.traces.analysis.words import duration, listed, number, place, role, share, share_of_life
from headway.traces.model import Executed

__all__ = ["BEHIND", "RULES", "findings"]

_S_NS = 1_000_000_000

ALWAYS = 0.25
"""A share of the wall time: waits of all threads together that matter, even if no thread waits for long."""
MOST_PLACES = 3
MOST_CONVOYS = 3
"""The number of convoys that become findings; the report lists the others."""
HANDOVER_SHARE = 0.05
"""The least share of the wall time in which a GIL stands free although a thread waits for it."""
OFF_CORE = 0.05
"""A share of the time that a GIL is held; any busy system takes less than this."""
LOW_USE = 0.5
"""A share of the time: a GIL that is held for less should be free when a thread wants it."""
LEAST_NS = _S_NS
"""A program that runs for less time has no work worth dividing; most of it is the interpreter's start."""
WAKE_UP_NS = 200_000
"""A thread that runs this soon, on average, after it was given the GIL is not late: more cores would wake it no sooner."""
MOMENT_NS = 1_000_000
"""A few waits that take less than this together are no problem, whatever share of a short run they are."""
_OFF_CORE_TOO = 1.5
"""If the time from a request to the release is so many times that on a core, both are told."""
LATE_SHARE = 0.5
"""A share of the waiting in which no thread held the GIL: beyond it, the GIL is not the cause."""


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """Return the findings of an analysis: problems, the costliest first, then that all is well, then notes.

    The finding that names the function behind which most waiting happened comes before those that name no line: it says
    where to begin. It does not where the function's threads had no core for most of that waiting. A note on time that far
    exceeds the cost of every problem comes before them all. Without a GIL, the trace has the waits for locks, but rarely
    their holders: there, a note on such waits comes first if they take more time than every problem. So does one on threads
    that may wait for each other for good.
    """
    found = [finding for rule in RULES for finding in rule(analysis)]
    used = list(used_up(analysis))
    guilty = guilty_function(analysis) if any(_matters(analysis, gil) for gil in analysis.gils) else None
    no_cause = {wait.frame for wait in analysis.lock_waits if is_for_the_gil(wait)}
    of_causes = [one for one in found if one.kind not in ("contended-lock", "turns") or one.frame not in no_cause]
    told = None if guilty is None else told_already(analysis, guilty, of_causes)
    behind = [] if guilty is None or told is not None else [behind_a_function(analysis, guilty, used)]
    found += behind or used
    if any(one.weight == "problem" for one in found):
        found += unseen(analysis, beyond_ns=max(one.cost_ns for one in found))
    else:
        found += [*unseen(analysis), *unread(analysis)]
        others = found or analysis.late_loops or analysis.unseen_waits or analysis.silent or analysis.unreleased
        if analysis.process.executed is not Executed.UNRECORDED:  # most of its work is not in the trace
            found += _nothing_to_improve(analysis, is_all=analysis.process.has_stacks and not others)
    costliest_ns = max((one.cost_ns for one in found if one.weight == "problem"), default=0)
    if not any(one.kind == "unseen-wait" for one in found):
        found += elsewhere(analysis, costliest_ns)
    found += [finding for note in NOTES for finding in note(analysis)]
    order = ("problem", "fine", "note")
    most_ns = max((one.cost_ns for one in found if one.weight == "problem"), default=0)
    woken_late = {one.gil for one in found if one.kind == "late-wake-up"}
    placeless_ns = max((one.cost_ns for one in found if _has_no_place(analysis, one, woken_late)), default=0)
    names_it = next(iter(behind), told)
    if guilty is not None and guilty.lacked_cores and not (told is not None and told.kind == "off-core"):
        names_it = None

    def key(one: Finding) -> tuple[bool, int, int, bool]:
        is_lock = one.kind == "deadlock" or (one.kind == "contended-lock" and not analysis.gils)
        leads = one.weight == "note" and (
            one.cost_ns >= FAR_BEYOND * costliest_ns > 0 or (is_lock and one.cost_ns > most_ns)
        )
        cost_ns = max(one.cost_ns, placeless_ns) if one is names_it else one.cost_ns
        return not leads, order.index(one.weight), -cost_ns, one is not names_it

    return tuple(sorted(found, key=key))


def _has_no_place(analysis: Analysis, one: Finding, woken_late: set[int | None]) -> bool:
    """Tell whether a problem names no line, and a line with which another one begins has a part in it.

    Where threads have no core, no line is to blame: that comes first if it costs more. So do late wake-ups, if they are most of
    the waiting, and the hand-overs that they make long.
    """
    if one.weight != "problem" or one.frame is not None:
        return False
    if one.kind in ("late-wake-up", "hand-overs"):
        return one.gil not in woken_late
    gils = [gil for gil in analysis.gils if gil.index == one.gil]
    return one.kind != "off-core" or not any(needed_cores(analysis, gil) and lacks_cores(gil) for gil in gils)


def _convoys(analysis: Analysis) -> Iterator[Finding]:
    for gil in analysis.gils:
        by_role: dict[str, list[Convoy]] = {}
        for one in gil.convoys:
            by_role.setdefault(role(one.waiter), []).append(one)
        worth = [group for group in by_role.values() if _cost_ns(group) >= WORTH * analysis.wall_ns]
        for group in sorted(worth, key=_cost_ns, reverse=True)[:MOST_CONVOYS]:
            yield _convoy(analysis, gil, group)


def _cost_ns(group: list[Convoy]) -> int:
    return sum(one.cost_ns for one in group)


def _after_what(analysis: Analysis) -> str:
    """Return how soon a holder of a convoy is requested to release the GIL."""
    process = analysis.process
    if not process.policy:
        return "one switch interval"
    decided = f"as late as the policy {printable(process.policy)} or the cores let it"
    if process.policy_ended_ns is None:
        return decided
    until_ns = analysis.trace_start_ns - analysis.origin_ns + process.policy_ended_ns
    return f"{decided} (one switch interval after {duration(until_ns)}, when the policy ended)"


def _convoy(analysis: Analysis, gil: GilSummary, group: list[Convoy]) -> Finding:
    """Return the finding about waiters of one kind and all their holders; `group` begins with the costliest."""
    first, cost_ns = group[0], _cost_ns(group)
    in_waits_ns = sum(one.waits.total_ns for one in group)
    without_ns = in_waits_ns - cost_ns
    count = sum(one.waits.count for one in group)
    holds = len(np.unique(np.concatenate([one.behind for one in group])))
    per_s = holds * _S_NS / max(analysis.wall_ns, 1)
    medians = sorted({duration(one.waits.p50_ns): one.waits.p50_ns for one in group}.items(), key=lambda item: item[1])
    median = medians[0][0] if len(medians) == 1 else f"{medians[0][0]} to {medians[-1][0]}"
    waiters, holders = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    waits_ns: dict[int, int] = {}
    for one in group:  # a thread of a pool may be in several of them, and others of the pool in none
        waiters[one.waiter].update(one.waiter_ids)
        holders[one.holder].update(one.holder_ids)
        waits_ns.update(zip(one.waiter_ids, one.each_waits_ns, strict=True))
    who, whom = (
        listed([f"{name} ({len(ids)} threads)" if len(ids) > 1 else name for name, ids in side.items()])
        for side in (waiters, holders)
    )
    several = len(waits_ns) > 1
    rate = f" ({per_s:.3g}/s)"
    # Threads that wait at the same time say nothing about how often the GIL is kept from them.
    in_holds = f", in {number(holds, 'hold')}{rate}" if holds < count else ""
    all_waits_ns = sum(waits_ns.values())
    work = at_place(first.holder_stack)
    in_calls = max(first.answer_ns, first.late_ns) >= LATE_NS
    more = f"it then needs {duration(first.answer_ns)} more at the median"
    if first.release_ns > _OFF_CORE_TOO * first.answer_ns:
        # The answer leaves out the time without a core after the request.
        more = f"it then needs {duration(first.release_ns)} more at the median, at least {duration(first.answer_ns)} of that on a core"
    if first.answer_ns < LATE_NS:
        more = f"in a tenth of the cases it then needs {duration(first.late_ns)} or more"
    move = f"move the work of {first.holder}{work} out of the process: {another_gil(analysis.process, gil)}"
    ways = [
        move,
        shorter_interval(analysis, gil, first),
        by_policy(analysis.process, gil, first),
    ]
    if in_calls:
        # The figures of the other ways are those of holders that answer at once.
        ways = [f"let the call release the GIL, or give it less work at a time; or {move}"]
    return Finding(
        kind="convoy",
        weight="problem",
        fact=(
            f"{who} waited {number(count, 'time')}{'' if in_holds else rate} for {gil.name} behind {whom}{in_holds}: "
            f"{median} at the median (switch interval: {duration(first.interval_ns)}), {duration(in_waits_ns)} in "
            f"total, {share(in_waits_ns, all_waits_ns)} of {'their' if several else 'its'} waiting time"
            + f"; for {duration(without_ns)} of that, the holder had no core"
            * (without_ns >= OFF_CORE * in_waits_ns)
        ),
        cause=(
            f"a convoy: {first.holder} computes{work} and releases the GIL only on request, {_after_what(analysis)} after each "
            f"return of {first.waiter} from a blocking call{at_place(first.waiter_stack)}"
            + (
                f"; {more}, since it is in a call into C that does not "
                "release the GIL, or in a garbage collection: an earlier request ends no such call sooner"
            )
            * in_calls
            + f"; or {UNREACHED}" * (in_calls and analysis.process.has_subinterpreters)
        ),
        advice="; or ".join(filter(None, ways)),
        cost_ns=cost_ns,
        gil=gil.index,
        threads=(*waiters, *holders),
        frame=first.holder_stack[0] if first.holder_stack else None,
    )


def _handovers(analysis: Analysis) -> Iterator[Finding]:
    for gil in analysis.gils:
        if gil.handovers < LEAST or gil.handover_ns < HANDOVER_SHARE * gil.wall_ns:
            continue
        forced = 2 * gil.forced >= gil.handovers
        short = forced and gil.interval_ns < DEFAULT_NS
        per_s = gil.handovers * _S_NS / max(gil.wall_ns, 1)
        if short:
            cause = f"the switch interval is {duration(gil.interval_ns)}: {number(gil.forced, 'release')} were forced"
            advice = (
                f"set a longer interval: `sys.setswitchinterval({DEFAULT_NS / _S_NS:g})` is the default; "
                "I/O-bound threads then wait longer for their turn"
            )
        elif forced:
            cause = f"{number(gil.forced, 'release')} were forced, and the next thread woke up late"
            advice = ""
        elif not gil.handed.holds.count:
            each_ns = gil.handover_ns // gil.handovers
            cause = f"no thread waited when the GIL was released: those that came later needed {duration(each_ns)} each to acquire it"
            advice = ""
        else:
            each_ns = gil.handover_ns // gil.handovers
            late = each_ns >= WAKE_UP_NS
            advice = "; or ".join(filter(None, ["give the process more cores" * late, _fewer_calls(gil.handed)]))
            cause = (
                f"the next thread woke up {duration(each_ns)} after the release, on average: the cores were busy, or too few, "
                "or a CPU quota was used up"
                if late
                else f"many short turns: the holds before these hand-overs last {duration(gil.handed.holds.p50_ns)} at the median, "
                f"and {_how_they_end(gil.handed)}"
            )
        yield Finding(
            kind="short-interval" if short else "hand-overs",
            weight="problem",
            fact=(
                f"{gil.name} was handed to a waiter {number(gil.handovers, 'time')} ({per_s:,.0f}/s) and "
                f"was free for {duration(gil.handover_ns)} meanwhile, "
                f"{share_of_life(gil.handover_ns, gil.wall_ns, analysis.wall_ns)}"
            ),
            cause=cause,
            advice=advice,
            cost_ns=gil.handover_ns,
            gil=gil.index,
        )


def _how_they_end(handed: Handed) -> str:
    """Return how most of the holds before hand-overs end: with a blocking call, or with their thread."""
    if 2 * handed.of_threads >= handed.holds.count:
        return f"{share(handed.of_threads, handed.holds.count)} of them are at the start or the end of a thread"
    return f"{share(handed.voluntary, handed.holds.count)} of them end with a blocking call"


def _fewer_calls(handed: Handed) -> str:
    """Return the advice to block less often, with the line that hands the GIL on most often; "" if no line is known."""
    if 2 * handed.of_threads >= handed.holds.count:
        starts = own_frame(handed.starts) or next(iter(handed.starts), None)
        where = f"; most threads are started at {place(starts)}" if starts is not None else ""
        return f"use a pool, which keeps its threads (`concurrent.futures.ThreadPoolExecutor`){where}"
    if not handed.stack:
        return ""
    count = number(handed.at_line, "time")
    return (
        "do more work per blocking call (buffers, batches), or use fewer threads; the most frequent call that handed the GIL "
        f"on ({count}) is{at_place(handed.stack)}"
    )


def _slowed(analysis: Analysis, gil: GilSummary | None = None) -> list[ThreadSummary]:
    """Return the threads and pools that waited, for a GIL or for all, for long enough to gain from less waiting.

    The sum over some threads is no measure: each of them may have waited for a moment only.
    """
    # A thread of a pool may live for a moment only: it is held against its own life, and the pool against the whole time.
    waiters = (*analysis.threads, *analysis.roles) if gil is None else (*gil.by_thread, *gil.by_role)
    return [one for one in waiters if _is_much(analysis, one) and not _is_a_moment(one)]


def _is_much(analysis: Analysis, one: ThreadSummary) -> bool:
    return one.waits.total_ns > WORTH * max(analysis.wall_ns, one.lived_ns)


def _is_a_moment(one: ThreadSummary) -> bool:
    return one.waits.count < LEAST and one.waits.total_ns < MOMENT_NS


def _matters(analysis: Analysis, gil: GilSummary) -> bool:
    """Tell whether the waits for a GIL slow a thread down, or are so many that one thread or another always waits."""
    return bool(_slowed(analysis, gil)) or gil.waits.total_ns >= ALWAYS * gil.wall_ns > 0


def _late(analysis: Analysis) -> Iterator[Finding]:
    for gil in analysis.gils:
        used = gil.holds.total_ns < LOW_USE * gil.wall_ns
        late = gil.handover_ns >= WAKE_UP_NS * gil.handovers
        if used and late and _matters(analysis, gil) and gil.nobody_ns >= LATE_SHARE * gil.waits.total_ns:
            yield Finding(
                kind="late-wake-up",
                weight="problem",
                fact=(
                    f"threads waited {duration(gil.waits.total_ns)} for {gil.name}, "
                    f"{share(gil.nobody_ns, gil.waits.total_ns)} of that while no thread held it; it was held "
                    f"{share_of_life(gil.holds.total_ns, gil.wall_ns, analysis.wall_ns)}"
                ),
                cause="the system ran the next threads late: the cores were busy, or too few, or a CPU quota was used up",
                advice=MORE_CORES,
                cost_ns=gil.nobody_ns,
                gil=gil.index,
            )


def _off_core(analysis: Analysis) -> Iterator[Finding]:
    for gil in analysis.gils:
        matters = _matters(analysis, gil) and gil.off_core_ns >= OFF_CORE * gil.holds.total_ns
        if not matters and not needed_cores(analysis, gil):
            continue
        yield without_running(analysis, gil, slows=matters)


def _nothing_to_improve(analysis: Analysis, *, is_all: bool) -> Iterator[Finding]:
    """Yield that the GIL does not limit this program, or, if no rule explains its waits, the known facts about them.

    Args:
        analysis: The analysis.
        is_all: Nothing else has been found, such as waits of threads for each other, and the trace has the lines that
            would tell of it.
    """
    if not analysis.wall_ns or not (analysis.gils or analysis.process.gil_enabled):
        return
    if not analysis.gils:
        if not (analysis.loss.dropped_events or analysis.loss.overwritten_events or analysis.loss.damaged_bytes):
            yield _fine("no thread held or wanted the GIL here", is_all=is_all)
        return
    slowed = _slowed(analysis)
    most = max(slowed or analysis.threads, key=lambda one: one.waits.total_ns)
    busiest = analysis.gils[0]
    # The busiest of several may have a single user: its share explains no waits.
    gil = max(analysis.gils, key=lambda one: one.waits.total_ns)
    held = f"{gil.name} was held {share_of_life(gil.holds.total_ns, gil.wall_ns, analysis.wall_ns)}"
    if len(analysis.threads) == 1:
        fact = f"only {most.label} held the GIL, so no thread could wait for it; {held}"
    elif not slowed:
        if most.waits.count:
            longest = (
                f"; {most.label} waited longest, {duration(most.waits.total_ns)} in {number(most.waits.count, 'wait')}"
            )
        else:
            longest = ""
        rarely = f"no thread waited for the GIL for more than {WORTH:.0%} of the time".replace("1%", "1 %")
        if _is_much(analysis, most):
            rarely = "no thread waited for the GIL for more than a moment"
        fact = f"{rarely}{longest}; {held}"
    else:
        name = most.label if most.threads == 1 else f"{most.label} ({most.threads} threads)"
        yield Finding(
            kind="waits",
            weight="problem",
            fact=(
                f"threads waited {duration(analysis.wait_ns)} for the GIL in total, {name} longest "
                f"({duration(most.waits.total_ns)}, {duration(most.waits.p99_ns)} at p99); {held}"
            ),
            cause="no single pattern explains these waits; the blame matrix shows which threads held the GIL meanwhile",
            cost_ns=analysis.wait_ns,
            threads=(most.label,),
        )
        return
    yield _fine(fact, is_all=is_all, advice=_one_core(analysis, busiest) or look_next(analysis) * is_all)


def _fine(fact: str, *, is_all: bool, advice: str = "") -> Finding:
    return Finding(
        kind="no-contention",
        weight="fine",
        fact=fact,
        cause="the GIL does not slow this program down" + (": nothing to improve at the GIL" if is_all else ""),
        advice=advice,
    )


def _one_core(analysis: Analysis, gil: GilSummary) -> str:
    """Return the advice for a program that computes in one thread; "" for any other program."""
    elsewhere_ns = sum(one.holds.total_ns for one in analysis.gils if one is not gil)
    if (
        gil.holds.total_ns - gil.off_core_ns < FULL * gil.wall_ns
        or analysis.wall_ns < LEAST_NS
        or elsewhere_ns >= LOW_USE * analysis.wall_ns
    ):
        return ""
    return f"the program computes on one core all the time; to use more cores, divide the work: {in_parallel(analysis.process)}"


def _turns(analysis: Analysis) -> Iterator[Finding]:
    """Yield findings about threads of which one at a time runs, while the others block at one line without the GIL."""
    for one in analysis.turns[:MOST_PLACES]:
        names = [analysis.labels[thread] for thread in one.threads]
        lived_ns = sum(thread.lived_ns for thread in analysis.threads if thread.index in one.threads)
        wait = next((wait for wait in analysis.lock_waits if wait.frame == one.frame), None)
        lock, advice = ("", "") if wait is None else (who_had(wait, analysis), another_way(wait, analysis))
        yield Finding(
            kind="turns",
            weight="problem",
            fact=(
                f"{listed(names)} take turns at {place(one.frame)}: one at a time runs, and the others are blocked there, without "
                f"the GIL, for {duration(one.blocked_ns)} in total ({share(one.blocked_ns, lived_ns)} of their time)"
            ),
            cause=(
                lock
                or "a lock that they share would do this, or work that comes in one piece at a time; more cores, processes or a "
                "free-threaded build do not help threads that take turns"
            ),
            advice=advice or "hold the lock for less time, or give each thread its own data",
            cost_ns=one.blocked_ns,
            threads=tuple(names),
            frame=one.frame,
        )


_Rule = Callable[[Analysis], Iterator[Finding]]

RULES: tuple[_Rule, ...] = (
    _convoys,
    long_holds,
    _turns,
    deadlocks,
    exhausted_pools,
    lock_waits,
    saturated,
    _handovers,
    long_intervals,
    _late,
    _off_core,
)
