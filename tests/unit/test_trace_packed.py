"""Reading chunks of events that the collector has packed."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_traces import made_trace
from packed_chunks import pack_file, packed
from patched_traces import patch, patch_chunk, patch_header
from sample import examples

from headway.traces import format as hwt
from headway.traces import stored
from headway.traces.chunks import chunk_headers
from headway.traces.invariants import violations
from headway.traces.packed import are_of_events, event_counts, events_of
from headway.traces.reader import read, read_part
from headway.traces.writer import CHUNKS_OFFSET, write

MOST = (hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES) // hwt.EVENT_DTYPE.itemsize


def numbers(bits):
    """Return numbers of all lengths, each length equally often."""
    return st.integers(0, bits).flatmap(lambda length: st.integers(0, 2**length - 1))


ROWS = st.lists(
    st.tuples(numbers(64), numbers(32), st.sampled_from([hwt.HOLD, hwt.HOLD, hwt.WAIT, 255]), numbers(2), numbers(16)),
    max_size=40,
)


def events_from(rows, *, rising):
    """Return events whose times are the rows' first numbers, or the sums of these modulo 2^64."""
    made = np.zeros(len(rows), hwt.EVENT_DTYPE)
    for name, column in zip(("value", "kind", "gil", "flags"), list(zip(*rows, strict=True))[1:], strict=False):
        made[name] = column
    times = np.array([row[0] for row in rows], dtype=np.uint64)
    made["time_ns"] = (np.cumsum(times, dtype=np.uint64) if rising else times).view(np.int64)
    return made


def headers(blocks):
    """Return the headers of chunks, given as (kind, bytes, number of events)."""
    head = np.zeros(len(blocks), hwt.CHUNK_DTYPE)
    for one, (kind, data, count) in enumerate(blocks):
        head[one]["kind"], head[one]["used"], head[one]["events"], head[one]["owner"] = kind, len(data), count, 1
    return head


def unpacked(blocks):
    """Return the events of chunks, given as (kind, bytes, number of events), and how many each has."""
    return events_of(headers(blocks), lambda one, size: blocks[one][1][:size], range(len(blocks)))


@examples(200)
@given(st.lists(st.tuples(ROWS, st.booleans(), st.booleans()), min_size=1, max_size=5))
def test_chunks_come_back(chunks):
    """Chunks that are read together have their own events each, packed or not, whatever comes before them."""
    written = [events_from(rows, rising=rising) for rows, rising, _ in chunks]
    blocks = [
        (hwt.CHUNK_PACKED, packed(events), len(events)) if is_packed else (hwt.CHUNK_EVENTS, events.tobytes(), 0)
        for events, (_, _, is_packed) in zip(written, chunks, strict=True)
    ]

    found, sizes = unpacked(blocks)

    assert sizes.tolist() == [len(events) for events in written] == event_counts(headers(blocks)).tolist()
    assert found.tobytes() == b"".join(events.tobytes() for events in written)


@examples(300)
@given(ROWS.filter(bool), st.data())
def test_a_damaged_chunk_has_no_events_or_as_many_as_before(rows, data):
    """Changed bytes give other events or none, never an error, and the chunks beside it are as they were."""
    events = events_from(rows, rising=True)
    whole = (hwt.CHUNK_PACKED, packed(events), len(events))
    bad = bytearray(whole[1])
    for at in data.draw(st.lists(st.integers(0, len(bad) - 1), min_size=1, max_size=4)):
        bad[at] = data.draw(st.integers(0, 255))
    bad = bad[: data.draw(st.integers(0, len(bad)))] if data.draw(st.booleans()) else bad

    found, sizes = unpacked([whole, (hwt.CHUNK_PACKED, bytes(bad), len(events)), whole])

    assert sizes[1] in {0, len(events)}
    assert sizes[0] == sizes[2] == len(events)
    assert found[: len(events)].tobytes() == found[-len(events) :].tobytes() == events.tobytes()


@pytest.mark.parametrize("every", [1, 2])
def test_a_packed_file_is_the_same_trace(tmp_path, every):
    """A file whose chunks are packed, all or some, is read like one whose chunks are not."""
    written = made_trace(events=5000, threads=5)
    whole = read(write(written, tmp_path / "x.hwt", events_per_chunk=100))

    found = read(pack_file(write(written, tmp_path / "y.hwt", events_per_chunk=100), every=every))

    assert found.loss.whole
    assert found.threads == whole.threads
    assert (found.events == whole.events).all()


def test_a_part_of_a_packed_file(tmp_path):
    """A part, and the overview of the whole, are the same whether the chunks are packed or not."""
    written = made_trace(events=5000, threads=5)
    paths = [write(written, tmp_path / f"{name}.hwt", events_per_chunk=100) for name in "xy"]
    pack_file(paths[1])

    def choose(overview):
        return (overview.start_ns + overview.end_ns) // 2, 500

    (one, of_one), (other, of_other) = (read_part(path, choose, most=1000) for path in paths)

    assert 0 < len(other.events) < 5000
    assert (one.events == other.events).all()
    assert (of_one.released == of_other.released).all()
    assert of_one.waited_ns == of_other.waited_ns


def _first_packed(path):
    data = path.read_bytes()
    places = range((len(data) - CHUNKS_OFFSET) // hwt.CHUNK_BYTES)
    return next(one for one in places if data[CHUNKS_OFFSET + one * hwt.CHUNK_BYTES + 4] == hwt.CHUNK_PACKED)


@pytest.mark.parametrize("claimed", [0, 1, 99, 101, MOST + 1, 2**32 - 1])
def test_a_wrong_number_of_events_is_damage(tmp_path, claimed):
    """A packed chunk whose header has another number of events is left out and counted; the rest is read."""
    path = pack_file(write(made_trace(events=2000, threads=2), tmp_path / "x.hwt", events_per_chunk=100))
    whole = read(path)

    found = read(patch_chunk(path, _first_packed(path), "events", claimed))

    assert len(whole.events) - 250 < len(found.events) < len(whole.events)
    assert violations(found) == []
    assert found.loss.damaged_bytes > 0


def test_a_file_that_is_cut_off_in_a_packed_chunk(tmp_path):
    """Of a packed chunk that is not whole nothing is read, and the loss is counted."""
    path = pack_file(write(made_trace(events=2000, threads=1), tmp_path / "x.hwt", events_per_chunk=100))
    whole = read(path)
    data = path.read_bytes()
    last = max(at for at in range(CHUNKS_OFFSET, len(data), hwt.CHUNK_BYTES) if data[at + 4] == hwt.CHUNK_PACKED)
    path.write_bytes(data[: last + hwt.CHUNK_HEADER_BYTES + 150])

    found = read(path)

    assert len(whole.events) - 250 < len(found.events) < len(whole.events)
    assert violations(found) == []
    assert found.loss.damaged_bytes > 0


def test_a_file_of_version_2_is_read(tmp_path):
    """Files that were recorded before there were packed chunks are read as before."""
    path = write(made_trace(events=200, threads=2), tmp_path / "x.hwt")
    whole = read(path)

    found = read(patch(path, hwt.HEADER_DTYPE.fields["version"][1], (2).to_bytes(4, "little")))

    assert (found.events == whole.events).all()


def test_which_chunks_have_events():
    """A packed chunk cannot have more events than bytes, nor more than a chunk has room for, nor none in some bytes."""
    claims = ((9, 9), (9, 10), (9000, MOST + 1), (9, 0), (0, 0))
    head = headers([(hwt.CHUNK_PACKED, b"x" * used, count) for used, count in claims])

    assert are_of_events(head).tolist() == [True, False, False, False, True]


def _with_both(path):
    """Add to a file of chunks that are not packed the packed form of each, at further places."""
    data = path.read_bytes()
    packed_ones = pack_file(path).read_bytes()
    places = (len(data) - CHUNKS_OFFSET) // hwt.CHUNK_BYTES
    path.write_bytes(data + packed_ones[CHUNKS_OFFSET:])
    header = np.frombuffer(data, hwt.HEADER_DTYPE, 1)[0]
    for place in range(places):
        at = CHUNKS_OFFSET + (places + place) * hwt.CHUNK_BYTES
        if packed_ones[CHUNKS_OFFSET + place * hwt.CHUNK_BYTES + 4] != hwt.CHUNK_PACKED:
            patch(path, at, bytes(hwt.CHUNK_BYTES))  # records are there once
    assert header["chunk_count"] == places
    return patch_header(path, "chunk_count", 2 * places)


def test_a_chunk_that_is_there_twice_counts_once(tmp_path):
    """A collector that was killed while it packed a chunk leaves the chunk in the file twice."""
    written = made_trace(events=2000, threads=3)
    whole = read(write(written, tmp_path / "x.hwt", events_per_chunk=100))

    found = read(_with_both(write(written, tmp_path / "y.hwt", events_per_chunk=100)))

    assert found.loss.whole
    assert (found.events == whole.events).all()


@pytest.mark.parametrize("after", ["first headers", "headers"])
def test_a_chunk_that_moves_while_it_is_read(tmp_path, monkeypatch, after):
    """Nothing is missing if the collector packs chunks between two steps of the reader, and others take their places."""
    written = made_trace(events=2000, threads=3)
    path = write(written, tmp_path / "x.hwt", events_per_chunk=100)
    whole = read(path)
    patch_header(path, "end_ns", 0)
    patch_header(path, "known_until_ns", int(whole.events["time_ns"][-1]))
    early, late = path.read_bytes(), _with_both(path).read_bytes()
    places = (len(early) - CHUNKS_OFFSET) // hwt.CHUNK_BYTES
    late = bytearray(late)
    for place in range(places):
        at = CHUNKS_OFFSET + place * hwt.CHUNK_BYTES
        if late[at + 4] == hwt.CHUNK_EVENTS:
            late[at : at + hwt.CHUNK_BYTES] = bytes(hwt.CHUNK_BYTES)
    path.write_bytes(early)
    calls = []

    def headers(*arguments):
        found = chunk_headers(*arguments)
        calls.append(len(found))
        if len(calls) == (1 if after == "first headers" else 2):
            path.write_bytes(late)
        return found

    monkeypatch.setattr(stored, "chunk_headers", headers)

    found = read(path)

    assert len(calls) > 2
    assert found.loss.overwritten_events == 0
    assert (found.events == whole.events).all()


def test_a_file_that_lost_its_last_places_is_cut(tmp_path):
    """A chunk that has moved leaves a place behind, so a file has more places than chunks were ever taken."""
    path = _with_both(write(made_trace(events=2000, threads=3), tmp_path / "x.hwt", events_per_chunk=100))
    places = (path.stat().st_size - CHUNKS_OFFSET) // hwt.CHUNK_BYTES
    assert read(path).loss.whole

    os.truncate(path, CHUNKS_OFFSET + (places - 1) * hwt.CHUNK_BYTES)

    assert hwt.CHUNK_BYTES <= read(path).loss.damaged_bytes < 2 * hwt.CHUNK_BYTES


def counted_searches(monkeypatch):
    """Return a list that gets one more item each time that the headers are read."""
    searches = []

    def headers(*arguments):
        searches.append(1)
        return chunk_headers(*arguments)

    monkeypatch.setattr(stored, "chunk_headers", headers)
    return searches


def test_chunks_that_are_overwritten_all_the_time(tmp_path, monkeypatch):
    """A reader that is slower than the collector does not look for each chunk in the whole file, and counts what is lost."""
    path = write(made_trace(events=20_000, threads=3), tmp_path / "x.hwt", events_per_chunk=10)
    patch_header(path, "end_ns", 0)
    searches = counted_searches(monkeypatch)
    monkeypatch.setattr(stored.Stored, "_taken_anew", lambda *_: True)

    found = read(path)

    assert not len(found.events)
    assert found.loss.overwritten_events >= 20_000
    assert found.loss.damaged_bytes == 0
    assert len(searches) <= 2 * (stored._MOST_SEARCHES + 2)


def test_a_packed_chunk_that_is_gone_is_not_looked_for(tmp_path, monkeypatch):
    """Only a chunk that is not packed yet moves."""
    path = pack_file(write(made_trace(events=2000, threads=3), tmp_path / "x.hwt", events_per_chunk=100))
    patch_header(path, "end_ns", 0)
    searches = counted_searches(monkeypatch)
    monkeypatch.setattr(stored.Stored, "_taken_anew", lambda *_: True)

    assert read(path).loss.overwritten_events >= 2000
    assert len(searches) == 4  # for the events, and for the records after them
