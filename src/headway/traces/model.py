"""A trace in memory: one process's GIL events as columns, with the threads, GILs and stacks that they speak of.

Whatever makes a trace (the reader of a recording, the simulator) gives these values; whatever uses one (analysis,
report, exports) takes nothing else. Times are CLOCK_MONOTONIC nanoseconds as int64.
"""

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

from headway.traces.frames import Collected, CoreTime, Evidence, Frame, Sample

__all__ = [
    "EVENT_DTYPE",
    "RAN_ALL",
    "RAN_SHIFT",
    "Collected",
    "CoreTime",
    "Evidence",
    "Flag",
    "Frame",
    "Gil",
    "Kind",
    "Loss",
    "Park",
    "Process",
    "Sample",
    "Thread",
    "Trace",
    "known_flags",
]


class Kind(IntEnum):
    """What happened to the event's thread; the numbers are those of native/trace/format.h."""

    WAIT = 1
    """Begins to wait for the GIL; `stack` is where."""
    ACQUIRE = 2
    """Has the GIL. Follows a WAIT, or nothing where the GIL was free."""
    RELEASE = 3
    """Lets the GIL go; `stack` is where."""
    REQUEST = 4
    """Has waited a switch interval in which the GIL did not change hands, and is the first to ask the holder to let go."""
    EXIT = 5
    """The thread is over. A wait that is open then ends here."""
    PARK = 6
    """Free-threaded: blocks on a lock; `stack` is where, `park` what kind."""
    UNPARK = 7
    """Free-threaded: goes on; `value` is the index in `Trace.types` of the contended object's type, 0 if not told."""
    INTERVAL = 8
    """The switch interval is now `value` microseconds."""


class Flag(IntFlag):
    """Bits of `flags`."""

    FORCED = 1
    """RELEASE: another thread had asked for it."""
    ASSUMED = 2
    """Not seen: the ACQUIRE of who held the GIL when tracing began."""


class Park(IntEnum):
    """What a PARK or UNPARK is about: bits 8 to 11 of `flags`."""

    OTHER = 0
    MUTEX = 1
    """A PyMutex that is no object's."""
    OBJECT = 2
    """An object's lock: a critical section."""
    WORLD = 3
    """Suspended for stop-the-world, or waiting for others to be."""
    LOCK = 4
    """A `threading.Lock`, or another lock of the program's own."""
    EVENT = 5
    """Until something has happened, such as the end of a thread: `join()`."""


RAN_SHIFT = 8
"""Bits 8 to 15 of `flags` say which share of a time the thread was running on a core; see `RAN_ALL`.

Of a RELEASE it is that of its hold; of a WAIT, and of an ACQUIRE that follows none, of the time since its last RELEASE.
"""
RAN_ALL = 254
"""That share is `(bits - 1) / RAN_ALL`; bits 0: not known, as of short holds and of most times between holds."""

EVENT_DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("value", "<u4"),  # a stack for WAIT, RELEASE, PARK; else as the kind says
        ("thread", "<u4"),  # index into Trace.threads
        ("kind", "u1"),
        ("gil", "u1"),  # index into Trace.gils
        ("flags", "<u2"),
    ]
)
"""One event. `value` of WAIT, RELEASE and PARK is an index into `Trace.stacks`; 0 is the unknown or empty stack."""


@dataclass(frozen=True)
class Thread:
    """A thread that was seen with a GIL (or, free-threaded, at a lock)."""

    serial: int
    """Unique in its process, from 1; native ids can come back."""
    tid: int
    """Native thread id."""
    name: str
    """As Python names it, else as the operating system does."""
    start_ns: int
    """When it was first seen."""
    end_ns: int | None
    """When it exited; None: it was there at the end, or was lost sight of."""


@dataclass(frozen=True)
class Gil:
    """One GIL: the main interpreter's (shared by legacy sub-interpreters), or a sub-interpreter's own."""

    index: int
    main: bool
    address: int
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True)
class Loss:
    """What the trace does not have; all 0 in a whole one."""

    dropped_events: int = 0
    """Not recorded, because there was no room."""
    overwritten_events: int = 0
    """Recorded, then overwritten by newer ones."""
    lost_stacks: int = 0
    """Recorded as unknown, because there was no room."""
    damaged_bytes: int = 0
    """Skipped by the reader: they make no sense."""

    @property
    def whole(self) -> bool:
        """Nothing was lost."""
        return self == Loss()


@dataclass(frozen=True)
class Process:
    """The process that was traced."""

    pid: int
    parent_pid: int
    family: int
    """The same for all processes of one launch."""
    python: str
    """`3.13.0`; from sys.hexversion."""
    executable: str
    command: tuple[str, ...]
    program: str
    """What a user would call it: the script, `-m module`, or the executable."""
    free_threaded: bool
    gil_enabled: bool
    """The GIL was on when tracing began. False only where `free_threaded`."""
    has_stacks: bool
    start_realtime_ns: int
    """CLOCK_REALTIME at `Trace.start_ns`."""
    interval_us: int
    """The switch interval when tracing began."""
    ended: bool
    """Tracing ended in order; False: the process was killed, or is still running."""
    core_count: int = 0
    """How many cores the thread that ended tracing, else the one that began it, might run on; 0: not known."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One process's trace.

    Attributes:
        process: Who was traced.
        start_ns: When tracing began.
        end_ns: When it ended; the last event's time where the process was killed, and until when all is known where it runs on.
            Never before an event.
        events: EVENT_DTYPE, sorted by time; per thread in the order in which they happened, also at equal times. Of
            two events of one GIL at the same time, the RELEASE stands before the ACQUIRE that it made possible.
        threads: By index.
        gils: By index. Empty where no GIL was seen.
        stack_parent: int64, per stack the caller's stack, always smaller than its own index; 0 for the outermost.
        stack_frame: int64, per stack the index of its innermost frame in `frames`. Stack 0 is the unknown one and has
            frame 0.
        frames: Distinct frames; frame 0 is `Frame("", 0, "?")`.
        types: Names of contended types; 0 is "".
        loss: What is missing.
        evidence: What else is known.
    """

    process: Process
    start_ns: int
    end_ns: int
    events: NDArray[np.void]
    threads: tuple[Thread, ...]
    gils: tuple[Gil, ...]
    stack_parent: NDArray[np.int64]
    stack_frame: NDArray[np.int64]
    frames: tuple[Frame, ...]
    types: tuple[str, ...] = ("",)
    loss: Loss = field(default_factory=Loss)
    evidence: Evidence = field(default_factory=Evidence)

    def stack(self, index: int) -> tuple[Frame, ...]:
        """Return a stack's frames, innermost first; () for the unknown one."""
        found = []
        while index:
            found.append(self.frames[self.stack_frame[index]])
            index = int(self.stack_parent[index])
        return tuple(found)


def known_flags(events: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which events have flags that mean something."""
    kind, flags = events["kind"], events["flags"]
    high = flags >> RAN_SHIFT
    known: NDArray[np.bool_] = (flags & 0xFF) <= int(Flag.FORCED | Flag.ASSUMED)
    of_a_park = (kind == Kind.PARK) | (kind == Kind.UNPARK)
    of_a_turn = (kind == Kind.WAIT) | (kind == Kind.ACQUIRE) | (kind == Kind.RELEASE)
    known &= (high == 0) | (of_a_turn & (high <= RAN_ALL + 1)) | (of_a_park & (high <= max(Park)))
    return known
