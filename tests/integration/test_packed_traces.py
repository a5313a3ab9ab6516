"""The collector's packed chunks, in files that real collections have written."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_memory import EVENTS_PER_CHUNK, memory, spread_events
from sample import examples

from headway.live.files import wait_until_finished
from headway.native import Collection
from headway.traces import format as hwt
from headway.traces.chunks import chunk_headers, opened, pread, read_header
from headway.traces.packed import events_of
from headway.traces.reader import read

pytestmark = pytest.mark.slow


def events_in(path):
    """Return the headers and the events of a file's chunks of events, in the order of the headers' sequence."""
    with opened(path) as file:
        header = read_header(path, file)
        chunks = chunk_headers(file, header)
        chunks = chunks[np.argsort(chunks["head"]["sequence"], kind="stable")]
        offset = int(header["chunks_offset"]) + hwt.CHUNK_HEADER_BYTES

        def room(one, size):
            return pread(file, size, offset + int(chunks["position"][one]))

        return chunks, *events_of(chunks["head"], room, range(len(chunks)))


def collected(path, filled):
    """Collect a memory whose chunks are closed and have these events."""
    descriptor = memory(max(8, len(filled)), filled, slot_count=0, chunks_taken=len(filled))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        collection = Collection(descriptor, file, path)
        collection.copy(last=True)
        collection.close()
    finally:
        os.close(file)
        os.close(descriptor)
    return path


@st.composite
def chunks_of_events(draw):
    """Draw the events of a chunk: of steps and fields with lengths that vary from chunk to chunk."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, EVENTS_PER_CHUNK))
    events = np.zeros(count, hwt.EVENT_DTYPE)
    steps = chance.integers(0, 2 ** draw(st.integers(1, 62)), count, dtype=np.uint64)
    events["time_ns"] = np.cumsum(steps >> chance.integers(0, 60, count, dtype=np.uint64)).view(np.int64)
    events["value"] = chance.integers(0, 2 ** draw(st.integers(1, 32)), count)
    events["flags"] = chance.integers(0, 2 ** draw(st.integers(1, 16)), count)
    kinds = draw(st.lists(st.integers(0, 255), min_size=1, max_size=4))
    events["kind"] = chance.choice(kinds, count)
    events["gil"] = chance.integers(0, draw(st.integers(1, 256)), count)
    return events


@examples(60)
@given(filled=st.lists(chunks_of_events(), min_size=1, max_size=6))
def test_what_the_collector_packs_comes_back(tmp_path_factory, filled):
    """Every event of a closed chunk is in the file, bit for bit, whatever the process has written."""
    path = collected(tmp_path_factory.mktemp("packed") / "x.hwt", filled)

    chunks, events, sizes = events_in(path)

    assert sizes.tolist() == [len(one) for one in filled]
    assert events.tobytes() == b"".join(one.tobytes() for one in filled)
    assert set(chunks["head"]["kind"].tolist()) <= {hwt.CHUNK_EVENTS, hwt.CHUNK_PACKED}


def test_events_that_packing_does_not_shorten_stay_as_they_are(tmp_path):
    """A chunk that is too long when it is packed has a place of its own, not packed."""
    chunks, _, sizes = events_in(collected(tmp_path / "x.hwt", [spread_events()]))

    assert chunks["head"]["kind"].tolist() == [hwt.CHUNK_EVENTS]
    assert sizes.tolist() == [EVENTS_PER_CHUNK]


def test_a_program_that_releases_the_gil_all_the_time(tmp_path):
    """Its trace has at most 8 bytes for each round trip: most of its chunks are closed when they are first copied."""
    rounds = 300_000
    script = tmp_path / "app.py"
    script.write_text(
        f"import os\nfile = os.open(os.devnull, os.O_WRONLY)\nfor _ in range({rounds}):\n os.write(file, b'')\n"
    )
    command = [sys.executable, "-m", "headway", "trace", "-o", str(tmp_path / "app.hwt"), str(script)]
    subprocess.run(command, check=True, timeout=120)
    path = tmp_path / "app.hwt"
    wait_until_finished(path)  # the collector may have had no core to make the file
    trace = read(path)

    assert trace.process.ended
    assert trace.loss.whole
    assert len(trace.events) >= 2 * rounds
    chunks, _, sizes = events_in(path)
    packed = chunks["head"]["kind"] == hwt.CHUNK_PACKED
    assert sizes[packed].sum() > 0.5 * rounds
    assert chunks["head"]["used"][packed].sum() <= 8 * sizes[packed].sum()
