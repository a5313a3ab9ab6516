"""Reads the traces of all processes of a launch."""

import contextlib
from pathlib import Path

from headway.errors import TraceError
from headway.traces.chunks import opened, read_header
from headway.traces.model import Trace
from headway.traces.reader import read

__all__ = ["files_beside", "read_family", "under_other_names"]

_SUFFIX = ".hwt"
_MOST_HEADERS = 500
"""The files that are looked at in a folder with many traces of other launches."""


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
    family, _ = _launch_and_process(path)
    found = []
    for other in sorted(path.parent.iterdir()):
        if other.name == path.name or not _is_under(other, path.name.removesuffix(_SUFFIX)):
            continue
        with contextlib.suppress(TraceError):  # it may be no trace
            if _launch_and_process(other)[0] == family:
                found.append(other)
    return found


def under_other_names(path: Path | str) -> list[Path]:
    """Return the files in the folder of `path` that `files_beside` misses, because one of them was renamed or copied.

    These are traces of other processes of the launch. A child's own report is without its parent: if `path` is
    `app.4711.hwt`, neither `app.hwt` nor `app.*.hwt` is among them.

    Raises:
        TraceError: As `read` does, for the file at `path`.
    """
    path = Path(path)
    family, process = _launch_and_process(path)
    stem = path.name.removesuffix(_SUFFIX)
    parts = stem.split(".")
    above = [".".join(parts[:count]) for count in range(1, len(parts))]
    others = [
        other
        for other in sorted(path.parent.glob(f"*{_SUFFIX}"))
        if other.name != path.name
        and not _is_under(other, stem)
        and not any(other.name == one + _SUFFIX or _is_under(other, one) for one in above)
    ]
    processes = {process}
    for other in files_beside(path):
        with contextlib.suppress(TraceError):
            processes.add(_launch_and_process(other)[1])
    found = []
    for other in others[:_MOST_HEADERS]:
        with contextlib.suppress(TraceError):
            its_family, its_process = _launch_and_process(other)
            if its_family == family and its_process not in processes:
                found.append(other)
                processes.add(its_process)
    return found


def _is_under(other: Path, stem: str) -> bool:
    """Tell whether a file has the name of a child of `stem`."""
    return other.name.startswith(f"{stem}.") and other.suffix == _SUFFIX


def _launch_and_process(path: Path) -> tuple[int, tuple[int, int]]:
    """Return the ids of a trace's launch, and of its process: two files may be copies of one.

    Raises:
        TraceError: As `read` does.
    """
    with opened(path) as file:
        header = read_header(path, file)
    return int(header["family"]), (int(header["pid"]), int(header["start_realtime_ns"]))


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
