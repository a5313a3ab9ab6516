"""Finds pools of which each thread waits for a result, so that no thread is left to do the work that the pool still has.

A task that waits for another task of its own pool is well as long as a thread is free. The stacks of the last moment show
that none is.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from headway.traces.analysis.contention import LASTING_NS
from headway.traces.awaited import awaited_at, waiting_line
from headway.traces.calls import waits_for_good
from headway.traces.libraries import Awaited
from headway.traces.loops import Home, home_at, is_in_a_loop
from headway.traces.model import Frame, Kind, Trace

__all__ = ["FullPool", "full_pools"]

_NUMBERED: Final = re.compile(r"(.+?)[_-]\d+")
"""The name of a pool's thread."""
_WORKERS: Final = ("concurrent/futures/thread.py",)
_ELSEWHERE: Final = ("concurrent/futures/process.py", "multiprocessing/pool.py")
"""Modules whose threads set the results of other processes."""


@final
@dataclass(frozen=True)
class FullPool:
    """A pool of which each thread waits for a result.

    Attributes:
        name: The part of its threads' names that they share.
        threads: The threads' names.
        frame: The program's line at which most of them wait.
        waited_ns: For how long each of them has waited when the recording ends, at least.
    """

    name: str
    threads: tuple[str, ...]
    frame: Frame
    waited_ns: int


class _Last(NamedTuple):
    """A thread at the end of a recording."""

    name: str
    frames: tuple[Frame, ...]
    """The stack at which it waits; () if it does not wait, or if that is not known."""
    waited_ns: int


def full_pools(trace: Trace, changed: frozenset[str]) -> tuple[FullPool, ...]:
    """Return the pools that can do no more work; () if another thread may set the results for which their threads wait.

    `changed` are files whose lines may be others by now.
    """
    silent = [_Last(one.name, one.frames, trace.end_ns - trace.start_ns) for one in trace.silent]
    if any(not one.frames or _hears_of_results(one) for one in silent):
        return ()
    pools: dict[str, list[_Last]] = defaultdict(list)
    for one in (*_last(trace), *silent):
        numbered = _NUMBERED.fullmatch(one.name)
        if numbered and (not one.frames or _is_in(one.frames, _WORKERS)):
            pools[numbered[1]].append(one)
        elif _hears_of_results(one):
            return ()
    found = []
    for name, members in pools.items():
        if not any(one.frames for one in members):
            continue  # threads with such names that compute, in a pool or not
        lines = [_line(one, changed) for one in members]
        known = [one for one in lines if one is not None]
        if len(known) == len(lines):
            frame = max(known, key=known.count)
            found.append(
                FullPool(name, tuple(one.name for one in members), frame, min(one.waited_ns for one in members))
            )
        elif not all(home_at(one.frames) is Home.POOL for one in members):
            return ()  # it has work whose result may be the one that others wait for
    return tuple(found)


def _last(trace: Trace) -> Iterator[_Last]:
    """Yield the threads that live when the recording ends, and that have an event in it."""
    kinds = (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT, Kind.PARK, Kind.UNPARK)
    rows = np.flatnonzero(np.isin(trace.events["kind"], kinds))
    threads, backwards = np.unique(trace.events["thread"][rows[::-1]], return_index=True)
    for thread, event in zip(threads.tolist(), trace.events[rows[::-1][backwards]], strict=True):
        if event["kind"] != Kind.EXIT and trace.threads[thread].end_ns is None:
            waits = event["kind"] in (Kind.RELEASE, Kind.PARK)
            frames = trace.stack(int(event["value"])) if waits else ()
            yield _Last(trace.threads[thread].name, frames, trace.end_ns - int(event["time_ns"]))


def _is_in(frames: Sequence[Frame], files: tuple[str, ...]) -> bool:
    return any(one.filename.endswith(files) for one in frames)


def _line(one: _Last, changed: frozenset[str]) -> Frame | None:
    """Return the line at which a task waits for a result, without a time-out and for long; None if it does not."""
    is_in_a_task = awaited_at(one.frames, changed) is Awaited.RESULT and _is_in(one.frames, _WORKERS)
    line = waiting_line(one.frames)
    if one.waited_ns < LASTING_NS or not is_in_a_task or line is None or not waits_for_good(line, changed):
        return None
    return line


def _hears_of_results(one: _Last) -> bool:
    """Tell whether a thread sets results itself: an event loop, or one that hears of the work of other processes."""
    return is_in_a_loop(one.frames) or _is_in(one.frames, _ELSEWHERE)
