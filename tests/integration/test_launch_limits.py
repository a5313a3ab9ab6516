"""The limits of a launch's files and memory, whoever connects to its collector."""

import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from process_memory import memory, spread_events

from headway.live import collect, lived
from headway.live.door import HELLO_MAGIC, PROCESS_MEMORY_BYTES, Door
from headway.traces import format as hwt
from headway.traces.reader import read

pytestmark = pytest.mark.slow

LIMIT = 1 << 20
LEAST = 16 * hwt.CHUNK_BYTES
NOBODYS = count(1 << 23)  # above all process ids: a process with such an id is gone already


@pytest.fixture
def collector(tmp_path):
    """Yield a collector of 1 MB that no process has called yet."""
    with collect.Collector(Door(), tmp_path / "x.hwt", max_bytes=LIMIT) as one:
        yield one


@pytest.fixture
def alive(monkeypatch):
    """Yield a function that starts a process which does nothing until the test is over.

    It stands in for one that records, and has nothing of the memory that a test makes for it.
    """
    monkeypatch.setattr(lived, "_has_let_go", lambda *_: False)
    with contextlib.ExitStack() as stack:

        def start():
            one = stack.enter_context(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
            stack.callback(one.stdin.close)
            return one.pid

        yield start


def begin(collector, pid, *, chunks=64, filled=0, kind=hwt.CHUNK_EVENTS):
    descriptor = memory(chunks, [spread_events()] * filled, kind, collector._door.family)
    try:
        collector._begin(descriptor, pid)
    finally:
        os.close(descriptor)


def recorded(collector, filled):
    """Record a process that ends before the collector hears of it."""
    begin(collector, next(NOBODYS), filled=filled)
    collector.copy()


def occupied(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.glob("*.hwt"))


def test_stacks_without_room_are_told(collector, tmp_path):
    """A file that is full of code and stacks lacks the further ones, and a message says how many."""
    begin(collector, next(NOBODYS), chunks=70, filled=70, kind=hwt.CHUNK_META)
    collector.copy()

    (problem,) = collector.problems
    kib = int(re.fullmatch(rf"{tmp_path}/x.hwt lacks (\d+) KiB of names, code and stacks: .*", problem)[1])
    assert 6 * 16 <= kib < 12 * 16


def test_a_full_disk_is_told_as_the_cause(collector, monkeypatch):
    """Traces that make room on a full disk are told with that cause, and not with the limit of the launch."""
    monkeypatch.setattr(collect, "_free_chunks", lambda _: 0)
    for _ in range(4):
        collector._looked_s = 0.0
        recorded(collector, 4)

    (problem,) = collector.problems
    assert re.match(
        r"the traces of [1-4] ended children were removed, the oldest first: there is too little free space", problem
    )
    assert "--max-size" not in problem


def test_what_ended_children_have_counts(collector, tmp_path):
    """A server with short-lived workers keeps within the limit: its oldest workers' traces are removed and counted."""
    for _ in range(40):
        recorded(collector, 20)
        assert occupied(tmp_path) <= LIMIT

    paths = sorted(tmp_path.glob("*.hwt"))
    assert paths == sorted(collector.files)
    assert collector.files[0] == tmp_path / "x.hwt"
    assert len(paths) == 3  # the first one, and the last ones that there is room for
    assert all(path.stat().st_blocks * 512 >= 20 * hwt.CHUNK_BYTES for path in paths)
    assert [int(re.search(r"traces of (\d+) ended children", one)[1]) for one in collector.problems] == [37]


def test_who_lives_makes_room_by_its_oldest_events_first(collector, alive):
    """A live process takes the space of traces that are older than all its events, and of others within its share."""
    recorded(collector, 2)
    recorded(collector, 30)
    begin(collector, alive(), filled=64)
    collector.copy()
    assert collector._removed == 1  # the live process began after that one had ended
    assert collector._sessions[0].state.chunks == 64 - 1 - 3  # all but its own header, and the first process's file

    recorded(collector, 30)
    collector.copy()
    assert collector._removed == 1  # the newest stays; the live process has given up its oldest events
    assert sum(one.chunks for one in collector._sessions) + collector._kept + collector._ended_chunks <= 64


def test_the_first_process_is_never_removed(collector, tmp_path, alive):
    """The first process's file stays even if it fills the limit, and the others have their minimum."""
    recorded(collector, 64)
    recorded(collector, 64)
    begin(collector, alive(), filled=64)
    collector.copy()

    assert (tmp_path / "x.hwt").exists()
    assert occupied(tmp_path) <= LIMIT + LEAST


def test_only_what_we_made_is_removed(collector, tmp_path):
    """A file or link that someone has put in the place of a trace stays."""
    for _ in range(3):
        recorded(collector, 4)
    _, one, other = collector.files
    one.unlink()
    one.write_text("a user's")
    (tmp_path / "kept").write_text("a user's")
    other.unlink()
    other.symlink_to(tmp_path / "kept")
    for _ in range(8):
        recorded(collector, 40)

    assert one.read_text() == other.read_text() == "a user's"
    assert other.is_symlink()


def test_what_a_process_left_that_has_executed_others_counts(collector, tmp_path, alive):
    """The traces of a process that executes one program after the other are removed like those of ended children."""
    recorded(collector, 2)
    pid = alive()
    for _ in range(40):
        begin(collector, pid, filled=20)
        assert occupied(tmp_path) <= LIMIT + LEAST

    paths = sorted(tmp_path.glob("*.hwt"))
    assert paths == sorted(collector.files)
    assert [int(re.search(r"traces of (\d+) ended children", one)[1]) for one in collector.problems] == [
        41 - len(paths)
    ]


def test_a_note_that_comes_late_changes_no_identity(collector, tmp_path, alive):
    """A program that cannot be recorded was executed, and executes one that can: the trace before it is removed, too."""
    recorded(collector, 2)
    pid = alive()
    begin(collector, pid, filled=20)
    (one,) = collector._sessions
    one.lived.over = True
    collector.copy()
    begin(collector, pid, filled=0)
    assert int(read(one.path).process.executed) == 1
    for _ in range(4):
        recorded(collector, 20)

    assert not one.path.exists()


def test_a_process_may_execute_programs_without_end(collector, tmp_path, monkeypatch, alive):
    """The number in a file's name goes on without a search from 1, and passes over files that were there before."""
    monkeypatch.setattr(collect, "_MOST_TAKEN", 3)
    recorded(collector, 0)
    pid = alive()
    names = [f"x.{pid}.hwt", *(f"x.{pid}-{number}.hwt" for number in range(2, 12))]
    (tmp_path / names[8]).write_text("a user's")
    for _ in range(10):
        begin(collector, pid)

    assert [path.name for path in collector.files] == ["x.hwt", *names[:8], *names[9:]]
    assert (tmp_path / names[8]).read_text() == "a user's"
    assert collector.problems == []


def test_names_that_are_taken_are_told(collector, tmp_path, monkeypatch, alive):
    """A process for which no name is found is not recorded, and a line says so."""
    monkeypatch.setattr(collect, "_MOST_TAKEN", 3)
    recorded(collector, 0)
    pid = alive()
    for number in range(1, 6):
        (tmp_path / f"x.{pid}{f'-{number}' if number > 1 else ''}.hwt").write_text("a user's")
    begin(collector, pid)

    assert [path.name for path in collector.files] == ["x.hwt"]
    assert collector.problems == [
        f"process {pid} is not recorded: its file beside {tmp_path}/x.hwt cannot be created: File exists"
    ]


def test_the_number_of_files_is_bounded(collector, tmp_path, monkeypatch):
    """Small files make room for new ones, too."""
    monkeypatch.setattr(collect, "MOST_FILES", 5)
    for _ in range(20):
        recorded(collector, 0)
        assert len(list(tmp_path.glob("*.hwt"))) <= 5
    assert collector._removed == 15


def test_files_that_cannot_be_removed(collector, tmp_path, monkeypatch):
    """No further child is recorded if files cannot be removed, and a message says so."""

    def fail(*_):
        raise PermissionError

    monkeypatch.setattr(collect, "_remove", fail)
    for _ in range(20):
        recorded(collector, 30)
        assert occupied(tmp_path) <= LIMIT + LEAST
    assert re.match(r"\d+ processes are not recorded: a launch may have", collector.problems[0])


def test_the_number_of_processes_at_a_time_is_bounded(collector, tmp_path, monkeypatch, alive):
    """Processes beyond the limit are refused and counted, and one that has ended makes room."""
    monkeypatch.setattr(collect, "MOST_SESSIONS", 2)
    for _ in range(4):
        begin(collector, alive())
    assert len(collector._sessions) == len(list(tmp_path.glob("*.hwt"))) == 2
    assert re.match("2 processes are not recorded: a launch may have at most 2 at a time", collector.problems[0])

    collector._sessions[0].gone = True
    begin(collector, alive())
    assert len(collector._sessions) == 2
    assert len(list(tmp_path.glob("*.hwt"))) == 3


def test_a_process_is_recorded_once_at_a_time(collector, alive):
    """A process that calls again has executed another program, so its earlier recording is complete."""
    pid = alive()
    for _ in range(5):
        begin(collector, pid, filled=1)
    collector.copy()
    assert [one.pid for one in collector._sessions] == [pid]
    assert len(collector.files) == 5
    assert all(path.stat().st_blocks * 512 >= hwt.CHUNK_BYTES for path in collector.files)


def test_a_memory_that_claims_more_than_ours_has(collector, tmp_path):
    """A memory that claims too much is refused before anything is allocated for it, and leaves no file."""
    most = PROCESS_MEMORY_BYTES // hwt.CHUNK_BYTES
    for chunks in (most + 1, 1_000_000):
        with pytest.raises(OSError, match="Protocol error"):
            begin(collector, os.getpid(), chunks=chunks)
    assert not list(tmp_path.glob("*.hwt"))
    begin(collector, os.getpid(), chunks=most)
    assert len(collector._sessions) == 1


def test_only_descendants_of_the_target_are_recorded(tmp_path, alive):
    """Of the processes that know the launch's number, only the target's descendants are recorded, as with attach."""
    door = Door()
    child = alive()
    with collect.Collector(door, tmp_path / "x.hwt", only=child) as collector:
        for pid in (os.getpid(), os.getppid(), alive(), 1):
            begin(collector, pid)
        assert not collector._sessions
        assert collector.problems == [f"4 processes are not recorded: they do not descend from process {child}"]
        begin(collector, child)
        assert len(collector._sessions) == 1
    with collect.Collector(Door(), tmp_path / "y.hwt", only=os.getpid()) as collector:
        begin(collector, alive())
        assert len(collector._sessions) == 1


def test_who_calls_is_who_the_kernel_says(tmp_path):
    """A process that sends many memories has one session."""
    with collect.Collector(Door(), tmp_path / "x.hwt", only=os.getpid()) as collector:
        hello = struct.pack("<QQ", HELLO_MAGIC, collector._door.family)
        for _ in range(20):
            descriptor = memory()
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(str(collector._door.path))
                socket.send_fds(caller, [hello], [descriptor])
            os.close(descriptor)
        while len(collector.files) < 20:
            collector.step(1.0)
        assert [one.pid for one in collector._sessions] == [os.getpid()]


def test_lines_about_problems_are_bounded(collector):
    """The number of lines about problems is bounded for any number of processes."""
    for number in range(1000):
        collector._say(f"problem {number}")
    assert len(collector.problems) == collect._MOST_PROBLEMS + 1
    assert (
        collector.problems[-1]
        == f"{1000 - collect._MOST_PROBLEMS} further processes are not recorded, or lack some events"
    )


def test_workers_of_a_launch(tmp_path):
    """Six children in turn, each with more than half of the limit, keep within it in a real launch."""
    program = (
        "import os, time\n"
        "for _ in range(6):\n"
        " pid = os.fork()\n"
        " if pid == 0:\n"
        "  for _ in range(20_000):\n   time.sleep(0)\n"
        "  os._exit(0)\n"
        " os.waitpid(pid, 0)\n"
    )
    path = tmp_path / "workers.py"
    path.write_text(program)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with collect.collecting(tmp_path / "x.hwt", max_bytes=LIMIT, say=(said := []).append) as door:
        from headway.live.launch import environment

        subprocess.run([sys.executable, str(path)], env=environment(door.environment(), base=env), check=True)
    assert occupied(tmp_path) <= LIMIT
    assert Path(tmp_path / "x.hwt").exists()
    removed = next(int(re.search(r"the traces of (\d+) ended children were removed", one)[1]) for one in said)
    loss = read(tmp_path / "x.hwt").loss
    assert (loss.removed_files, loss.unrecorded_processes) == (removed, 0)
