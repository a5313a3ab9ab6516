"""Firefox Profiler's processed profile, version 60, as JSON, for profiler.firefox.com; the page keeps the file local.

The processed format is chosen over the raw Gecko format because its samples can have weights, and because threads of
several processes share one time and one set of tables. Version 60 is the first version with shared tables. The
application upgrades profiles of older versions.

- Samples: each hold has one at its start, with the stack that ended the hold and the hold's length as its weight
  (`tracing-ms`). The call tree and the flame graph therefore show time held. Each hold's end has a sample without stack
  and weight, so that the timeline is empty where the thread did not hold a GIL.
- Markers: "GIL hold", "GIL wait" and "Lock wait", with location, stack, GIL and kind of lock.

Times are milliseconds since the first process's start, exact to the nanosecond. The page cannot hold a profile with
more than `MOST_ROWS` samples and markers; such traces are refused.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.printable import printable
from headway.traces.analysis.intervals import Intervals, Recorded, recorded
from headway.traces.analysis.words import labels
from headway.traces.export.output import written_whole
from headway.traces.export.parks import Parks, parks
from headway.traces.export.perfetto import LOCK_KINDS
from headway.traces.export.text import location
from headway.traces.model import Park, Trace

__all__ = ["MOST_ROWS", "write"]

MOST_ROWS = 3_000_000
"""About 150 MB of JSON. A string in a browser has at most 512 MB, and the page keeps several forms of it."""

_GECKO_VERSION, _PROCESSED_VERSION = 33, 60
_MS_NS = 1_000_000
_INTERVAL = 1
_CATEGORIES = (
    ("Other", "grey"),
    ("Holds the GIL", "green"),
    ("Waits for the GIL", "red"),
    ("Waits for a lock", "orange"),
)
_OTHER, _HOLDS, _WAITS, _PARKS = range(4)
_FIELDS = {
    "location": ("Location", "unique-string"),
    "gil": ("GIL", "integer"),
    "forced": ("Given up because", "unique-string"),
    "lock": ("Lock", "unique-string"),
    "object": ("Type of the object", "unique-string"),
}
_MARKERS = {
    "GilHold": ("GIL hold", _HOLDS, "The thread held the GIL.", ("location", "gil", "forced")),
    "GilWait": ("GIL wait", _WAITS, "The thread waited for the GIL.", ("location", "gil")),
    "LockWait": ("Lock wait", _PARKS, "The thread was blocked on a lock.", ("location", "lock", "object")),
}


def write(traces: Sequence[Trace], path: Path) -> None:
    """Write traces as one Firefox Profiler profile.

    Raises:
        HeadwayError: The traces are too large for the format, or the file cannot be written.
    """
    found = [(trace, recorded(trace), parks(trace)) for trace in traces]
    rows = sum(3 * len(one.holds) + len(one.waits) + len(blocked) for _, one, blocked in found)
    if rows > MOST_ROWS:
        raise HeadwayError(
            f"the trace is too long for Firefox Profiler: {rows:,} samples and markers, of {MOST_ROWS:,} at most",
            hint="export the perfetto format, which has no limit, or record a shorter part of the program",
        )
    profile = _Profile(min(trace.start_ns for trace in traces))
    with written_whole(path) as file:
        file.write(b'{"meta":' + _json(_meta(traces)) + b',"libs":[],"pages":[],"threads":[')
        names = Counter(str(trace.process.pid) for trace in traces)
        first = True
        for number, (trace, one, blocked) in enumerate(found):
            pid = str(trace.process.pid)
            tables = profile.add(trace, one, blocked, pid if names[pid] == 1 else f"{pid}.{number}")
            for thread in range(len(trace.threads)):
                file.write(b"" if first else b",")
                first = False
                _write_object(file, tables.thread(thread))
        file.write(b'],"shared":')
        _write_object(file, profile.shared())
        file.write(b"}\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _write_object(file: BinaryIO, members: dict[str, Any]) -> None:
    """Write an object member by member, because a single member needs less memory than the whole object."""
    for position, (name, value) in enumerate(members.items()):
        file.write((b"," if position else b"{") + _json(name) + b":")
        if isinstance(value, _Table):
            _write_object(file, value.members)
        elif isinstance(value, _Encoded):
            file.write(value.text.encode())
        else:
            file.write(_json(value))
    file.write(b"}")


@final
class _Table:
    """A table of columns: an object whose members are written one by one."""

    def __init__(self, **members: Any) -> None:
        self.members = members


@final
class _Encoded:
    """Text that is already encoded as JSON."""

    def __init__(self, text: str) -> None:
        self.text = text


def _meta(traces: Sequence[Trace]) -> dict[str, Any]:
    first = min(traces, key=lambda trace: trace.start_ns)
    end_ns = max(trace.end_ns for trace in traces)
    process = first.process
    return {
        "interval": 0.001,
        "startTime": process.start_realtime_ns / _MS_NS,
        "startTimeAsClockMonotonicNanosecondsSinceBoot": first.start_ns,
        "profilingStartTime": 0,
        "profilingEndTime": (end_ns - first.start_ns) / _MS_NS,
        "processType": 0,
        "extensions": {"length": 0, "id": [], "name": [], "baseURL": []},
        "categories": [{"name": name, "color": color, "subcategories": ["Other"]} for name, color in _CATEGORIES],
        "product": printable(f"{process.program} (Python {process.python})"),
        "stackwalk": 0,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _PROCESSED_VERSION,
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "arguments": printable(" ".join(process.command)),
        "platform": "Linux",
        "markerSchema": [_marker_schema(name) for name in _MARKERS],
        "importedFrom": "Headway",
        "usesOnlyOneStackType": True,
        "sourceCodeIsNotOnSearchfox": True,
        "keepProfileThreadOrder": True,
    }


def _marker_schema(name: str) -> dict[str, Any]:
    title, _, description, fields = _MARKERS[name]
    return {
        "name": name,
        "tooltipLabel": title,
        "tableLabel": "{marker.data.location}",
        "chartLabel": "{marker.data.location}",
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "description": description,
        "fields": [{"key": key, "label": _FIELDS[key][0], "format": _FIELDS[key][1]} for key in fields],
    }


@final
class _Strings:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(printable(text), len(self._numbers))

    def list(self) -> list[str]:
        return list(self._numbers)


@final
class _Profile:
    """The tables that all threads share. Stack 0, a frame `?`, is the unknown stack of every trace."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.strings = _Strings()
        self._sources: dict[int, int] = {}
        self._functions: dict[tuple[int, int | None, int], int] = {(self.strings.number("?"), None, 0): 0}
        self._frame_function = [0]
        self._frame_line: list[int | None] = [None]
        self._stack_frame = [0]
        self._stack_prefix: list[int | None] = [None]

    def add(self, trace: Trace, found: Recorded, blocked: Parks, pid: str) -> "_Threads":
        """Add a process's frames and stacks, and return its threads."""
        first_frame, first_stack = len(self._frame_function) - 1, len(self._stack_frame) - 1
        for frame in trace.frames[1:]:
            name, file = self.strings.number(frame.function), self.strings.number(frame.filename)
            source = self._sources.setdefault(file, len(self._sources))
            function = self._functions.setdefault((name, source, frame.first_line), len(self._functions))
            self._frame_function.append(function)
            self._frame_line.append(frame.line or None)
        self._stack_frame += (trace.stack_frame[1:] + first_frame).tolist()
        self._stack_prefix += [parent + first_stack if parent else None for parent in trace.stack_parent[1:].tolist()]
        return _Threads(self, trace, found, blocked, pid, first_stack)

    def shared(self) -> dict[str, Any]:
        """Return the tables."""
        frames, functions, stacks = len(self._frame_function), len(self._functions), len(self._stack_frame)
        return {
            "stringArray": self.strings.list(),
            "sources": {
                "length": len(self._sources),
                "uuid": [None] * len(self._sources),
                "filename": list(self._sources),
            },
            "stackTable": _Table(frame=self._stack_frame, prefix=self._stack_prefix, length=stacks),
            "frameTable": _Table(
                address=[-1] * frames,
                inlineDepth=[0] * frames,
                category=[_HOLDS] * frames,
                subcategory=[0] * frames,
                func=self._frame_function,
                nativeSymbol=[None] * frames,
                innerWindowID=[None] * frames,
                line=self._frame_line,
                column=[None] * frames,
                length=frames,
            ),
            "funcTable": _Table(
                name=[name for name, _, _ in self._functions],
                isJS=[False] * functions,
                relevantForJS=[False] * functions,
                resource=[-1] * functions,
                source=[source for _, source, _ in self._functions],
                lineNumber=[line or None for _, _, line in self._functions],
                columnNumber=[None] * functions,
                length=functions,
            ),
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
            "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
        }


@final
class _Threads:
    """One process's threads."""

    def __init__(
        self, profile: _Profile, trace: Trace, found: Recorded, blocked: Parks, pid: str, first_stack: int
    ) -> None:
        self._profile, self._trace, self._pid, self._first_stack = profile, trace, pid, first_stack
        self._labels = labels(trace.threads)
        self._holds, self._waits, self._parks = found.holds, found.waits, blocked
        self._names = {name: profile.strings.number(title) for name, (title, *_) in _MARKERS.items()}
        places = [profile.strings.number(location(frame)) for frame in trace.frames]
        self._location = np.array(places)[trace.stack_frame]
        self._asked = profile.strings.number("requested by another thread")
        other = LOCK_KINDS[Park.OTHER]
        self._lock = np.array([profile.strings.number(LOCK_KINDS.get(kind, other)) for kind in range(16)])
        self._type = np.array([profile.strings.number(one or "not known") for one in trace.types])
        self._tids = Counter(one.tid for one in trace.threads)
        self._mine = {
            name: _by_thread(columns.thread, len(trace.threads))
            for name, columns in (("hold", self._holds), ("wait", self._waits), ("park", self._parks))
        }

    def thread(self, index: int) -> dict[str, Any]:
        """Return a thread as the members of an object."""
        thread, process = self._trace.threads[index], self._trace.process
        several = self._tids[thread.tid] > 1
        start_ns = min([thread.start_ns, *(int(one.start_ns[which].min()) for one, which in self._columns(index))])
        return {
            "processType": "default",
            "processName": printable(process.program),
            "processStartupTime": self._ms(self._trace.start_ns),
            "processShutdownTime": self._ms(self._trace.end_ns) if process.ended else None,
            "registerTime": self._ms(start_ns),
            "unregisterTime": None if thread.end_ns is None else self._ms(thread.end_ns),
            "pausedRanges": [],
            "showMarkersInTimeline": True,
            "name": printable(self._labels[index]),
            "isMainThread": thread.tid == process.pid,
            "pid": self._pid,
            "tid": f"{thread.tid}.{thread.serial}" if several else thread.tid,
            "samples": self._samples(index, start_ns),
            "markers": self._markers(index),
        }

    def _columns(self, index: int) -> Iterator[tuple[Intervals | Parks, NDArray]]:
        for name, columns in (("hold", self._holds), ("wait", self._waits), ("park", self._parks)):
            if len(self._mine[name][index]):
                yield columns, self._mine[name][index]

    def _ms(self, time_ns: int) -> float:
        return (time_ns - self._profile.start_ns) / _MS_NS

    def _all_ms(self, time_ns: NDArray) -> list[float]:
        found: list[float] = ((time_ns - self._profile.start_ns) / _MS_NS).tolist()
        return found

    def _samples(self, index: int, start_ns: int) -> _Table:
        """Return a sample for each hold, and an empty one where a hold ends and no other hold begins at once."""
        holds = self._holds.chosen(self._mine["hold"][index])
        count = len(holds)
        time_ns = np.empty(2 * count + 1, dtype=np.int64)
        time_ns[0], time_ns[1::2], time_ns[2::2] = start_ns, holds.start_ns, holds.end_ns
        np.maximum.accumulate(time_ns, out=time_ns)  # if an event was lost, a thread may seem to hold two GILs
        stack = np.full(2 * count + 1, -1, dtype=np.int64)
        stack[1::2] = np.where(holds.stack > 0, holds.stack + self._first_stack, 0)
        length_ns = np.zeros(2 * count + 1, dtype=np.int64)
        length_ns[1::2] = holds.length_ns
        kept = np.ones(2 * count + 1, dtype=bool)
        kept[:-1:2] = time_ns[:-1:2] < time_ns[1::2]
        return _Table(
            stack=[one if one >= 0 else None for one in stack[kept].tolist()],
            time=self._all_ms(time_ns[kept]),
            weight=(length_ns[kept] / _MS_NS).tolist(),
            weightType="tracing-ms",
            length=int(kept.sum()),
        )

    def _markers(self, index: int) -> _Table:
        holds, waits = self._mine["hold"][index], self._mine["wait"][index]
        blocked = self._mine["park"][index]
        start_ns = np.concatenate(
            [self._holds.start_ns[holds], self._waits.start_ns[waits], self._parks.start_ns[blocked]]
        )
        end_ns = np.concatenate([self._holds.end_ns[holds], self._waits.end_ns[waits], self._parks.end_ns[blocked]])
        data = [*self._hold_data(holds), *self._wait_data(waits), *self._park_data(blocked)]
        kind = np.repeat(np.arange(3), [len(holds), len(waits), len(blocked)])
        order = np.lexsort((-end_ns, start_ns))  # the outer one of two intervals comes first
        kind = kind[order]
        names, categories = (np.array([values[name] for name in _MARKERS]) for values in (self._names, _category()))
        return _Table(
            data=_Encoded("[" + ",".join([data[one] for one in order.tolist()]) + "]"),
            name=names[kind].tolist(),
            startTime=self._all_ms(start_ns[order]),
            endTime=self._all_ms(end_ns[order]),
            phase=[_INTERVAL] * len(order),
            category=categories[kind].tolist(),
            length=len(order),
        )

    def _located(self, columns: Intervals | Parks, which: NDArray) -> Iterator[tuple[int, str]]:
        """Yield, for each interval, its location and the JSON member that names its stack."""
        stack = columns.stack[which]
        for place, one in zip(self._location[stack].tolist(), stack.tolist(), strict=True):
            yield place, f',"cause":{{"stack":{one + self._first_stack}}}' if one else ""

    def _hold_data(self, which: NDArray) -> Iterator[str]:
        forced = f',"forced":{self._asked}'
        rest = zip(self._holds.gil[which].tolist(), self._holds.forced[which].tolist(), strict=True)
        for (place, cause), (gil, was_forced) in zip(self._located(self._holds, which), rest, strict=True):
            yield f'{{"type":"GilHold","location":{place},"gil":{gil}{forced if was_forced else ""}{cause}}}'

    def _wait_data(self, which: NDArray) -> Iterator[str]:
        gils = self._waits.gil[which].tolist()
        for (place, cause), gil in zip(self._located(self._waits, which), gils, strict=True):
            yield f'{{"type":"GilWait","location":{place},"gil":{gil}{cause}}}'

    def _park_data(self, which: NDArray) -> Iterator[str]:
        locks, types = self._lock[self._parks.kind[which]], self._type[self._parks.type[which]]
        rest = zip(locks.tolist(), types.tolist(), strict=True)
        for (place, cause), (lock, of_type) in zip(self._located(self._parks, which), rest, strict=True):
            yield f'{{"type":"LockWait","location":{place},"lock":{lock},"object":{of_type}{cause}}}'


def _category() -> dict[str, int]:
    return {name: category for name, (_, category, *_) in _MARKERS.items()}


def _by_thread(thread: NDArray, threads: int) -> list[NDArray[np.int64]]:
    """Return the indices of each thread's intervals, in their order."""
    order = np.argsort(thread, kind="stable")
    return np.split(order, np.cumsum(np.bincount(thread, minlength=threads))[:-1]) if threads else []
