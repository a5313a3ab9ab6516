"""Findings that are not problems of the GIL: what the recording lacks, waits for locks, what a free-threaded build does."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from headway.printable import printable
from headway.traces.analysis.advice import in_parallel
from headway.traces.analysis.contention import ParkPlace
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.words import duration, listed, names_or_roles, number, place, share
from headway.traces.calls import awaits_an_import
from headway.traces.loops import is_for_a_request, is_in_a_loop
from headway.traces.model import Park

__all__ = ["NOTES", "lock_waits", "unread", "unseen"]

CONTENDED = 0.01
"""A share of the threads' time: less blocking on a lock is not worth a change."""
MOST_PLACES = 3

ROUND_TRIP_NS = 60
"""The cost of recording when a thread releases a GIL and acquires it without a wait (docs/internals/recorder.md)."""
HAND_OFF_NS = 1_000
"""The cost if the thread must wait: the code of the hooks is cold then (bench/trace_shift.py, the convoys at 10 us)."""
HAND_OFFS_PER_S = 10_000
"""From this rate of waits on, a microsecond more in each also changes how many there are (bench/trace_shift.py)."""
FELT = 0.02
"""A share of the wall time: a smaller slowdown is within the differences between launches."""

_LOCKS = {Park.OBJECT: "the lock of", Park.MUTEX: "an internal lock"}


def _losses(analysis: Analysis) -> Iterator[Finding]:
    loss, lost = analysis.loss, []
    if loss.dropped_events:
        lost.append(f"{number(loss.dropped_events, 'event')} not recorded because there was no room")
    if loss.overwritten_events:
        lost.append(f"{number(loss.overwritten_events, 'event')} overwritten by newer ones")
    if loss.lost_stacks:
        lost.append(f"{number(loss.lost_stacks, 'stack')} recorded as unknown")
    if loss.damaged_bytes:
        lost.append(f"{number(loss.damaged_bytes, 'byte')} damaged")
    if analysis.unpaired and not loss.whole:
        lost.append(f"{number(analysis.unpaired, 'event')} without a counterpart")
    if lost:
        yield Finding(
            kind="losses",
            weight="note",
            fact="this trace is incomplete: " + ", ".join(lost),
            cause="the recording had too little room for the events of the program"
            if loss.dropped_events or loss.overwritten_events
            else "",
            advice="read totals as lower bounds; record with more room, or record a shorter part of the program"
            if loss.dropped_events or loss.overwritten_events
            else "",
        )


def _missing_processes(analysis: Analysis) -> Iterator[Finding]:
    loss, missing = analysis.loss, []
    if loss.removed_files:
        were = "trace of an ended child was" if loss.removed_files == 1 else "traces of ended children were"
        missing.append(f"{loss.removed_files:,} {were} removed to make room")
    if loss.unrecorded_processes:
        missing.append(f"{number(loss.unrecorded_processes, 'process', 'processes')} could not be recorded")
    if missing:
        yield Finding(
            kind="missing-processes",
            weight="note",
            fact=f"this launch had more processes than are shown: {', and '.join(missing)}",
            advice="record with a larger `--max-size`" if loss.removed_files else "",
        )


def _unfinished(analysis: Analysis) -> Iterator[Finding]:
    if not analysis.process.ended:
        yield Finding(
            kind="unfinished",
            weight="note",
            fact="the recording goes on: this is the process up to now, or until its collector was killed"
            if analysis.process.growing
            else "the process was killed: the trace ends where it was last seen alive, or at its last event",
        )


def _no_stacks(analysis: Analysis) -> Iterator[Finding]:
    if not analysis.process.has_stacks and (analysis.gils or analysis.contention.kinds):
        yield Finding(
            kind="no-stacks",
            weight="note",
            fact=f"no lines of code are known: this recording of Python {analysis.process.python} has no stacks",
        )


def _slowed(analysis: Analysis) -> Iterator[Finding]:
    waits = sum(gil.waits.count for gil in analysis.gils)
    trips = max(0, sum(gil.holds.count for gil in analysis.gils) - waits)
    cost_ns = trips * ROUND_TRIP_NS + waits * HAND_OFF_NS
    if cost_ns >= FELT * analysis.wall_ns > 0:
        cause = "this program releases the GIL so often that the cost of each event adds up: without recording, the program is faster by as much"
        if waits * 1_000_000_000 >= HAND_OFFS_PER_S * analysis.wall_ns:
            cause += ", and more: where threads wait so often, each hand-off that takes longer makes others wait, too; such programs ran at 0.7 to 1 of their rate"
        each = [f"{number(trips, 'round trip')} at about {ROUND_TRIP_NS} ns"] * (trips > 0)
        each += [f"{number(waits, 'wait')} at about {duration(HAND_OFF_NS)}"] * (waits > 0)
        yield Finding(
            kind="slowed",
            weight="note",
            fact=f"recording itself took about {share(cost_ns, analysis.wall_ns)} of the time: {' and '.join(each)} each",
            cause=cause,
            advice="compare rates without recording; which thread waits for which is as shown here",
        )


def _free_threaded(analysis: Analysis) -> Iterator[Finding]:
    process = analysis.process
    if not process.free_threaded:
        return
    if not analysis.gils:
        if not process.gil_enabled:
            yield Finding(
                kind="gil-off",
                weight="fine",
                fact=f"Python {process.python} ran free-threaded with the GIL off"
                + (
                    ", except while it imported extension modules"
                    if analysis.by_imports
                    else ": no thread waited for it"
                ),
            )
    elif process.gil_enabled:
        yield Finding(
            kind="gil-on",
            weight="note",
            fact="this is a free-threaded build, but the GIL was on",
            cause="`PYTHON_GIL=1`, `-X gil=1`, or an extension module that does not declare that it works without a GIL",
            advice="check the extension modules, then try `PYTHON_GIL=0`",
        )
    else:
        yield Finding(
            kind="gil-came-on",
            weight="problem" if _mattered(analysis) else "note",
            fact=f"the GIL was off when tracing began, and was switched on later: threads then waited {duration(analysis.wait_ns)} for it",
            cause="the program imported an extension module that does not declare that it works without a GIL; Python's warning names it",
            advice="get a build of that module for free-threaded Python, or, if the module is known to be safe, set `PYTHON_GIL=0`",
            cost_ns=analysis.wait_ns,
        )


def _mattered(analysis: Analysis) -> bool:
    """Tell whether the GIL, once it was on, was used enough to matter."""
    held_ns = sum(gil.holds.total_ns for gil in analysis.gils)
    return max(held_ns, analysis.wait_ns) >= CONTENDED * analysis.wall_ns


def _locks(analysis: Analysis) -> Iterator[Finding]:
    contended = [
        one
        for one in analysis.contention.places
        if one.times.total_ns >= CONTENDED * one.lived_ns > 0
        and (one.kind in _LOCKS or (one.kind == Park.LOCK and not one.awaits and not analysis.gils))
    ]
    for one in contended[:MOST_PLACES]:
        yield _own_lock(one, analysis) if one.kind == Park.LOCK else _lock(one)
    world = analysis.contention.kinds.get(Park.WORLD)
    stopped = world is not None and world.total_ns >= CONTENDED * analysis.contention.lived_ns > 0
    if world is not None and stopped:
        yield Finding(
            kind="stop-the-world",
            weight="problem",
            fact=(
                f"threads were stopped for {duration(world.total_ns)} in total, {duration(world.max_ns)} at most, because one "
                f"of them had stopped the world, or was waiting to do so ({number(world.count, 'time')})"
            ),
            cause="the garbage collector and some changes of classes and modules stop all threads of a free-threaded build",
            cost_ns=world.total_ns,
        )
    if analysis.contention.kinds and not contended and not stopped and not analysis.gils:
        yield _no_locks(analysis)


def _no_locks(analysis: Analysis) -> Finding:
    """Return the finding that no lock slows the program down, as far as the waits tell."""
    kinds = analysis.contention.kinds
    inner_ns = sum(times.total_ns for kind, times in kinds.items() if kind in _LOCKS)
    own_ns = kinds[Park.LOCK].total_ns if Park.LOCK in kinds else 0
    awaited = own_ns >= CONTENDED * analysis.contention.lived_ns
    return Finding(
        kind="no-lock-contention",
        weight="fine",
        fact=f"threads were blocked for {duration(inner_ns)} in total on locks of objects and of the interpreter, and at no place for more than {CONTENDED:.0%} of the time".replace(
            "%", " %"
        ),
        cause=(
            "these locks do not slow this program down; threads also awaited each other for "
            f"{duration(own_ns)}, in conditions, semaphores and queues: that is idle time, or a resource that is too small"
            if awaited
            else "these locks do not slow this program down; waits that had begun before, and those inside of a library, are not known"
        ),
    )


def lock_waits(analysis: Analysis) -> Iterator[Finding]:
    """Yield findings about the lines of a program with a GIL at which threads are blocked for a lock of the program.

    Left out are lines at which threads take turns, which are a finding of their own.
    """
    told = {one.frame for one in analysis.turns}
    contended = [
        one
        for one in analysis.lock_waits
        if one.frame not in told and one.times.total_ns >= CONTENDED * one.lived_ns > 0
    ]
    for one in contended[:MOST_PLACES]:
        found = _own_lock(one, analysis)
        serves = is_in_a_loop(one.stack) or is_for_a_request(one.stack, is_web=True)
        more = "`headway stalls` on this file has the event loops and the requests for which such a wait was too long"
        yield replace(
            found,
            fact=f"{found.fact}; they had released the GIL",
            advice="; ".join(filter(None, [found.advice, more if serves else ""])),
        )


def unseen(analysis: Analysis, beyond_ns: int | None = None) -> Iterator[Finding]:
    """Yield notes about lines at which threads spend much of their time, where the trace does not show why.

    A worker that has nothing to do for a part of its time is no such thread.
    `beyond_ns` is the time that the costliest problem takes, None if there is none: beside one, only waits of threads that
    share what they await are told, if they take more.
    """
    told = {turn.frame for turn in analysis.turns} | {wait.frame for wait in analysis.lock_waits}
    worth = [one for one in analysis.unseen_waits if one.frame not in told and not one.may_be_idle]
    worth = [one for one in worth if beyond_ns is None or (one.shared and one.away_ns > beyond_ns)]
    for one in worth[:MOST_PLACES]:
        labels = [analysis.labels[thread] for thread in one.threads]
        names = names_or_roles(labels)
        called = f", called from {place(one.own)}" if one.own != one.frame else ""
        yield Finding(
            kind="unseen-wait",
            weight="note",
            fact=(
                f"{listed(names)}{f' ({len(labels)} threads)' * (names != labels)} spent {duration(one.away_ns)} "
                f"({share(one.away_ns, one.lived_ns)} of {'their' if len(labels) > 1 else 'its'} time) at {place(one.frame)}"
                f"{called}, without the GIL"
            ),
            cause=(
                "for most of that time, another thread like these came from its work when the wait ended: they seem to share what "
                "they await, as the permits of a semaphore or the connections of a pool, or to pass work on to each other"
                if one.shared
                else "a trace does not show what a thread awaits without the GIL: work, a lock, a file, or another process"
            ),
            advice=(
                "if they share something, and more of it can be in use at once, allow that, or use each for less time"
                if one.shared
                else "if this is not idle time, measure that call in the program; `headway report --html` shows when each thread"
                " was there"
            ),
            threads=tuple(names),
            frame=one.frame,
        )


def unread(analysis: Analysis) -> Iterator[Finding]:
    """Yield a note about lines at which threads spend time, and that may take a lock, since their words are not known."""
    lines = [one for one in analysis.unread_lines if one.time_ns >= CONTENDED * one.lived_ns > 0]
    if lines:
        names = [f"{place(one.frame)} ({one.reason})" for one in lines]
        yield Finding(
            kind="unread-lines",
            weight="note",
            fact=(
                f"threads were without the GIL for {duration(sum(one.time_ns for one in lines))} in total at "
                f"{number(len(lines), 'line')} that cannot be read: {listed(names)}"
            ),
            cause="only the words of such a line tell whether it takes a lock of the program",
            advice="read the trace on the machine where the program ran, before its files change",
            frame=lines[0].frame,
        )


def _late_loops(analysis: Analysis) -> Iterator[Finding]:
    for one in analysis.late_loops[:MOST_PLACES]:
        yield Finding(
            kind="late-loop",
            weight="note",
            fact=(
                f"the event loop of {analysis.labels[one.thread]} made no progress for {duration(Thresholds().loop_ns)} or more "
                f"{number(one.laps, 'time')}: {duration(one.max_ns)} at most, {duration(one.total_ns)} in total"
            ),
            cause="whatever else the loop serves waits meanwhile",
            advice="`headway stalls` on this file has the cause and, where it is known, the line of each",
            threads=(analysis.labels[one.thread],),
        )


def _silent(analysis: Analysis) -> Iterator[Finding]:
    if analysis.silent:
        names = names_or_roles(list(analysis.silent))
        count = len(analysis.silent)
        yield Finding(
            kind="silent-threads",
            weight="note",
            fact=(
                f"{listed(names)}{f' ({count} threads)' * (len(names) != count)} neither held nor wanted the GIL in all of the"
                " recording"
            ),
            cause="they were idle, or blocked all the time, as by a lock that is never released",
            advice="if they should have worked, `headway trace` from the program's start has the line at which each stopped",
            threads=tuple(names),
        )


def _own_lock(one: ParkPlace, analysis: Analysis) -> Finding:
    """Return the finding about a lock of the program, or of a module's import, for which threads wait at one line."""
    imports = one.frame is not None and awaits_an_import(one.frame)
    cause = "these threads take turns at that lock: one at a time has it, and the others are blocked"
    advice = "hold the lock for less time, wait and compute outside of it, or divide what it protects; more threads do not help"
    if imports:
        cause = "another thread was importing the same module"
        advice = "import it before the threads start"
    elif one.at_once:
        cause, advice = "another thread had the lock meanwhile, or this is where it is awaited", ""
    elif one.behind_gil:
        cause = (
            f"for {share(one.gil_ns, one.times.total_ns)} of that time, one of these threads had left that line with the lock "
            "and waited for the GIL: the GIL is the cause, and not the work under the lock"
        )
        advice = (
            f"let each turn do more work, so that it takes the lock less often; or use {in_parallel(analysis.process)}"
        )
    elif one.apart:
        cause = "another thread had the lock meanwhile: these ones hardly met at that line"
        advice = "let the thread that has the lock hold it for less time, or divide what it protects"
    return Finding(
        kind="contended-lock",
        weight="note" if one.at_once and not imports else "problem",
        fact=_blocked(one, "a lock of an import" if imports else "a lock of the program"),
        cause=cause,
        advice=advice,
        cost_ns=one.times.total_ns,
        frame=one.frame,
    )


def _blocked(one: ParkPlace, on: str) -> str:
    """Return the fact about a place: how many threads blocked on what, where, how often and how long."""
    own = own_frame(one.stack)
    where = f" at {place(one.frame)}" if one.frame is not None else ""
    where += f", called from {place(own)}" if own is not None and own != one.frame else ""
    return (
        f"{number(one.threads, 'thread')} blocked {number(one.times.count, 'time')} on {on}{where}: "
        f"{duration(one.times.total_ns)} in total ({share(one.times.total_ns, one.lived_ns)} of their time), "
        f"{duration(one.times.p99_ns)} at p99"
    )


def _lock(one: ParkPlace) -> Finding:
    name = f"{_LOCKS[one.kind]} a `{printable(one.type_name)}`" if one.type_name and one.kind == Park.OBJECT else ""
    name = name or ("the lock of an object" if one.kind == Park.OBJECT else _LOCKS[one.kind])
    cause = advice = ""
    awaits = one.kind == Park.MUTEX and one.at_once
    is_file = one.kind == Park.OBJECT and one.type_name.startswith("_io.")
    own_file = is_file and one.threads == 1
    if awaits:
        cause = (
            "for most of that time none of the blocked threads had the lock: they may have awaited another thread there"
        )
    elif own_file:
        cause = (
            "Python 3.13 locks a file twice in one call that reads, writes or closes it, and the thread waits for itself;"
            " or another thread used the same file"
        )
        advice = "read or write more of a file at a time"
    elif one.kind == Park.OBJECT:
        users = "these threads use" if one.threads > 1 else "another thread used"
        cause = f"without a GIL each object has its own lock, and {users} the same object"
        advice = "give each thread its own object and merge at the end, or make fewer and larger changes to the shared object"
        if is_file:
            cause += "; or the threads wait for themselves: Python 3.13 locks a file twice in one call"
            advice += "; read or write more of a file at a time"
    return Finding(
        kind="contended-lock",
        weight="note" if awaits or own_file else "problem",
        fact=_blocked(one, name),
        cause=cause,
        advice=advice,
        cost_ns=one.times.total_ns,
        frame=one.frame,
    )


NOTES: tuple[Callable[[Analysis], Iterator[Finding]], ...] = (
    _losses,
    _missing_processes,
    _unfinished,
    _no_stacks,
    _slowed,
    _late_loops,
    _silent,
    _free_threaded,
    _locks,
)
