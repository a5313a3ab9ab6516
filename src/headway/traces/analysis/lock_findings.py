"""Findings about waits for locks: of the program, with and without a GIL, and of objects on a free-threaded build."""

import re
from collections.abc import Iterator
from dataclasses import replace

from headway.printable import printable
from headway.traces.analysis.advice import in_parallel
from headway.traces.analysis.contention import CONTENDED, ParkPlace
from headway.traces.analysis.doing import AWAITING, Doing
from headway.traces.analysis.holders import LockHold, line_of
from headway.traces.analysis.hotspots import at_place
from headway.traces.analysis.lock_owners import owners
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.sharing import FULL
from headway.traces.analysis.standstills import in_deadlocks
from headway.traces.analysis.words import duration, listed, names_or_roles, number, place, share
from headway.traces.calls import awaits_an_import, is_of_a_queue, locks_at
from headway.traces.frames import OURS
from headway.traces.libraries import Awaited, awaited_in, is_of_a_log_handler
from headway.traces.loops import is_for_a_request, is_in_a_loop
from headway.traces.model import Park
from headway.traces.sources import source_line

__all__ = ["another_way", "is_for_the_gil", "lock_waits", "locks", "who_had"]

MOST_PLACES = 3
_WORTH_TELLING, _MOST_HOLDERS = 0.15, 3
"""What a thread with a lock did for this share of the others' waiting is told, up to so many of them."""

_COMPUTED = 0.8
"""Threads that held the GIL for this share of the time for which they had a lock would wait for the GIL without it."""

_STOPPED = 0.1
"""The least part of the time of all known stops of the world for which a line is told."""

_LACKING = 0.1
"""The least part of threads' lives in which they wait for a permit of a semaphore, for which that is told."""

_FORKS = re.compile(r"\bfork(pty)?\(")
_AGAINST_FORKS = (
    "fork before the threads start, or start processes by `spawn` or `forkserver` (multiprocessing), or by `subprocess`"
)
_AGAINST_COLLECTIONS = (
    "if a garbage collection ran there, `gc.freeze()` after the start makes each one shorter, and a higher"
    " `gc.set_threshold()` makes them rarer; call `gc.collect()` itself less often, or when no other thread works"
)
_BY_A_LISTENER = (
    "let a `logging.handlers.QueueHandler` take the records and its `QueueListener` write them, in a thread of its own: a call"
    " then waits for no write; or log less"
)
_LOCKS = {Park.OBJECT: "the lock of", Park.MUTEX: "an internal lock"}


def locks(analysis: Analysis) -> Iterator[Finding]:
    """Yield findings about the locks of a free-threaded build, and about stops of all threads."""
    told = in_deadlocks(analysis)
    contended = [
        one
        for one in analysis.contention.places
        if one.times.total_ns >= CONTENDED * one.lived_ns > 0
        and one.frame not in {*told, OURS}
        and (one.kind in _LOCKS or (one.kind == Park.LOCK and not one.awaits and not analysis.gils))
    ]
    for one in contended[:MOST_PLACES]:
        yield _own_lock(one, analysis) if one.kind == Park.LOCK else _lock(one, analysis)
    permits = [] if analysis.gils else list(_permits(analysis))
    yield from permits
    world = analysis.contention.kinds.get(Park.WORLD)
    stopped = world is not None and world.total_ns >= CONTENDED * analysis.contention.lived_ns > 0
    if world is not None and stopped:
        forks = _forks(analysis)
        yield Finding(
            kind="stop-the-world",
            weight="problem",
            fact=(
                f"threads were stopped for {duration(world.total_ns)} in total, {duration(world.max_ns)} at most, because one "
                f"of them had stopped the world, or was waiting to do so ({number(world.count, 'time')})"
            ),
            cause=(
                "`os.fork()` stops all threads of a free-threaded build"
                if forks
                else "the garbage collector and some changes of classes and modules stop all threads of a free-threaded build"
            )
            + _stopped_by(analysis),
            advice=_AGAINST_FORKS if forks else _AGAINST_COLLECTIONS * bool(analysis.stoppers),
            cost_ns=world.total_ns,
            frame=next((one.frame for one in analysis.stoppers if one.frame is not None), None),
        )
    if analysis.contention.kinds and not (
        contended or permits or stopped or told or analysis.gils or analysis.full_pools
    ):
        yield _no_locks(analysis)


def _permits(analysis: Analysis) -> Iterator[Finding]:
    """Yield a note about each line at which threads seem to lack permits of a semaphore.

    Threads that await work at one are mostly all there at once.
    """
    for one in analysis.contention.places:
        lacking = one.awaits and not one.at_once and one.times.total_ns >= _LACKING * one.lived_ns > 0
        if lacking and any(awaited_in(each) is Awaited.PERMIT for each in one.stack):
            yield Finding(
                kind="contended-lock",
                weight="note",
                fact=_blocked(one, analysis, "a semaphore"),
                cause=(
                    "for most of that time at least one of these threads was elsewhere: they seem to share the permits, as those"
                    " of a pool's connections, or they await work"
                ),
                advice="if it is a pool, hold each permit for less time, or give it more permits",
                cost_ns=one.times.total_ns,
                threads=_names(one, analysis),
                frame=one.frame,
            )


def _forks(analysis: Analysis) -> bool:
    """Tell whether most of the time for which threads were stopped is that of forks, by the text of the lines."""
    known = [(one.frame, one.stopped_ns) for one in analysis.stoppers if one.frame is not None]
    forks_ns = sum(time_ns for line, time_ns in known if _FORKS.search(source_line(line.filename, line.line)))
    return 2 * forks_ns > sum(time_ns for _, time_ns in known)


def _stopped_by(analysis: Analysis) -> str:
    """Return the lines at which threads stopped the world, as the end of a sentence; "" if none is known."""
    known_ns = sum(one.stopped_ns for one in analysis.stoppers)
    told = [
        f"{listed(names_or_roles([analysis.labels[thread] for thread in one.threads]))} did so at "
        f"{'a line that is not known' if one.frame is None else place(one.frame)} {number(one.stops, 'time')}, "
        f"while others were stopped for {duration(one.stopped_ns)} in total"
        for one in analysis.stoppers[:MOST_PLACES]
        if one.stopped_ns >= _STOPPED * known_ns
    ]
    return "".join(f"; {one}" for one in told)


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

    Left out are lines at which threads take turns, or are in a deadlock, which are findings of their own.
    """
    told = {one.frame for one in analysis.turns} | in_deadlocks(analysis)
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


def _own_lock(one: ParkPlace, analysis: Analysis) -> Finding:
    """Return the finding about a lock of the program, or of a module's import, for which threads wait at one line."""
    imports = one.frame is not None and awaits_an_import(one.frame)
    known = who_had(one, analysis)
    cause = (
        "one thread at a time has that lock, and the others are blocked; which one had it is not known"
        if one.sure
        else "one thread at a time has such a lock, and the others are blocked; which one had it, and whether it is one lock"
        " or several of that name, is not known"
    )
    logs = _in_logging(one)
    advice = (
        _BY_A_LISTENER
        if logs
        else "hold the lock for less time, wait and compute outside of it, or divide what it protects"
    )
    advice += "; more threads do not help" * one.sure
    if imports:
        cause = "another thread was importing the same module"
        advice = "import it before the threads start"
    elif one.behind_gil:
        cause = (
            f"for {share(one.gil_ns, one.times.total_ns)} of that time, one of these threads had left that line with the lock "
            "and waited for the GIL: the GIL is the cause, and not the work under the lock"
        )
        advice = (
            f"let each turn do more work, so that it takes the lock less often; or use {in_parallel(analysis.process)}"
        )
    elif _in_queue(one):
        cause = (
            known
            or "the queue's own code has it for microseconds: a thread that has it for longer has no core"
            + ", or no GIL" * bool(analysis.gils)
        )
        advice = "put more work into each item, so that fewer pass through the queue, or use fewer threads"
    elif known:
        cause, advice = known, another_way(one, analysis)
    elif one.at_once and not logs:
        cause, advice = "another thread had the lock meanwhile, or this is where it is awaited", ""
    elif one.apart:
        cause = "another thread had the lock meanwhile: these ones hardly met at that line"
        advice = (
            _BY_A_LISTENER
            if logs
            else "let the thread that has the lock hold it for less time, or divide what it protects"
        )
    return Finding(
        kind="contended-lock",
        weight="note" if one.at_once and not (imports or known) else "problem",
        fact=_blocked(one, analysis, _which(one)),
        cause=cause,
        advice=advice,
        cost_ns=one.times.total_ns,
        threads=_names(one, analysis),
        frame=one.frame,
    )


def _which(one: ParkPlace) -> str:
    """Return, in words, the lock that threads wait for at a line."""
    if one.frame is not None and awaits_an_import(one.frame):
        return "a lock of an import"
    return "the lock inside a `queue.Queue`" if _in_queue(one) else "a lock of the program"


def _in_queue(one: ParkPlace) -> bool:
    """Tell whether the lock is that of a `queue.Queue`, which its own methods take."""
    line = line_of(one.stack)
    return line is not None and is_of_a_queue(line)


def _in_logging(one: ParkPlace) -> bool:
    """Tell whether the lock is that of a handler of `logging`: only other handlers give its holder less to do."""
    line = line_of(one.stack)
    return line is not None and is_of_a_log_handler(line)


def who_had(one: ParkPlace, analysis: Analysis) -> str:
    """Return, in words, who had the lock while threads waited at a place; "" if it is not known for half of that time."""
    if 2 * one.known_ns <= one.times.total_ns:
        return ""
    found = owners(one.holders)
    worth = [each for each in found if each.blocked_ns >= _WORTH_TELLING * one.times.total_ns][:_MOST_HOLDERS]
    told = []
    for each in worth or found[:1]:
        names = listed(names_or_roles([analysis.labels[thread] for thread in each.threads]), most=2)
        part, most = share(each.blocked_ns, one.times.total_ns), each.most
        if most.doing is Doing.WENT_ON:
            told.append(
                f"for {part} of that time, {names} held the GIL after acquiring the lock{most.which} and may soon have released "
                "it: the waiter wakes up late here, for want of a core"
            )
        else:
            mostly = "" if each.is_all else "mostly "
            told.append(f"{names} had the lock{most.which} for {part} of that time, {mostly}{most.words}")
    unknown_ns = one.times.total_ns - one.known_ns
    if unknown_ns >= _WORTH_TELLING * one.times.total_ns:
        told.append(f"who had it for {share(unknown_ns, one.times.total_ns)} of that time is not known")
    return "; ".join(told)


def _telling(one: ParkPlace) -> tuple[LockHold, ...]:
    """Return what the threads that had the lock did for most of the time."""
    worth = [each for each in one.holders if each.blocked_ns >= _WORTH_TELLING * one.times.total_ns]
    return tuple(worth[:_MOST_HOLDERS]) or one.holders[:1]


def is_for_the_gil(one: ParkPlace) -> bool:
    """Tell whether threads had a lock in turn and held the GIL meanwhile, so that without the lock they would wait for it.

    A thread that does something else, and seldom, is not one of them: its waits would end with the switch interval.
    """
    ran_ns = sum(
        blocked_ns
        for each in one.holders
        if each.doing is Doing.RAN
        for thread, blocked_ns in each.by_thread_ns.items()
        if thread in one.members
    )
    return 2 * one.known_ns > one.times.total_ns and ran_ns >= _COMPUTED * one.known_ns


def another_way(one: ParkPlace, analysis: Analysis) -> str:
    """Return the advice that follows from what the threads did that had the lock; "" if that is not known."""
    if not who_had(one, analysis):
        return ""
    if is_for_the_gil(one):
        return (
            f"use {in_parallel(analysis.process)}: each of these threads held the GIL while it had the lock, so without this"
            " lock they would wait for the GIL"
        )
    doing = {each.doing for each in _telling(one)}
    held_ns = max(((gil.holds.total_ns, gil.wall_ns) for gil in analysis.gils), default=(0, 0))
    if not doing & {Doing.AWAY, *AWAITING} and held_ns[0] >= FULL * held_ns[1] > 0:
        return (
            f"use {in_parallel(analysis.process)}: the GIL was held {share(*held_ns)} of the time, so without this lock these "
            "threads would wait for the GIL"
        )
    if _in_logging(one) and not doing <= {Doing.QUEUED, Doing.WENT_ON}:
        return _BY_A_LISTENER
    ways = [
        *["make that call before the lock is taken, or after it is released"] * (Doing.AWAY in doing),
        *[f"release the lock before that wait for {AWAITING[one].value}" for one in AWAITING if one in doing],
        *["compute before the lock is taken, or after it is released"] * (Doing.RAN in doing),
        *["take the two locks one after the other, or look at that other lock first"] * (Doing.BLOCKED in doing),
        *[f"take the lock less often, or use {in_parallel(analysis.process)}"]
        * bool(doing & {Doing.QUEUED, Doing.WENT_ON}),
        *["divide what the lock protects"] * (not _is_divided(one)),
    ]
    return "; or ".join(ways)


def _is_divided(one: ParkPlace) -> bool:
    """Tell whether a line takes one of several locks of a list or dict."""
    line = line_of(one.stack)
    return line is not None and any(lock.many for lock in locks_at(line))


def _names(one: ParkPlace, analysis: Analysis) -> tuple[str, ...]:
    return tuple(names_or_roles([analysis.labels[thread] for thread in one.members]))


def _blocked(one: ParkPlace, analysis: Analysis, on: str) -> str:
    """Return the fact about a place: which threads blocked on what, where, how often and how long."""
    names, times = _names(one, analysis), one.times
    who = listed(names) + (f" ({one.threads} threads)" if len(names) != one.threads else "")
    where = at_place(one.stack, max(0, one.callers - 1))
    part = f"{share(times.total_ns, one.lived_ns)} of {'their' if one.threads > 1 else 'its'} time"
    total = duration(times.total_ns)
    if times.count == 1:
        return f"{who} blocked once on {on}{where}, for {total} ({part}){', until the recording ended' * one.unended}"
    open_ = f"; {number(one.unended, 'wait')} had not ended with the recording" if one.unended else ""
    return (
        f"{who} blocked {number(times.count, 'time')} on {on}{where}: {total} in total ({part}), {duration(times.p99_ns)} at p99"
        f"{open_}"
    )


def _lock(one: ParkPlace, analysis: Analysis) -> Finding:
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
        fact=_blocked(one, analysis, name),
        cause=cause,
        advice=advice,
        cost_ns=one.times.total_ns,
        threads=_names(one, analysis),
        frame=one.frame,
    )
