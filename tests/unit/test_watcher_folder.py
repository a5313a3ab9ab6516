"""The folder of a watcher: its recordings, their names, and the log."""

import errno
import fcntl
import io
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live import stalled
from headway.live import watcher as watching
from headway.live.detached import Program
from headway.live.door import Door
from headway.live.kept import partial_of, remove_oldest
from headway.live.options import Limits, Options
from headway.live.reports import Report
from headway.live.ring import Ring
from headway.live.stall_log import gap_in
from headway.live.untold import wait_until_told
from headway.live.watched import Watched
from headway.live.watcher import Watcher

LIMIT_S = 60
NONE = cast("subprocess.Popen[bytes]", None)


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a watcher of the folder; it watches nothing."""
    made = []

    def watcher(*, quiet=True):
        made.append(Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), keep=2, quiet=quiet)))
        return made[-1]

    yield watcher
    for one in made:
        one._reception.close()
        for report in one._reports:
            report.output.close()


def ring(pid):
    """Return a ring whose recordings are no traces."""
    laps = SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0)
    return cast(
        Ring,
        SimpleNamespace(
            pid=pid,
            gone=False,
            gone_ns=0,
            finished=False,
            laps=laps,
            copy=lambda *_, **__: None,
            evidence=lambda *_: {},
            save=lambda file: os.write(file, b"no trace"),
        ),
    )


def test_a_recording_has_its_name_once_it_is_complete(make, tmp_path):
    """A recording that is still being analysed has another name; one that cannot be analysed is kept."""
    watcher = make()
    watcher._report(Watched(ring(7)), time.monotonic_ns())
    (partial,) = tmp_path.iterdir()
    assert partial.name.endswith("-7.hwt.partial")

    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        watcher._collect()
    (whole,) = tmp_path.glob("*.hwt*")
    assert whole.name == partial.name.removesuffix(".partial")
    words = f"a stall could not be explained; {whole} has the recording"
    assert f"as {words}; last at 20" in gap_in(watcher.log)[1]


@pytest.mark.parametrize("is_named", [False, True])
def test_a_recording_is_said_to_be_there_only_if_it_is(make, tmp_path, capfd, is_named):
    """Its folder may be gone, or let nothing be renamed; an analysis may fail when it has named the recording already."""
    watcher = make(quiet=False)
    watcher._report(Watched(ring(7)), time.monotonic_ns())
    (report,) = watcher._reports
    report.process.wait(LIMIT_S)
    partial_of(report.path).rename(report.path if is_named else tmp_path / "elsewhere")
    watcher._collect()

    why = f"; {report.path} has the recording" if is_named else ", and has no recording"
    assert f"headway: a stall could not be explained{why}\n" in capfd.readouterr().err
    assert f"as a stall could not be explained{why}; last at 20" in gap_in(watcher.log)[1]


def test_the_last_stall_of_a_process_that_nothing_can_record_is_noted(make):
    """There is no room in memory either, and no later report; of a process that runs, a later one may have the stall."""
    watcher = make()
    one = Watched(ring(7), over_ns=40)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    cast(SimpleNamespace, one.ring).save = full
    watcher._report(one, 50)
    assert gap_in(watcher.log) is None
    cast(SimpleNamespace, one.ring).gone = True
    watcher._report(one, 50)
    assert "as a recording could not be written in " in gap_in(watcher.log)[1]


def test_the_last_stalls_of_a_process_can_be_waited_for(make, tmp_path, monkeypatch):
    """While a recording of an ended process is analysed, the log lacks its stalls; no process waits for one that runs."""
    analyses = tmp_path / "python"
    analyses.write_text(f"#!/bin/sh\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.01; done\n")
    analyses.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(analyses))
    watcher = make()
    watched = Watched(ring(7))
    watcher._report(watched, time.monotonic_ns())
    watcher._step()
    assert wait_until_told(tmp_path, patience_s=0)

    watched.ring.gone = True
    watcher._report(watched, time.monotonic_ns())
    watcher._step()
    assert not wait_until_told(tmp_path, patience_s=0)

    (tmp_path / "go").touch()
    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline
        watcher._step()
    watcher._step()
    assert wait_until_told(tmp_path, patience_s=0)


def test_an_analysis_leaves_the_core_to_the_service(make, tmp_path, monkeypatch):
    """From its start, before it imports anything, it has a higher nice value; numpy starts no threads in it."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    watcher = make()
    watcher._report(Watched(ring(7)), time.monotonic_ns())
    (report,) = watcher._reports
    nice = os.getpriority(os.PRIO_PROCESS, report.process.pid)
    report.process.wait(LIMIT_S)
    report.output.seek(0)
    environment = report.output.read()

    assert nice == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert b"OPENBLAS_NUM_THREADS=1" in environment.split(b"\n")


def test_a_stall_for_whose_recording_there_is_no_room_is_reported_later(make, tmp_path, capfd):
    """The stall stays in the ring: the report is due again after the pause, and each failure after a success is told."""
    watcher = make(quiet=False)
    one = Watched(ring(7), reported_ns=3, over_ns=40)
    written = one.ring.save

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for save in (full, full, written, full):
        cast(SimpleNamespace, one.ring).save = save
        cast(SimpleNamespace, one.ring).pid += 1  # two recordings of a process in one millisecond have one name
        watcher._report(one, 50)
        if save is full:
            assert (one.reported_ns, one.over_ns, one.is_told) == (50 if watcher._reports else 3, 50, False)
            assert one.not_before_ns > 50
    for report in watcher._reports:
        report.process.wait(LIMIT_S)

    assert capfd.readouterr().err.count("a recording could not be written in") == 2


def test_a_stall_for_whose_recording_the_disk_has_no_room_is_analysed_in_memory(make, tmp_path, capfd):
    """Nothing is left on the full disk, and a recording that cannot be analysed is not said to be there."""
    watcher = make(quiet=False)
    one = Watched(ring(7), over_ns=40)

    def full(file):
        if os.readlink(f"/proc/self/fd/{file}").startswith("/memfd:"):
            os.write(file, b"no trace")
        else:
            raise OSError(errno.ENOSPC, "No space left on device")

    cast(SimpleNamespace, one.ring).save = full
    watcher._report(one, time.monotonic_ns())
    assert [report.is_in_memory for report in watcher._reports] == [True]
    assert one.over_ns == 0
    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        watcher._collect()

    assert [one.name for one in tmp_path.iterdir()] == ["it.stalls.jsonl.incomplete"]
    said = capfd.readouterr().err
    assert "a recording could not be written in" in said
    words = "a stall could not be explained, and has no recording"
    assert f"headway: {words}\n" in said
    assert f"as {words}; last at 20" in gap_in(watcher.log)[1]


def test_watchers_of_one_folder_keep_recordings_together(make, tmp_path):
    """Two watchers with one folder keep `keep` recordings in all, and incomplete ones only while they may be written."""
    names = [f"it-20260101T00000{second}.000Z-{second % 2}.hwt" for second in range(6)]
    old, new = (tmp_path / f"it-20260101T000000.000Z-{pid}.hwt.partial" for pid in (8, 9))
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    both = [make(), make()]
    for second, name in enumerate(names):
        (tmp_path / name).touch()
        report = Report(NONE, io.BytesIO(), Watched(ring(second % 2)), tmp_path / name, asked=True)
        both[second % 2]._learn(report, {"stalls": [], "told": {}})

    assert {one.name for one in tmp_path.iterdir()} == {*names[-2:], new.name}


def _recorded(tmp_path, time_of_day, pid=7):
    path = tmp_path / f"it-20260101T{time_of_day}.000Z-{pid}.hwt"
    path.touch()
    return path


def test_recordings_of_a_clock_that_was_ahead_go_first(tmp_path, monkeypatch):
    """Each new recording would be removed at once, as it has the earliest time of all."""
    monkeypatch.setattr(time, "time_ns", lambda: 1767261600_000_000_000)  # 2026-01-01, 10 o'clock
    before = [_recorded(tmp_path, time_of_day) for time_of_day in ("090000", "110000", "120000")]
    written = []
    for second in range(2):
        written.append(_recorded(tmp_path, f"09595{second}"))
        remove_oldest(tmp_path, "it", 3, written)

    assert sorted(tmp_path.iterdir()) == [before[0], *written]


def test_a_watcher_knows_the_order_of_its_own_recordings(tmp_path, monkeypatch):
    """The clock was set back between the second and the third: the last ones are kept, before those of other runs."""
    monkeypatch.setattr(time, "time_ns", lambda: 1767261600_000_000_000)
    other = _recorded(tmp_path, "080000", pid=8)
    written = [_recorded(tmp_path, time_of_day) for time_of_day in ("110000", "113000", "095000", "095500")]

    for keep in (5, 4, 3, 2, 1):
        remove_oldest(tmp_path, "it", keep, written)
        assert set(tmp_path.iterdir()) == set([other, *written][-keep:])


def test_the_time_of_a_stall_counts_for_each_of_its_causes(make, tmp_path):
    """The counters have a stall once, under its main cause, and the time of its parts under theirs, as the tables have it."""
    watcher = make()
    report = Report(NONE, io.BytesIO(), Watched(ring(1)), tmp_path / "it.hwt", asked=False)
    stalls = [
        ["event loop", "own code", [["own code", 0.5], ["no core", 0.25]]],
        ["event loop", "GIL", [["GIL", 1.0], ["own code", 0.5]]],
    ]
    watcher._learn(report, {"stalls": stalls, "told": {}})

    assert watcher.totals().stalls == {
        ("event loop", "own code"): (1, 1.0),
        ("event loop", "no core"): (0, 0.25),
        ("event loop", "GIL"): (1, 1.0),
    }


def test_an_incomplete_recording_is_kept_as_long_as_it_is_analysed(make, tmp_path, monkeypatch):
    """The analysis holds it, and not the watcher: one that goes on after its watcher was killed may complete it."""
    gate, program = tmp_path / "gate", tmp_path / "python"
    os.mkfifo(gate)
    program.write_text(f"#!/bin/sh\nread line < {gate}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    watcher = make()
    watcher._report(Watched(ring(7)), time.monotonic_ns())
    (partial,) = tmp_path.glob("*.partial")
    os.utime(partial, (0, 0))

    remove_oldest(tmp_path, "it", 2, [])
    assert partial.exists()

    gate.write_text("\n")
    watcher._reports[0].process.wait(LIMIT_S)
    remove_oldest(tmp_path, "it", 2, [])
    assert not partial.exists()


@pytest.mark.parametrize(
    ("age_s", "has_locks", "stays"), [(5, True, True), (20, True, False), (500, False, True), (700, False, False)]
)
def test_an_incomplete_recording_that_nobody_holds_is_removed(tmp_path, monkeypatch, age_s, has_locks, stays):
    """Not at once, as its watcher may be about to hold it; without locks, after ten minutes."""
    partial = tmp_path / "it-20260101T000000.000Z-7.hwt.partial"
    partial.touch()
    os.utime(partial, (1000, 1000))
    monkeypatch.setattr(time, "time", lambda: 1000 + age_s)
    if not has_locks:

        def refuse(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)

    remove_oldest(tmp_path, "it", 2, [])
    assert partial.exists() == stays


def test_what_killed_watchers_have_left_is_removed_at_the_start(make, tmp_path, monkeypatch):
    """A service that is killed before each report would never come to remove anything."""
    for second in range(3):
        left = tmp_path / f"it-20260101T00000{second}.000Z-1.hwt.partial"
        left.touch()
        os.utime(left, (0, 0))
    monkeypatch.setattr(watching, "_LINGER_S", 0)
    monkeypatch.setattr(watching, "let_go_of_stderr", lambda: None)

    make().run(cast(Program, SimpleNamespace(ended=lambda: True)))

    assert list(tmp_path.iterdir()) == []


def test_a_long_log_is_renamed_once(tmp_path, monkeypatch):
    """A log that another watcher has just renamed is not replaced by the log that begins after it."""
    log, old = tmp_path / "it.stalls.jsonl", tmp_path / "it.old.stalls.jsonl"
    flock = fcntl.flock
    monkeypatch.setattr(stalled, "_MOST_LOG_BYTES", 4)

    log.write_text("long\n")
    stalled._turn_over(log)
    assert (old.read_text(), log.exists()) == ("long\n", False)

    def late(file, how):
        log.replace(old)  # by the other watcher
        log.write_text("begun\n")
        flock(file, how)

    log.write_text("longer\n")
    monkeypatch.setattr(fcntl, "flock", late)
    stalled._turn_over(log)
    assert (old.read_text(), log.read_text()) == ("longer\n", "begun\n")
