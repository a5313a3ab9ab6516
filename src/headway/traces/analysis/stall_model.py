"""The values that describe a stall: its kind, its causes, its parts."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, final

from headway.traces.analysis.holders import Circle, LockHold, summed
from headway.traces.frames import Frame
from headway.traces.libraries import is_library, is_standard
from headway.traces.loops import is_generated, work_in

__all__ = ["Cause", "Kept", "Part", "Stall", "StallKind", "Thresholds", "merged"]

_MS: Final = 1_000_000
_LEAST_SHARE: Final = 0.02
"""Parts with a smaller share of the stall are merged with others of the same cause."""
_ALSO_SHARE: Final = 0.25
"""A second line with this share of a function's time is told beside the first one."""


class StallKind(Enum):
    """The thing that made no progress."""

    LOOP = "event loop"
    REQUEST = "request"
    WAIT = "thread"


class Cause(Enum):
    """The cause of a part of a stall."""

    OWN = "own code"
    """The thread itself ran."""
    GIL = "GIL"
    """Another thread held the GIL."""
    CORE = "no core"
    """The thread, or the thread that held the GIL, could run, and the operating system ran others."""
    COLLECTION = "garbage collection"
    STOPPED = "stopped process"
    """A signal or a debugger had stopped the process."""
    BLOCKED = "blocking call"
    """The thread was in a call that waits: a sleep, a lock, a socket, a file, another process."""
    UNEXPLAINED = "unexplained"


class Kept(Enum):
    """How a holder kept the GIL."""

    PYTHON = "in Python"
    C = "in one call of C"
    UNREACHED = "in one call of C, or in another interpreter"
    """As C; but sub-interpreters share the GIL, and Python code of another one does not see a request, either."""


@final
@dataclass(frozen=True)
class Thresholds:
    """The lengths, in ns, from which on something counts as a stall."""

    loop_ns: int = 100 * _MS
    wait_ns: int = 100 * _MS
    request_ns: int = 1_000 * _MS


def _is_no_file_of_the_program(frame: Frame) -> bool:
    return is_library(frame) or is_generated(frame)


@final
@dataclass(frozen=True)
class Part:
    """A part of a stall.

    Attributes:
        cause: The reason why the thread made no progress.
        time_ns: The length of the part.
        thread: The index of the thread that caused it: the thread itself, or the one that it waited for. None: unknown.
        frames: The stack at which it happened, innermost frame first; () if unknown.
        kept: How the GIL was kept; None if it was not, or if that is unknown. A blocking call that keeps it is in C.
        lock: Whether a blocking call waited for another thread: for a lock, an event or a queue.
        idle: Whether the thread held the GIL and did not run, so that it had no core, slept in a call or was
            stopped: unexplained.
        holders: The threads that had the lock for a considerable share of the time, longest first, each with what it did
            for longest; () if they are not known.
        circle: Whether such a thread waits for the stalled one meanwhile, so that the lock is never released.
        also: The line of the same function with the second most time, if that is a considerable share.
        longest_ns: If the part is the sum of many times, the longest of them; else 0.
        lost: Whether the events of this time were overwritten: unexplained.
    """

    cause: Cause
    time_ns: int
    thread: int | None = None
    frames: tuple[Frame, ...] = ()
    kept: Kept | None = None
    lock: bool = False
    idle: bool = False
    holders: tuple[LockHold, ...] = ()
    circle: Circle = Circle.NO
    also: Frame | None = None
    longest_ns: int = 0
    lost: bool = False

    @property
    def place(self) -> Frame | None:
        """The innermost line called by the loop or pool: in the program's own code, else in a package, else in any.

        Generated code, which has no file, counts only if the program has no file either. None if the stack is not known.
        """
        called = work_in(self.frames)
        for is_other in (_is_no_file_of_the_program, is_library, is_standard):
            for one in called:
                if not is_other(one):
                    return one
        return self.frames[0] if self.frames else None

    @property
    def library(self) -> Frame | None:
        """The innermost line in an installed package, if `place` is the program's line that called the package."""
        inner = next((one for one in work_in(self.frames) if not (is_standard(one) or is_generated(one))), None)
        place = self.place
        return (
            inner if inner is not None and place is not None and is_library(inner) and not is_library(place) else None
        )


@final
@dataclass(frozen=True)
class Stall:
    """A stall: something that made no progress for too long.

    Attributes:
        kind: The thing that made no progress.
        thread: The index of its thread in the trace.
        since_ns, until_ns: Its begin and end; `until_ns` is the trace's end if the stall goes on.
        goes_on: The stall had not ended when the trace did.
        parts: The reasons, the longest part first; together the parts are the whole stall.
        cut_off: The process's end ended the stall.
        lost_ns: The time at its begin whose events were overwritten: unexplained, but for the longest call in it.
    """

    kind: StallKind
    thread: int
    since_ns: int
    until_ns: int
    goes_on: bool
    parts: tuple[Part, ...]
    cut_off: bool = False
    lost_ns: int = 0

    @property
    def length_ns(self) -> int:
        """The length of the stall."""
        return self.until_ns - self.since_ns

    @property
    def cause(self) -> Cause:
        """The cause with most of the time."""
        sums: Counter[Cause] = Counter()
        for part in self.parts:
            sums[part.cause] += part.time_ns
        return sums.most_common(1)[0][0] if sums else Cause.UNEXPLAINED


def merged(parts: Sequence[Part], length_ns: int) -> tuple[Part, ...]:
    """Merge parts with the same cause, thread and function, and small parts of a cause; return the longest first.

    The line of a call that released the GIL is known, so each such line is a part. The lines of other code come from
    samples, so a function is one part, at the line with most of its time.
    """
    functions: dict[tuple[object, ...], list[Part]] = defaultdict(list)
    spots: dict[int, Frame | None] = {}  # by the identity of a stack, because there are few stacks
    for part in parts:
        if part.time_ns <= 0:
            continue
        stack = id(part.frames)
        if stack not in spots:
            spots[stack] = part.place
        spot = spots[stack]
        function = None if spot is None else (spot.filename, spot.function)
        # Members of an Enum by their identity: their hash is Python code, and there may be a million parts.
        kind = (id(part.kept), part.lock, id(part.circle), part.idle, part.lost)
        functions[(id(part.cause), part.thread, function, *kind)].append(part)
    found = []
    small: dict[int, list[Part]] = defaultdict(list)
    least_ns = _LEAST_SHARE * length_ns
    for together in functions.values():
        first = together[0]
        # One part, as nearly always where hundreds of threads wait for one another.
        is_alone = len(together) == 1 and not (first.holders or first.longest_ns or first.also)
        for part in together if is_alone else _of_function(_by_line(together, spots), length_ns):
            is_unknown = part.cause is Cause.UNEXPLAINED and not part.frames and not part.idle
            if (is_unknown or part.time_ns < least_ns) and not part.lost:
                small[id(part.cause)].append(part)
            else:
                found.append(part)
    found += [Part(some[0].cause, sum(one.time_ns for one in some)) for some in small.values()]
    return tuple(sorted(found, key=lambda one: -one.time_ns))


def _by_line(parts: Sequence[Part], spots: Mapping[int, Frame | None]) -> list[Part]:
    """Return the sums of a function's parts at each of its lines."""
    lines: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        spot = spots[id(part.frames)]
        lines[0 if spot is None else spot.line].append(part)
    return [_sum(some) for some in lines.values()]


def _sum(parts: Sequence[Part]) -> Part:
    """Return the sum of parts at one line; its stack is that of the longest single time."""
    longest = max(parts, key=lambda one: one.longest_ns or one.time_ns)
    holders = summed(one for part in parts for one in part.holders)
    return replace(longest, time_ns=sum(one.time_ns for one in parts), holders=holders, longest_ns=0)


def _of_function(lines: Sequence[Part], length_ns: int) -> list[Part]:
    """Return the parts of a function whose lines have one part each: the small ones belong to the largest one."""
    if len(lines) == 1 and lines[0].also is None:
        return list(lines)
    largest, *others = sorted(lines, key=lambda one: -one.time_ns)
    has_lines = largest.cause in {Cause.BLOCKED, Cause.UNEXPLAINED}
    apart = [one for one in others if has_lines and one.time_ns >= _LEAST_SHARE * length_ns]
    time_ns = sum(one.time_ns for one in lines) - sum(one.time_ns for one in apart)
    also = others[0].place if others and not has_lines and others[0].time_ns >= _ALSO_SHARE * time_ns else None
    return [replace(largest, time_ns=time_ns, also=also), *apart]
