"""The trace files that belong together, and what is done to them."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from live_image import image
from made_traces import made_trace

from headway.errors import UsageError
from headway.live import files
from headway.live.files import check_new, family_files
from headway.traces.model import Executed
from headway.traces.reader import read
from headway.traces.writer import write


def traced(path, family, pid):
    """Write a small trace of a process."""
    trace = made_trace(events=100)
    return write(replace(trace, process=replace(trace.process, family=family, pid=pid)), path)


def test_only_traces_of_the_same_launch_belong_together(tmp_path):
    """A file with a similar name of another launch is not a child's, and is not removed with the trace."""
    mine = traced(tmp_path / "app.hwt", 1, 10)
    child = traced(tmp_path / "app.11.hwt", 1, 11)
    kept = traced(tmp_path / "app.before.hwt", 2, 12)
    assert family_files(mine) == [mine, child]

    with pytest.raises(UsageError, match="exists"):
        check_new(mine)
    assert check_new(mine, force=True) == mine
    assert sorted(tmp_path.iterdir()) == [child, kept, mine]
    files.remove_family(mine)

    assert list(tmp_path.iterdir()) == [kept]


def test_a_new_trace_waits_for_the_collector_of_one_that_was_removed(tmp_path, monkeypatch):
    """The program has ended and its trace was removed, but its collector still has the lock."""
    path = tmp_path / "app.hwt"
    collector = files.lock(path)
    files.lock_path(path).write_text("0 0\n", encoding="ascii")  # no process with this id runs
    with pytest.raises(UsageError, match="already being recorded"):
        files.lock(path)

    monkeypatch.setattr(files.time, "sleep", lambda _: files.unlock(path, collector))
    check_new(path)

    files.unlock(path, files.lock(path))


@pytest.mark.parametrize("lives", [True, False])
def test_the_wait_for_a_daemon_is_short(tmp_path, monkeypatch, lives):
    """The parent of a daemon has ended, and its collector works until the daemon ends, which nobody waits for."""
    path = traced(tmp_path / "app.hwt", 1, 2**22 + 1)
    (tmp_path / "app.11.hwt").write_bytes(image({"serial": 1}, pid=os.getpid() if lives else 2**22 + 1, family=1))
    collector = files.lock(path)
    files.lock_path(path).write_text("0 0\n", encoding="ascii")
    slept_s = []
    monkeypatch.setattr(files.time, "sleep", slept_s.append)
    monkeypatch.setattr(files.time, "monotonic", lambda: 100 + sum(slept_s))

    files.wait_until_finished(path)

    assert sum(slept_s) < 2 if lives else sum(slept_s) >= 30
    files.unlock(path, collector)


def test_a_lock_whose_holders_were_killed_is_removed(tmp_path):
    """A container's first process takes its collector with it: whoever waits for the trace then removes the lock."""
    path = tmp_path / "app.hwt"
    os.close(files.lock(path))
    files.wait_until_finished(path)
    assert files.lock_path(path).exists()  # the lock names this process, which runs

    files.lock_path(path).write_text("0 0\n", encoding="ascii")  # no process with this id runs
    files.wait_until_finished(path)
    assert not files.lock_path(path).exists()


def test_a_lock_that_was_removed_meanwhile_is_made_anew(tmp_path, monkeypatch):
    """A lock on a file without a name would let another command record to the same trace."""
    path = tmp_path / "app.hwt"
    flock, removed = files.fcntl.flock, []

    def late(descriptor, operation):
        if not removed:
            removed.append(files.lock_path(path))
            removed[0].unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(files.fcntl, "flock", late)
    descriptor = files.lock(path)

    assert removed
    assert os.path.samestat(os.fstat(descriptor), files.lock_path(path).stat())
    files.unlock(path, descriptor)


def test_a_trace_that_is_being_recorded_is_not_overwritten(tmp_path):
    """--force takes finished traces only: the collector of a live program would go on in a file without a name."""
    path = traced(tmp_path / "app.hwt", 1, 10)
    child = traced(tmp_path / "app.11.hwt", 1, 11)
    with files.locked(path):
        with pytest.raises(UsageError, match="already being recorded"):
            check_new(path, force=True)
        assert path.exists()
        assert child.exists()

    check_new(path, force=True)

    assert sorted(tmp_path.iterdir()) == [child, path]


def test_a_folder_that_takes_no_files_is_refused(tmp_path, monkeypatch):
    """Permissions do not tell it all: root may write to /proc, but it takes no files. A full disk takes a trace later."""
    with pytest.raises(UsageError, match="no file can be created in the folder /proc"):
        check_new(Path("/proc/app.hwt"))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "open", full)
    assert check_new(tmp_path / "app.hwt") == tmp_path / "app.hwt"


def test_processes_without_a_file_are_noted_in_the_first_ones_trace(tmp_path):
    """The counts are where the reader looks for them; a trace of another launch at that path is not touched."""
    trace = made_trace()
    path = write(trace, tmp_path / "app.hwt")
    before = path.read_bytes()
    files.note_missing(path, trace.process.family + 1, removed=3, unrecorded=2)
    assert path.read_bytes() == before

    files.note_missing(path, trace.process.family, removed=3, unrecorded=1 << 40)
    found = read(path)
    assert (found.loss.removed_files, found.loss.unrecorded_processes) == (3, (1 << 32) - 1)
    for recorded, executed in ((False, Executed.UNRECORDED), (True, Executed.RECORDED)):
        files.note_executed(path, trace.process.family, recorded=recorded)
        assert read(path).process.executed is executed
    assert np.array_equal(found.events, read(write(trace, tmp_path / "other.hwt")).events)


def test_a_child_that_ends_while_it_is_looked_at_is_no_failure(monkeypatch):
    """The threads of a process that has just ended cannot be listed; the other descendants are found."""
    listed = os.listdir

    def gone(folder):
        if folder == f"/proc/{ended.pid}/task":
            raise FileNotFoundError(folder)
        return listed(folder)

    with (
        subprocess.Popen(["sleep", "60"]) as ended,
        subprocess.Popen(["sleep", "60"]) as other,
    ):
        monkeypatch.setattr(os, "listdir", gone)
        found = files.descendants(os.getpid())
        ended.kill()
        other.kill()

    assert {ended.pid, other.pid} <= set(found)


@pytest.mark.parametrize("name", [b"headway-watch", b"headway-collect", b"headway-between"])
def test_headways_own_processes_descend_from_nobody(name):
    """If the program is a container's first process, our orphans are its children: neither they nor their children count."""
    code = (
        "import pathlib, subprocess\n"
        f"pathlib.Path('/proc/self/comm').write_bytes({name!r})\n"
        "below = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"
        "print(below.pid, flush=True)\n"
        "input()\n"
    )
    command = [sys.executable, "-c", code]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ours,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other,
    ):
        below = int(ours.stdout.readline())
        found = files.descendants(os.getpid())
        ours.communicate(b"\n")
        other.communicate()

    assert other.pid in found
    assert not {ours.pid, below} & set(found)


def test_the_begin_of_a_process_is_told_in_real_time(monkeypatch):
    """The kernel counts it in ticks since the machine started; a source that was written in the same tick is not newer."""
    monkeypatch.setattr(files, "begin_ticks", {7: 1_000, 8: None}.get)
    monkeypatch.setattr(files.os, "sysconf", {"SC_CLK_TCK": 100}.get)
    monkeypatch.setattr(files.time, "time_ns", lambda: 5_000 * 10**9)
    monkeypatch.setattr(files.time, "clock_gettime_ns", {files.time.CLOCK_BOOTTIME: 40 * 10**9}.get)

    assert files.began_realtime_ns(7) == 5_000 * 10**9 - (40 - 10) * 10**9 + 10_000_000
    assert files.began_realtime_ns(8) == 0
