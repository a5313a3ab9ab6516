"""Finding and reading counters, in an image that this process maps."""

import mmap
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from live_image import SLOTS_OFFSET, image, make_slots, make_snapshot

from headway.errors import RecordingError
from headway.live import watch
from headway.live.beginnings import UNKNOWN
from headway.live.counters import difference
from headway.live.lived import incarnation_in, incarnation_of
from headway.live.proc import fields_of
from headway.live.watch import History, Monitor, Watch, WatchEndedError
from headway.traces import format as hwt


@pytest.fixture
def mapped():
    """Return a function that maps an image of counters in a memfd and returns a path to it."""
    kept = []

    def make(*threads, **fields):
        memory = os.memfd_create("headway")
        os.write(memory, image(*threads, **fields))
        kept.append((memory, mmap.mmap(memory, 0)))
        return Path(f"/proc/self/fd/{memory}")

    yield make
    for memory, mapping in kept:
        mapping.close()
        os.close(memory)


def change(path, **fields):
    """Change fields of the header."""
    with path.open("r+b") as file:
        header = np.frombuffer(file.read(hwt.HEADER_DTYPE.itemsize), hwt.HEADER_DTYPE).copy()
        for name, value in fields.items():
            header[name] = value
        file.seek(0)
        file.write(header.tobytes())


def test_the_counters_of_a_process_are_read(mapped):
    """A process that maps a recorder's memory is watched by its id alone."""
    mapped({"serial": 1, "name": "MainThread", "holds": 5})

    with Watch(os.getpid()) as one:
        snapshot = one.snapshot()

    assert one.program == "made.py"
    assert [(thread.name, thread.holds) for thread in snapshot.threads] == [("MainThread", 5)]
    assert watch.is_recorded(os.getpid())
    assert not watch.counts_only(os.getpid())


@pytest.mark.parametrize(
    "fields", [{"pid": 1}, {"end_ns": 7}, {"magic": np.void(b"no trace")}], ids=["a parent's", "ended", "no magic"]
)
def test_what_is_not_this_process_now_is_passed_over(mapped, fields):
    """A file that was inherited by fork, whose recording ended, or that is no recording, is not watched."""
    mapped({"serial": 1}, **fields)

    with pytest.raises(RecordingError, match="is not recorded"):
        Watch(os.getpid())


def test_another_format_is_an_error(mapped):
    """A process recorded in another version of the format is named as such, and not misread."""
    mapped({"serial": 1}, version=99)

    with pytest.raises(RecordingError, match=f"format 99, expected {hwt.FORMAT_VERSION}"):
        Watch(os.getpid())


@pytest.mark.parametrize(
    "fields",
    [
        {"slot_count": 2**32 - 1},
        {"slot_count": 0},
        {"slot_count": 70_000},
        {"slots_offset": 2**64 - 1},
        {"slots_offset": 2**63},
    ],
    ids=str,
)
def test_counters_that_cannot_be_are_an_error(mapped, fields):
    """A header's values are checked, because they could demand 1.3 TB or make an offset overflow."""
    mapped({"serial": 1}, **{"thread_count": 2**32 - 1} | fields)

    with pytest.raises(RecordingError, match="are not valid") as found:
        Watch(os.getpid())
    assert found.value.hint
    assert not watch.is_recorded(os.getpid())


def test_counters_without_a_descriptor_are_read(mapped):
    """The counters are read from the process's memory if it has no descriptor, as when a collector writes the file."""
    memory = os.open(mapped({"serial": 1, "holds": 4}), os.O_RDWR)
    mapping = mmap.mmap(memory, 0)
    os.close(memory)
    candidates = [one for one in watch._candidates(os.getpid()) if one[0].endswith("/mem")]
    assert candidates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "_candidates", lambda pid: candidates)
        with Watch(os.getpid()) as one:
            assert one.snapshot().threads[0].holds == 4
    mapping.close()


def test_watchers_know_of_each_other(mapped):
    """A watcher that leaves learns whether others still need the counters; a closed watch does not count."""
    mapped({"serial": 1})
    with Watch(os.getpid()) as one, Watch(os.getpid()) as other:
        assert not one.join()
        assert other.join()
        assert one.leave()
        assert one.join()
        other.close()
        assert not one.leave()
        assert not other.leave()


def test_a_memfd_is_found():
    """Counters in memory are found by the memfd's name."""
    fd = os.memfd_create("headway")
    os.write(fd, image({"serial": 1, "holds": 3}, flags=hwt.COUNTERS_ONLY))
    with mmap.mmap(fd, 0), Watch(os.getpid()) as one:
        assert one.counters_only
        assert one.snapshot().threads[0].holds == 3
        assert watch.counts_only(os.getpid())
    os.close(fd)


def test_a_process_that_is_not_there_is_an_error():
    """A process that does not exist is an error that says so."""
    with pytest.raises(RecordingError, match="there is no process"):
        Watch(2**22 + 1)


def test_the_end_of_a_recording_ends_the_watch(mapped):
    """The end of a recording ends the watch, with a reason."""
    path = mapped({"serial": 1})
    with Watch(os.getpid()) as one:
        one.snapshot()
        change(path, end_ns=5)
        with pytest.raises(WatchEndedError, match="was ended"):
            one.snapshot()


@pytest.mark.parametrize(
    ("field", "value", "there"),
    [
        pytest.param(3, "R", True, id="as it is"),
        pytest.param(26, "0", True, id="no code: in the middle of exec"),
        pytest.param(3, "Z", False, id="a zombie"),
        pytest.param(9, str(0x4), False, id="exiting"),
    ],
)
def test_a_process_is_there_until_it_exits(field, value, there):
    """The fields are numbered as in proc(5), and the program's name may contain anything."""
    before, _, after = Path("/proc/self/stat").read_text().rpartition(")")
    fields = after.split()
    fields[field - 3] = value
    stat = f"{before} ) R 0) {' '.join(fields)}"

    assert (incarnation_in(fields_of(stat)) is not None) == there


def test_exec_ends_the_watch(mapped, monkeypatch):
    """Another program in the same process counts as another process."""
    mapped({"serial": 1})
    with Watch(os.getpid()) as one:
        started, code, stack = incarnation_of(os.getpid())
        monkeypatch.setattr(watch, "incarnation_of", lambda pid: (started, code, stack + "1"))
        with pytest.raises(WatchEndedError, match="started another program"):
            one.snapshot()
        monkeypatch.setattr(watch, "incarnation_of", lambda pid: None)
        with pytest.raises(WatchEndedError, match="has ended"):
            one.snapshot()


def test_a_file_cut_short_kills_nobody(mapped):
    """Counters that are cut off while they are read give no thread."""
    path = mapped({"serial": 1}, {"serial": 2})
    with Watch(os.getpid()) as one:
        with path.open("r+b") as file:
            file.truncate(SLOTS_OFFSET + hwt.SLOT_DTYPE.itemsize + 10)
        assert [thread.serial for thread in one.snapshot().threads] == [1]


def set_slots(path, *threads):
    """Write the counters of other threads."""
    with path.open("r+b") as file:
        file.seek(SLOTS_OFFSET)
        file.write(make_slots(*threads).tobytes())


def test_only_a_thread_that_began_after_a_reading_has_come(mapped):
    """A thread that was there before, and one that has ended already, did not come with its first counters."""
    path = mapped(thread_count=3)
    old, done = threading.get_native_id(), threading.Event()
    with Watch(os.getpid()) as one:
        first = one.snapshot()
        thread = threading.Thread(target=done.wait)
        thread.start()
        set_slots(path, *({"serial": at, "tid": tid} for at, tid in enumerate((old, thread.native_id, 2**30), 1)))
        second = one.snapshot()
        done.set()
        thread.join()

    assert [one.serial for one in difference(first, second).came] == [2]
    assert second.began_ns[1] < first.time_ns < second.began_ns[2]
    assert second.began_ns[3] == UNKNOWN


def test_a_torn_slot_is_read_again(mapped, monkeypatch):
    """A slot that changed between two readings is read again until it is stable."""
    mapped({"serial": 1, "holds": 5})
    with Watch(os.getpid()) as one:
        whole = one._read(1)
        torn = make_slots({"serial": 9, "holds": 77777}, slot_count=1).tobytes()
        answers = iter([whole, torn, whole, whole])
        monkeypatch.setattr(one, "_read", lambda count: next(answers))

        assert [(thread.serial, thread.holds) for thread in one.snapshot().threads] == [(1, 5)]


def test_a_slot_that_never_stands_is_the_last_seen(mapped, monkeypatch):
    """Reading gives up after some attempts, and uses the last state of a live thread and nothing of an exited one."""
    mapped({"serial": 1}, {"serial": 2})
    with Watch(os.getpid()) as one:
        count = iter(range(100))

        def restless(_):
            holds = next(count)
            live = {"serial": 1, "holds": holds}
            return make_slots(live, {"serial": 2, "holds": holds, "state": "exited"}, slot_count=2).tobytes()

        monkeypatch.setattr(one, "_read", restless)
        snapshot = one.snapshot()

    assert [thread.holds for thread in snapshot.threads] == [next(count) - 1]
    assert snapshot.exited == ()


def test_a_history_is_as_long_as_its_window():
    """The window spans at least `window_s`, and the interval is that of the last two snapshots."""
    history = History(window_s=2.0)
    assert history.interval() is history.window() is None
    for second in range(10):
        history.add(make_snapshot(second * 10**9, {"serial": 1}))

    assert history.interval().wall_ns == 10**9
    assert history.window().wall_ns == 2 * 10**9


def test_a_history_begins_anew_with_another_recording():
    """A history does not span two recordings."""
    history = History()
    history.add(make_snapshot(1))
    history.add(make_snapshot(2, start_ns=77))

    assert history.window() is None


def test_a_monitor_goes_on_with_the_next_recording(mapped):
    """The monitor switches by itself to the next recording when one has ended."""
    first = mapped({"serial": 1, "name": "first"})
    monitor = Monitor(os.getpid())
    assert monitor.sample() == []
    assert len(monitor.sample()) == 1
    change(first, end_ns=5)
    mapped({"serial": 1, "name": "second"}, start_ns=9)

    assert monitor.sample() == []
    (sample,) = monitor.sample()
    assert [one.now.name for one in sample.interval.threads] == ["second"]
    assert monitor.alive
    monitor.close()


def test_a_child_that_becomes_another_program_is_tried_again(mapped, monkeypatch):
    """A child that records nothing is tried a few times, and again after exec(), which keeps the process's id."""
    mapped({"serial": 1, "name": "MainThread"})
    child, program, tried = 2**22 + 1, ["a", "shell", "1"], []

    def watched(pid):
        if pid == child:
            tried.append(tuple(program))
            raise RecordingError("it is not recorded")
        return Watch(pid)

    monkeypatch.setattr(watch, "Watch", watched)
    monkeypatch.setattr(watch, "descendants", lambda _: [child])
    monkeypatch.setattr(watch, "incarnation_of", lambda _: tuple(program))
    monitor = Monitor(os.getpid(), children=True)
    for _ in range(2 * watch._TRIES):
        monitor.sample()
    assert tried == [("a", "shell", "1")] * watch._TRIES
    program[1] = "python"
    for _ in range(2 * watch._TRIES):
        monitor.sample()
    assert tried[watch._TRIES :] == [("a", "python", "1")] * watch._TRIES
    monitor.look_again(child)  # the caller has let it count
    monitor.sample()
    monitor.close()
    assert len(tried) == 2 * watch._TRIES + 1
