"""Code locations of threads, and other observations of a process from outside. Imports nothing that needs numpy."""

import dataclasses
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "BEGINS",
    "CUT",
    "MAX_DEPTH",
    "OURS",
    "Asleep",
    "Collected",
    "CoreTime",
    "Evidence",
    "Frame",
    "Lap",
    "Sample",
    "Standing",
    "Stopped",
    "Unreleased",
    "packed",
    "text",
    "with_names",
]


def text(data: bytes, encoding: str = "utf-8") -> str:
    """Decode bytes to text that can be written anywhere; bytes that are no characters become escapes."""
    found = data.decode(
        encoding,
        "replace"
        if encoding.startswith("utf-32")
        else "surrogatepass"
        if encoding.startswith("utf-16")
        else "backslashreplace",
    )
    return found.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Frame:
    """One line of a function's code."""

    filename: str
    line: int
    """The line that ran; 0 if it is not known."""
    function: str
    """The qualified name."""
    first_line: int = 0
    """The line where the function begins."""

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} {self.function}"


MAX_DEPTH: Final = 128
"""The most frames of a stack that are recorded; a test holds the number against traces/format.py."""
CUT: Final = Frame("", 0, f"(what calls these {MAX_DEPTH} frames is not recorded)")
"""The outermost frame of a stack that is deeper than what is recorded."""
OURS: Final = Frame("<headway>", 0, "attach")
"""The only frame of the stack that stands for Headway's own work in the program, in place of the frames of that work."""
BEGINS: Final = frozenset({"<module>", "_run_module_as_main", "Thread._bootstrap"})
"""The outermost functions of threads that Python has started: a stack that ends with one is whole."""


@dataclass(frozen=True)
class Sample:
    """The stack of a thread at one time, at which the thread held the GIL."""

    time_ns: int
    tid: int
    frames: tuple[Frame, ...]
    """The frames of the stack, innermost first."""


@dataclass(frozen=True)
class CoreTime:
    """A thread's time on cores and in run queues up to `time_ns` (/proc/PID/task/TID/schedstat)."""

    time_ns: int
    tid: int
    ran_ns: int
    queued_ns: int
    """The time in which the thread could run and had no core.

    Includes a wait for a core that still goes on only if the thread holds a GIL, from the time at which that was seen.
    """


@dataclass(frozen=True)
class Asleep:
    """A thread slept in a futex: until another thread wakes it, as one that waits for a lock does."""

    time_ns: int
    tid: int


@dataclass(frozen=True)
class Stopped:
    """The process was seen stopped (SIGSTOP, a debugger) from `since_ns` to `until_ns`."""

    running_ns: int
    """The last look before, at which the process was not stopped."""
    since_ns: int
    until_ns: int
    runs_ns: int
    """The first look after, at which the process was not stopped any more."""


@dataclass(frozen=True)
class Standing:
    """The stack of a thread when `headway attach` began."""

    tid: int
    frames: tuple[Frame, ...]
    """The frames of the stack, innermost first."""


@dataclass(frozen=True)
class Unreleased:
    """A thread that held a GIL of a sub-interpreter's own when `headway attach` began, and has not acquired it since."""

    gil: int
    """The GIL's address."""
    tid: int
    name: str
    """The name that the program gave, else the operating system's."""
    to_the_end: bool
    """The thread still held that GIL when `headway attach` ended."""


@dataclass(frozen=True)
class Collected:
    """A garbage collection."""

    tid: int
    start_ns: int
    end_ns: int
    generation: int


@dataclass(frozen=True)
class Lap:
    """A lap of a loop or of a pool's thread that took too long, as `headway watch` saw it: its events may be overwritten."""

    serial: int
    """The serial of its thread."""
    begun_ns: int
    ended_ns: int
    """0: the lap goes on."""
    of_a_pool: int = 0
    """1: its thread is one of a pool; 0: it has an event loop."""
    tid: int = 0
    """The native id of the thread; 0: not known."""
    name: str = ""


@dataclass(frozen=True)
class Away:
    """The longest time of such a lap in which its thread neither had nor wanted the GIL: it was in one call."""

    serial: int
    """The serial of the thread."""
    since_ns: int
    until_ns: int
    """0: the thread still is in that call."""
    frames: tuple[Frame, ...]
    """The frames of the stack, innermost first."""


@dataclass(frozen=True)
class Evidence:
    """Observations of a process beside its GIL events. `headway watch` keeps those from outside with its recordings.

    Each tuple of times is sorted by them, and `standing` is of one time.
    """

    samples: tuple[Sample, ...] = ()
    core_times: tuple[CoreTime, ...] = ()
    asleep: tuple[Asleep, ...] = ()
    collections: tuple[Collected, ...] = ()
    standing: tuple[Standing, ...] = ()
    laps: tuple[Lap, ...] = ()
    longest_away: tuple[Away, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    unreleased: tuple[Unreleased, ...] = ()
    there: tuple[int, ...] = ()
    """The native ids of the threads of Python that were there when the recording began, but for the one that began it."""
    watched: bool = False
    """The recording is one that `headway watch` wrote."""
    clock: tuple[int, int] | None = None
    """CLOCK_REALTIME and CLOCK_MONOTONIC at one moment near the recording's end; None: that is not known.

    A process may run for months: the clock may have been set since it began, and the machine may have been suspended."""

    def was_asleep(self, tid: int, since_ns: int, until_ns: int) -> bool:
        """Tell whether a thread was seen asleep in a futex within a time."""
        return any(one.tid == tid and since_ns < one.time_ns <= until_ns for one in self.asleep)


def with_names(
    unreleased: Iterable[Unreleased], names: Mapping[int, str], recorded: Container[int]
) -> tuple[Unreleased, ...]:
    """Return those of the threads whose GILs are not recorded, by their names in Python if they have such names.

    Args:
        unreleased: The threads.
        names: The names in Python, by the native id.
        recorded: The addresses of the recorded GILs.
    """
    return tuple(
        dataclasses.replace(one, name=names.get(one.tid, "").strip() or one.name)
        for one in unreleased
        if one.gil not in recorded
    )


def packed(seen: Iterable[Sample | Away]) -> dict[str, Any]:
    """Return observed stacks in the form of notes (headway.traces.notes): each frame once, referred to by its index."""
    frames: dict[Frame, int] = {}
    samples, away = [], []
    for one in seen:
        stack = [frames.setdefault(frame, len(frames)) for frame in one.frames]
        if isinstance(one, Sample):
            samples.append([one.time_ns, one.tid, stack])
        else:
            away.append([one.serial, one.since_ns, one.until_ns, stack])
    rows = [[one.filename, one.line, one.function, one.first_line] for one in frames]
    return {"frames": rows, "samples": samples} | ({"away": away} if away else {})
