"""Notes in a trace: observations from outside come back, and damaged notes are skipped."""

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from c_layout import c_layout
from live_image import make_header, make_slots
from told_traces import convoy

from headway import native
from headway.live import sampling, slots, stacks
from headway.live.header import (
    COUNTERS_ONLY,
    EXECUTED_OFFSET,
    FIELDS_BYTES,
    FORMAT_VERSION,
    HEADER_BYTES,
    MISSING_OFFSET,
    header_in,
)
from headway.live.slots import thread_counters
from headway.traces import format as hwt
from headway.traces.frames import MAX_DEPTH, Asleep, Away, CoreTime, Evidence, Frame, Lap, Sample, Stopped
from headway.traces.notes import append_notes, evidence_of
from headway.traces.reader import read
from headway.traces.writer import write

ROOT = Path(__file__).resolve().parents[2]


def evidence(samples=3, depth=5):
    frames = [Frame(f"/app/m{n}.py", n, f"f{n}", n) for n in range(depth)]
    return Evidence(
        samples=tuple(Sample(1000 + n, 101, tuple(frames[: 1 + n % depth])) for n in range(samples)),
        core_times=tuple(CoreTime(1000 + n, 101, 5 * n, 7 * n) for n in range(samples)),
        asleep=tuple(Asleep(1000 + n, 101) for n in range(samples)),
        laps=tuple(Lap(1 + n, 1000 + n, 0, n % 2, 101 + n, f"worker-{n}") for n in range(samples)),
        longest_away=tuple(Away(1 + n, 1000 + n, 0, tuple(frames[: 1 + n % depth])) for n in range(samples)),
        stopped=tuple(Stopped(1000 + n, 1001 + n, 1002 + n, 1003 + n) for n in range(samples)),
        watched=samples > 0,
        clock=(5000, 1000) if samples else None,
    )


@pytest.mark.parametrize("samples", [0, 3, 5000])
def test_notes_come_back(tmp_path, samples):
    """Notes come back, however many chunks they take, and the events are unchanged."""
    path = write(convoy(), tmp_path / "x.hwt")
    before = read(path)
    with open(path, "r+b") as file:
        append_notes(file.fileno(), evidence(samples))
    after = read(path)

    assert after.evidence == evidence(samples)
    assert after.loss == before.loss
    assert (after.events == before.events).all()
    assert after.threads == before.threads


@pytest.mark.parametrize("size", [0, 8, 1000])
def test_a_file_without_its_header_is_refused_and_unchanged(tmp_path, size):
    """A watcher's disk may have been full, or its folder emptied."""
    path = write(convoy(), tmp_path / "x.hwt")
    os.truncate(path, size)
    before = path.read_bytes()
    with open(path, "r+b") as file, pytest.raises(OSError, match="it is cut off within its header"):
        append_notes(file.fileno(), evidence())
    assert path.read_bytes() == before


def test_a_stack_that_fits_no_chunk_is_cut(tmp_path):
    """A stack that is too large for a chunk is cut at its outer end."""
    path = write(convoy(), tmp_path / "x.hwt")
    deep = tuple(Frame("/app/" + "x" * 500 + f"{n}.py", n, "f") for n in range(128))
    with open(path, "r+b") as file:
        append_notes(file.fileno(), Evidence(samples=(Sample(1, 101, deep), Sample(2, 101, deep[:1]))))
    first, second = read(path).evidence.samples

    assert 0 < len(first.frames) < 128
    assert first.frames == deep[: len(first.frames)]
    assert second.frames == deep[:1]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"samples": [[1, 2, [0]]]}',
        b'{"frames": [["a", -1, "f", 0]]}',
        b'{"frames": [["a", 1, "f", 0]], "samples": [[1, 2, [1]]]}',
        b'{"core_times": [[1, 2, 3]]}',
        b'{"core_times": [[1, 2, 3, 1e99]]}',
        b'{"core_times": 7}',
        b'{"asleep": [[1, 2, 3]]}',
        b'{"laps": [[1, 2]]}',
        b'{"laps": [[1, 2, 0, 1, 5, "a", 7]]}',
        b'{"away": [[1, 2, 0, [0]]]}',
        b'{"clock": [1]}',
        b'{"clock": [-1, 2]}',
        b"[" * 100000,
    ],
)
def test_damage_is_passed_over(text):
    """A senseless note is counted as damage, and the other notes remain."""
    good = b'{"core_times": [[1, 2, 3, 4]]}'

    found, damaged = evidence_of([text, good])

    assert found.core_times == (CoreTime(1, 2, 3, 4),)
    assert damaged == len(text) or text == b""


def test_the_threads_that_were_there_come_from_several_notes():
    """One note may not have room for all of them."""
    found, damaged = evidence_of([b'{"there": [12, 10]}', b'{"there": [11]}', b'{"there": ["x"]}'])

    assert found.there == (10, 11, 12)
    assert damaged == len(b'{"there": ["x"]}')


def test_laps_of_earlier_versions_are_those_of_loops():
    """A lap without the kind and the thread is one of an event loop."""
    found, _ = evidence_of([b'{"laps": [[1, 20, 0]]}'])

    assert found.laps == (Lap(1, 20, 0),)


def test_a_sample_without_frames_is_left_out():
    """A sample whose stack is empty tells nothing, and the other samples of its note remain."""
    found, damaged = evidence_of([b'{"frames": [["a", 1, "f", 0]], "samples": [[1, 2, []], [2, 2, [0]]]}'])

    assert [one.time_ns for one in found.samples] == [2]
    assert damaged == 0


@pytest.mark.parametrize(
    ("flags", "has_gil"),
    [(0, True), (hwt.GIL_ENABLED, True), (hwt.FREE_THREADED, False), (hwt.FREE_THREADED | hwt.GIL_ENABLED, True)],
)
def test_the_watcher_s_header_is_the_format_s(flags, has_gil):
    """Each field that is read without numpy is the format's field of that name."""
    facts = {"version": 3, "pid": -5, "flags": flags, "start_ns": -7, "end_ns": 2**62, "slot_count": 2**32 - 1}
    facts |= {"slot_bytes": 13, "slots_offset": 2**64 - 1, "thread_count": 19, "family": 2**64 - 3}

    header = header_in(make_header(**facts).tobytes())

    assert {name: getattr(header, name) for name in facts} == facts
    assert (header.magic, header.program.rstrip(b"\0"), header.has_gil) == (hwt.MAGIC, b"made.py", has_gil)
    assert (FORMAT_VERSION, COUNTERS_ONLY) == (hwt.FORMAT_VERSION, hwt.COUNTERS_ONLY)
    assert header_in(make_header().tobytes()[: FIELDS_BYTES - 1]) is None
    assert header_in(make_header(magic=np.void(b"12345678")).tobytes()) is None


def test_the_watcher_s_numbers_are_the_format_s():
    """The watcher, which reads without numpy, has the format's sizes and offsets."""
    slot, header = hwt.SLOT_DTYPE, hwt.HEADER_DTYPE

    assert slot.itemsize == slots.SLOT_BYTES == slots.SLOT.size
    assert slots.Slot._fields == slot.names[: len(slots.Slot._fields)]
    assert slots.SLOT_HEAD.size == slot.fields["worst_hold_ns"][1]
    states = (slots.FREE, slots.IDLE, slots.WAITING, slots.HOLDING)
    assert states == (hwt.SLOT_FREE, hwt.SLOT_IDLE, hwt.SLOT_WAITING, hwt.SLOT_HOLDING)
    assert (slots.BUCKETS, slots.WORLD_BUCKETS, MAX_DEPTH) == (hwt.BUCKETS, hwt.WORLD_BUCKETS, hwt.MAX_DEPTH)
    made = make_slots({"serial": 3, "name": "w", "worst_hold_ns": 9, "waits_of": {2: 5}, "holds_of": {35: 7}})
    made["world_ns"][0], made["world_buckets"][0][15] = 11, 6
    one = thread_counters(made.tobytes(), 0, 10)
    assert (one.name, one.worst_hold_ns, one.wait_buckets[2], one.hold_buckets[35]) == ("w", 9, 5, 7)
    assert (one.world_ns, one.world_buckets) == (11, (0,) * 15 + (6,))
    assert (
        header.fields["chunk_count"][1],
        header.fields["chunks_offset"][1],
    ) == (stacks._CHUNK_COUNT, stacks._CHUNKS_OFFSET)
    assert (stacks.CHUNK_BYTES, stacks.CHUNK_HEADER_BYTES) == (hwt.CHUNK_BYTES, hwt.CHUNK_HEADER_BYTES)
    assert stacks._CHUNK.size == hwt.CHUNK_DTYPE.fields["sequence"][1] + 8
    assert sampling.LAYOUT_OFFSET + sampling._LAYOUT.size <= hwt.HEADER_BYTES == HEADER_BYTES
    assert (header.fields["executed"][1], header.fields["removed_files"][1]) == (EXECUTED_OFFSET, MISSING_OFFSET)
    assert header.fields["unrecorded_processes"][1] == MISSING_OFFSET + 4


def test_stacks_are_read_as_the_reader_does(tmp_path):
    """Stacks are read one by one without numpy, with the reader's result."""
    trace = convoy()
    path = write(trace, tmp_path / "x.hwt")
    file = os.open(path, os.O_RDONLY)
    try:
        found = stacks.Stacks(file)
        found.update()
        told = {found.frames(number) for number in range(1, 8)} - {()}
        whole = {found.is_whole(number) for number in range(1, 8) if found.frames(number)}
        assert (whole, found.is_whole(1000)) == ({True}, False)
        code = found._nodes[2][1]
        del found._codes[code]  # as if it had not come in yet
        assert [found.is_whole(number) for number in range(1, 4) if found._nodes[number][1] == code][:1] == [False]
    finally:
        os.close(file)
    used = {int(value) for value in trace.events["value"][trace.events["kind"] == 3]} - {0}

    assert {trace.stack(one) for one in used} <= told
    assert found.gil == trace.gils[0].address


def test_the_layout_is_where_the_recorder_leaves_it(tmp_path):
    """The recorder's layout and the sizes of laps are where the C compiler puts them."""
    wanted = {
        "layout": "HW__CONTROL_OFFSET + offsetof(struct hw__control, layout)",
        "stack_layout": "sizeof(struct hw_stack_layout)",
        "laps": "sizeof(struct hw_laps)",
        "none": "HW_HOME_NONE",
        "loop": "HW_HOME_LOOP",
        "pool": "HW_HOME_POOL",
        "outside": "HW_HOME_OUTSIDE",
        "request": "HW_HOME_REQUEST",
    }
    in_c = c_layout(tmp_path, ["headway/collect.h", "trace/control.h"], {}, wanted)

    assert list(in_c.values()) == [
        sampling.LAYOUT_OFFSET,
        sampling._LAYOUT.size,
        ctypes.sizeof(native._Laps),
        native.HOME_NONE,
        native.HOME_LOOP,
        native.HOME_POOL,
        native.HOME_OUTSIDE,
        native.HOME_REQUEST,
    ]
