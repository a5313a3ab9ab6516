"""Writes a `Trace` as a trace file, as the recorder would write it: for simulations, and for tests of the reader.

The events of each GIL get stack ids of that GIL, and a `Frame` becomes a code object with a location table, so that the
file's numbers are independent of the trace's. The same trace gives the same bytes.

The reader returns what was written, except the names of threads that Python did not name, and except what a file cannot
express: frames that differ only in their line become instructions of one code object.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces.export.output import written_whole
from headway.traces.model import Kind, Process, Trace

__all__ = [
    "CHUNKS_OFFSET",
    "EVENTS_PER_CHUNK",
    "SLOTS",
    "SLOTS_OFFSET",
    "hexversion",
    "location_table",
    "record",
    "with_short_holds",
    "write",
]

SLOTS = 2
SLOTS_OFFSET = hwt.HEADER_BYTES
CHUNKS_OFFSET = 8192
EVENTS_PER_CHUNK = (hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES) // hwt.EVENT_DTYPE.itemsize
_OF_A_STACK = (Kind.WAIT, Kind.RELEASE, Kind.PARK)

_Piece = tuple[int, int, NDArray[np.intp], int, bool]
"""A chunk's events: the first one's position, the thread, all positions, the chunk's number in its thread, and whether
the thread ends with the chunk."""
_Placed = tuple[int, int, NDArray[np.intp], int]
"""A chunk's sequence number, its thread, the positions of its events, and its number in its thread."""


def hexversion(python: str) -> int:
    """Return the sys.hexversion of a version such as `3.13.0` or `3.15.0a2`. Raises ValueError for any other text."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?", python)
    if found is None:
        raise ValueError(f"{python!r} is no version of Python")
    major, minor, micro, level, serial = found.groups()
    levels = {"a": 0xA, "b": 0xB, "rc": 0xC, None: 0xF}
    return int(major) << 24 | int(minor) << 16 | int(micro) << 8 | levels[level] << 4 | int(serial or 0)


def _varint(value: int) -> bytes:
    groups = [value & 63]
    while value := value >> 6:
        groups.append(value & 63)
    return bytes([group | 64 for group in groups[:-1]] + groups[-1:])


def location_table(first_line: int, lines: list[int]) -> bytes:
    """Return a `co_linetable` in which the n-th two-byte instruction is on the n-th of `lines`; 0 is no line."""
    table = b""
    before = first_line
    for line in lines:
        if line == 0:
            table += bytes([0x80 | 15 << 3])
        else:
            delta = line - before
            table += bytes([0x80 | 13 << 3]) + _varint(-delta << 1 | 1 if delta < 0 else delta << 1)
            before = line
    return table


def _string(value: str) -> tuple[bytes, int]:
    """Return a string as CPython stores it in memory, and its number of bytes per character."""
    for kind, limit, encoding in ((1, 0x100, "latin-1"), (2, 0x10000, "utf-16-le"), (4, 0x110000, "utf-32-le")):
        if all(ord(character) < limit for character in value):
            return value.encode(encoding), kind
    raise AssertionError(value)  # no character lies beyond 0x10FFFF


def record(kind: int, dtype: np.dtype[Any], tail: bytes = b"", /, **fields: object) -> bytes:
    """Return a meta record followed by `tail`, padded to a multiple of 8 bytes."""
    one = np.zeros(1, dtype=dtype)
    tail += bytes(-(dtype.itemsize + len(tail)) % 8)
    one["meta"]["type"] = kind
    one["meta"]["bytes"] = dtype.itemsize + len(tail)
    for name, value in fields.items():
        one[name] = value
    return one.tobytes() + tail


class _Stacks:
    """The stacks that the events of one GIL use, with their ids in that GIL."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.records: list[bytes] = []
        self.ids = np.zeros(len(trace.stack_parent), dtype=np.uint32)
        self._next_id = 1
        self._codes: dict[tuple[str, str, int], int] = {}
        self._offsets: dict[int, int] = {}
        functions: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        for index, frame in enumerate(trace.frames):
            functions[frame.filename, frame.function, frame.first_line].append(index)
        for number, ((filename, function, first_line), members) in enumerate(functions.items(), 1):
            self._codes[filename, function, first_line] = number
            for place, index in enumerate(members):
                self._offsets[index] = 2 * place
            # Code on the first line can also lie before the first instruction; this covers negative offsets.
            if len(members) == 1 and trace.frames[members[0]].line == first_line:
                self._offsets[members[0]] = -2
            (name, name_kind), (qualname, qualname_kind) = _string(filename), _string(function)
            table = location_table(first_line, [trace.frames[index].line for index in members])
            self.records.append(
                record(
                    hwt.META_CODE,
                    hwt.META_CODE_DTYPE,
                    name + qualname + table,
                    id=number,
                    first_line=first_line,
                    filename_bytes=len(name),
                    filename_kind=name_kind,
                    qualname_bytes=len(qualname),
                    qualname_kind=qualname_kind,
                    linetable_bytes=len(table),
                )
            )

    def add(self, index: int) -> None:
        """Add records for a stack and its callers, except those that have been added."""
        missing = []
        while index and not self.ids[index]:
            missing.append(index)
            index = int(self._trace.stack_parent[index])
        for one in reversed(missing):
            frame = self._trace.frames[self._trace.stack_frame[one]]
            self.ids[one] = self._next_id
            self._next_id += 1
            self.records.append(
                record(
                    hwt.META_NODE,
                    hwt.META_NODE_DTYPE,
                    id=self.ids[one],
                    parent=self.ids[self._trace.stack_parent[one]],
                    code=self._codes[frame.filename, frame.function, frame.first_line],
                    offset=self._offsets[self._trace.stack_frame[one]],
                )
            )


def _meta(trace: Trace, owners: list[int]) -> tuple[list[tuple[int, bytes]], dict[int, NDArray[np.uint32]]]:
    """Return (owner, records) of all meta chunks, and for each GIL an array with the id of each stack."""
    chunks: list[tuple[int, bytes]] = []
    ids: dict[int, NDArray[np.uint32]] = {}
    events = trace.events
    for owner in owners:
        records = []
        if owner < len(trace.gils):
            gil = trace.gils[owner]
            facts = {"index": owner, "main": gil.main, "address": gil.address}
            records.append(record(hwt.META_GIL, hwt.META_GIL_DTYPE, **facts, time_ns=gil.start_ns))
            if gil.end_ns is not None:
                records.append(record(hwt.META_GIL_END, hwt.META_GIL_DTYPE, **facts, time_ns=gil.end_ns))
        stacks = _Stacks(trace)
        mine = (events["gil"] == owner) & np.isin(events["kind"], _OF_A_STACK)
        for index in np.unique(events["value"][mine]).tolist():
            stacks.add(index)
        ids[owner] = stacks.ids
        records += stacks.records
        for number, name in enumerate(trace.types[1:], 1):
            data = name.encode()
            records.append(record(hwt.META_TYPE, hwt.META_TYPE_DTYPE, data, id=number, name_bytes=len(data)))
        if owner == owners[0]:
            for thread in trace.threads:
                data = thread.name.encode()
                facts = {"tid": thread.tid, "name_bytes": len(data), "time_ns": thread.start_ns}
                records.append(record(hwt.META_NAME, hwt.META_NAME_DTYPE, data, **facts))
        full = b""
        for one in records:
            if len(full) + len(one) > hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES:
                chunks.append((owner, full))
                full = b""
            full += one
        chunks.append((owner, full))
    return chunks, ids


def _ring(pieces: list[_Piece], metas: int, room: int) -> tuple[list[_Placed | None], int, NDArray[np.intp]]:
    """Place event chunks in a ring of `room` chunks, as the recorder does when there is no more room.

    Returns the pieces by position, the number of chunks taken, and the positions of the overwritten events, in order.
    """
    places: list[_Placed | None] = [None] * room
    sequence = metas
    overwritten = [np.zeros(0, dtype=np.intp)]
    open_of: dict[int, int] = {}
    for piece in pieces:
        _, thread, positions, number, last = piece
        open_of.pop(thread, None)  # a thread closes its chunk before it takes the next one
        while True:
            place = sequence % room
            taken = places[place]
            free = place >= metas and (taken is None or place not in open_of.values())
            sequence += 1
            if free:
                break
        if taken is not None:
            overwritten.append(taken[2])
        places[place] = (sequence - 1, thread, positions, number)
        if not last:
            open_of[thread] = place
    return places, sequence, np.sort(np.concatenate(overwritten))


def with_short_holds(raw: NDArray[np.void]) -> NDArray[np.void]:
    """Return a chunk's events as the recorder stores them: an ACQUIRE and a RELEASE soon after it become one HOLD."""
    first, then = raw[:-1], raw[1:]
    after_ns = then["time_ns"] - first["time_ns"]
    short = (first["kind"] == hwt.ACQUIRE) & (then["kind"] == hwt.RELEASE) & (first["gil"] == then["gil"])
    short &= (first["flags"] == 0) & (then["flags"] == 0) & (after_ns < 1 << 16)
    places = np.flatnonzero(short)
    found = raw.copy()
    found["kind"][places] = hwt.HOLD
    found["value"][places] = raw["value"][places + 1]
    found["flags"][places] = after_ns[places]
    return np.delete(found, places + 1)


def write(
    trace: Trace,
    path: Path,
    *,
    events_per_chunk: int = EVENTS_PER_CHUNK,
    room: int | None = None,
    short_holds: bool = False,
) -> Path:
    """Write the trace to `path`.

    Args:
        trace: The trace to write.
        path: The file to write.
        events_per_chunk: The most events in a chunk; a small number gives many chunks.
        room: The most chunks in the file; if there are more, the oldest are overwritten.
        short_holds: Write a short hold as one event; the trace that a reader returns is the same.

    Returns `path`, which exists complete or not at all. Raises HeadwayError if it cannot be written.
    """
    events = trace.events
    owners = list(range(max(1, len(trace.gils), int(events["gil"].max(initial=0)) + 1)))
    metas, ids = _meta(trace, owners)

    raw = np.zeros(len(events), dtype=hwt.EVENT_DTYPE)
    for name in ("time_ns", "value", "kind", "gil", "flags"):
        raw[name] = events[name]
    for owner in owners:
        mine = (events["gil"] == owner) & np.isin(events["kind"], _OF_A_STACK)
        raw["value"][mine] = ids[owner][events["value"][mine]]

    pieces: list[_Piece] = []
    by_thread = np.argsort(events["thread"], kind="stable")
    bounds = np.searchsorted(events["thread"][by_thread], np.arange(len(trace.threads) + 1))
    for thread in range(len(trace.threads)):
        mine = by_thread[bounds[thread] : bounds[thread + 1]]
        for number, start in enumerate(range(0, max(1, len(mine)), events_per_chunk), 1):
            part = mine[start : start + events_per_chunk]
            over = start + events_per_chunk >= len(mine) and trace.threads[thread].end_ns is not None
            pieces.append((int(part[0]) if len(part) else len(events), thread, part, number, over))
    pieces.sort(key=lambda piece: piece[:2])
    room = room or len(metas) + len(pieces)
    places, taken, overwritten = _ring(pieces, len(metas), room)

    with written_whole(path) as file:
        file.write(_header(trace, room, taken, events[overwritten]).tobytes())
        file.write(bytes(CHUNKS_OFFSET - file.tell()))
        for position in range(room):
            placed = places[position]
            head: dict[str, int | bytes]
            if position < len(metas):
                owner, data = metas[position]
                head = {"kind": hwt.CHUNK_META, "owner": owner, "sequence": position}
            elif placed is None:
                continue
            else:
                sequence, thread, part, number = placed
                one = trace.threads[thread]
                head = {"kind": hwt.CHUNK_EVENTS, "owner": one.serial, "sequence": sequence, "tid": one.tid}
                head |= {"number": number, "thread_start_ns": one.start_ns, "name": b"os-name"}
                data = (with_short_holds(raw[part]) if short_holds else raw[part]).tobytes()
            chunk = np.zeros(1, dtype=hwt.CHUNK_DTYPE)
            chunk["state"], chunk["used"] = hwt.CHUNK_OPEN, len(data)
            for name, value in head.items():
                chunk[name] = np.void(value.ljust(hwt.NAME_BYTES, b"\0")) if isinstance(value, bytes) else value
            file.seek(CHUNKS_OFFSET + position * hwt.CHUNK_BYTES)
            file.write(chunk.tobytes() + data)
        file.truncate(CHUNKS_OFFSET + room * hwt.CHUNK_BYTES)
    return path


def _options(process: Process) -> bytes:
    """Return a policy's options as a file has them; a text that does not fit tells nothing."""
    found = b"" if process.policy_options is None else process.policy_options.in_file().encode()
    return found if len(found) < hwt.OPTIONS_BYTES else b""


def _header(trace: Trace, chunk_count: int, taken: int, overwritten: NDArray[np.void]) -> NDArray[np.uint8]:
    process = trace.process
    changes = overwritten[(overwritten["kind"] == Kind.INTERVAL) & (overwritten["gil"] == 0)]
    header = np.zeros(1, dtype=hwt.HEADER_DTYPE)
    page = np.zeros(hwt.HEADER_BYTES, dtype=np.uint8)
    fields = {
        "magic": np.void(hwt.MAGIC),
        "version": hwt.FORMAT_VERSION,
        "header_bytes": hwt.HEADER_BYTES,
        "family": process.family,
        "overwritten_until_ns": overwritten["time_ns"][-1] if len(overwritten) else 0,
        "lost_interval_ns": changes["time_ns"][-1] if len(changes) else 0,
        "lost_interval_us": changes["value"][-1] if len(changes) else 0,
        "pid": process.pid,
        "parent_pid": process.parent_pid,
        "python_version": hexversion(process.python),
        "flags": hwt.FREE_THREADED * process.free_threaded
        | hwt.GIL_ENABLED * process.gil_enabled
        | hwt.STACKS * process.has_stacks
        | hwt.SUBINTERPRETERS * process.has_subinterpreters,
        "start_ns": trace.start_ns,
        "start_realtime_ns": process.start_realtime_ns,
        "process_start_ns": process.begin_realtime_ns,
        "end_ns": trace.end_ns if process.ended else 0,
        "lived_until_ns": 0 if process.ended else trace.end_ns,
        "slot_count": SLOTS,
        "slot_bytes": hwt.SLOT_DTYPE.itemsize,
        "slots_offset": SLOTS_OFFSET,
        "chunk_bytes": hwt.CHUNK_BYTES,
        "chunk_count": chunk_count,
        "chunks_offset": CHUNKS_OFFSET,
        "chunks_taken": taken,
        "dropped_events": trace.loss.dropped_events,
        "overwritten_events": trace.loss.overwritten_events + len(overwritten),
        "lost_stacks": trace.loss.lost_stacks,
        "executed": process.executed,
        "removed_files": trace.loss.removed_files,
        "unrecorded_processes": trace.loss.unrecorded_processes,
        "gil_count": len(trace.gils),
        "thread_count": len(trace.threads),
        "interval_us": process.interval_us,
        "core_count": process.core_count,
        "command": np.void(b"".join(one.encode() + b"\0" for one in process.command).ljust(hwt.COMMAND_BYTES, b"\0")),
        "executable": np.void(process.executable.encode().ljust(hwt.PATH_BYTES, b"\0")),
        "program": np.void(process.program.encode().ljust(hwt.PATH_BYTES, b"\0")),
        "policy_end_ns": 0 if process.policy_ended_ns is None else trace.start_ns + process.policy_ended_ns,
        "policy_options": np.void(_options(process).ljust(hwt.OPTIONS_BYTES, b"\0")),
        "policy": np.void(process.policy.encode()[: hwt.NAME_BYTES - 1].ljust(hwt.NAME_BYTES, b"\0")),
    }
    for name, value in fields.items():
        header[name] = value
    page[: hwt.HEADER_DTYPE.itemsize] = np.frombuffer(header.tobytes(), np.uint8)
    return page
