"""Where threads were, and what else was seen of a process from outside; no module here needs numpy."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Collected", "CoreTime", "Evidence", "Frame", "Sample", "packed", "text"]


def text(data: bytes, encoding: str = "utf-8") -> str:
    """Return text that can be written anywhere: what is no character shows as an escape."""
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
    """A line of a function."""

    filename: str
    line: int
    """The line that ran; 0 where it is not known."""
    function: str
    """The qualified name."""
    first_line: int = 0
    """Where the function begins."""

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} {self.function}"


@dataclass(frozen=True)
class Sample:
    """Where a thread was at a moment, with the GIL in its hands."""

    time_ns: int
    tid: int
    frames: tuple[Frame, ...]
    """The innermost first."""


@dataclass(frozen=True)
class CoreTime:
    """What the operating system had given a thread up to a moment (/proc/PID/task/TID/schedstat)."""

    time_ns: int
    tid: int
    ran_ns: int
    queued_ns: int
    """It could run, and had no core. Of a wait for a core that goes on nothing is in it."""


@dataclass(frozen=True)
class Collected:
    """A garbage collection."""

    tid: int
    start_ns: int
    end_ns: int
    generation: int


@dataclass(frozen=True)
class Evidence:
    """What somebody outside of the process saw of it meanwhile: `headway watch` keeps it with its recordings.

    Each tuple is sorted by time.
    """

    samples: tuple[Sample, ...] = ()
    core_times: tuple[CoreTime, ...] = ()
    collections: tuple[Collected, ...] = ()


def packed(samples: Iterable[Sample]) -> dict[str, Any]:
    """Return samples as notes have them (headway.traces.notes): each frame once, and named by its place."""
    frames: dict[Frame, int] = {}
    rows = [[one.time_ns, one.tid, [frames.setdefault(frame, len(frames)) for frame in one.frames]] for one in samples]
    return {"frames": [[one.filename, one.line, one.function, one.first_line] for one in frames], "samples": rows}
