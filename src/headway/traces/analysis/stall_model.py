"""The values that describe a stall: its kind, its causes, its parts."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, final

from headway.traces.analysis.holders import LockHold
from headway.traces.frames import Frame
from headway.traces.loops import is_generated, is_library, is_standard, work_in

__all__ = ["Cause", "Kept", "Part", "Stall", "StallKind", "Thresholds", "merged"]

_MS: Final = 1_000_000
_LEAST_SHARE: Final = 0.02
"""Parts with a smaller share of the stall are merged with others of the same cause."""


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
        kept: How the GIL was kept; None if it was not, or if that is unknown.
        lock: Whether a blocking call waited for another thread: for a lock, an event or a queue.
        idle: Whether the thread held the GIL and did not run, so that it had no core, slept in a call or was
            stopped: unexplained.
        holder: The thread that had the lock for most of the time, and what it did; None if that is not known.
        longest_ns: If the part is the sum of many times, the longest of them; else 0.
    """

    cause: Cause
    time_ns: int
    thread: int | None = None
    frames: tuple[Frame, ...] = ()
    kept: Kept | None = None
    lock: bool = False
    idle: bool = False
    holder: LockHold | None = None
    longest_ns: int = 0

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
        lost_ns: The time at its begin whose events were overwritten: unexplained.
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
    """Merge parts with the same cause, thread and function, and small parts of a cause; return the longest first."""
    sums: dict[tuple[object, ...], int] = defaultdict(int)
    longest: dict[tuple[object, ...], Part] = {}
    longest_ns: dict[tuple[object, ...], int] = {}
    functions: dict[int, tuple[str, str] | None] = {}  # by the identity of a stack, because there are few stacks
    for part in parts:
        if part.time_ns <= 0:
            continue
        if id(part.frames) not in functions:
            spot = part.place
            functions[id(part.frames)] = None if spot is None else (spot.filename, spot.function)
        key: tuple[object, ...] = (part.cause, part.thread, functions[id(part.frames)], part.kept, part.lock, part.idle)
        sums[key] += part.time_ns
        single_ns = part.longest_ns or part.time_ns
        if key not in longest or single_ns > longest_ns[key]:
            longest[key], longest_ns[key] = part, single_ns
    found = []
    small_ns: dict[Cause, int] = defaultdict(int)
    for key, time_ns in sums.items():
        part = longest[key]
        if (
            part.cause is Cause.UNEXPLAINED and not part.frames and not part.idle
        ) or time_ns < _LEAST_SHARE * length_ns:
            small_ns[part.cause] += time_ns
        else:
            found.append(replace(part, time_ns=time_ns, longest_ns=0))
    found += [Part(cause, time_ns) for cause, time_ns in small_ns.items() if time_ns]
    return tuple(sorted(found, key=lambda one: -one.time_ns))
