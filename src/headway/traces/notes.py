"""Reads and writes notes: observations of a process that are no events, in its trace file.

Notes tell where threads were, and when they had no core. A note is a meta record whose text is JSON, so that it may
have any length that fits in a chunk:

    {"frames": [[file, line, function, first line], ...], "samples": [[time_ns, tid, [frame, ...]], ...]}
    {"core_times": [[time_ns, tid, ran_ns, queued_ns], ...]}
    {"asleep": [[time_ns, tid], ...]}
    {"standing": [[tid, [[file, line, function, first line], ...]], ...]}
    {"laps": [[serial, begun_ns, ended_ns, of_a_pool, tid, name], ...]}
    {"frames": [...], "away": [[serial, since_ns, until_ns, [frame, ...]], ...]}
    {"stopped": [[running_ns, since_ns, until_ns, runs_ns], ...]}
    {"unreleased": [[address of the GIL, tid, name, to_the_end], ...]}
    {"watched": true}
    {"clock": [realtime_ns, time_ns]}
    {"there": [tid, ...]}

`samples` and `away` refer to frames by their index in the list, the innermost first. `standing` is written by the process itself
(headway_agent/recorder.py), the innermost frame first; so is `there`, the threads of Python that were there when the recording
began, but for the one that began it. A file may be damaged or forged: notes that make no sense are left out.
"""

import dataclasses
import errno
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from headway.traces import format as hwt
from headway.traces.frames import (
    Asleep,
    Away,
    CoreTime,
    Evidence,
    Frame,
    Lap,
    Sample,
    Standing,
    Stopped,
    Unreleased,
    packed,
)

__all__ = ["append_notes", "evidence_of"]

_ROOM_BYTES = hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES - hwt.META_NOTE_DTYPE.itemsize - 8
_LATEST_NS = 1 << 62


def append_notes(file: int, evidence: Evidence) -> None:
    """Append observations to a trace file.

    Args:
        file: A descriptor of it; no process may write to the file meanwhile.
        evidence: The observations.

    Raises:
        OSError: The file cannot be read or written, or is shorter than its header.
    """
    notes = [
        *_stacks(evidence.samples),
        *_stacks(evidence.longest_away),
        *_rows("core_times", [[one.time_ns, one.tid, one.ran_ns, one.queued_ns] for one in evidence.core_times]),
        *_rows("asleep", [[one.time_ns, one.tid] for one in evidence.asleep]),
        *_rows("laps", [list(dataclasses.astuple(one)) for one in evidence.laps]),
        *_rows("stopped", [[one.running_ns, one.since_ns, one.until_ns, one.runs_ns] for one in evidence.stopped]),
        *_rows("unreleased", [list(dataclasses.astuple(one)) for one in evidence.unreleased]),
        *([b'{"watched":true}'] if evidence.watched else []),
        *([json.dumps({"clock": evidence.clock}).encode()] if evidence.clock else []),
    ]
    if not notes:
        return
    data = os.pread(file, hwt.HEADER_DTYPE.itemsize, 0)
    if len(data) < hwt.HEADER_DTYPE.itemsize:
        raise OSError(errno.ENODATA, "it is cut off within its header")
    header = np.frombuffer(data, hwt.HEADER_DTYPE).copy()
    first = int(header["chunk_count"][0])
    for place, text in enumerate(notes, first):
        record = np.zeros(1, dtype=hwt.META_NOTE_DTYPE)
        filled = text + bytes(-(record.nbytes + len(text)) % 8)
        record["meta"]["type"], record["meta"]["bytes"] = hwt.META_NOTE, record.nbytes + len(filled)
        record["note_bytes"] = len(text)
        chunk = np.zeros(1, dtype=hwt.CHUNK_DTYPE)
        chunk["state"], chunk["kind"] = hwt.CHUNK_OPEN, hwt.CHUNK_META
        chunk["used"] = record["meta"]["bytes"]
        block = chunk.tobytes() + record.tobytes() + filled
        os.pwrite(file, block.ljust(hwt.CHUNK_BYTES, b"\0"), int(header["chunks_offset"][0]) + place * hwt.CHUNK_BYTES)
    header["chunk_count"] = first + len(notes)
    header["chunks_taken"] = max(int(header["chunks_taken"][0]), first + len(notes))
    os.pwrite(file, header.tobytes(), 0)


def _stacks(seen: Sequence[Sample | Away]) -> Iterator[bytes]:
    """Yield notes with stacks, each short enough for a chunk. A stack that is too long is cut at its outer end."""
    if not seen:
        return
    text = json.dumps(packed(seen), separators=(",", ":")).encode()
    if len(text) <= _ROOM_BYTES:
        yield text
    elif len(seen) > 1:
        half = len(seen) // 2
        yield from _stacks(seen[:half])
        yield from _stacks(seen[half:])
    elif seen[0].frames:
        one = seen[0]
        yield from _stacks([dataclasses.replace(one, frames=one.frames[: len(one.frames) // 2])])


def _rows(name: str, rows: Sequence[list[Any]]) -> Iterator[bytes]:
    """Yield notes with rows, each short enough for a chunk: one row always is."""
    text = json.dumps({name: rows}, separators=(",", ":")).encode()
    if len(rows) > 1 and len(text) > _ROOM_BYTES:
        half = len(rows) // 2
        yield from _rows(name, rows[:half])
        yield from _rows(name, rows[half:])
    elif rows:
        yield text


def _number(value: object) -> int:
    """Return a number of a note. Raises ValueError if it is not an integer, or out of range."""
    if type(value) is not int or not 0 <= value < _LATEST_NS:
        raise ValueError(value)
    return value


def _frame(file: object, line: object, function: object, first: object) -> Frame:
    return Frame(str(file), _number(line), str(function), _number(first))


def _lap(
    serial: object, begun: object, ended: object, of_a_pool: object = 0, tid: object = 0, name: object = ""
) -> Lap:
    """Return a lap; recordings of earlier versions have the first three values."""
    return Lap(_number(serial), _number(begun), _number(ended), _number(of_a_pool), _number(tid), str(name))


def evidence_of(notes: Iterable[bytes]) -> tuple[Evidence, int]:
    """Return the observations in the notes, and the number of bytes in notes that make no sense."""
    samples: list[Sample] = []
    core_times: list[CoreTime] = []
    asleep: list[Asleep] = []
    standing: list[Standing] = []
    laps: list[Lap] = []
    away: list[Away] = []
    stopped: list[Stopped] = []
    unreleased: list[Unreleased] = []
    there: list[int] = []
    watched = False
    clock: tuple[int, int] | None = None
    damaged = 0
    for text in notes:
        try:
            note = json.loads(text)
            frames = [_frame(*one) for one in note.get("frames", [])]
            samples += [
                Sample(_number(time_ns), _number(tid), tuple(frames[_number(one)] for one in stack))
                for time_ns, tid, stack in note.get("samples", [])
                if stack  # a frame that was too long for a note is left out, and may have been the only one
            ]
            core_times += [CoreTime(*map(_number, row)) for row in note.get("core_times", [])]
            asleep += [Asleep(*map(_number, row)) for row in note.get("asleep", [])]
            standing += [
                Standing(_number(tid), tuple(_frame(*one) for one in stack)) for tid, stack in note.get("standing", [])
            ]
            laps += [_lap(*row) for row in note.get("laps", [])]
            away += [
                Away(
                    _number(serial), _number(since_ns), _number(until_ns), tuple(frames[_number(one)] for one in stack)
                )
                for serial, since_ns, until_ns, stack in note.get("away", [])
                if stack
            ]
            stopped += [Stopped(*map(_number, row)) for row in note.get("stopped", [])]
            unreleased += [
                Unreleased(_number(gil), _number(tid), str(name), to_the_end is True)
                for gil, tid, name, to_the_end in note.get("unreleased", [])
            ]
            there += map(_number, note.get("there", []))
            watched = watched or note.get("watched") is True
            if "clock" in note:
                realtime_ns, time_ns = note["clock"]
                clock = _number(realtime_ns), _number(time_ns)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            damaged += len(text)
    return (
        Evidence(
            samples=tuple(sorted(samples, key=lambda one: one.time_ns)),
            core_times=tuple(sorted(core_times, key=lambda one: one.time_ns)),
            asleep=tuple(sorted(asleep, key=lambda one: one.time_ns)),
            standing=tuple(standing),
            laps=tuple(sorted(laps, key=lambda one: one.begun_ns)),
            longest_away=tuple(sorted(away, key=lambda one: one.since_ns)),
            stopped=tuple(sorted(stopped, key=lambda one: one.since_ns)),
            unreleased=tuple(unreleased),
            there=tuple(sorted(there)),
            watched=watched or bool(core_times),  # recordings of earlier versions do not say it
            clock=clock,
        ),
        damaged,
    )
