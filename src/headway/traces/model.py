"""A trace in memory: one process's GIL events as columns, and the threads, GILs and stacks that the events refer to.

Every producer of traces (the reader of a recording, the simulator) returns these values, and every consumer (analysis,
report, exports) needs nothing else. Times are CLOCK_MONOTONIC nanoseconds as int64.
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

from headway.traces.frames import Collected, CoreTime, Evidence, Frame, Sample
from headway.traces.policy_options import PolicyOptions

__all__ = [
    "EVENT_DTYPE",
    "RAN_ALL",
    "RAN_SHIFT",
    "Collected",
    "CoreTime",
    "Evidence",
    "Executed",
    "Flag",
    "Frame",
    "Gap",
    "Gil",
    "Kind",
    "Loss",
    "Park",
    "Process",
    "Sample",
    "Silent",
    "Thread",
    "Trace",
    "known_flags",
    "park_kinds",
]


class Kind(IntEnum):
    """The kind of an event: what happened to the event's thread. The numbers are those of native/trace/format.h."""

    WAIT = 1
    """The thread begins to wait for the GIL; `stack` is where."""
    ACQUIRE = 2
    """The thread has acquired the GIL. Follows a WAIT, or no event if the GIL was free."""
    RELEASE = 3
    """The thread releases the GIL; `stack` is where."""
    REQUEST = 4
    """The thread makes the first request to the holder, after a switch interval in which the GIL was not handed off."""
    EXIT = 5
    """The thread has exited. A wait that is open ends here."""
    PARK = 6
    """Free-threaded build: the thread blocks on a lock; `stack` is where, and the `Park` in `flags` is the cause."""
    UNPARK = 7
    """Free-threaded build: the thread goes on. `value` is the contended type's index in `Trace.types`; 0: unknown."""
    INTERVAL = 8
    """The GIL's switch interval is `value` microseconds from now on. `Process.interval_us` is the main GIL's first one."""


class Flag(IntFlag):
    """Bits 0 to 7 of an event's `flags`."""

    FORCED = 1
    """For a RELEASE: another thread had made a request."""
    ASSUMED = 2
    """For an ACQUIRE: it was not seen; the thread held the GIL when tracing began."""


class Park(IntEnum):
    """The cause of a PARK or UNPARK: bits 8 to 11 of `flags`."""

    OTHER = 0
    MUTEX = 1
    """A PyMutex that does not belong to an object."""
    OBJECT = 2
    """An object's lock: a critical section."""
    WORLD = 3
    """The thread is suspended for a stop-the-world pause, or waits until the others are."""
    LOCK = 4
    """A `threading.Lock`, or another lock that the program made."""
    EVENT = 5
    """The thread waits until something has happened, such as the end of a thread: `join()`."""


RAN_SHIFT = 8
"""The position in `flags` of the share of a time in which the thread ran on a core: bits 8 to 15; see `RAN_ALL`.

For a RELEASE, the time is that of its hold. For a WAIT, and for an ACQUIRE that follows no WAIT, it is the time since
the thread's last RELEASE. For a REQUEST, it is the time that the holder has held the GIL so far, and the thread is the
holder.
"""
RAN_ALL = 254
"""The share is `(bits - 1) / RAN_ALL`. If the bits are 0, the share is not known, as for most short times."""

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
    """Unique in its process, from 1. Native ids can be reused."""
    tid: int
    """Native thread id."""
    name: str
    """The name in Python, or the operating system's name if Python has none."""
    start_ns: int
    """The time when the thread was first seen."""
    end_ns: int | None
    """The time when the thread exited; None if it was alive at the end, or its end was not seen."""


@dataclass(frozen=True)
class Silent:
    """A thread without an event."""

    name: str
    """The name in Python."""
    frames: tuple[Frame, ...] = ()
    """The stack when `headway attach` began, innermost frame first; () if it is not known."""


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
    """The data that is missing from a trace; all counts are 0 if the trace is complete."""

    dropped_events: int = 0
    """Events that were not recorded because there was no room."""
    overwritten_events: int = 0
    """Events that were recorded and then overwritten by newer ones."""
    lost_stacks: int = 0
    """Stacks that were recorded as unknown because there was no room."""
    damaged_bytes: int = 0
    """Bytes that the reader skipped because they make no sense."""
    removed_files: int = 0
    """Of a launch's first process: the ended children whose traces were removed to make room (`--max-size`)."""
    unrecorded_processes: int = 0
    """Of a launch's first process: the processes of the launch that were not recorded."""
    unseen_threads: int = field(default=0, compare=False)
    """Threads that had something to record, and of which the file has nothing; 0 if that could only be by overwriting."""
    unplaced_events: int = field(default=0, compare=False)
    """Those of `dropped_events` of which it is not known which thread missed them, and when."""

    @property
    def whole(self) -> bool:
        """True if nothing of this process was lost."""
        return replace(self, removed_files=0, unrecorded_processes=0) == Loss()


@dataclass(frozen=True)
class Gap:
    """A time of one thread of which events are missing, from the last event before them to the first one after them."""

    thread: int
    """The thread's index."""
    since_ns: int
    until_ns: int


class Executed(IntEnum):
    """Whether a process has executed another program, by the numbers of native/trace/format.h."""

    NOTHING = 0
    RECORDED = 1
    UNRECORDED = 2


@dataclass(frozen=True)
class Process:
    """The process that was traced."""

    pid: int
    parent_pid: int
    family: int
    """The id of the launch; all processes of one launch have the same one."""
    python: str
    """`3.13.0`; from sys.hexversion."""
    executable: str
    command: tuple[str, ...]
    program: str
    """The name that a user would give the program: the script, `-m module`, or the executable."""
    free_threaded: bool
    gil_enabled: bool
    """True if the GIL was on when tracing began. False only if `free_threaded`."""
    has_stacks: bool
    start_realtime_ns: int
    """The time on CLOCK_REALTIME at `Trace.start_ns`."""
    interval_us: int
    """The switch interval when tracing began."""
    ended: bool
    """True if tracing ended in order; False if the process was killed, ended by `_exit()` in C, or is still running."""
    core_count: int = 0
    """The number of cores on which the thread that ended tracing, else the one that began it, might run; 0: unknown."""
    policy: str = ""
    """The policy that scheduled the GIL when tracing began, or the first that came later; "": none."""
    policy_ended_ns: int | None = None
    """How long after the begin of tracing this policy was stopped, or removed by its watchdog; None: it was not."""
    policy_options: PolicyOptions | None = None
    """The options of this policy; None: they are not known, as in traces of earlier versions."""
    begin_realtime_ns: int = 0
    """The time on CLOCK_REALTIME when the process began; if that is not known, when tracing began; 0: as `start_realtime_ns`.
    """
    growing: bool = False
    """True if the file may still get events: the process is still traced, or its collector was killed."""
    has_subinterpreters: bool = False
    """True if threads of a sub-interpreter used the main interpreter's GIL. Only told of CPython 3.9 to 3.12."""
    executed: Executed = Executed.NOTHING
    """Whether the process has executed another program (exec), which ended this trace, and whether that was recorded."""

    @property
    def simulated(self) -> bool:
        """Whether the run is one of `headway simulate` or `headway whatif`: its trace has no more than it was made of."""
        return self.executable.startswith("headway ")


@dataclass(frozen=True, eq=False)
class Trace:
    """One process's trace.

    Attributes:
        process: The process that was traced.
        start_ns: When tracing began. If events were overwritten, or this is a part: the time from which on all events are there.
        end_ns: When tracing ended. If the process was killed, the time of its last event, or a later one at which it
            still lived; if it still runs, the time until which all events are known. Never before an event.
        events: EVENT_DTYPE, sorted by time. The events of one thread are in the order in which they happened, also at
            equal times. At equal times on one GIL, a RELEASE stands before the ACQUIRE that it made possible.
        threads: The threads, by index.
        gils: The GILs, by index. Empty if no GIL was seen.
        stack_parent: int64; for each stack the caller's stack, always smaller than the stack's own index; 0 for the
            outermost.
        stack_frame: int64; for each stack the index of its innermost frame in `frames`. Stack 0 is the unknown one and
            has frame 0.
        frames: Distinct frames; frame 0 is `Frame("", 0, "?")`.
        types: Names of contended types; 0 is "".
        loss: The data that is missing.
        silent: With a GIL: Python's threads that neither held nor wanted it while they were recorded. They have no
            events, and are not in `threads`.
        evidence: What is known beside the events: samples and core times from outside, and garbage collections.
        gaps: The times of threads of which events are missing, by thread and time; () if the trace is complete.
        cut_ns: How long tracing had gone on at `start_ns`; 0 if the trace has its begin.
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
    silent: tuple[Silent, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    gaps: tuple[Gap, ...] = ()
    cut_ns: int = 0

    @property
    def origin_ns(self) -> int:
        """The time from which reports count: when tracing began.

        A recording of `headway watch` is one of the last seconds of a process: for it, its own begin.
        """
        return self.start_ns if self.evidence.watched else self.start_ns - self.cut_ns

    def stack(self, index: int) -> tuple[Frame, ...]:
        """Return the frames of a stack, innermost first; () for the unknown stack."""
        found = []
        while index:
            found.append(self.frames[self.stack_frame[index]])
            index = int(self.stack_parent[index])
        return tuple(found)


_PARK_SHIFT, _PARK_MASK = 8, 0xF
"""The bits of a PARK's flags that have its `Park` (native/trace/format.h)."""


def park_kinds(events: NDArray[np.void]) -> NDArray[np.integer]:
    """Return the kinds of lock of PARKs, as numbers: those of `Park`, or larger ones in a file of a later version."""
    kinds: NDArray[np.integer] = events["flags"] >> _PARK_SHIFT & _PARK_MASK
    return kinds


def known_flags(events: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return a mask of the events whose flags are valid for their kind."""
    kind, flags = events["kind"], events["flags"]
    high = flags >> RAN_SHIFT
    known: NDArray[np.bool_] = (flags & 0xFF) <= int(Flag.FORCED | Flag.ASSUMED)
    of_a_park = (kind == Kind.PARK) | (kind == Kind.UNPARK)
    of_a_turn = (kind == Kind.WAIT) | (kind == Kind.ACQUIRE) | (kind == Kind.RELEASE) | (kind == Kind.REQUEST)
    known &= (high == 0) | (of_a_turn & (high <= RAN_ALL + 1)) | (of_a_park & (high <= max(Park)))
    return known
