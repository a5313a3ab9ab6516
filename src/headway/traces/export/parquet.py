"""Events as a Parquet file, for pandas, polars and DuckDB: one row per event, names resolved. Needs pyarrow.

| column | type | what |
|---|---|---|
| pid | int32 | the process |
| time_ns | int64 | CLOCK_MONOTONIC |
| kind | dictionary | WAIT, ACQUIRE, RELEASE, REQUEST, EXIT, PARK, UNPARK, INTERVAL |
| thread | uint32 | its serial: unique in its process, from 1 |
| tid | int64 | its native id |
| thread_name | dictionary | |
| gil | uint8 | index |
| forced | bool | a RELEASE because of a request by another thread |
| assumed | bool | an ACQUIRE that was not seen |
| stack | uint32 | of WAIT, RELEASE, PARK: equal for equal stacks of one process; 0 is unknown; null for other kinds |
| location | dictionary | of a known stack: the innermost frame, `app.py:12 handle` |
| frames | dictionary | of a known stack: the locations from the outermost to the innermost, a line each |
| lock | dictionary | of PARK and UNPARK: OTHER, MUTEX, OBJECT, WORLD, LOCK, EVENT |
| type | dictionary | of UNPARK: the contended object's type, if it is known |
| interval_us | uint32 | of INTERVAL |

The rows of each process follow those of the one before, in the order of its trace. The file's metadata has, under the
key `headway`, a JSON list with an object for each process: pid, program, python, command, start_ns, end_ns,
start_realtime_ns, and what was lost.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.traces.export.output import written_whole
from headway.traces.export.text import clean, location
from headway.traces.model import Flag, Kind, Park, Trace

__all__ = ["write"]

_ROWS = 1 << 20
_DICTIONARY_BYTES = 1 << 28
_NAMES = ("kind", "thread_name", "location", "frames", "lock", "type")
_PARK_SHIFT = 8
_PARK_MASK = 15


def write(traces: Sequence[Trace], path: Path) -> None:
    """Write traces' events as one Parquet file.

    Raises:
        HeadwayError: pyarrow is missing, or the file cannot be written.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        hint = "install pyarrow beside headway: pip install pyarrow"
        raise HeadwayError("the Parquet export needs pyarrow, which is not installed", hint=hint) from error

    metadata = {"headway": json.dumps([_described(trace) for trace in traces])}
    schema = _schema(pa).with_metadata(metadata)
    with (
        written_whole(path) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=[*_NAMES, "pid", "thread", "tid", "gil", "stack"],
            column_encoding={"time_ns": "DELTA_BINARY_PACKED"},
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
        ) as writer,
    ):
        for trace in traces:
            for columns in _columns(pa, trace):
                writer.write_table(pa.table(columns, schema=schema))


def _schema(pa: Any) -> Any:
    types = {
        "pid": pa.int32(),
        "time_ns": pa.int64(),
        "thread": pa.uint32(),
        "tid": pa.int64(),
        "gil": pa.uint8(),
        "forced": pa.bool_(),
        "assumed": pa.bool_(),
        "stack": pa.uint32(),
        "interval_us": pa.uint32(),
    }
    order = ["pid", "time_ns", "kind", "thread", "tid", "thread_name", "gil", "forced", "assumed", "stack"]
    order += ["location", "frames", "lock", "type", "interval_us"]
    named = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([pa.field(name, types.get(name, named)) for name in order])


def _described(trace: Trace) -> dict[str, Any]:
    process = trace.process
    return {
        "pid": process.pid,
        "program": clean(process.program),
        "python": clean(process.python),
        "command": [clean(one) for one in process.command],
        "start_ns": trace.start_ns,
        "end_ns": trace.end_ns,
        "start_realtime_ns": process.start_realtime_ns,
        "loss": asdict(trace.loss),
    }


def _columns(pa: Any, trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield the columns of the trace's events, `_ROWS` events at a time."""
    named = _Named(pa)
    kinds = named.texts(_members(Kind, 256))
    locks = named.texts(_members(Park, 16))
    threads = named.texts([clean(one.name) for one in trace.threads])
    types = named.texts([clean(one) for one in trace.types])
    innermost = trace.stack_frame.astype(np.int32)
    leaves = named.texts([location(one) for one in trace.frames])
    used = np.unique(trace.events["value"][np.isin(trace.events["kind"], (Kind.WAIT, Kind.RELEASE, Kind.PARK))])
    whole, of_stack = _whole_stacks(trace, used)
    stacks = named.texts(whole)
    serials = np.array([one.serial for one in trace.threads], dtype=np.uint32)
    tids = np.array([one.tid for one in trace.threads], dtype=np.int64)

    for start in range(0, len(trace.events), _ROWS):
        events = trace.events[start : start + _ROWS]
        kind, thread = events["kind"], events["thread"]
        located = np.isin(kind, (Kind.WAIT, Kind.RELEASE, Kind.PARK))
        stack = np.where(located, events["value"], 0)
        parked = (kind == Kind.PARK) | (kind == Kind.UNPARK)
        of_type = np.where(kind == Kind.UNPARK, events["value"], 0)
        yield {
            "pid": pa.array(np.full(len(events), trace.process.pid, dtype=np.int32)),
            "time_ns": pa.array(events["time_ns"]),
            "kind": kinds(kind),
            "thread": pa.array(serials[thread]),
            "tid": pa.array(tids[thread]),
            "thread_name": threads(thread),
            "gil": pa.array(events["gil"]),
            "forced": pa.array((kind == Kind.RELEASE) & (events["flags"] & Flag.FORCED != 0)),
            "assumed": pa.array((kind == Kind.ACQUIRE) & (events["flags"] & Flag.ASSUMED != 0)),
            "stack": pa.array(events["value"], mask=~located),
            "location": leaves(innermost[stack], stack > 0),
            "frames": stacks(of_stack[stack], stack > 0),
            "lock": locks(events["flags"] >> _PARK_SHIFT & _PARK_MASK, parked),
            "type": types(of_type, of_type > 0),
            "interval_us": pa.array(events["value"], mask=kind != Kind.INTERVAL),
        }


def _members(enum: type[Kind | Park], count: int) -> list[str]:
    """Return names by number, also for numbers that have no name."""
    names = {int(one): one.name for one in enum}
    return [names.get(number, str(number)) for number in range(count)]


def _whole_stacks(trace: Trace, used: NDArray) -> tuple[list[str], NDArray[np.int32]]:
    """Return the used stacks as texts, and an array that has, for each stack, the index of its text."""
    texts: list[str] = []
    of_stack = np.zeros(len(trace.stack_parent), dtype=np.int32)
    lines = [location(one).replace("\n", " ") for one in trace.frames]
    for stack in used.tolist():
        of_stack[stack] = len(texts)
        inner_to_outer = []
        outer = stack
        while outer:
            inner_to_outer.append(lines[trace.stack_frame[outer]])
            outer = int(trace.stack_parent[outer])
        texts.append("\n".join(reversed(inner_to_outer)))
    return texts, of_stack


class _Named:
    """Makes dictionary columns."""

    def __init__(self, pa: Any) -> None:
        self._pa = pa

    def texts(self, texts: list[str]) -> Callable[..., Any]:
        """Return a maker of columns of these texts from indices, with null outside a mask. Equal texts become one."""
        distinct = {text: index for index, text in enumerate(dict.fromkeys(texts))}
        merged = np.array([distinct[text] for text in texts], dtype=np.int32)
        dictionary = self._pa.array(list(distinct), type=self._pa.string())

        def column(index: NDArray, known: NDArray | None = None) -> Any:
            mask = None if known is None else ~known
            found = merged[index] if len(merged) else np.zeros(len(index), dtype=np.int32)
            return self._pa.DictionaryArray.from_arrays(self._pa.array(found, mask=mask), dictionary)

        return column
