"""Exports for ui.perfetto.dev and profiler.firefox.com, on traces whose content is known."""

from dataclasses import replace

import pytest
from export_checks import HANDED_OVER, ODD, TWO_FRAMES, profile_stack, read_gecko, read_perfetto, small_trace
from made_traces import START_NS, made_process, made_trace

from headway.errors import HeadwayError
from headway.printable import printable
from headway.traces.export import FORMATS, gecko
from headway.traces.export.perfetto import LOCK_KINDS
from headway.traces.export.protobuf import field, varint
from headway.traces.model import Frame, Kind, Loss, Park, Thread


def perfetto(tmp_path, *traces):
    FORMATS["perfetto"](traces, tmp_path / "out")
    return read_perfetto(tmp_path / "out")


def firefox(tmp_path, *traces):
    FORMATS["gecko"](traces, tmp_path / "out")
    return read_gecko(tmp_path / "out")


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_varints(number, encoded):
    """Numbers are varints as the Protocol Buffers documentation gives them."""
    assert varint(number) == encoded
    assert field(1, number) == b"\x08" + encoded


def test_each_kind_of_lock_has_a_name():
    """Both viewers name each kind of lock at which a thread may be blocked."""
    assert set(LOCK_KINDS) == set(Park)


def test_perfetto_clock_is_monotonic(tmp_path):
    """The trace's clock is CLOCK_MONOTONIC, paired once with the time of day of the process that began first."""
    late = replace(made_trace(events=50, process=made_process(start_realtime_ns=5)), start_ns=START_NS + 1)
    early = made_trace(events=50, process=made_process(start_realtime_ns=1_700_000_000_000_000_000))
    _, snapshot = perfetto(tmp_path, late, early)

    assert snapshot.primary_trace_clock == 3
    clocks = {one.clock_id: one.timestamp for one in snapshot.clocks}
    assert clocks == {3: START_NS, 1: 1_700_000_000_000_000_000}


def test_perfetto_tracks_of_processes_and_threads(tmp_path):
    """Every process and thread has a track with its ids and name, and its activity below."""
    one = made_trace(threads=2, events=200, process=made_process(pid=10))
    two = made_trace(threads=2, events=200, process=made_process(pid=20, program="-m worker", ended=False))
    two = replace(two, loss=Loss(dropped_events=3))
    sequences, _ = perfetto(tmp_path, one, two)

    assert list(sequences) == [1, 2]
    tracks = list(sequences[2].tracks.values())
    assert tracks[0].process.pid == 20
    assert tracks[0].process.process_name == "-m worker"
    assert list(tracks[0].process.cmdline) == ["python3.13", "app.py", "--fast"]
    assert list(tracks[0].process.process_labels) == [
        "Python 3.13.0",
        "killed, or still running",
        "incomplete: 3 events lost, 0 bytes damaged",
    ]
    threads = [track for track in tracks if track.HasField("thread")]
    assert [(one.thread.pid, one.thread.tid, one.thread.thread_name) for one in threads] == [
        (20, 5000, "MainThread"),
        (20, 5001, "io-1"),
    ]
    below = {track.name for track in tracks if track.parent_uuid == threads[0].uuid}
    assert below == {"holds GIL", "waits for GIL"}


def test_perfetto_links_a_request_to_the_release_that_it_forced(tmp_path):
    """An arrow goes from a waiter's request to the end of the hold that was preempted."""
    sequence = perfetto(tmp_path, small_trace(HANDED_OVER, frames=TWO_FRAMES))[0][1]

    (asks, gives) = sequence.instants
    assert asks[1:3] == (6500, "requests GIL")
    assert gives[1:3] == (6600, "releases GIL on request")
    assert asks[3] == gives[4] != []
    assert asks[5] == gives[5] == 1  # each within its slice
    assert sequence.tracks[asks[0]].name == "waits for GIL"
    assert sequence.tracks[gives[0]].name == "holds GIL"
    holds = [slices for track, slices in sequence.slices.items() if sequence.tracks[track].name == "holds GIL"]
    assert holds[0][0][2:] == ("app.py:12 handle", [("main", "app.py", 40), ("handle", "app.py", 12)], {"forced": True})
    assert holds[1][0][2:] == ("holds GIL", [("?", "", 0)], {"forced": False})


def test_perfetto_says_which_lock_a_thread_waits_for(tmp_path):
    """A park is a slice with the lock's kind and the contended object's type."""
    events = [
        (2000, 0, Kind.PARK, 2, Park.OBJECT << 8),
        (3000, 0, Kind.UNPARK, 1, Park.OBJECT << 8),
        (4000, 1, Kind.PARK, 0, Park.WORLD << 8),
    ]
    trace = small_trace(events, frames=TWO_FRAMES, types=("", "dict"), gils=())
    sequence = perfetto(tmp_path, trace)[0][1]

    (slices, open_slices) = sequence.slices.values()
    assert slices[0][:3] == (2000, 3000, "app.py:12 handle")
    assert slices[0][4] == {"lock": "an object", "type": "dict"}
    assert open_slices[0][:3] == (4000, 9000, "waits for lock")
    assert open_slices[0][4] == {"lock": "stop the world", "type": "not known"}


def test_perfetto_counts_the_switch_interval(tmp_path):
    """A changed switch interval is a step of its counter."""
    sequence = perfetto(tmp_path, small_trace([(2000, 0, Kind.INTERVAL, 100, 0)]))[0][1]

    assert sequence.counters[sequence.of_process("switch interval")] == [(1000, 5_000_000), (2000, 100_000)]


def test_perfetto_without_stacks_has_none(tmp_path):
    """A trace without stacks names its slices by state."""
    sequence = perfetto(tmp_path, made_trace(events=500, stacks=False))[0][1]

    named = {slices[0][2] for track, slices in sequence.slices.items() if sequence.tracks[track].name == "holds GIL"}
    assert named == {"holds GIL"}
    assert all(stack is None for slices in sequence.slices.values() for *_, stack, _ in slices)


def test_odd_names_reach_perfetto(tmp_path):
    """Printable characters of names are kept; others, and bytes that are no characters, are written out."""
    trace = small_trace(
        HANDED_OVER, frames=(Frame(ODD, 1, ODD),) * 2, threads=(Thread(1, 1, ODD, 0, None), Thread(2, 1, "", 0, None))
    )
    sequence = perfetto(tmp_path, trace)[0][1]

    kept = printable(ODD)
    assert sequence.tracks[sequence.threads()[0]].thread.thread_name == kept
    assert sequence.tracks[sequence.threads()[1]].thread.thread_name == "thread 1"
    assert (kept, kept, 1) in [frame for of in sequence.slices.values() for *_, stack, _ in of for frame in stack or ()]


def test_firefox_threads_and_times(tmp_path):
    """Threads of all processes share one time, which begins with the first of them."""
    one = made_trace(threads=2, events=100, process=made_process(pid=5000))
    two = replace(made_trace(threads=2, events=100, process=made_process(pid=7)), start_ns=START_NS - 1_500_000)
    profile = firefox(tmp_path, one, two)

    assert [(t["pid"], t["tid"], t["name"], t["isMainThread"]) for t in profile["threads"]] == [
        ("5000", 5000, "MainThread", True),
        ("5000", 5001, "io-1", False),
        ("7", 5000, "MainThread", False),
        ("7", 5001, "io-1", False),
    ]
    assert profile["threads"][0]["processStartupTime"] == 1.5
    assert profile["meta"]["startTimeAsClockMonotonicNanosecondsSinceBoot"] == START_NS - 1_500_000


def test_firefox_samples_and_markers(tmp_path):
    """A hold is a weighted sample and a marker, a wait a marker with its location and stack."""
    profile = firefox(tmp_path, small_trace(HANDED_OVER, frames=TWO_FRAMES))

    main, worker = profile["threads"]
    strings = profile["shared"]["stringArray"]
    assert main["samples"]["time"] == [0.0, 0.0056]
    assert main["samples"]["weight"] == [0.0056, 0.0]
    handle = [("main", "app.py", 40), ("handle", "app.py", 12)]
    assert profile_stack(profile, main["samples"]["stack"][0]) == handle
    assert main["samples"]["stack"][1] is None
    hold = main["markers"]["data"][0]
    assert hold["type"] == "GilHold"
    assert strings[hold["location"]] == "app.py:12 handle"
    assert strings[hold["forced"]] == "requested by another thread"
    wait = worker["markers"]["data"][0]
    assert strings[worker["markers"]["name"][0]] == "GIL wait"
    assert (worker["markers"]["startTime"][0], worker["markers"]["endTime"][0]) == (0.0005, 0.0057)
    assert profile_stack(profile, wait["cause"]["stack"]) == handle[:1]


def test_firefox_tells_reused_ids_apart(tmp_path):
    """Two threads with one native id, or two processes with one pid, stay two."""
    threads = (Thread(1, 4242, "a", 1000, 2000), Thread(2, 4242, "a", 3000, None))
    trace = small_trace(HANDED_OVER, frames=TWO_FRAMES, threads=threads)
    profile = firefox(tmp_path, trace, trace)

    assert [(one["pid"], one["tid"]) for one in profile["threads"]] == [
        ("4242.0", "4242.1"),
        ("4242.0", "4242.2"),
        ("4242.1", "4242.1"),
        ("4242.1", "4242.2"),
    ]


def test_firefox_refuses_what_a_browser_cannot_hold(tmp_path, monkeypatch):
    """A trace that is too long for the page is refused, and the error names the format that takes it."""
    monkeypatch.setattr(gecko, "MOST_ROWS", 100)

    with pytest.raises(HeadwayError, match="too long") as caught:
        FORMATS["gecko"]([made_trace(events=1000)], tmp_path / "out")

    assert "perfetto" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
