"""Processes that a watcher does not watch, as they could not call: `headway stalls` must not say that nothing stalled."""

import os
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headway.cli import main
from headway.live.door import Door, Reception
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.stall_log import gap_in
from headway.live.unwatched import Unwatched
from headway.live.watched import Watched
from headway.live.watcher import Watcher

S = 1_000_000_000
PID = 4711


@pytest.fixture
def log(tmp_path):
    """Return the path of an empty log."""
    path = tmp_path / "it.stalls.jsonl"
    path.touch()
    return path


@pytest.fixture
def reception():
    """Return what answers at a new door; each process that asks for its own counts is told `here`."""
    one = Reception(Door(), lambda *_: None, lambda _: None, lambda _: b"here")
    yield one
    one.close()


def parent(pid=PID):
    return Watched(cast(Ring, SimpleNamespace(pid=pid, lost_children=0)))


def test_children_that_could_not_call_are_told(log, tmp_path, capsys):
    """The note beside the log has all of them; on stderr, a server that forks for each request gets few lines."""
    said: list[str] = []
    door = tmp_path / "door"
    door.touch()
    one, other, unwatched = parent(), parent(12), Unwatched(log, door, said.append, None)
    unwatched.see(one, S)
    assert (said, gap_in(log)) == ([], None)

    for count in range(1, 101):
        one.ring.lost_children = count
        unwatched.see(one, S)
        unwatched.see(one, S)
    other.ring.lost_children = 5
    unwatched.see(other, S)

    assert [int(line.split()[0].replace("a", "1")) for line in said] == [1, 2, 4, 8, 16, 32, 64]
    why = "did not reach the watcher (its limits, `ulimit -n`, `-v` or `-f`, may be too low, or its root folder another one)"
    assert said[0] == f"a child of process {PID} is not watched: it {why}"
    assert main(["stalls", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert output.out == "no file shows whether there were stalls\n"
    words = f"105 children are not watched, the last one of process 12: they {why}; last at 20"
    assert output.err.startswith(f"{log}: stalls may be missing here, as {words}")


def test_a_door_that_is_gone_is_made_again(log, reception):
    """Its folder was removed, with all else in the user's cache, and processes that begin later look for it there."""
    said: list[str] = []
    door = reception._door
    before = os.stat(door.folder).st_mode
    shutil.rmtree(door.folder)
    unwatched = Unwatched(log, door.path, said.append, None)
    unwatched.keep_door(reception, S)

    assert os.stat(door.folder).st_mode == before
    assert os.stat(door.path).st_mode & 0o777 == 0o666
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.connect(str(door.path))
        caller.send(Door.question(door.family))
        while reception.answer(0.01) or reception.busy:
            pass
        assert caller.recv(9) == b"here"
    assert (said, gap_in(log)) == ([], None)

    one = parent()
    one.ring.lost_children = 1
    unwatched.see(one, S + S // 10)
    assert said == [
        f"a child of process {PID} is not watched: it did not reach the watcher, whose socket {door.path} was gone"
    ]


def test_a_door_that_cannot_be_made_again_is_told_once(log, reception):
    """So it is after a logout, where logind removes the runtime folder: processes that are started anew count nowhere."""
    said: list[str] = []
    door = reception._door
    shutil.rmtree(door.folder)
    Path(door.folder).touch()
    unwatched = Unwatched(log, door.path, said.append, None)
    for second in range(9):
        unwatched.keep_door(reception, second * S)
    (line,) = said
    assert line == (
        f"the watcher's socket {door.path} is gone, and cannot be made again (Not a directory):"
        " processes that begin now are not watched"
    )
    assert f"as {line}; last at 20" in gap_in(log)[1]

    Path(door.folder).unlink()
    unwatched.keep_door(reception, 10 * S)
    assert door.path.is_socket()


def test_a_removed_headway_is_told_once(log, reception, tmp_path):
    """A Python that the program starts later does not find the hook; one that has begun goes on."""
    said: list[str] = []
    hook = tmp_path / "startup.zip"
    hook.touch()
    unwatched = Unwatched(log, reception._door.path, said.append, hook)
    unwatched.keep_door(reception, S)
    assert said == []

    hook.unlink()
    for second in range(2, 9):
        unwatched.keep_door(reception, second * S)
    line = f"Headway was removed or replaced since the watch began ({hook} is gone): processes that begin now are not watched"
    assert said == [line]
    assert f"as {line}; last at 20" in gap_in(log)[1]


def test_a_process_for_which_there_is_no_room_is_noted(tmp_path, capfd):
    """The line on stderr comes once, and not once for each such process."""
    watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits()))
    try:
        watcher._rings += [parent(pid) for pid in range(2000, 2256)]
        for pid in (7, 8):
            watcher._begin(-1, pid)
        watcher._rings.clear()
    finally:
        watcher._reception.close()

    words = "a process is not watched: 256 processes are watched already"
    assert capfd.readouterr().err == f"headway: {words}\n"
    assert f"as {words}; last at 20" in gap_in(watcher.log)[1]
