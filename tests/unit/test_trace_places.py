"""Reading places of a trace file that several short chunks share."""

from made_traces import made_trace
from packed_chunks import pack_file, share_places
from patched_traces import patch_chunk

from headway.traces import format as hwt
from headway.traces.invariants import violations
from headway.traces.reader import read
from headway.traces.writer import CHUNKS_OFFSET, write


def test_short_chunks_share_a_place(tmp_path):
    """Chunks of several threads at one place of the file are read like those with a place of their own."""
    written = made_trace(events=200, threads=9)
    whole = read(write(written, tmp_path / "x.hwt", events_per_chunk=10))

    for pack in (lambda path: path, pack_file):
        found = read(share_places(pack(write(written, tmp_path / "y.hwt", events_per_chunk=10))))

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
