"""Every written trace is read; any other bytes are read or refused, and a trace that was read keeps the invariants."""

import dataclasses
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from made_traces import in_order, traces
from sample import examples

from headway.errors import TraceError
from headway.traces import format as hwt
from headway.traces import mending
from headway.traces.invariants import violations
from headway.traces.linetable import lines
from headway.traces.model import Kind, Trace
from headway.traces.reader import read
from headway.traces.writer import CHUNKS_OFFSET, write

STACKED = (Kind.WAIT, Kind.RELEASE, Kind.PARK)


@contextmanager
def written(trace: Trace, **options):
    """Write a trace to a temporary file, and yield its path."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield write(trace, Path(folder) / "x.hwt", **options)


def assert_same(found: Trace, expected: Trace) -> None:
    """Assert that two traces are equal; stacks and frames may be numbered differently."""
    for field in dataclasses.fields(Trace):
        if field.name not in {"events", "stack_parent", "stack_frame", "frames"}:
            assert getattr(found, field.name) == getattr(expected, field.name), field.name
    mine, others = found.events, in_order(expected)
    for name in ("time_ns", "thread", "kind", "gil", "flags"):
        assert mine[name].tolist() == others[name].tolist(), name
    for one, other in zip(mine, others, strict=True):
        if one["kind"] in STACKED:
            assert found.stack(one["value"]) == expected.stack(other["value"])
        else:
            assert one["value"] == other["value"]
    assert len(set(found.frames)) == len(found.frames)


@given(traces())
def test_made_traces_are_valid(trace):
    """The strategy draws only valid traces."""
    assert violations(trace) == []


@given(traces(), st.integers(1, 5), st.booleans())
def test_what_is_written_is_read(trace, events_per_chunk, short_holds):
    """A trace that goes through a file is unchanged, however it is cut into chunks, and with or without short holds."""
    with written(trace, events_per_chunk=events_per_chunk, short_holds=short_holds) as path:
        found = read(path)

    assert_same(found, trace)
    assert violations(found) == []


@given(traces())
def test_any_merge_of_sound_threads_is_sound(trace):
    """Sound threads that are sorted and merged by time are sound, also with equal times, and no event is removed."""
    by_thread = trace.events[np.argsort(trace.events["thread"], kind="stable")]
    merged = by_thread[mending.by_time(by_thread)]

    assert not mending.contradictions(by_thread, np.full(len(trace.gils), mending.NEVER_NS)).any()
    assert not mending.taken_twice(merged).any()
    assert violations(dataclasses.replace(trace, events=merged)) == []


@given(traces(), st.data())
def test_any_events_can_be_lost(trace, data):
    """A file from which any events are missing is read as a sound trace, and nothing else is called damage."""
    lost = data.draw(st.sets(st.integers(0, max(0, len(trace.events) - 1))))
    kept = [index for index in range(len(trace.events)) if index not in lost]
    less = dataclasses.replace(
        trace, events=trace.events[kept], loss=dataclasses.replace(trace.loss, dropped_events=len(lost) + 1)
    )
    with written(less) as path:
        found = read(path)

    assert violations(found) == []
    assert len(found.events) + found.loss.dropped_events == len(trace.events) + 1 + (
        len(kept) - len(trace.events) + len(lost)
    )
    assert found.loss.damaged_bytes == 0


@given(traces(), st.integers(1, 3), st.integers(0, 12), st.booleans())
def test_any_chunks_can_be_overwritten(trace, events_per_chunk, room, short_holds):
    """With room for few chunks, the trace is sound, and has every remaining event from its start on."""
    metas = len(trace.gils)
    room += metas + len(trace.threads) + 1
    with written(trace, events_per_chunk=events_per_chunk, room=room, short_holds=short_holds) as path:
        found = read(path)

    assert violations(found) == []
    assert found.loss.damaged_bytes == 0
    serials = [thread.serial for thread in found.threads]
    for serial in serials:
        mine = found.events[found.events["thread"] == serials.index(serial)]
        theirs = trace.events[trace.events["thread"] == serial - 1]
        mine = mine[mine["time_ns"] > found.start_ns]
        theirs = theirs[theirs["time_ns"] > found.start_ns]
        assert set(mine["time_ns"].tolist()) <= set(theirs["time_ns"].tolist())


@examples(200)
@given(traces(max_events=15), st.integers(1, 4), st.booleans(), st.data())
def test_any_cut_can_be_read(trace, events_per_chunk, short_holds, data):
    """A file that ends at any byte is refused or sound."""
    with written(trace, events_per_chunk=events_per_chunk, short_holds=short_holds) as path:
        os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
        try:
            found = read(path)
        except TraceError:
            return

    assert violations(found) == []


def interesting(size: int) -> st.SearchStrategy[int]:
    """Draw an offset, more often one where there is data."""
    near = st.sampled_from([0, hwt.HEADER_DTYPE.itemsize, *range(CHUNKS_OFFSET, size, hwt.CHUNK_BYTES)])
    return st.one_of(
        st.builds(lambda base, more: min(base + more, size - 1), near, st.integers(0, 700)), st.integers(0, size - 1)
    )


@examples(300)
@given(traces(max_events=25), st.integers(1, 4), st.booleans(), st.data())
def test_any_bytes_can_change(trace, events_per_chunk, short_holds, data):
    """A file with any bytes changed is refused or sound."""
    with written(trace, events_per_chunk=events_per_chunk, short_holds=short_holds) as path:
        size = path.stat().st_size
        changes = data.draw(st.lists(st.tuples(interesting(size), st.binary(min_size=1, max_size=8)), max_size=8))
        with path.open("r+b") as file:
            for offset, change in changes:
                file.seek(offset)
                file.write(change)
        try:
            found = read(path)
        except TraceError:
            return

    assert violations(found) == []
    assert all(len(found.stack(index)) <= index for index in range(len(found.stack_parent)))


@given(st.binary(max_size=200), st.integers(0, 2**31 - 1), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=10))
def test_any_location_table_can_be_read(table, first_line, offsets):
    """Each offset has a line, or the unknown one, for any bytes of a location table."""
    found = lines(table, first_line, offsets)

    assert set(found) == set(offsets)
    assert all(0 <= line < 2**31 for line in found.values())
