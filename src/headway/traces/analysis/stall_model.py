"""What a stall is: its kind, its causes, its parts."""

import itertools
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

from headway.traces.frames import Frame
from headway.traces.loops import is_library, is_standard, is_within

__all__ = ["Cause", "Kept", "Part", "Stall", "StallKind", "Thresholds"]

_MS: Final = 1_000_000


class StallKind(Enum):
    """What stood still."""

    LOOP = "event loop"
    REQUEST = "request"
    WAIT = "thread"


class Cause(Enum):
    """Why."""

    OWN = "own code"
    """The thread itself ran."""
    GIL = "GIL"
    """Another thread held the GIL."""
    CORE = "no core"
    """It, or the one that held the GIL, could run, and the operating system ran others."""
    COLLECTION = "garbage collection"
    BLOCKED = "blocking call"
    """It was in a call that waits: a sleep, a lock, a socket, a file, another process."""
    UNEXPLAINED = "unexplained"


class Kept(Enum):
    """How the GIL was kept."""

    PYTHON = "in Python"
    C = "in one call of C"


@final
@dataclass(frozen=True)
class Thresholds:
    """From which length on something is a stall, in ns."""

    loop_ns: int = 100 * _MS
    wait_ns: int = 100 * _MS
    request_ns: int = 1_000 * _MS


@final
@dataclass(frozen=True)
class Part:
    """A part of a stall.

    Attributes:
        cause: Why nothing went on.
        time_ns: For how long.
        thread: Who did it, by index in the trace: the thread itself, or the one that it waited for. None: nobody is known.
        frames: Where, the innermost frame first; (): not known.
        kept: How the GIL was kept, where that is known.
    """

    cause: Cause
    time_ns: int
    thread: int | None = None
    frames: tuple[Frame, ...] = ()
    kept: Kept | None = None

    @property
    def place(self) -> Frame | None:
        """The line of the program's own code that the loop or pool has called, else of a package, else the innermost one.

        None: not known.
        """
        called = list(itertools.takewhile(lambda one: not is_within([one]), self.frames))
        for is_other in (is_library, is_standard):
            for one in called:
                if not is_other(one):
                    return one
        return self.frames[0] if self.frames else None


@final
@dataclass(frozen=True)
class Stall:
    """Something that stood still.

    Attributes:
        kind: What.
        thread: Its thread, by index in the trace.
        since_ns, until_ns: When; `until_ns` is the trace's end where it goes on.
        goes_on: It had not ended when the trace did.
        parts: Why, the longest part first; together they are all of it.
    """

    kind: StallKind
    thread: int
    since_ns: int
    until_ns: int
    goes_on: bool
    parts: tuple[Part, ...]

    @property
    def length_ns(self) -> int:
        """How long it lasted."""
        return self.until_ns - self.since_ns

    @property
    def cause(self) -> Cause:
        """The cause of most of it."""
        sums: Counter[Cause] = Counter()
        for part in self.parts:
            sums[part.cause] += part.time_ns
        return sums.most_common(1)[0][0] if sums else Cause.UNEXPLAINED
