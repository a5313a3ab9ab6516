"""Reading trace files: what is read, what is left out and counted, and what is refused.

One file, because all of it is one module: what a reader makes of files, whole and damaged.
"""

import dataclasses
import os

import numpy as np
import pytest
from made_traces import MS, START_NS, made_process, made_trace, small
from patched_traces import patch, patch_chunk, patch_event, patch_header
from told_traces import Script

from headway.errors import TraceError
from headway.traces import format as hwt
from headway.traces import mending, reader
from headway.traces.family import read_family
from headway.traces.frames import CUT
from headway.traces.invariants import violations
from headway.traces.model import Flag, Frame, Gil, Kind, Loss, Park, Thread, Trace
from headway.traces.reader import read
from headway.traces.stored import Stored
from headway.traces.writer import CHUNKS_OFFSET, record, write

W, A, R, EXIT = Kind.WAIT, Kind.ACQUIRE, Kind.RELEASE, Kind.EXIT
REQUEST, INTERVAL, PARK, UNPARK = Kind.REQUEST, Kind.INTERVAL, Kind.PARK, Kind.UNPARK


def rows(trace: Trace) -> list[tuple[int, Kind, int]]:
    """Return (time from START_NS, kind, serial) of each event."""
    return [
        (time - START_NS, Kind(kind), trace.threads[thread].serial)
        for time, kind, thread in zip(
            *(trace.events[name].tolist() for name in ("time_ns", "kind", "thread")), strict=True
        )
    ]


def test_a_large_trace_comes_back(tmp_path):
    """Thousands of events of two GILs in many chunks come back with the process, threads and GILs that were written."""
    written = made_trace(events=20_000, threads=7, gils=2)

    found = read(write(written, tmp_path / "x.hwt", events_per_chunk=100))

    for name in ("process", "start_ns", "end_ns", "threads", "gils", "types", "loss"):
        assert getattr(found, name) == getattr(written, name), name
    for name in ("time_ns", "thread", "kind", "gil", "flags"):
        assert (found.events[name] == written.events[name]).all(), name
    for index in (0, 1, 500, 19_999):
        assert found.stack(found.events["value"][index]) == written.stack(written.events["value"][index])
    assert set(found.frames) == set(written.frames)
    assert violations(found) == []


def test_a_path_may_be_text(tmp_path):
    """`read` and `read_family` take a str, too."""
    path = str(write(made_trace(events=10), tmp_path / "x.hwt"))

    assert len(read(path).events) == len(read_family(path)[0].events) == 10


def test_a_killed_process_leaves_a_trace(tmp_path):
    """A trace whose header has no end ends with its last event, and says so; the file's unused tail is a hole."""
    path = write(small([(0, A, 0), (5, R, 0), (7, W, 1)], ended=False, end=7), tmp_path / "x.hwt", room=10_000)

    found = read(path)

    assert path.stat().st_size > 10_000 * hwt.CHUNK_BYTES > 1000 * 512 * path.stat().st_blocks // 1000
    assert not found.process.ended
    assert found.end_ns == START_NS + 7
    assert found.loss.whole
    assert rows(found) == [(0, A, 1), (5, R, 1), (7, W, 2)]


@pytest.mark.parametrize(
    ("left", "end", "ended"),
    [
        (9, 9, True),
        (7, 7, True),
        # Another thread has written a little later.
        (6, 7, True),
        # A child of vfork() has failed, and its parent has gone on.
        (7 - 200_000_000, 7, False),
        (-START_NS, 7, False),
        (2**62, 7, False),
    ],
)
def test_a_process_that_calls_exit_itself_ended_then(tmp_path, left, end, ended):
    """The time of `_exit()` is the end of a trace without another end, if no event follows."""
    path = write(small([(0, A, 0), (5, R, 0), (7, A, 1)], ended=False, end=7), tmp_path / "x.hwt")
    header = np.frombuffer(path.read_bytes()[: hwt.HEADER_DTYPE.itemsize], hwt.HEADER_DTYPE).copy()
    header["left_ns"] = max(0, START_NS + left)
    with path.open("r+b") as file:
        file.write(header.tobytes())

    found = read(path)

    assert (found.end_ns - START_NS, found.process.ended) == (end, ended)


def test_a_file_system_without_holes_is_read_as_well(tmp_path):
    """Chunks that are there, but were never taken, are ignored."""
    path = write(small([(0, A, 0), (5, R, 0)]), tmp_path / "x.hwt", room=100)
    (tmp_path / "y.hwt").write_bytes(path.read_bytes())

    assert rows(read(tmp_path / "y.hwt")) == rows(read(path))
    assert read(tmp_path / "y.hwt").loss.whole


def test_what_may_be_incomplete_is_left_out(tmp_path):
    """A growing file is read up to the time until which the collector has copied all threads."""
    trace = small([(0, A, 0), (5, R, 0), (8, W, 1), (10, A, 1), (20, R, 1), (30, A, 0)], ended=False, end=30)
    path = write(trace, tmp_path / "x.hwt")
    header = np.frombuffer(path.read_bytes()[: hwt.HEADER_DTYPE.itemsize], hwt.HEADER_DTYPE).copy()
    header["known_until_ns"] = START_NS + 10
    with path.open("r+b") as file:
        file.write(header.tobytes())

    found = read(path)
    assert rows(found) == [(0, A, 1), (5, R, 1), (8, W, 2), (10, A, 2)]
    assert found.loss.whole
    assert (found.end_ns, found.process.growing) == (START_NS + 10, True)


@pytest.mark.parametrize("until_ns", [2**62, -5])
def test_a_damaged_time_of_the_collector_counts_as_damage(tmp_path, until_ns):
    """A trace does not last for years because of one wrong number, and it has its events."""
    path = write(small([(0, A, 0), (5, R, 0)], ended=False, end=5), tmp_path / "x.hwt")
    found = read(patch_header(path, "known_until_ns", until_ns))

    assert rows(found) == [(0, A, 1), (5, R, 1)]
    assert (found.end_ns - START_NS, found.process.growing, found.loss.damaged_bytes) == (5, False, 8)


@pytest.mark.parametrize(
    ("lived", "end"),
    [(900, 900), (20, 30), (-START_NS, 30), (2**62, reader._LONGEST_NS)],
    ids=["later", "earlier", "no", "wild"],
)
def test_a_killed_process_has_lived_as_long_as_its_collector_saw(tmp_path, lived, end):
    """A process that is killed records no end; what was open at its last event, as a deadlock, went on."""
    path = write(small([(0, A, 0), (8, W, 1), (30, REQUEST, 1)], ended=False, end=30), tmp_path / "x.hwt")
    found = read(patch_header(path, "lived_until_ns", START_NS + lived))

    assert (found.end_ns - START_NS, found.process.ended, found.process.growing) == (end, False, False)


def test_a_chunk_that_is_overwritten_meanwhile_counts_as_overwritten(tmp_path, monkeypatch):
    """A chunk whose owner has changed after its events were read counts as overwritten."""
    trace = small([(0, A, 0), (5, R, 0), (6, A, 0), (8, R, 0), (10, A, 1), (20, R, 1)], ended=False, end=20)
    path = write(trace, tmp_path / "x.hwt", events_per_chunk=2)
    monkeypatch.setattr(Stored, "_taken_anew", lambda self, chunk: chunk["position"] == hwt.CHUNK_BYTES)

    found = read(path)

    assert rows(found) == [(10, A, 2), (20, R, 2)] or rows(found)[-2:] == [(10, A, 2), (20, R, 2)]
    assert found.loss.overwritten_events >= 2
    assert found.loss.damaged_bytes == 0


def test_names_go_by_native_id_and_time(tmp_path):
    """A native id that comes back has the next thread's name as soon as the previous thread is over."""
    events = [(0, A, 0), (5, R, 0), (10, EXIT, 0), (50, A, 1), (60, R, 1), (70, A, 2), (80, R, 2)]
    trace = small(events, threads=3)
    lives = [Thread(1, 70, "", START_NS, START_NS + 10), Thread(2, 70, "", START_NS + 50, None)]
    lives.append(Thread(3, 71, "", START_NS + 70, None))
    path = write(dataclasses.replace(trace, threads=tuple(lives)), tmp_path / "x.hwt")
    told = [(3, "first"), (10, "first, renamed"), (40, "second"), (99, "second, renamed"), (2, "")]
    data = b"".join(
        record(hwt.META_NAME, hwt.META_NAME_DTYPE, name.encode(), tid=70, name_bytes=len(name), time_ns=START_NS + at)
        for at, name in told
    )
    patch(path, CHUNKS_OFFSET + hwt.CHUNK_HEADER_BYTES, data)
    patch_chunk(path, 0, "used", len(data))

    assert [thread.name for thread in read(path).threads] == ["first, renamed", "second, renamed", "os-name"]


def test_no_thread_is_without_a_name(tmp_path):
    """A thread that neither Python nor the operating system names is called after its native id."""
    path = write(small([(0, A, 0)], threads=1), tmp_path / "x.hwt")
    patch_chunk(path, 0, "used", 0)
    patch(path, CHUNKS_OFFSET + hwt.CHUNK_BYTES + hwt.CHUNK_DTYPE.fields["name"][1], bytes(16))

    assert [thread.name for thread in read(path).threads] == ["Thread 70"]


@pytest.mark.parametrize(("told_ns", "begin_ns"), [(500, 500), (0, 0), (2_000_000_000 * 10**9, 1_700_000_000 * 10**9)])
def test_the_begin_of_the_process_is_read(tmp_path, told_ns, begin_ns):
    """Older files do not have it, and no process began after tracing did."""
    path = write(made_trace(events=100), tmp_path / "x.hwt")

    assert read(patch_header(path, "process_start_ns", told_ns)).process.begin_realtime_ns == begin_ns


@pytest.mark.parametrize("begin_ns", [500, 0])
def test_a_front_that_is_cut_off_changes_nothing_about_the_begin_of_the_process(tmp_path, begin_ns):
    """If the process's own begin is not known, it is when tracing began, and not the cut."""
    written = made_trace(events=5_000, threads=6, gils=2, process=made_process(begin_realtime_ns=begin_ns))
    found = read(write(written, tmp_path / "x.hwt", events_per_chunk=50, room=60))

    assert found.start_ns > START_NS
    assert found.process.begin_realtime_ns == (begin_ns or written.process.start_realtime_ns)


def test_the_front_of_an_overwritten_trace_is_cut_off(tmp_path):
    """A trace with reused chunks begins where all threads are complete, and holds that are open then are assumed."""
    written = made_trace(events=5_000, threads=6, gils=2)
    path = write(written, tmp_path / "x.hwt", events_per_chunk=50, room=60)

    found = read(path)

    assert violations(found) == []
    assert found.start_ns > START_NS
    assert found.process.start_realtime_ns - written.process.start_realtime_ns == found.start_ns - START_NS
    assert len(found.events) + found.loss.overwritten_events == 5_000
    assert found.loss.damaged_bytes == found.loss.dropped_events == 0
    # A hold is left out, too, if its beginning was the last event to be overwritten.
    since_ns = found.start_ns + 50_000_000
    later = written.events[written.events["time_ns"] > since_ns]
    mine = found.events[found.events["time_ns"] > since_ns]
    for name in ("time_ns", "kind", "gil", "flags"):
        assert (later[name] == mine[name]).all()
    at_start = found.events[found.events["time_ns"] == found.start_ns]
    assert ((at_start["flags"] & Flag.ASSUMED) != 0)[at_start["kind"] == A].all()
    gone = {thread.serial for thread in written.threads} - {thread.serial for thread in found.threads}
    assert all(written.threads[serial - 1].end_ns < found.start_ns for serial in gone)


def test_a_wait_for_a_lock_that_is_open_at_the_cut_begins_there(tmp_path):
    """A thread that is blocked on a lock at the cut stays blocked until its UNPARK; one that was blocked before is not."""
    park = Park.LOCK << 8
    rows_ = [(MS + 1, PARK, 1, 0, 0, park), (100 * MS, UNPARK, 1, 0, 0, park)]
    rows_ += [(MS + 2, PARK, 2, 0, 0, park), (MS + 3, UNPARK, 2, 0, 0, park)]
    rows_ += [row for i in range(40) for row in ((i * MS, PARK, 0, 0, 0, park), (i * MS + 10, UNPARK, 0, 0, 0, park))]
    trace = small(sorted(rows_), threads=3, end=100 * MS)
    found = read(write(trace, tmp_path / "x.hwt", events_per_chunk=4, room=8))

    cut_ns = found.start_ns - START_NS
    assert 2 * MS < cut_ns < 40 * MS
    assert [row for row in rows(found) if row[2] > 1] == [(cut_ns, PARK, 2), (100 * MS, UNPARK, 2)]
    assert violations(found) == []


def test_a_thread_that_came_late_does_not_move_the_cut(tmp_path):
    """A thread that began after the overwritten chunks does not move the cut, because it has lost none."""
    rows_ = [row for i in range(40) for row in ((i * MS, A, 0), (i * MS + 10, R, 0))]
    rows_ += [(50 * MS, A, 1), (51 * MS, R, 1), (60 * MS, A, 0), (61 * MS, R, 0)]
    trace = small(rows_, end=70 * MS)
    late = dataclasses.replace(trace.threads[1], start_ns=START_NS + 49 * MS)
    path = write(
        dataclasses.replace(trace, threads=(trace.threads[0], late)), tmp_path / "x.hwt", events_per_chunk=4, room=15
    )

    found = read(path)

    assert found.loss.overwritten_events > 0
    assert found.start_ns < START_NS + 40 * MS
    assert violations(found) == []


def test_the_policy_is_in_the_file(tmp_path):
    """A trace has the name of its policy, cut to the room for it; "" is none."""
    for given, kept in (("", ""), ("fair", "fair"), ("x" * 100, "x" * 63)):
        trace = small([(0, A, 0), (1, R, 0)], process=made_process(policy=given))
        assert read(write(trace, tmp_path / f"{len(given)}.hwt")).process.policy == kept


def test_the_end_of_the_policy_is_in_the_file(tmp_path):
    """The time counts from the begin of tracing; None is a policy that did not end."""
    for given in (None, 0, 30):
        trace = small([(0, A, 0), (1, R, 0)], process=made_process(policy="fair", policy_ended_ns=given))
        assert read(write(trace, tmp_path / f"{given}.hwt")).process.policy_ended_ns == given


@pytest.mark.parametrize(
    ("changes", "interval_us"),
    [
        ([(2, 1, 77)], 77),  # in a chunk that stays, before the cut
        ([(2, 0, 77)], 77),  # in a chunk that is overwritten
        ([(2, 1, 66), (MS + 20, 0, 77)], 77),
        ([(2, 0, 66), (MS + 20, 1, 77)], 77),
        ([(39 * MS + 20, 0, 66)], 5000),  # after the cut
    ],
)
def test_the_switch_interval_before_the_cut_is_the_traces(tmp_path, changes, interval_us):
    """An INTERVAL that is overwritten, or cut off at the front, still sets the interval; another GIL's does not."""
    rows_ = [(0, A, 0), (1, R, 0), (3 * MS + 20, INTERVAL, 1, 1, 88)]
    rows_ += [row for i in range(1, 40) for row in ((i * MS, A, 0), (i * MS + 10, R, 0))]
    rows_ += [(time, INTERVAL, thread, 0, value) for time, thread, value in changes]
    path = write(small(sorted(rows_), gils=2, end=70 * MS), tmp_path / "x.hwt", events_per_chunk=4, room=9)

    found = read(path)

    assert found.start_ns > START_NS
    assert found.process.interval_us == interval_us


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([(1, INTERVAL, 0), (2, W, 0), (9, A, 0), (10, R, 0)], [1, 9, 10]),
        ([(1, W, 0), (2, A, 0), (9, R, 0), (10, W, 0)], [10]),
        ([(1, W, 0), (2, A, 0), (9, A, 0), (10, R, 0)], [9, 10]),  # the WAIT does not lead to the later ACQUIRE
        ([(1, PARK, 0), (2, W, 0), (9, UNPARK, 0), (10, A, 0)], [9, 10]),
        ([(1, PARK, 0), (2, UNPARK, 0), (9, PARK, 0), (10, UNPARK, 0)], [1, 2, 9, 10]),
        ([(1, A, 0), (2, R, 0), (9, W, 0), (10, A, 0)], [1, 2, 9, 10]),
    ],
)
def test_nothing_lasts_across_a_gap(tmp_path, events, kept):
    """Where a thread's events are missing between chunks, what is open there is taken out, and what ends there."""
    path = write(small([(0, W, 1), *events]), tmp_path / "x.hwt", events_per_chunk=2)
    found = read(patch_header(patch_chunk(path, 3, "number", 7), "dropped_events", 5))

    assert [time for time, _, serial in rows(found) if serial == 1] == kept
    assert (0, W, 2) in rows(found)
    assert found.loss.dropped_events == 5 + 4 - len(kept)
    assert violations(found) == []


@pytest.mark.parametrize("number", [2, 0])
def test_what_lasts_from_chunk_to_chunk_stays(tmp_path, number):
    """Where no event is missing, or where it is not known in an older file, the events of both chunks belong together."""
    events = [(1, INTERVAL, 0), (2, W, 0), (9, A, 0), (10, R, 0)]
    path = write(small(events), tmp_path / "x.hwt", events_per_chunk=2)
    found = read(patch_header(patch_chunk(path, 2, "number", number), "dropped_events", 5))

    assert [time for time, _, _ in rows(found)] == [1, 2, 9, 10]
    assert found.loss.dropped_events == 5


@pytest.mark.parametrize(("dropped", "state", "kept"), [(1, 2, 1), (1, 1, 2), (0, 2, 2)])
def test_what_is_open_at_a_closed_chunk_is_not_known_to_last(tmp_path, dropped, state, kept):
    """A thread whose last chunk is closed had a further event: if events were dropped, its wait ended at some time."""
    path = write(small([(0, W, 1), (1, W, 0)]), tmp_path / "x.hwt")
    patch_header(patch_chunk(path, 2, "state", state), "dropped_events", dropped)

    assert len(read(path).events) == kept


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([(1, R, 0), (2, A, 0), (3, R, 0)], [1, 2]),  # a release without its acquire
        ([(1, A, 0), (2, A, 0), (3, R, 0)], [1, 2]),  # a release is missing: the hold after it is sound
        ([(1, W, 0), (2, A, 0), (3, W, 0), (4, A, 0), (5, R, 0)], [2, 3, 4]),
        ([(1, W, 0), (2, W, 0), (3, A, 0), (4, R, 0)], [1, 2, 3]),
        ([(1, W, 0), (2, R, 0), (3, A, 0), (4, R, 0)], [2, 3]),
        ([(1, A, 0), (2, EXIT, 0)], [1]),
        ([(1, EXIT, 0), (2, A, 0), (3, R, 0)], [1, 2]),  # the events after EXIT are kept: that is less damage
        ([(1, REQUEST, 0), (2, W, 0), (3, REQUEST, 0), (4, A, 0)], [1, 2, 3]),
        ([(1, A, 0), (2, A, 1), (3, R, 1), (4, R, 0)], [1, 2]),  # two holders: the pair that fits stays
        ([(1, W, 0), (2, REQUEST, 0), (3, A, 0), (4, A, 1), (5, R, 1)], [3, 4]),
        ([(1, A, 0, 0), (2, A, 0, 1), (3, R, 0, 1), (4, R, 0, 0)], [1, 2]),  # a thread uses one GIL at a time
        ([(1, A, 0, 0), (2, R, 0, 1)], []),
    ],
)
def test_what_contradicts_the_rest_is_taken_out(tmp_path, events, kept):
    """Events that contradict the rest are removed and counted with the dropped ones, and whole holds remain."""
    trace = small(events, gils=2)
    path = patch_header(write(trace, tmp_path / "x.hwt"), "dropped_events", 10)

    found = read(path)

    assert rows(found) == [rows(trace)[index] for index in kept]
    assert found.loss == Loss(dropped_events=10 + len(events) - len(kept))
    assert violations(found) == []
    assert read(patch_header(path, "dropped_events", 0)).loss == Loss(damaged_bytes=16 * (len(events) - len(kept)))


def test_the_end_of_a_gil_ends_a_hold(tmp_path):
    """A GIL that was destroyed while held needs no release, and the thread goes on with another."""
    events = [(0, A, 0, 1), (10, A, 0, 0), (20, R, 0, 0)]
    gils = (Gil(0, True, 1, START_NS, None), Gil(1, False, 2, START_NS, START_NS + 5))
    path = write(dataclasses.replace(small(events), gils=gils), tmp_path / "x.hwt")

    found = read(path)

    assert rows(found) == [(0, A, 1), (10, A, 1), (20, R, 1)]
    assert found.gils == gils
    assert violations(found) == []


def test_an_end_of_a_gil_before_its_last_event_is_none(tmp_path):
    """An end of a GIL before its last event is damage, and the events are believed."""
    gils = (Gil(0, True, 1, START_NS, START_NS + 5),)
    path = write(dataclasses.replace(small([(0, A, 0), (10, R, 0)]), gils=gils), tmp_path / "x.hwt")

    assert read(path).gils[0].end_ns is None


def test_equal_times_are_ordered_by_who_can_hold(tmp_path):
    """The order at one time is: the release of the earlier hold, holds of no length, the acquire that stays."""
    events = [(0, A, 2), (9, W, 0), (9, R, 2), (9, A, 1), (9, R, 1), (9, A, 3), (9, R, 3), (9, A, 0), (12, R, 0)]

    found = read(write(small(events, threads=4), tmp_path / "x.hwt"))

    assert rows(found) == [
        (0, A, 3),
        (9, R, 3),
        (9, W, 1),
        (9, A, 2),
        (9, R, 2),
        (9, A, 4),
        (9, R, 4),
        (9, A, 1),
        (12, R, 1),
    ]
    assert found.loss.whole


def test_one_damaged_time_costs_one_event(tmp_path):
    """A time that goes back, or far ahead, costs one event, and not all that follow."""
    events = [(10 * i, INTERVAL, 0, 0, i) for i in range(10)]
    path = write(small(events, threads=1), tmp_path / "x.hwt")
    patch_event(path, 1, 3, "time_ns", START_NS + 85)
    patch_event(path, 1, 7, "time_ns", START_NS + 5)
    patch_event(path, 1, 9, "time_ns", 2**62)

    found = read(path)

    assert found.events["value"].tolist() == [0, 1, 2, 4, 5, 6, 8]
    assert found.loss.damaged_bytes == 3 * 16


def test_as_few_as_will_do_are_taken_out():
    """The longest sequence of times that does not go back is kept."""
    bad = mending.going_back(np.array([5, 6, 1, 7, 7, 3, 8], dtype=np.int64))

    assert bad.tolist() == [False, False, True, False, False, True, False]
    assert not mending.going_back(np.zeros(0, dtype=np.int64)).any()


@pytest.mark.parametrize(
    ("name", "value"), [("kind", 0), ("kind", 11), ("kind", 255), ("flags", 0x8000), ("flags", 0x600)]
)
def test_an_event_without_sense_is_skipped(tmp_path, name, value):
    """Unknown kinds and flags are damage."""
    path = write(small([(1, INTERVAL, 0), (2, INTERVAL, 0), (3, INTERVAL, 0)], threads=1), tmp_path / "x.hwt")

    found = read(patch_event(path, 1, 1, name, value))

    assert [row[0] for row in rows(found)] == [1, 3]
    assert found.loss.damaged_bytes == 16


def test_an_unknown_gil_is_damage(tmp_path):
    """An event of a GIL without a record is skipped."""
    path = write(small([(1, A, 0), (2, R, 0)], threads=1), tmp_path / "x.hwt")

    assert rows(read(patch_event(path, 1, 1, "gil", 200))) == [(1, A, 1)]


def test_the_number_that_stands_for_no_gil_is_no_gil(tmp_path):
    """An event or a record of the GIL 255 is damage: such events are those of a build whose GIL is off."""
    path = write(small([(1, A, 0), (2, R, 0), (3, A, 0)], threads=1, gils=2), tmp_path / "x.hwt")
    patch_header(path, "gil_count", 256)
    index = hwt.CHUNK_HEADER_BYTES + hwt.META_GIL_DTYPE.fields["index"][1]
    patch(path, CHUNKS_OFFSET + hwt.CHUNK_BYTES + index, np.array(255, dtype="<u4").tobytes())

    found = read(patch_event(path, 2, 2, "gil", 255))

    assert rows(found) == [(1, A, 1), (2, R, 1)]
    assert [gil.index for gil in found.gils] == [0]
    assert found.loss.damaged_bytes == 16 + hwt.META_GIL_DTYPE.itemsize


@pytest.mark.parametrize(("count", "gils"), [(2, 2), (130, 2), (1, 1), (0, 1)])
def test_only_gils_that_have_something_are_believed(tmp_path, count, gils):
    """The number of GILs in the header counts up to the last GIL with a record or an event."""
    path = write(small([(1, A, 0), (2, R, 0), (3, A, 1, 1)], gils=2), tmp_path / "x.hwt")
    patch(path, CHUNKS_OFFSET + hwt.CHUNK_BYTES + hwt.CHUNK_HEADER_BYTES, bytes(2))  # GIL 1 has lost its record

    found = read(patch_header(path, "gil_count", count))

    assert [gil.index for gil in found.gils] == list(range(gils))


@pytest.mark.parametrize(("name", "value"), [("kind", 7), ("used", hwt.CHUNK_BYTES), ("used", 2**32 - 1), ("owner", 0)])
def test_a_chunk_without_sense_is_skipped(tmp_path, name, value):
    """A chunk whose header is impossible is left out as a whole, and the others are read."""
    path = write(small([(1, A, 0), (2, R, 0), (3, A, 1)]), tmp_path / "x.hwt")

    found = read(patch_chunk(path, 1, name, value))

    assert rows(found) == [(3, A, 2)]
    assert found.loss.damaged_bytes == hwt.CHUNK_BYTES


def test_half_an_event_is_left_out(tmp_path):
    """Bytes after the last whole record count as damage."""
    path = write(small([(1, A, 0), (2, R, 0)], threads=1), tmp_path / "x.hwt")

    found = read(patch_chunk(path, 1, "used", 16 + 9))

    assert rows(found) == [(1, A, 1)]
    assert found.loss.damaged_bytes == 9


def damaged_meta(tmp_path, *records):
    """Return what is read from a trace with one event at stack 1, and with these records after the GIL's."""
    path = write(small([(1, W, 0, 0, 0), (2, A, 0), (3, R, 0)], threads=1), tmp_path / "x.hwt")
    patch_event(path, 1, 0, "value", 1)
    patch_event(path, 1, 2, "value", 2)
    data = record(hwt.META_GIL, hwt.META_GIL_DTYPE, index=0, main=1, address=9, time_ns=START_NS) + b"".join(records)
    patch(path, CHUNKS_OFFSET + hwt.CHUNK_HEADER_BYTES, data)
    return read(patch_chunk(path, 0, "used", len(data)))


def code(**changes):
    """Return the record of a code object `f` in `a.py`."""
    fields = {
        "id": 1,
        "first_line": 5,
        "filename_bytes": 4,
        "filename_kind": 1,
        "qualname_bytes": 1,
        "qualname_kind": 1,
    }
    return record(hwt.META_CODE, hwt.META_CODE_DTYPE, b"a.pyf", **(fields | changes))


def node(number, parent, code=1, offset=-1):
    """Return the record of a stack."""
    return record(hwt.META_NODE, hwt.META_NODE_DTYPE, id=number, parent=parent, code=code, offset=offset)


F = Frame("a.py", 5, "f", 5)
UNKNOWN = Frame("", 0, "?")


@pytest.mark.parametrize(
    ("records", "stacks", "damaged_bytes"),
    [
        ([code(), node(1, 0), node(2, 1)], [(F,), (F, F)], 0),
        ([node(2, 1), code(), node(1, 0)], [(F,), (F, F)], 0),  # in any order
        ([code(), node(1, 1), node(2, 1)], [(F,), (F, F)], 24),  # its own caller
        ([code(), node(1, 2), node(2, 1)], [(F,), (F, F)], 24),  # a circle
        ([code(), node(1, 0), node(2, 9)], [(F,), (F,)], 24),
        ([code(), node(1, 0), node(2, 1, code=7)], [(F,), (UNKNOWN, F)], 24),
        ([code(), node(1, 0), node(1, 0)], [(F,), ()], 24 + 4),
        ([code(), node(1, 0), node(2**32 - 1, 1)], [(F,), ()], 4),
        ([code(filename_bytes=400), node(1, 0)], [(UNKNOWN,), ()], 40 + 24 + 4),
        ([code(filename_kind=3), node(1, 0), node(2, 1)], [(UNKNOWN,), (UNKNOWN, UNKNOWN)], 40 + 48),
        ([code(qualname_kind=2), node(1, 0), node(2, 1)], [(UNKNOWN,), (UNKNOWN, UNKNOWN)], 40 + 48),
        ([code(), node(1, 0), record(99, hwt.META_NODE_DTYPE), node(2, 1)], [(F,), (F, F)], 24),
        ([code(), node(1, 0), b"\4\0\0\0\7\0\0\0" * 4], [(F,), ()], 32 + 4),
        ([code(), node(1, 0), b"\4\0\0\0\0\0\0\0" * 4], [(F,), ()], 32 + 4),
        ([code(), node(1, 0), b"\4\0\0\0\xff\xff\xff\xff" * 4], [(F,), ()], 32 + 4),
        ([code(), node(1, 0), b"\4\0\0\0"], [(F,), ()], 4 + 4),
    ],
)
def test_damaged_records_cost_what_they_tell_of(tmp_path, records, stacks, damaged_bytes):
    """Impossible stacks are cut short or unknown, and counted; the others stay, and none is endless."""
    found = damaged_meta(tmp_path, *records)

    assert [found.stack(value) for value in found.events["value"][[0, 2]]] == stacks
    assert found.loss.damaged_bytes == damaged_bytes
    assert violations(found) == []


def test_text_that_is_none_is_shown_escaped(tmp_path):
    """Names that are no valid characters can still be written anywhere."""
    lone = record(
        hwt.META_CODE,
        hwt.META_CODE_DTYPE,
        "\udcff.py".encode("utf-16-le", "surrogatepass") + b"f",
        id=1,
        filename_bytes=8,
        filename_kind=2,
        qualname_bytes=1,
        qualname_kind=1,
    )
    name = record(hwt.META_NAME, hwt.META_NAME_DTYPE, b"\xff\xfe", tid=70, name_bytes=2, time_ns=START_NS)

    found = damaged_meta(tmp_path, lone, node(1, 0), node(2, 0), name)

    assert found.frames[1].filename == "\\udcff.py"
    assert found.threads[0].name == "\\xff\\xfe"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: (path.unlink(), path.mkdir()), "is a directory"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(bytes(9000)), "is empty"),
        (
            lambda path: path.write_bytes(b"hello, world" * 1000),
            "is not a trace file: it does not begin as a trace does",
        ),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n")), "transfer in text mode"),
        (lambda path: os.truncate(path, 4000), "4000 bytes"),
        (lambda path: patch_header(path, "version", 4), "format version 4, expected 2 or 3"),
        (lambda path: patch_header(path, "version", 0), "format version 0"),
        (lambda path: patch_header(path, "header_bytes", 64), "header_bytes 64"),
        (lambda path: patch_header(path, "chunk_bytes", 4096), "chunk_bytes 4096"),
        (lambda path: patch_header(path, "slot_count", 2**32 - 1), "expected slots from"),
        (lambda path: patch_header(path, "slots_offset", 64), "expected slots from"),
        (lambda path: patch_header(path, "chunks_offset", 2**63), "expected slots from"),
        (lambda path: patch_header(path, "start_ns", -1), "begins at -1 ns"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path, make, message):
    """The error names the file and its fault, and has a hint and exit code 6."""
    path = write(made_trace(events=10), tmp_path / "x.hwt")
    make(path)

    with pytest.raises(TraceError) as caught:
        read(path)

    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 6
    assert "\n" not in caught.value.message
    assert not caught.value.message.endswith(".")


def test_a_file_in_which_nothing_was_written_has_both_causes(tmp_path):
    """The collector makes the file before it writes: it may have been killed, or a full disk has refused each write."""
    path = tmp_path / "x.hwt"
    path.touch()
    os.truncate(path, 9000)

    with pytest.raises(TraceError, match="is empty") as caught:
        read(path)

    assert "the disk was full" in caught.value.hint
    assert "was killed at its start" in caught.value.hint


def test_a_path_that_cannot_be_is_refused():
    """A NUL in a path is a TraceError, too."""
    with pytest.raises(TraceError, match="must not contain NUL"):
        read("x\0.hwt")


def test_sizes_in_the_header_are_not_believed(tmp_path):
    """Four billion GILs or threads in the header cost nothing if the file does not have them; four billion chunks are missing."""
    path = write(made_trace(events=100), tmp_path / "x.hwt")
    for name in ("gil_count", "thread_count"):
        patch_header(path, name, 2**32 - 1)

    found = read(path)

    assert len(found.events) == 100
    assert len(found.gils) == 1

    found = read(patch_header(path, "chunk_count", 2**32 - 1))

    assert 95 < len(found.events) <= 100
    assert found.loss.damaged_bytes > 2**45


def test_a_file_that_was_cut_off_counts_what_is_missing(tmp_path):
    """Chunks that were taken and are not there are damage; the rest is read, up to the last event that opens nothing."""
    path = write(made_trace(events=3_000, threads=1), tmp_path / "x.hwt", events_per_chunk=1000)
    os.truncate(path, CHUNKS_OFFSET + 3 * hwt.CHUNK_BYTES - (hwt.CHUNK_BYTES - hwt.CHUNK_HEADER_BYTES) + 100)

    found = read(path)

    assert len(found.events) == 1005
    assert found.loss.damaged_bytes >= hwt.CHUNK_BYTES
    assert violations(found) == []


def test_an_absurd_end_is_none(tmp_path):
    """A trace whose end is before its beginning, or ages later, ends with its last event."""
    path = write(small([(1, A, 0), (2, R, 0)]), tmp_path / "x.hwt")

    for end_ns in (1, 2**62, -5):
        found = read(patch_header(path, "end_ns", end_ns))
        assert not found.process.ended
        assert found.end_ns == START_NS + 2
        assert found.loss.damaged_bytes == 8


def child(pid, parent, family=1, start=0, **changes):
    """Return a process of a family."""
    return made_process(pid=pid, parent_pid=parent, family=family, start_realtime_ns=start, **changes)


def test_a_family_is_read_together(tmp_path):
    """A family is `app.hwt` and the files of the same launch beside it, parents first, without empty ones."""
    base = made_trace(events=20)
    empty = dataclasses.replace(base, events=base.events[:0])
    for name, trace in {
        "app": dataclasses.replace(base, process=child(1, 0, start=50)),
        "app.4": dataclasses.replace(base, process=child(4, 3, start=1)),
        "app.3": dataclasses.replace(base, process=child(3, 1, start=70)),
        "app.2": dataclasses.replace(base, process=child(2, 1, start=60)),
        "app.5": dataclasses.replace(empty, process=child(5, 1)),
        "app.6": dataclasses.replace(base, process=child(6, 1, family=2)),
        "apple": dataclasses.replace(base, process=child(7, 1)),
    }.items():
        write(trace, tmp_path / f"{name}.hwt")
    (tmp_path / "app.8.hwt").write_bytes(b"")
    (tmp_path / "app.9.hwt").mkdir()
    (tmp_path / "app.2.txt").write_bytes((tmp_path / "app.2.hwt").read_bytes())

    assert [trace.process.pid for trace in read_family(tmp_path / "app.hwt")] == [1, 2, 3, 4]
    assert [trace.process.pid for trace in read_family(tmp_path / "app.3.hwt")] == [3]
    assert [trace.process.pid for trace in read_family(tmp_path / "app.5.hwt")] == [5]


def test_a_family_without_a_first_one_is_read(tmp_path):
    """The process that began first is the first if reused process ids make a circle of parents."""
    base = made_trace(events=20)
    write(dataclasses.replace(base, process=child(1, 2, start=9)), tmp_path / "app.hwt")
    write(dataclasses.replace(base, process=child(2, 1, start=5)), tmp_path / "app.2.hwt")

    assert [trace.process.pid for trace in read_family(tmp_path / "app.hwt")] == [2, 1]


def test_a_family_needs_the_named_one(tmp_path):
    """A family whose named file is missing is refused, even if the others can be read."""
    with pytest.raises(TraceError):
        read_family(tmp_path / "app.hwt")


@pytest.mark.parametrize("depth", [127, 128])
def test_a_stack_that_is_cut_says_so(depth, tmp_path):
    """A stack with the maximal number of recorded frames is marked as cut, and other stacks of the file are not."""
    frames = (Frame("", 0, "?"), Frame("app.py", 3, "deeper"), Frame("app.py", 9, "shallow"))
    script = Script().hold(0, 0, 1, stack=depth).hold(0, 2, 3, stack=depth + 1)
    trace = dataclasses.replace(
        script.trace(4, "main"),
        frames=frames,
        stack_parent=np.array([0, *range(depth), 0]),
        stack_frame=np.array([0, *[1] * depth, 2]),
    )
    found = read(write(trace, tmp_path / "deep.hwt"))
    deep, shallow = (found.stack(int(one)) for one in found.events["value"][found.events["kind"] == Kind.RELEASE])

    assert [one.function for one in deep[:depth]] == ["deeper"] * depth
    assert deep[depth:] == ((CUT,) if depth == 128 else ())
    assert [one.function for one in shallow] == ["shallow"]
    assert violations(found) == []


def test_a_stack_of_the_greatest_depth_may_be_whole(tmp_path):
    """A stack that ends where the main thread's begins has no further callers; nor have others that end there."""
    frames = (Frame("", 0, "?"), Frame("app.py", 3, "deeper"), Frame("app.py", 9, "<module>"))
    script = Script().hold(0, 0, 1, stack=128).hold(0, 2, 3, stack=1)
    trace = dataclasses.replace(
        script.trace(4, "main"),
        frames=frames,
        stack_parent=np.array([0, *range(128)]),
        stack_frame=np.array([0, 2, *[1] * 127]),
    )
    found = read(write(trace, tmp_path / "deep.hwt"))
    stacks = [found.stack(int(one)) for one in found.events["value"][found.events["kind"] == Kind.RELEASE]]

    assert [len(one) for one in stacks] == [128, 1]
    assert {one[-1].function for one in stacks} == {"<module>"}
