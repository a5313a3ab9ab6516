"""Files that end before their last chunk, as after a copy that was broken off."""

import numpy as np
import pytest
from made_traces import START_NS, made_trace, small

from headway.traces.analysis import analyse
from headway.traces.invariants import violations
from headway.traces.model import Kind
from headway.traces.reader import read
from headway.traces.writer import write

A, R, W = Kind.ACQUIRE, Kind.RELEASE, Kind.WAIT


def cut(path, share):
    """Cut a file to a share of its bytes."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


@pytest.mark.parametrize("share", [0.95, 0.8, 0.5, 0.3])
def test_a_part_of_a_trace_waits_for_no_longer_than_the_whole(tmp_path, share):
    """A wait that is open where the file ends is not known to have gone on until the program's end."""
    written = made_trace(events=20_000, threads=7)
    whole = analyse(read(write(written, tmp_path / "x.hwt", events_per_chunk=100)))
    found = read(cut(tmp_path / "x.hwt", share))
    part = analyse(found)

    assert violations(found) == []
    assert found.loss.damaged_bytes > 0
    assert 0 < len(found.events) < len(written.events)
    assert found.end_ns == found.events["time_ns"][-1]
    assert part.gils[0].waits.max_ns <= whole.gils[0].waits.max_ns
    assert part.gils[0].holds.max_ns <= whole.gils[0].holds.max_ns
    assert part.wait_ns <= whole.wait_ns


def test_a_wait_that_is_open_where_the_file_ends_is_left_out(tmp_path):
    """The chunk in which the thread acquires the GIL is missing."""
    events = [(0, A, 0), (1, W, 1), (5, R, 0), (6, A, 1), (9, R, 1), (900_000_000, A, 0), (900_000_001, R, 0)]
    path = write(small(events), tmp_path / "x.hwt", events_per_chunk=1)
    whole = read(path)
    found = read(cut(path, 0.5))

    assert len(found.events) < len(whole.events)
    assert np.diff(found.events["time_ns"]).max(initial=0) < 100
    assert found.end_ns - START_NS < 100
    assert violations(found) == []
