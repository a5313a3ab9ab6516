"""Where events of a thread are missing from a file: the trace says of which thread, and from when to when."""

from made_traces import START_NS, small
from patched_traces import patch_chunk, patch_event, patch_header

from headway.traces import format as hwt
from headway.traces.model import Kind
from headway.traces.reader import read
from headway.traces.writer import write

W, A, R = Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE


def gaps_of(trace):
    """Return a trace's gaps, with times from its begin."""
    return [(one.thread, one.since_ns - START_NS, one.until_ns - START_NS) for one in trace.gaps]


def dropped(path, events):
    """Count events of a file as dropped."""
    return read(patch_header(path, "dropped_events", events))


def test_a_whole_trace_has_no_gap(tmp_path):
    """Nothing is missing from chunk to chunk of a thread, or at the end of a thread."""
    found = read(write(small([(1, A, 0), (2, R, 0), (9, A, 0), (10, R, 0)]), tmp_path / "x.hwt", events_per_chunk=2))

    assert found.gaps == ()
    assert (found.loss.unseen_threads, found.loss.unplaced_events) == (0, 0)


def test_a_gap_lasts_from_event_to_event(tmp_path):
    """It lasts from the last event before the missing ones that is left, to the first one after them that is left."""
    events = [(0, A, 1), (1, R, 1), (2, A, 0), (3, R, 0), (4, W, 0), (9, R, 0), (10, A, 0), (11, R, 0)]
    path = write(small(events), tmp_path / "x.hwt", events_per_chunk=3)
    found = dropped(patch_chunk(path, 3, "number", 7), 5)

    assert gaps_of(found) == [(0, 3, 10)]  # the wait's end, and the release's acquire, are missing
    assert found.loss.unplaced_events == 0


def test_a_thread_may_miss_its_first_and_its_last_events(tmp_path):
    """A gap goes back to the begin of the thread, or on to the end of the trace."""
    events = [(0, A, 0), (1, R, 0), (5, A, 1), (6, R, 1)]
    path = write(small(events), tmp_path / "x.hwt")
    patch_chunk(path, 2, "number", 4)

    assert gaps_of(dropped(path, 3)) == [(1, 0, 5)]
    assert gaps_of(dropped(patch_chunk(path, 1, "state", hwt.CHUNK_CLOSED), 3)) == [(0, 1, 100), (1, 0, 5)]


def test_dropped_events_without_a_place_are_counted(tmp_path):
    """Those that no thread's chunks account for were of threads without a record; one may have dropped all that it had."""
    path = write(small([(0, A, 0), (1, R, 0), (5, A, 1), (6, R, 1)]), tmp_path / "x.hwt")

    assert dropped(path, 3).loss.unplaced_events == 3
    assert dropped(path, 3).loss.unseen_threads == 0
    assert dropped(patch_header(path, "thread_count", 4), 3).loss.unseen_threads == 2


def test_what_contradicts_the_rest_leaves_a_gap(tmp_path):
    """Events that are taken out may have been another wait."""
    events = [(0, A, 0), (1, R, 0), (2, W, 1), (3, A, 1), (4, R, 1), (5, A, 1), (6, R, 1)]
    path = write(small(events), tmp_path / "x.hwt")
    patch_event(path, 2, 1, "kind", int(R))  # two releases, and no acquire
    found = read(path)

    assert gaps_of(found) == [(1, 0, 5)]
    assert found.loss.damaged_bytes == 3 * hwt.EVENT_DTYPE.itemsize


def test_gaps_that_meet_are_one(tmp_path):
    """A thread's time counts once."""
    events = [(1, A, 0), (2, R, 0), (3, R, 0), (4, W, 0), (5, R, 0), (8, A, 0), (9, R, 0)]
    found = dropped(write(small(events), tmp_path / "x.hwt"), 9)

    assert gaps_of(found) == [(0, 2, 8)]
