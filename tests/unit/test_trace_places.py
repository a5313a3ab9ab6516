"""Reading places of a trace file that several short chunks share."""

from pathlib import Path

import numpy as np
from made_traces import made_trace
from patched_traces import patch_chunk

from headway.traces import format as hwt
from headway.traces.invariants import violations
from headway.traces.reader import read
from headway.traces.writer import CHUNKS_OFFSET, write


def _rounded(used: int) -> int:
    return hwt.CHUNK_HEADER_BYTES + max(64, -(-used // 64) * 64)


def share_places(path: Path) -> Path:
    """Move the chunks of events to one place, as the collector does with those of short threads."""
    data = bytearray(path.read_bytes())
    place, end, last = None, 0, 0
    for at in range(CHUNKS_OFFSET, len(data), hwt.CHUNK_BYTES):
        head = np.frombuffer(bytes(data[at : at + hwt.CHUNK_HEADER_BYTES]), hwt.CHUNK_DTYPE)[0]
        if head["kind"] != hwt.CHUNK_EVENTS:
            continue
        if place is None:
            place, end = at, _rounded(int(head["used"]))
            continue
        size = _rounded(int(head["used"]))
        data[place + end : place + end + size] = data[at : at + size]
        data[at : at + hwt.CHUNK_BYTES] = bytes(hwt.CHUNK_BYTES)
        field = place + last + hwt.CHUNK_DTYPE.fields["next"][1]
        data[field : field + 4] = (end - last - hwt.CHUNK_HEADER_BYTES).to_bytes(4, "little")
        last, end = end, end + size
        assert end <= hwt.CHUNK_BYTES
    path.write_bytes(data)
    return path


def test_short_chunks_share_a_place(tmp_path):
    """Chunks of several threads at one place of the file are read like those with a place of their own."""
    written = made_trace(events=200, threads=9)
    whole = read(write(written, tmp_path / "x.hwt", events_per_chunk=10))

    found = read(share_places(write(written, tmp_path / "y.hwt", events_per_chunk=10)))

    assert found.loss.whole
    assert found.threads == whole.threads
    assert (found.events == whole.events).all()


def test_chunks_that_overlap_are_not_read_twice(tmp_path):
    """A header that names a place within its own events, or beyond its place, is damage: the chunk there is left out."""
    written = made_trace(events=200, threads=9)
    path = share_places(write(written, tmp_path / "x.hwt", events_per_chunk=10))
    position = next(
        place
        for place in range(9)
        if path.read_bytes()[CHUNKS_OFFSET + place * hwt.CHUNK_BYTES + 4] == hwt.CHUNK_EVENTS
    )

    for following in (16, hwt.CHUNK_BYTES, 2**32 - 64):
        found = read(patch_chunk(path, position, "next", following))

        assert len(found.events) <= 20
        assert violations(found) == []
