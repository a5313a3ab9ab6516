"""Findings that are not problems of the GIL: what the recording lacks, what it does not tell, what a free-threaded build does."""

import functools
from collections.abc import Callable, Iterator

from headway.printable import printable
from headway.traces.analysis.contention import CONTENDED
from headway.traces.analysis.elsewhere import Elsewhere
from headway.traces.analysis.hotspots import at_place
from headway.traces.analysis.lock_findings import locks
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.standing import is_sure
from headway.traces.analysis.unseen import UnseenWait
from headway.traces.analysis.words import duration, listed, names_or_roles, number, place, share
from headway.traces.loops import home_at
from headway.traces.model import Executed

__all__ = ["FAR_BEYOND", "NOTES", "elsewhere", "look_next", "unread", "unseen"]

MOST_PLACES = 3
FAR_BEYOND = 10
"""A wait that nothing explains may be idle time: beside a problem, it is told if it is so many times as long."""

LAST = 0.15
"""A share of the waiting at a barrier: the threads that others waited for as long are told by their names."""

ROUND_TRIP_NS = 60
"""The cost of recording when a thread releases a GIL and acquires it without a wait (docs/internals/recorder.md)."""
HAND_OFF_NS = 1_000
"""The cost if the thread must wait: the code of the hooks is cold then (bench/trace_shift.py, the convoys at 10 us)."""
HAND_OFFS_PER_S = 10_000
"""From this rate of waits on, a microsecond more in each also changes how many there are (bench/trace_shift.py)."""
FELT = 0.02
"""A share of the wall time: a smaller slowdown is within the differences between launches."""


def _losses(analysis: Analysis) -> Iterator[Finding]:
    loss, lost = analysis.loss, []
    if loss.dropped_events:
        lost.append(f"{number(loss.dropped_events, 'event')} not recorded because there was no room")
    if loss.overwritten_events:
        lost.append(f"{number(loss.overwritten_events, 'event')} overwritten by newer ones")
    if loss.lost_stacks:
        lost.append(f"{number(loss.lost_stacks, 'stack')} recorded as unknown")
    if loss.damaged_bytes:
        lost.append(f"{number(loss.damaged_bytes, 'byte')} damaged or missing")
    if analysis.unpaired and not loss.whole:
        lost.append(f"{number(analysis.unpaired, 'event')} without a counterpart")
    if analysis.process.simulated and loss.dropped_events:
        yield Finding(
            kind="losses",
            weight="note",
            fact=f"this trace ends early: {number(loss.dropped_events, 'later event')} of the simulated run had no room",
            advice="read totals as those of the part that the trace has",
        )
    elif lost:
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
            cause="the traces of the launch reached `--max-size`, or filled the free space of the disk"
            if loss.removed_files
            else "",
            advice="record with a larger `--max-size`, onto a disk that has so much free space"
            if loss.removed_files
            else "",
        )


def _executed(analysis: Analysis) -> Iterator[Finding]:
    executed = analysis.process.executed
    if executed is not Executed.NOTHING:
        became = f"the process became another program (exec) after {duration(analysis.wall_ns)}"
        yield Finding(
            kind="executed",
            weight="note",
            fact=f"{became}, which has a trace of its own"
            if executed is Executed.RECORDED
            else f"{became}, which was not recorded",
            cause=""
            if executed is Executed.RECORDED
            else "it is no Python; or a Python with `-I` or `-E`, which ignores Headway's variables, as a PEX starts it;"
            " or its PYTHONPATH was replaced, or leads to another `sitecustomize` first",
            advice=""
            if executed is Executed.RECORDED
            else "start Python without these options, for a PEX with `PEX_INHERIT_PATH=fallback`, and add to PYTHONPATH at its end",
        )


def _unfinished(analysis: Analysis) -> Iterator[Finding]:
    if not analysis.process.ended and not analysis.process.executed:
        if not analysis.process.growing:
            # The recorder sees only the interpreter's own calls of _exit().
            fact = (
                "the process was killed or ended by `_exit()` in C: "
                "the trace ends where it was last seen alive, or at its last event"
            )
        elif analysis.watched:
            fact = (
                "`headway watch` wrote this recording while the process ran: it has the time before, and nothing later"
            )
        else:
            fact = "the recording goes on: this is the process up to now, or until its collector was killed"
        yield Finding(kind="unfinished", weight="note", fact=fact)


def _no_stacks(analysis: Analysis) -> Iterator[Finding]:
    if not analysis.process.has_stacks and (analysis.gils or analysis.contention.kinds):
        yield Finding(
            kind="no-stacks",
            weight="note",
            fact=f"no lines of code are known: this recording of Python {analysis.process.python} has no stacks",
        )


def _slowed(analysis: Analysis) -> Iterator[Finding]:
    if analysis.process.simulated:
        return
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


def unseen(analysis: Analysis, beyond_ns: int | None = None) -> Iterator[Finding]:
    """Yield notes about lines at which threads spend much of their time, where the trace does not show why.

    A worker that has nothing to do for a part of its time is no such thread.
    `beyond_ns` is the time that the costliest problem takes, None if there is none. Beside a problem, waits of threads for
    each other are told if they take more time, and others if they take far more; of a problem without a cost that is not
    known. A thread that is blocked until the recording ends is told in any case.
    """
    told = {turn.frame for turn in analysis.turns} | {wait.frame for wait in analysis.lock_waits}
    worth = [one for one in analysis.unseen_waits if one.frame not in told and not one.may_be_idle]
    if beyond_ns is not None:
        far_ns = FAR_BEYOND * beyond_ns
        worth = [
            one
            for one in worth
            if one.stuck or (one.away_ns > beyond_ns if one.shared or one.meets else one.away_ns > far_ns > 0)
        ]
    for one in sorted(worth, key=lambda one: not one.stuck)[:MOST_PLACES]:
        labels = [analysis.labels[thread] for thread in one.threads]
        names = names_or_roles(labels)
        called = f", called from {place(one.own)}" if one.own != one.frame else ""
        yield Finding(
            kind="unseen-wait",
            weight="note",
            fact=(
                f"{listed(names)}{f' ({len(labels)} threads)' * (names != labels)} spent {duration(one.away_ns)} "
                f"({share(one.away_ns, one.lived_ns)} of {'their' if len(labels) > 1 else 'its'} time) at {place(one.frame)}"
                f"{called}, without the GIL{_until_the_end(one, analysis)}"
            ),
            cause=_reason(one, analysis),
            advice=_way(one),
            cost_ns=one.away_ns if one.shared or one.meets else 0,  # other waits may be idle time
            threads=tuple(names),
            frame=one.frame,
        )


def _until_the_end(one: UnseenWait, analysis: Analysis) -> str:
    """Return, in words, which threads were at a line when the recording ended; "" if none is blocked there."""
    if not one.stuck:
        return ""
    every = len(one.stuck) == len(one.threads)
    several = len(one.stuck) > 1
    they = "they" if several else "it"
    who = they if every else listed(names_or_roles([analysis.labels[thread] for thread in one.stuck]))
    return f"; {who} {'were' if several else 'was'} still there when the recording ended, for {'up to ' * several}{duration(one.stuck_ns)}"


def _reason(one: UnseenWait, analysis: Analysis) -> str:
    """Return, in words, what threads await at a line."""
    if one.meets:
        return f"at a `threading.Barrier` threads wait until the last of them arrives: {_last(one, analysis)}"
    if one.shared:
        return (
            "for most of that time, another thread like these came from its work when the wait ended: they seem to share what "
            "they await, as the permits of a semaphore or the connections of a pool, or to pass work on to each other"
        )
    if one.hides_a_lock:
        return "the line takes a lock and makes a call, and a trace does not show which of them a thread awaits"
    return "a trace does not show what a thread awaits without the GIL: work, a lock, a file, or another process"


def _last(one: UnseenWait, analysis: Analysis) -> str:
    """Return, in words, the threads that others waited for at a barrier."""
    if 2 * sum(waited_ns for _, waited_ns in one.last) <= one.away_ns:
        return "the trace does not tell which one that was"
    parts = [
        f"{analysis.labels[thread]} for {share(waited_ns, one.away_ns)}"
        for thread, waited_ns in one.last
        if waited_ns >= LAST * one.away_ns
    ]
    return f"{listed(parts)} of that time" if parts else "another one each time"


def _way(one: UnseenWait) -> str:
    """Return the advice about threads at a line."""
    if one.meets:
        return "divide the work between two meetings more evenly, or let these threads meet less often"
    if one.hides_a_lock:
        return "put the call on a line of its own, below the `with`, and record again: the report then tells who has the lock"
    if one.stuck:
        them = "these threads" if len(one.stuck) > 1 else "this thread"
        return f"if {them} should have gone on, look at what ends that wait: the thread or process that does may have stopped"
    if one.shared:
        return "if they share something, and more of it can be in use at once, allow that, or use each for less time"
    return "if this is not idle time, measure that call in the program; `headway report --html` shows when each thread was there"


def look_next(analysis: Analysis) -> str:
    """Return, in words, where the time passes without the GIL; "" if threads are nowhere for a good part of theirs."""
    told = "; ".join(map(functools.partial(_spent, analysis), analysis.elsewhere))
    return told and f"look next at what threads do without the GIL, if they are not idle there: {told}"


def elsewhere(analysis: Analysis, beyond_ns: int) -> Iterator[Finding]:
    """Yield a note about lines that take far more time than the costliest problem, which takes `beyond_ns`.

    A line at which a thread waits for another thread, or for a peer, may be where it has nothing to do.
    """
    far = [one for one in analysis.elsewhere if one.away_ns > FAR_BEYOND * beyond_ns > 0 and not one.may_be_idle]
    if far:
        yield Finding(
            kind="elsewhere",
            weight="note",
            fact=f"far more time passes without the GIL: {'; '.join(map(functools.partial(_spent, analysis), far))}",
            advice="if that is not idle time, look there first",
            frame=far[0].frame,
        )


def _spent(analysis: Analysis, one: Elsewhere) -> str:
    """Return, in words, which threads spent how much time at a line."""
    labels = [analysis.labels[thread] for thread in one.threads]
    its = "their" if len(labels) > 1 else "its"
    called = f", called from {place(one.own)}" if one.own != one.frame else ""
    where = (
        f"in {its} event loop{'s' * (len(labels) > 1)}, which had nothing to run: what the tasks await is not in the trace"
        if one.in_a_loop
        else f"at {place(one.frame)}{called}"
    )
    return f"{listed(names_or_roles(labels))} spent {duration(one.away_ns)} ({share(one.away_ns, one.lived_ns)} of {its} time) {where}"


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
            advice="; ".join(
                [
                    *["read the trace on the machine where the program ran, before its files change"]
                    * any(one.had_a_file for one in lines),
                    *["put the code of `python -c`, of standard input or of `exec()` into a file, and record that"]
                    * any(one.was_typed for one in lines),
                ]
            ),
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


def _stood(analysis: Analysis) -> str:
    """Return where threads without an event stood; "" if it is not known, or if they only waited for work."""
    told: dict[str, list[str]] = {}
    for at, one in enumerate(analysis.silent):
        if not one.frames or home_at(one.frames) is not None:
            continue
        where = at_place(one.frames)
        if at in analysis.standstill:
            owner = printable(analysis.silent[analysis.standstill[at]].name)
            has = "has" if is_sure(one) else "may have"
            where += f", for a lock that {'it' if analysis.standstill[at] == at else owner} {has}"
        told.setdefault(where, []).append(printable(one.name))
    if not told:
        return ""
    lines = [f"{listed(names_or_roles(names))}{where}" for where, names in told.items()]
    return (
        ": "
        + "; ".join(lines[:MOST_PLACES])
        + (f"; and {len(lines) - MOST_PLACES} more" if len(lines) > MOST_PLACES else "")
    )


def _silent(analysis: Analysis) -> Iterator[Finding]:
    if analysis.silent:
        names = names_or_roles([printable(one.name) for one in analysis.silent])
        count = len(analysis.silent)
        stood = _stood(analysis)
        yield Finding(
            kind="silent-threads",
            weight="note",
            fact=(
                f"{listed(names)}{f' ({count} threads)' * (len(names) != count)} neither held nor wanted the GIL in all of the"
                f" recording{stood}"
            ),
            cause="they were idle, or blocked all the time, as by a lock that is never released",
            advice=(
                "if they should have worked, look at what they wait for there"
                if stood
                else "if they should have worked, `headway attach`, or `headway trace` from the program's start, has the line at "
                "which each stopped"
            ),
            threads=tuple(names),
        )


def _unreleased(analysis: Analysis) -> Iterator[Finding]:
    if not analysis.unreleased:
        return
    names = names_or_roles([printable(one.name) for one in analysis.unreleased])
    count = len(analysis.unreleased)
    gils = "a sub-interpreter's own GIL" if count == 1 else "GILs of sub-interpreters' own"
    to_the_end = all(one.to_the_end for one in analysis.unreleased)
    yield Finding(
        kind="unreleased-gil",
        weight="note",
        fact=(
            f"{listed(names)}{f' ({count} threads)' * (len(names) != count)} held {gils} from before the recording"
            f"{' to its end' if to_the_end else ' on'}, which no figure here counts"
        ),
        cause=(
            "a sub-interpreter's GIL is found when a thread acquires it, and a thread that computes alone never releases it"
            + "; one that released it meanwhile did not acquire it again, or the process ended" * (not to_the_end)
        ),
        advice="`headway trace`, from the program's start, records such a thread",
        threads=tuple(names),
    )


NOTES: tuple[Callable[[Analysis], Iterator[Finding]], ...] = (
    _losses,
    _missing_processes,
    _executed,
    _unfinished,
    _no_stacks,
    _slowed,
    _late_loops,
    _silent,
    _unreleased,
    _free_threaded,
    locks,
)
