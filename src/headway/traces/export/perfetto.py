"""Perfetto's own trace format, for ui.perfetto.dev and trace_processor: TrackEvent packets.

Each process is a sequence of its own in the file, and its packets are in the order of their times. The file has:

- Under each thread, the tracks "waits for GIL" and "holds GIL" (one for each GIL, if the thread had to do with
  several), or "waits for lock". A slice is named by its location, where the hold ended or the wait began, and carries
  its stack. A hold is annotated with whether it was forced. A wait for a lock is annotated with the lock's kind and the
  contended object's type.
- Under each process, a track for each GIL, whose slices are named by the thread that held it, and counters of the
  threads that wait for it and of the switch interval.
- An arrow from the first request during a hold ("requests GIL", on the track where that thread waits) to the
  forced end of the hold ("releases GIL on request").

Times are CLOCK_MONOTONIC, which is also the clock of the whole file, so that no conversion can move them. One snapshot
pairs it with CLOCK_REALTIME, for the time of day. The snapshot leaves CLOCK_BOOTTIME out, because a trace does not
record how long the machine slept.

The packets' layout is that of perfetto's protos/perfetto/trace, whose field numbers stand below.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from headway.printable import printable
from headway.traces.analysis.intervals import Intervals, recorded
from headway.traces.analysis.words import labels
from headway.traces.export.interning import Interned
from headway.traces.export.merging import Stream, stream, write_merged
from headway.traces.export.output import written_whole
from headway.traces.export.parks import Parks, parks
from headway.traces.export.protobuf import Piece, field, fixed_column, varint_column, width, wrapped
from headway.traces.export.requests import Requests, requests
from headway.traces.model import Park, Trace

__all__ = ["LOCK_KINDS", "write"]

_REALTIME, _MONOTONIC = 1, 3
_CLEARED, _NEEDS_STATE = 1, 2
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_EXPLICIT_ORDER = 3
_UNIT_TIME_NS, _UNIT_COUNT = 1, 2

# Fields of TracePacket.
_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS = 6, 8, 10, 11, 12, 13
_DROPPED, _CLOCK, _DEFAULTS, _DESCRIPTOR, _FIRST = 42, 58, 59, 60, 87
# Fields of TrackEvent.
_CATEGORY_IID, _NOTE, _TYPE, _NAME_IID, _TRACK, _VALUE, _FLOW, _LAST_FLOW, _CALLSTACK_IID = (
    3,
    4,
    9,
    10,
    11,
    30,
    47,
    48,
    56,
)

_BLOCK_EVENTS = 1 << 15
# The order of a slice's packets at the same time.
_AT_BEGIN, _AT_REQUEST, _AT_END = 0, 1, 2

LOCK_KINDS: dict[int, str] = {
    Park.OTHER: "another lock",
    Park.MUTEX: "a mutex of the interpreter",
    Park.OBJECT: "an object",
    Park.WORLD: "stop the world",
    Park.LOCK: "a lock of the program",
    Park.EVENT: "an event, such as the end of a thread",
}
"""The names of the kinds of `Park`."""


def write(traces: Sequence[Trace], path: Path) -> None:
    """Write traces as one Perfetto trace.

    Raises:
        HeadwayError: The file cannot be written.
    """
    first = min(traces, key=lambda trace: trace.start_ns)
    with written_whole(path) as file:
        uuid = 1
        for sequence, trace in enumerate(traces, 1):
            file.write(_sequence_start(sequence))
            if sequence == 1:
                file.write(_clock_snapshot(first))
            process = _Process(trace, sequence, uuid)
            process.write(file)
            uuid = process.next_uuid


def _packet(sequence: int, *fields: bytes) -> bytes:
    return field(1, b"".join(fields) + field(_SEQUENCE, sequence))


def _sequence_start(sequence: int) -> bytes:
    return _packet(
        sequence,
        field(_FIRST, 1),
        field(_DROPPED, 1),
        field(_FLAGS, _CLEARED | _NEEDS_STATE),
        field(_DEFAULTS, field(_CLOCK, _MONOTONIC)),
    )


def _clock_snapshot(trace: Trace) -> bytes:
    clocks = ((_MONOTONIC, trace.start_ns), (_REALTIME, trace.process.start_realtime_ns))
    encoded = b"".join(field(1, field(1, clock) + field(2, time_ns)) for clock, time_ns in clocks)
    return _packet(1, field(_SNAPSHOT, encoded + field(2, _MONOTONIC)))


@final
class _Process:
    """One process's packets."""

    def __init__(self, trace: Trace, sequence: int, first_uuid: int) -> None:
        self._trace = trace
        self._sequence = sequence
        self.next_uuid = first_uuid
        self._labels = list(labels(trace.threads))
        self._descriptors: list[bytes] = []
        found = recorded(trace)
        self._holds, self._waits, self._interval = found.holds, found.waits, found.interval
        self._parks = parks(trace)
        self._interned = Interned()
        self._intern()
        self._uuid = self._describe_process()
        self._thread_uuids = self._describe_threads()
        self._tracks: dict[str, NDArray[np.uint32]] = {
            "wait": self._describe_states("waits for GIL", 0, self._waits),
            "hold": self._describe_states("holds GIL", 1, self._holds),
            "park": self._describe_parks(),
        }
        self._gil_tracks = self._describe_gils()
        self._waiting_tracks = self._describe_counters()
        self._interval_track = 0
        if trace.gils:
            unit = field(8, field(3, _UNIT_TIME_NS))
            self._interval_track = self._describe("switch interval", self._uuid, unit, rank=2 * len(trace.gils))

    def write(self, file: BinaryIO) -> None:
        """Write all packets of the process."""
        file.writelines(_packet(self._sequence, field(_DESCRIPTOR, one)) for one in self._descriptors)
        file.writelines(
            _packet(self._sequence, field(_FLAGS, _NEEDS_STATE), field(_INTERNED, data))
            for data in self._interned.encoded()
        )
        self._prepare_rows()
        cuts_ns = np.unique(self._trace.events["time_ns"][_BLOCK_EVENTS::_BLOCK_EVENTS])
        write_merged(file, list(self._streams()), cuts_ns)

    # Data that the sequence writes once

    def _intern(self) -> None:
        trace, interned = self._trace, self._interned
        self._category = {name: interned.categories.number(name) for name in ("hold", "wait", "park", "gil")}
        self._thread_names = np.array([interned.names.number(one) for one in self._labels], dtype=np.uint32)
        self._asks, self._gives_way = (
            interned.names.number("requests GIL"),
            interned.names.number("releases GIL on request"),
        )
        self._forced_note = interned.note_names.number("forced")
        self._lock_note, self._type_note = interned.note_names.number("lock"), interned.note_names.number("type")
        used = {
            name: np.unique(intervals.stack)
            for name, intervals in (("hold", self._holds), ("wait", self._waits), ("park", self._parks))
        }
        unknown = {"hold": "holds GIL", "wait": "waits for GIL", "park": "waits for lock"}
        self._locations = {name: interned.locations(trace, stacks, unknown[name]) for name, stacks in used.items()}
        self._callstacks: NDArray[np.uint32] | None = None
        if len(trace.stack_frame) > 1:
            self._callstacks = interned.stacks(trace, np.unique(np.concatenate(list(used.values()))))
        values = interned.note_values
        other = LOCK_KINDS[Park.OTHER]
        self._lock_kinds = np.array([values.number(LOCK_KINDS.get(kind, other)) for kind in range(16)])
        self._types = np.array([values.number(printable(name) or "not known") for name in trace.types])

    def _describe(self, name: str, parent: int, *fields: bytes, rank: int | None = None) -> int:
        """Add a track's descriptor and return the track's uuid."""
        uuid = self.next_uuid
        self.next_uuid += 1
        encoded = field(1, uuid) + b"".join(fields)
        encoded += field(2, name) if name else b""
        encoded += field(5, parent) if parent else b""
        self._descriptors.append(encoded + (b"" if rank is None else field(12, rank)))
        return uuid

    def _describe_process(self) -> int:
        process = self._trace.process
        encoded = field(1, process.pid) + b"".join(field(2, printable(one)) for one in process.command)
        encoded += field(6, printable(process.program))
        for label in self._process_labels():
            encoded += field(8, label)
        return self._describe("", 0, field(3, encoded), field(11, _EXPLICIT_ORDER))

    def _process_labels(self) -> Iterator[str]:
        process, loss = self._trace.process, self._trace.loss
        yield printable(f"Python {process.python}") + (" free-threaded" if process.free_threaded else "")
        if not process.ended:
            yield "killed, or still running"
        lost = loss.dropped_events + loss.overwritten_events
        if lost or loss.damaged_bytes:
            yield f"incomplete: {lost} events lost, {loss.damaged_bytes} bytes damaged"

    def _describe_threads(self) -> list[int]:
        pid = self._trace.process.pid
        return [
            self._describe(
                "",
                self._uuid,
                field(4, field(1, pid) + field(2, thread.tid) + field(5, label)),
                field(11, _EXPLICIT_ORDER),
            )
            for thread, label in zip(self._trace.threads, self._labels, strict=True)
        ]

    def _describe_states(self, name: str, rank: int, intervals: Intervals) -> NDArray[np.uint32]:
        """Describe a track for each pair of thread and GIL in the intervals; return each interval's track."""
        pairs, which = np.unique(intervals.thread.astype(np.int64) * 256 + intervals.gil, return_inverse=True)
        threads, gils = np.divmod(pairs, 256)
        several = np.bincount(threads) > 1
        uuids = [
            self._describe(
                f"{name} {gil}" if several[thread] else name, self._thread_uuids[thread], rank=rank + 2 * gil
            )
            for thread, gil in zip(threads.tolist(), gils.tolist(), strict=True)
        ]
        return np.array(uuids, dtype=np.uint32)[which]

    def _describe_parks(self) -> NDArray[np.uint32]:
        threads, which = np.unique(self._parks.thread, return_inverse=True)
        uuids = [self._describe("waits for lock", self._thread_uuids[one], rank=1000) for one in threads.tolist()]
        return np.array(uuids, dtype=np.uint32)[which]

    def _describe_gils(self) -> NDArray[np.uint32]:
        return np.array(
            [
                self._describe(
                    f"GIL {gil.index} ({'main' if gil.main else 'sub-interpreter'})", self._uuid, rank=2 * position
                )
                for position, gil in enumerate(self._trace.gils)
            ],
            dtype=np.uint32,
        )

    def _describe_counters(self) -> list[int]:
        return [
            self._describe(
                f"threads that wait for GIL {gil.index}",
                self._uuid,
                field(8, field(3, _UNIT_COUNT)),
                rank=2 * position + 1,
            )
            for position, gil in enumerate(self._trace.gils)
        ]

    # Data that is written for each event

    def _prepare_rows(self) -> None:
        interned = self._interned
        last_ns = max(
            [
                self._trace.end_ns,
                *(int(one.end_ns.max()) for one in (self._holds, self._waits, self._parks) if len(one)),
            ]
        )
        self._time_width = width(last_ns)
        self._track_width = width(self.next_uuid)
        self._name_width = width(len(interned.names))
        self._stack_width = width(interned.callstacks)
        self._note_width = width(len(interned.note_values))

    def _event(self, kind: int, time_ns: NDArray, track: NDArray, *fields: list[Piece]) -> list[Piece]:
        """Return the pieces of event packets."""
        event: list[Piece] = [field(_TYPE, kind), *varint_column(_TRACK, track, self._track_width)]
        for one in fields:
            event += one
        return wrapped(
            1,
            [
                *varint_column(_TIMESTAMP, time_ns, self._time_width),
                field(_SEQUENCE, self._sequence) + field(_FLAGS, _NEEDS_STATE),
                *wrapped(_EVENT, event),
            ],
        )

    def _named(self, category: str, names: NDArray) -> list[Piece]:
        category_field = field(_CATEGORY_IID, self._category[category])
        return [category_field, *varint_column(_NAME_IID, names, self._name_width)]

    def _begin(self, state: str, intervals: Intervals | Parks, which: NDArray, *notes: list[Piece]) -> list[Piece]:
        stack = intervals.stack[which]
        located = self._named(state, self._locations[state][stack])
        if self._callstacks is not None:
            located += varint_column(_CALLSTACK_IID, self._callstacks[stack], self._stack_width)
        return self._event(_BEGIN, intervals.start_ns[which], self._tracks[state][which], located, *notes)

    def _end(self, state: str, intervals: Intervals | Parks, which: NDArray) -> list[Piece]:
        return self._event(_END, intervals.end_ns[which], self._tracks[state][which])

    def _streams(self) -> Iterator[Stream]:
        """Yield all packets. A hold's packets on its thread's track and on its GIL's track are one row."""
        holds, waits, blocked = self._holds, self._waits, self._parks
        asked = requests(self._trace, holds, waits)
        linked = np.zeros(len(holds), dtype=bool)
        linked[asked.hold[asked.hold >= 0]] = True
        yield stream(holds.start_ns, _AT_BEGIN, self._hold_begins)
        yield stream(holds.end_ns, _AT_END, self._hold_ends, ~linked)
        yield stream(holds.end_ns, _AT_END, self._linked_hold_ends, linked)

        yield stream(waits.start_ns, _AT_BEGIN, lambda which: self._begin("wait", waits, which))
        yield stream(waits.end_ns, _AT_END, lambda which: self._end("wait", waits, which))
        yield from self._request_streams(asked)

        yield stream(blocked.start_ns, _AT_BEGIN, self._park_begins)
        yield stream(blocked.end_ns, _AT_END, lambda which: self._end("park", blocked, which))

        for gil, track in enumerate(self._waiting_tracks):
            mine = slice(None) if len(self._trace.gils) == 1 else waits.gil == gil
            counted = _waiting(self._trace.start_ns, waits.start_ns[mine], waits.end_ns[mine])
            yield self._counter(track, *counted)
        if self._trace.gils:
            yield self._counter(self._interval_track, self._interval.since_ns, self._interval.value_ns)

    def _hold_begins(self, which: NDArray) -> list[Piece]:
        holds = self._holds
        forced = wrapped(_NOTE, [field(1, self._forced_note), *varint_column(2, holds.forced[which], 1)])
        holder = self._named("gil", self._thread_names[holds.thread[which]])
        return [
            *self._begin("hold", holds, which, forced),
            *self._event(_BEGIN, holds.start_ns[which], self._gil_tracks[holds.gil[which]], holder),
        ]

    def _hold_ends(self, which: NDArray) -> list[Piece]:
        holds = self._holds
        return [
            *self._end("hold", holds, which),
            *self._event(_END, holds.end_ns[which], self._gil_tracks[holds.gil[which]]),
        ]

    def _linked_hold_ends(self, which: NDArray) -> list[Piece]:
        gives_way = self._named("hold", np.full(len(which), self._gives_way))
        flow = fixed_column(_LAST_FLOW, self._flow_ids(which))
        end_ns, track = self._holds.end_ns[which], self._tracks["hold"][which]
        return [*self._event(_INSTANT, end_ns, track, gives_way, flow), *self._hold_ends(which)]

    def _flow_ids(self, holds: NDArray) -> NDArray[np.uint64]:
        """Return the ids of arrows, unique in the file: the sequence in the high bits, the hold in the low ones."""
        return (holds.astype(np.uint64) + np.uint64(1)) | np.uint64(self._sequence << 40)

    def _park_begins(self, which: NDArray) -> list[Piece]:
        kinds, types = self._lock_kinds[self._parks.kind[which]], self._types[self._parks.type[which]]
        lock = wrapped(_NOTE, [field(1, self._lock_note), *varint_column(17, kinds, self._note_width)])
        of_type = wrapped(_NOTE, [field(1, self._type_note), *varint_column(17, types, self._note_width)])
        return self._begin("park", self._parks, which, lock, of_type)

    def _request_streams(self, asked: Requests) -> Iterator[Stream]:
        def made(which: NDArray) -> list[Piece]:
            name = self._named("wait", np.full(len(which), self._asks))
            return self._event(_INSTANT, asked.time_ns[which], self._tracks["wait"][asked.wait[which]], name)

        def made_linked(which: NDArray) -> list[Piece]:
            name = self._named("wait", np.full(len(which), self._asks))
            track = self._tracks["wait"][asked.wait[which]]
            arrow = fixed_column(_FLOW, self._flow_ids(asked.hold[which]))
            return self._event(_INSTANT, asked.time_ns[which], track, name, arrow)

        for linked, make in ((asked.hold < 0, made), (asked.hold >= 0, made_linked)):
            mine = np.flatnonzero(linked).astype(np.int32)
            yield Stream(asked.time_ns[mine], mine, _AT_REQUEST, make, place=asked.wait[mine])

    def _counter(self, track: int, time_ns: NDArray, value: NDArray) -> Stream:
        value_width = width(int(value.max(initial=0)))

        def made(which: NDArray) -> list[Piece]:
            tracks = np.full(len(which), track)
            return self._event(_COUNTER, time_ns[which], tracks, varint_column(_VALUE, value[which], value_width))

        return stream(time_ns, _AT_BEGIN, made)


def _waiting(start_ns: int, begin_ns: NDArray, end_ns: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the number of waiting threads as steps: distinct times, and the number from each of them on."""
    time_ns = np.concatenate([[start_ns], begin_ns, end_ns])
    change = np.repeat(np.array([0, 1, -1], dtype=np.int8), [1, len(begin_ns), len(end_ns)])
    order = np.argsort(time_ns, kind="stable")
    time_ns, change = time_ns[order], change[order]
    del order
    last = np.append(time_ns[1:] != time_ns[:-1], True)
    return time_ns[last], np.cumsum(change, dtype=np.int32)[last]
