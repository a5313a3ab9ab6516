"""The lines of code that held the GIL, and those that waited for it: by the innermost frame, and by whole stack.

The place of a hold is where the GIL was released. For a preempted hold, this is the code that ran then. For a long
hold, it is the call that could not be interrupted.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces.analysis.intervals import Holds, Intervals
from headway.traces.analysis.late import late
from headway.traces.analysis.measured import collected_ns
from headway.traces.analysis.threads import Distribution, distribution
from headway.traces.analysis.words import place
from headway.traces.frames import OURS
from headway.traces.libraries import is_library
from headway.traces.loops import is_generated
from headway.traces.model import Frame, Process, Trace

__all__ = [
    "PLACES",
    "Behind",
    "LongHold",
    "Place",
    "at_place",
    "begun_at",
    "blocking_functions",
    "function_of",
    "held_places",
    "longest_holds",
    "own_frame",
    "waited_places",
]

PLACES = 20
"""The number of places that are kept in each of the orders."""

_STACK_THREADS = 3
_STARTS = re.compile(r"(?:^|/)multiprocessing/(?:spawn|forkserver|resource_tracker)\.py$")
"""The modules that a process of multiprocessing is started with, by `-c`."""
_OF_A_WRAPPER = (".acquire", ".__enter__")
"""The methods of a class around a lock in which a thread waits for it."""


@final
@dataclass(frozen=True)
class Place:
    """One line of code, and the holds or the waits there.

    Attributes:
        frame: The line; None if the stack is not known.
        stack: The stack that had most of the time, innermost frame first.
        stacks: The number of stacks with this innermost frame.
        times: The holds that ended there, or the waits that began there.
        threads: Labels of the threads with most time there.
        forced: The number of holds that were preempted, or of waits that followed such a hold.
        overrun_ns: For holds, the total time for which they went on after a request (`Holds.overrun_ns`).
        overrun_max_ns: The longest of these times.
        overrun_threads: Labels of the threads with most of this time.
        blocked_ns: For holds, the sum of the times for which other threads waited during them.
        late_blocked_ns: The part of `blocked_ns` in holds that answered a request late (`headway.traces.analysis.late`).
        late_collected_ns: The part of `overrun_ns` for which such holds collected garbage, if the recording has that.
        late_unmeasured: It is not known of one of these holds whether its thread ran on a core.
        interval_ns: For holds, the switch interval at the GIL of the hold that went on for longest after a request.
        begun: The stack at which the threads had released the GIL before such holds, with most of this time; () if unknown.
    """

    frame: Frame | None
    stack: tuple[Frame, ...]
    stacks: int
    times: Distribution
    threads: tuple[str, ...]
    forced: int
    overrun_ns: int
    overrun_max_ns: int
    overrun_threads: tuple[str, ...]
    blocked_ns: int
    late_blocked_ns: int
    late_collected_ns: int
    late_unmeasured: bool
    interval_ns: int
    begun: tuple[Frame, ...] = ()


@final
@dataclass(frozen=True)
class LongHold:
    """One of the longest holds; `open`: its end was not recorded, or lies beyond the window."""

    start_ns: int
    length_ns: int
    overrun_ns: int
    thread: str
    gil: int
    forced: bool
    open: bool
    stack: tuple[Frame, ...]


@final
@dataclass(frozen=True)
class Behind:
    """A function of the program, and how long threads waited for a GIL during the function's holds.

    If a waiter made a request during a hold, it is known what the hold ran, because the holder released the GIL within
    microseconds. For any other hold, only its end is known: mostly the call that blocked, and not the computation
    before.

    Attributes:
        ran: True: the holds are those with a request, and the function is what they ran. False: the function is where
            holds ended.
        stack: The stack with most of the blocked time, innermost frame first.
        frame: The function's line in that stack.
        blocked_ns: The sum of the times for which threads waited.
        off_core_ns: The part of that in which the function's threads had no core, as far as is known.
        held_ns: The time of all holds of the function, also of those during which no thread waited.
        holds: The number of these holds.
        threads: Labels of the threads with most time in these holds.
    """

    ran: bool
    stack: tuple[Frame, ...]
    frame: Frame
    blocked_ns: int
    off_core_ns: int
    held_ns: int
    holds: int
    threads: tuple[str, ...]

    @property
    def lacked_cores(self) -> bool:
        """True if the function's threads had no core for half of that time or more: the function is not to blame for it."""
        return 2 * self.off_core_ns >= self.blocked_ns > 0


def own_frame(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the program itself, not of the standard library or an installed package.

    Code without a file, which a library or `dataclass` may have generated, is the program's own only in a program without
    a file (`-c`): one that has a frame with a file further out is named by that frame. The code with which multiprocessing
    starts a process by `-c` is none of the program's.
    """
    found = [
        one
        for at, one in enumerate(stack)
        if one.filename
        and not is_library(one)
        and not (at and _STARTS.search(stack[at - 1].filename) and is_generated(one))
    ]
    return next(itertools.filterfalse(is_generated, found), found[0] if found else None)


def caller(stack: Sequence[Frame]) -> Frame | None:
    """Return the program's own line that has called the innermost one; None if that is the program's own.

    For a lock of the program's own class, it is the line that uses it.
    """
    own = own_frame(stack)
    while own is not None and own.function.endswith(_OF_A_WRAPPER):
        further = own_frame(stack[stack.index(own) + 1 :])
        if further is None:
            break
        own = further
    return own if stack and own != stack[0] else None


def at_place(stack: Sequence[Frame], more: int = 0) -> str:
    """Return ` at file:line function, called from file:line function`; "" if the stack is not known.

    Args:
        stack: The stack.
        more: The number of further lines that have called the innermost one.
    """
    if not stack:
        return ""
    own = caller(stack)
    others = f" and {more} other line{'s' * (more > 1)}" if more else ""
    return f" at {place(stack[0])}{f', called from {place(own)}{others}' if own is not None else ''}"


@final
class _Late(NamedTuple):
    """Columns about holds. All but `begun` are 0 for holds that did not answer a request late."""

    blocked_ns: NDArray[np.int64]
    collected_ns: NDArray[np.int64]
    is_unmeasured: NDArray[np.bool_]
    begun: NDArray[np.integer]
    """The stack at which the thread had released the GIL before a hold; 0: unknown."""


def held_places(
    trace: Trace, holds: Holds, blocked_ns: NDArray[np.int64], interval_ns: NDArray[np.int64], names: Sequence[str]
) -> tuple[Place, ...]:
    """Return the places of holds: those with most time, with the longest holds, and that blocked others most.

    `blocked_ns` and `interval_ns` have a value for each hold: how long threads waited, and the switch interval of its GIL.
    """
    overrun_ns = holds.overrun_ns
    is_late = late(holds, interval_ns, policy=bool(trace.process.policy))
    collected = collected_ns(trace, holds, is_late)
    columns = _Late(np.where(is_late, blocked_ns, 0), collected, is_late & (holds.ran == 0), begun_at(holds))
    return _places(trace, holds, names, overrun_ns, blocked_ns, columns, interval_ns)


def begun_at(holds: Holds) -> NDArray[np.integer]:
    """Return, for each hold, the stack at which its thread had released the GIL before; 0 for a thread's first hold."""
    order = np.lexsort((holds.start_ns, holds.thread))
    thread, stack = holds.thread[order], holds.stack[order]
    found = np.zeros_like(holds.stack)
    found[order[1:]] = np.where(thread[1:] == thread[:-1], stack[:-1], 0)
    return found


def blocking_functions(
    trace: Trace, holds: Holds, blocked_ns: NDArray[np.int64], names: Sequence[str]
) -> tuple[Behind, ...]:
    """Return the functions that blocked threads most: in the holds with a request, and by the end of all holds."""
    # The request of a hold that a window cuts may lie in the window, and the release after it.
    asked = holds.forced | (holds.open & (holds.asked_ns < holds.end_ns))
    found = [_behind(trace, holds.chosen(asked), blocked_ns[asked], names, ran=True)]
    found.append(_behind(trace, holds, blocked_ns, names, ran=False))
    return tuple(one for one in found if one is not None)


def _behind(
    trace: Trace, holds: Holds, blocked_ns: NDArray[np.int64], names: Sequence[str], *, ran: bool
) -> Behind | None:
    blocked = np.bincount(holds.stack, weights=blocked_ns, minlength=len(trace.stack_frame))
    functions: dict[tuple[str, str], list[int]] = {}
    for number in np.flatnonzero(blocked > 0).tolist():
        frame = _owner(trace.stack(number))
        if frame is not None and frame != OURS:
            functions.setdefault(function_of(frame, trace.process), []).append(number)
    if not functions:
        return None
    mine = max(functions.values(), key=lambda stacks: float(blocked[stacks].sum()))
    at = np.isin(holds.stack, mine)
    stack = trace.stack(max(mine, key=lambda one: float(blocked[one])))
    frame = _owner(stack)
    assert frame is not None
    return Behind(
        ran=ran,
        stack=stack,
        frame=frame,
        blocked_ns=int(blocked[mine].sum()),
        off_core_ns=int((blocked_ns[at] * (holds.off_core_ns[at] / np.maximum(holds.length_ns[at], 1))).sum()),
        held_ns=int(holds.length_ns[at].sum()),
        holds=int(np.count_nonzero(at)),
        threads=_most(holds.thread[at], holds.length_ns[at], names),
    )


def function_of(frame: Frame, process: Process) -> tuple[str, str]:
    """Return the file and the name of a frame's function. The steps of a simulated role are one function: the role.

    The frame of a step is named `role: step`.
    """
    return frame.filename, frame.function.partition(": ")[0] if process.simulated else frame.function


def _owner(stack: Sequence[Frame]) -> Frame | None:
    return own_frame(stack) or (stack[0] if stack else None)


def waited_places(trace: Trace, waits: Intervals, names: Sequence[str]) -> tuple[Place, ...]:
    """Return the places with most waiting for a GIL, and those with the longest waits."""
    nothing = np.broadcast_to(np.int64(0), len(waits))
    return _places(trace, waits, names, nothing, nothing, _Late(nothing, nothing, nothing > 0, nothing), nothing)


def _maximum(group: NDArray, values: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    result = np.zeros(groups, dtype=np.int64)
    np.maximum.at(result, group, values)
    return result


def _places(
    trace: Trace,
    intervals: Intervals,
    names: Sequence[str],
    overrun_ns: NDArray[np.int64],
    blocked_ns: NDArray[np.int64],
    late_holds: _Late,
    interval_ns: NDArray[np.int64],
) -> tuple[Place, ...]:
    if not len(intervals):
        return ()
    stacks = len(trace.stack_frame)
    length_ns = intervals.length_ns
    of_stack = np.bincount(intervals.stack, weights=length_ns, minlength=stacks)
    longest, overrun = (_maximum(intervals.stack, values, stacks) for values in (length_ns, overrun_ns))
    blocked = np.bincount(intervals.stack, weights=blocked_ns, minlength=stacks)
    seen = np.bincount(intervals.stack, minlength=stacks) > 0

    frames = len(trace.frames)
    by_frame: list[NDArray] = [
        np.bincount(trace.stack_frame, weights=of_stack, minlength=frames),
        _maximum(trace.stack_frame, longest, frames),
        np.bincount(trace.stack_frame, weights=blocked, minlength=frames),
        _maximum(trace.stack_frame, overrun, frames),
    ]
    chosen: set[int] = set()
    for values in by_frame:
        order = np.argsort(-values, kind="stable")[:PLACES]
        chosen.update(int(frame) for frame in order if values[frame] > 0)
    # One pass over the intervals serves all places.
    position = np.full(frames, -1, dtype=np.int32)
    kept = sorted(chosen)
    position[kept] = np.arange(len(kept))
    of_interval = position[trace.stack_frame][intervals.stack]
    order = np.argsort(of_interval.astype(np.int16), kind="stable")
    bounds = np.searchsorted(of_interval[order], np.arange(len(kept) + 1))

    def place(number: int, frame: int) -> Place:
        mine = order[bounds[number] : bounds[number + 1]]
        leading = np.flatnonzero((trace.stack_frame == frame) & seen)
        begun = np.bincount(late_holds.begun[mine], weights=overrun_ns[mine])
        return Place(
            frame=trace.frames[frame] if frame else None,
            stack=trace.stack(int(leading[of_stack[leading].argmax()])),
            stacks=len(leading),
            times=distribution(length_ns[mine]),
            threads=_most(intervals.thread[mine], length_ns[mine], names),
            forced=int(np.count_nonzero(intervals.forced[mine])),
            overrun_ns=int(overrun_ns[mine].sum()),
            overrun_max_ns=int(overrun[leading].max()),
            overrun_threads=_most(intervals.thread[mine], overrun_ns[mine], names),
            blocked_ns=int(blocked_ns[mine].sum()),
            late_blocked_ns=int(late_holds.blocked_ns[mine].sum()),
            late_collected_ns=int(late_holds.collected_ns[mine].sum()),
            late_unmeasured=bool(late_holds.is_unmeasured[mine].any()),
            interval_ns=int(interval_ns[mine[overrun_ns[mine].argmax()]]),
            begun=trace.stack(int(begun.argmax())) if begun.any() else (),
        )

    found = [place(number, frame) for number, frame in enumerate(kept)]
    by_time: Callable[[Place], tuple[int, str]] = lambda one: (-one.times.total_ns, str(one.frame))  # noqa: E731
    return tuple(sorted(found, key=by_time))


def _most(thread: NDArray, time_ns: NDArray[np.int64], names: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of the threads with most of the time; threads with none are left out."""
    totals = np.bincount(thread, weights=time_ns)
    order = np.argsort(-totals, kind="stable")[: min(_STACK_THREADS, np.count_nonzero(totals))]
    return tuple(names[index] for index in order)


def longest_holds(trace: Trace, holds: Holds, names: Sequence[str], most: int = PLACES) -> tuple[LongHold, ...]:
    """Return the longest single holds, longest first."""
    length_ns = holds.length_ns
    overrun_ns = holds.overrun_ns
    most = min(most, len(holds))
    if not most:
        return ()
    candidates = np.argpartition(-length_ns, most - 1)[:most]
    ordered = candidates[np.lexsort((holds.start_ns[candidates], -length_ns[candidates]))]
    return tuple(
        LongHold(
            start_ns=int(holds.start_ns[at]),
            length_ns=int(length_ns[at]),
            overrun_ns=int(overrun_ns[at]),
            thread=names[holds.thread[at]],
            gil=int(holds.gil[at]),
            forced=bool(holds.forced[at]),
            open=bool(holds.open[at]),
            stack=trace.stack(int(holds.stack[at])),
        )
        for at in ordered.tolist()
    )
