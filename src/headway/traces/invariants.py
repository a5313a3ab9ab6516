"""Checks the invariants of a trace; they hold for recordings, simulations and the traces of damaged files alike."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headway.traces.model import Kind, Trace, known_flags

__all__ = ["violations"]

_SHOWN = 3
"""The number of violations of each kind that are reported one by one."""

_TURNS = (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT)
_OF_A_GIL = (Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.REQUEST)
_OF_A_STACK = (Kind.WAIT, Kind.RELEASE, Kind.PARK)


def violations(trace: Trace) -> list[str]:
    """Return what is wrong with the trace, a sentence each; [] for a sound one.

    Checks that:

    - Indices lie within their tables, and stacks end.
    - Times are sorted and between start and end, and no thread has an event before its start or after its EXIT.
    - Each GIL has one holder at a time.
    - Each thread acquires and releases alternately, and uses one GIL at a time. The end of a GIL ends its hold.
    - A wait leads to an acquire, or is open at the end of the thread or the trace. A REQUEST is made by a waiter.
    - For each thread, hold, wait and idle time add up to the time from its start to its end.
    """
    found = _out_of_range(trace)
    # The other checks index the tables, so the indices must be sound.
    return found or [*_disorder(trace), *_two_holders(trace), *_bad_turns(trace), *_bad_sums(trace)]


def _tell(bad: NDArray[np.intp], say: Callable[[int], str]) -> list[str]:
    shown = [say(int(index)) for index in bad[:_SHOWN]]
    return shown + ([f"... and {len(bad) - _SHOWN} more of these"] if len(bad) > _SHOWN else [])


def _out_of_range(trace: Trace) -> list[str]:
    events = trace.events
    kind = events["kind"]
    found = []
    stacks = len(trace.stack_parent)
    if not stacks or not trace.frames or not trace.types or len(trace.stack_frame) != stacks:
        return ["stack 0, frame 0 or type 0 is missing, or the two columns of stacks differ in length"]
    index = np.arange(stacks)
    bad_parent = (trace.stack_parent < 0) | (trace.stack_parent >= index)
    bad_parent[0] = trace.stack_parent[0] != 0
    found += _tell(np.flatnonzero(bad_parent), lambda i: f"the parent of stack {i} is {trace.stack_parent[i]}")
    bad_frame = (trace.stack_frame < 0) | (trace.stack_frame >= len(trace.frames))
    found += _tell(np.flatnonzero(bad_frame), lambda i: f"the frame of stack {i} is {trace.stack_frame[i]}")
    found += [f"GIL {i} says that it is GIL {gil.index}" for i, gil in enumerate(trace.gils) if gil.index != i]
    if len({thread.serial for thread in trace.threads}) != len(trace.threads):
        found.append("two threads have the same serial")
    found += [f"thread {thread.serial} has no name" for thread in trace.threads if not thread.name]
    if trace.end_ns < trace.start_ns:
        found.append(f"the trace ends at {trace.end_ns}, before its start at {trace.start_ns}")
    for name, bad in (
        ("kind", (kind < min(Kind)) | (kind > max(Kind))),
        ("thread", events["thread"] >= len(trace.threads)),
        ("gil", np.isin(kind, _OF_A_GIL) & (events["gil"] >= len(trace.gils))),
        ("value", np.isin(kind, _OF_A_STACK) & (events["value"] >= stacks)),
        ("value", (kind == Kind.UNPARK) & (events["value"] >= len(trace.types))),
        ("flags", ~known_flags(events)),
    ):
        found += [f"event {i} has {name} {events[name][i]}, which there is not" for i in np.flatnonzero(bad)[:_SHOWN]]
    return found


def _disorder(trace: Trace) -> list[str]:
    events = trace.events
    time, thread = events["time_ns"], events["thread"]
    found = _tell(
        np.flatnonzero(time[1:] < time[:-1]), lambda i: f"event {i + 1} at {time[i + 1]} comes after one at {time[i]}"
    )
    found += _tell(
        np.flatnonzero((time < trace.start_ns) | (time > trace.end_ns)),
        lambda i: f"event {i} at {time[i]} is outside the trace, {trace.start_ns} to {trace.end_ns}",
    )
    starts = np.array([one.start_ns for one in trace.threads], dtype=np.int64)
    never = np.iinfo(np.int64).max
    ends = np.array([never if one.end_ns is None else one.end_ns for one in trace.threads], dtype=np.int64)
    found += _tell(
        np.flatnonzero(ends < starts),
        lambda i: f"thread {trace.threads[i].serial} ends at {ends[i]}, before its start at {starts[i]}",
    )
    if len(time):
        found += _tell(
            np.flatnonzero((time < starts[thread]) | (time > ends[thread])),
            lambda i: f"event {i} at {time[i]} is outside the life of thread {trace.threads[thread[i]].serial}",
        )
    gil_ends = np.array([never if one.end_ns is None else one.end_ns for one in trace.gils], dtype=np.int64)
    of_gil = np.flatnonzero(np.isin(events["kind"], _OF_A_GIL))
    late = of_gil[time[of_gil] > gil_ends[events["gil"][of_gil]]]
    found += _tell(late, lambda i: f"event {i} at {time[i]} is after the end of GIL {events['gil'][i]}")
    return found


def _two_holders(trace: Trace) -> list[str]:
    events = trace.events
    found = []
    for gil in trace.gils:
        mine = (events["gil"] == gil.index) & np.isin(events["kind"], (Kind.ACQUIRE, Kind.RELEASE))
        turns = np.flatnonzero(mine)
        acquires = events["kind"][turns] == Kind.ACQUIRE
        thread = events["thread"][turns]
        # Acquire and release alternate, an acquire comes first, and the thread that acquired also releases.
        right = np.arange(len(turns)) % 2 == 0
        wrong = acquires != right
        wrong[1:] |= ~acquires[1:] & (thread[1:] != thread[:-1])
        # After the first wrong event all later ones look wrong, too.
        found += [
            f"GIL {gil.index}: event {i} ({Kind(int(events['kind'][i])).name} by thread "
            f"{trace.threads[events['thread'][i]].serial}) does not follow from who held it before"
            for i in turns[np.flatnonzero(wrong)[:1]]
        ]
    return found


def _by_thread(trace: Trace, kinds: tuple[Kind, ...]) -> NDArray[np.intp]:
    chosen = np.flatnonzero(np.isin(trace.events["kind"], kinds))
    return chosen[np.argsort(trace.events["thread"][chosen], kind="stable")]


def _bad_turns(trace: Trace) -> list[str]:
    events = trace.events
    turns = _by_thread(trace, (*_TURNS, Kind.REQUEST))
    if not len(turns):
        return _events_after_exit(trace)
    kind, thread, gil, time = (events[name][turns] for name in ("kind", "thread", "gil", "time_ns"))
    same = thread[1:] == thread[:-1]
    gil_ends = np.array(
        [np.iinfo(np.int64).max if one.end_ns is None else one.end_ns for one in trace.gils], dtype=np.int64
    )
    # The state of the thread after an event is the event's kind; a REQUEST does not change the state.
    position = np.arange(len(turns))
    leader = np.maximum.accumulate(np.where(kind != Kind.REQUEST, position, -1))
    before = np.append(-1, leader[:-1])
    before[1:][~same] = -1
    before = np.where((before >= 0) & (thread[before] == thread), before, -1)
    state = np.where(before >= 0, kind[before], 0)
    same_gil = gil[before] == gil
    if len(gil_ends):
        over = (before >= 0) & (gil_ends[np.minimum(gil[before], len(gil_ends) - 1)] <= time)
        state = np.where(over & np.isin(state, (Kind.WAIT, Kind.ACQUIRE)), 0, state)
    idle = (state == 0) | (state == Kind.RELEASE)
    waiting, holding = (state == Kind.WAIT) & same_gil, (state == Kind.ACQUIRE) & same_gil
    fits = np.select(
        [kind == Kind.WAIT, kind == Kind.ACQUIRE, kind == Kind.RELEASE, kind == Kind.REQUEST],
        [idle, idle | waiting, holding, waiting],
        idle | (state == Kind.WAIT),
    )
    # A GIL's end ends the hold; a release recorded at the same time is no contradiction.
    fits |= (kind == Kind.RELEASE) & (before >= 0) & (kind[before] == Kind.ACQUIRE) & same_gil
    return _events_after_exit(trace) + _tell(
        turns[~fits],
        lambda i: (
            f"event {i}: {Kind(int(events['kind'][i])).name} of GIL {events['gil'][i]} by thread "
            f"{trace.threads[events['thread'][i]].serial} does not follow from what it did before"
        ),
    )


def _events_after_exit(trace: Trace) -> list[str]:
    events = trace.events
    last = np.full(len(trace.threads), -1)
    last[events["thread"]] = np.arange(len(events))
    exits = np.flatnonzero(events["kind"] == Kind.EXIT)
    found = _tell(
        exits[last[events["thread"][exits]] != exits],
        lambda i: f"event {i}: thread {trace.threads[events['thread'][i]].serial} goes on after its EXIT",
    )
    at = {int(events["thread"][i]): int(events["time_ns"][i]) for i in exits}
    return found + [
        f"thread {thread.serial} ends at {thread.end_ns}, and its EXIT is at {at[i]}"
        for i, thread in enumerate(trace.threads)
        if i in at and at[i] != thread.end_ns
    ]


def _bad_sums(trace: Trace) -> list[str]:
    """Check sums: holds and waits are added up from their ends, idle time from the gaps between them."""
    events = trace.events
    gil_ends = {one.index: one.end_ns for one in trace.gils if one.end_ns is not None}
    turns = _by_thread(trace, _TURNS)
    bounds = np.searchsorted(events["thread"][turns], np.arange(len(trace.threads) + 1))
    found = []
    for index, thread in enumerate(trace.threads):
        mine = turns[bounds[index] : bounds[index + 1]]
        kind, time = events["kind"][mine], events["time_ns"][mine]
        begin = min(max(thread.start_ns, trace.start_ns), trace.end_ns)
        end = min(trace.end_ns if thread.end_ns is None else thread.end_ns, trace.end_ns)
        until = np.append(time[1:], end)
        if gil_ends:
            ends = np.array([gil_ends.get(int(gil), end) for gil in events["gil"][mine]], dtype=np.int64)
            open_past = np.isin(kind, (Kind.WAIT, Kind.ACQUIRE)) & (ends < until)
            busy_until = np.where(open_past, ends, until)
        else:
            busy_until = until
        hold_ns = int((busy_until - time)[kind == Kind.ACQUIRE].sum())
        wait_ns = int((busy_until - time)[kind == Kind.WAIT].sum())
        busy = (kind == Kind.ACQUIRE) | (kind == Kind.WAIT)
        gaps = np.append(time[busy], end) - np.append(begin, busy_until[busy])
        if len(gaps) and (gaps < 0).any():
            found.append(f"thread {thread.serial} holds, waits or is idle for less than no time")
        elif hold_ns + wait_ns + int(gaps.sum()) != end - begin:
            found.append(
                f"thread {thread.serial} holds {hold_ns} ns, waits {wait_ns} ns and is idle {int(gaps.sum())} ns, "
                f"in all not the {end - begin} ns that it was there"
            )
        if len(found) > _SHOWN:
            break
    return found
