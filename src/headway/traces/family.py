"""Reads the traces of all processes of a launch."""

import contextlib
from pathlib import Path

from headway.errors import TraceError
from headway.traces.chunks import opened, read_header
from headway.traces.model import Trace
from headway.traces.reader import read

__all__ = ["files_beside", "read_family"]


def read_family(path: Path | str) -> list[Trace]:
    """Read the trace file at `path` and the files beside it of the same launch: `app.hwt`, then `app.*.hwt`.

    Parents stand before their children; otherwise the process that began first stands first. Files beside `path` are
    left out if they have no event, or if their header does not tell which launch they belong to.

    Raises:
        TraceError: As `read` does, for the file at `path`.
    """
    found = [read(path)]
    for other in files_beside(path):
        with contextlib.suppress(TraceError):  # the process died before it wrote a header
            trace = read(other)
            if len(trace.events):
                found.append(trace)
    return _parents_first(found)


def files_beside(path: Path | str) -> list[Path]:
    """Return the files beside `path`, `app.hwt`, that are traces of the same launch: `app.*.hwt`.

    Raises:
        TraceError: As `read` does, for the file at `path`.
    """
    path = Path(path)
    with opened(path) as file:
        family = read_header(path, file)["family"]
    stem = path.name.removesuffix(".hwt")
    found = []
    for other in sorted(path.parent.iterdir()):
        if other.name == path.name or not (other.name.startswith(f"{stem}.") and other.suffix == ".hwt"):
            continue
        with contextlib.suppress(TraceError), opened(other) as file:  # it may be no trace
            if read_header(other, file)["family"] == family:
                found.append(other)
    return found


def _parents_first(traces: list[Trace]) -> list[Trace]:
    waiting = sorted(traces, key=lambda trace: (trace.process.start_realtime_ns, trace.process.pid))
    ordered: list[Trace] = []
    while waiting:
        pids = {trace.process.pid for trace in waiting}
        free = (one for one in waiting if one.process.parent_pid not in pids - {one.process.pid})
        # Process ids may have been reused, so it can happen that every process has a parent among the others.
        ordered.append(next(free, waiting[0]))
        waiting.remove(ordered[-1])
    return ordered
