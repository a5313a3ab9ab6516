"""Findings about threads that do not get on: deadlocks, and pools whose threads all wait for results."""

from collections.abc import Iterator
from typing import NamedTuple, final

from headway.printable import printable
from headway.traces.analysis.advice import against_deadlock
from headway.traces.analysis.holders import line_of
from headway.traces.analysis.hotspots import at_place
from headway.traces.analysis.result import Analysis, Finding
from headway.traces.analysis.standing import is_sure
from headway.traces.analysis.words import duration, listed, number, place
from headway.traces.model import Frame

__all__ = ["deadlocks", "exhausted_pools", "in_deadlocks"]


@final
class _Waiter(NamedTuple):
    """A thread that waits for a lock to the end of the recording."""

    name: str
    frame: Frame | None
    time_ns: int
    sure: bool
    """There is only one lock of that name."""


@final
class _Circle(NamedTuple):
    """Threads of which each waits for a lock that the next one has; the last one waits for the first one."""

    waiters: list[_Waiter]
    behind: list[_Waiter]
    """Further threads that wait for one of these, or for one that does."""


def deadlocks(analysis: Analysis) -> Iterator[Finding]:
    """Yield a finding about each circle of threads that wait for each other's locks."""
    for circle in _circles(analysis):
        names = [one.name for one in circle.waiters]
        sure = all(one.sure for one in circle.waiters)
        alone = len(names) == 1
        has, name = "has", "a deadlock"
        if not sure:
            has, name = "may have", "perhaps a deadlock, if the locks of these names are the same objects"
        whose = [f"it {has} itself"] if alone else [f"{one} {has}" for one in (*names[1:], names[0])]
        told = [
            f"{one.name} waits at {place(one.frame)} for a lock that {owner}"
            for one, owner in zip(circle.waiters, whose, strict=True)
        ]
        count = len(circle.behind)
        behind = f"; {number(count, 'more thread waits', 'more threads wait')} for them" if count else ""
        yield Finding(
            kind="deadlock",
            weight="problem" if sure else "note",
            fact=f"{listed(told)}, until the end of the recording{behind}",
            cause=(
                f"{name}: "
                + (
                    "a thread cannot acquire a `threading.Lock` that it has"
                    if alone
                    else "each of these threads waits for the next one"
                )
            ),
            advice=against_deadlock(alone=alone, sure=sure),
            cost_ns=sum(one.time_ns for one in (*circle.waiters, *circle.behind)),
            threads=tuple(names),
            frame=circle.waiters[0].frame,
        )


def exhausted_pools(analysis: Analysis) -> Iterator[Finding]:
    """Yield a finding about each pool whose threads all wait for results, so that it can do no more work."""
    for one in analysis.full_pools:
        count = len(one.threads)
        which = (
            f"all {count} threads of the pool {printable(one.name)}"
            if count > 1
            else f"the only thread of the pool {printable(one.name)}"
        )
        yield Finding(
            kind="full-pool",
            weight="problem",
            fact=(
                f"{which} {'wait' if count > 1 else 'waits'} for results{at_place([one.frame])}, the last one since {duration(one.waited_ns)},"
                " until the end of the recording"
            ),
            cause="if these are results of tasks of the same pool, no thread is left to run them: a deadlock",
            advice=(
                "wait for a task outside of the pool that runs it: let the task return, and chain the rest with"
                " `Future.add_done_callback`, or run the inner tasks in a pool of their own"
            ),
            cost_ns=count * one.waited_ns,
            threads=tuple(printable(name) for name in one.threads),
            frame=one.frame,
        )


def _circles(analysis: Analysis) -> list[_Circle]:
    places = (*analysis.lock_waits, *analysis.contention.places)
    waiters = {
        thread: (other, _Waiter(analysis.labels[thread], one.frame, one.times.max_ns, one.sure))
        for one in places
        for thread, other in one.stuck
    }
    for at, other in analysis.standstill.items():  # threads without an index in the trace
        silent = analysis.silent[at]
        line = line_of(silent.frames)
        waiters[-1 - at] = -1 - other, _Waiter(printable(silent.name), line, analysis.wall_ns, is_sure(silent))
    of_thread: dict[int, _Circle] = {}
    for first in waiters:
        path, thread = list[int](), first
        while thread in waiters and thread not in path and thread not in of_thread:
            path.append(thread)
            thread = waiters[thread][0]
        if thread in path:
            at = path.index(thread)
            circle = _Circle([waiters[one][1] for one in path[at:]], [])
            of_thread |= dict.fromkeys(path[at:], circle)
            path = path[:at]
        if thread in of_thread:
            of_thread[thread].behind.extend(waiters[one][1] for one in path)
            of_thread |= dict.fromkeys(path, of_thread[thread])
    return list({id(one): one for one in of_thread.values()}.values())


def in_deadlocks(analysis: Analysis) -> set[Frame | None]:
    """Return the lines of threads that never got on."""
    return {one.frame for circle in _circles(analysis) for one in (*circle.waiters, *circle.behind)}
