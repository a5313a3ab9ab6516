"""The door's socket: its folder, of which only what killed owners left is removed, and the answers that are given there."""

import errno
import os
import socket
import struct
import tempfile
import time
from pathlib import Path

import pytest

from headway.errors import RecordingError
from headway.live import channel, door

DAYS_S = 3 * 24 * 3600


@pytest.fixture
def a_folder(tmp_path):
    """Return a function that makes a folder of some age, whose owner has bound sockets there and may listen."""
    made = []

    def make(name, *files, age_s=DAYS_S, kind=socket.SOCK_STREAM, state="killed"):
        folder = tmp_path / name
        folder.mkdir()
        for file in files:
            one = socket.socket(socket.AF_UNIX, kind)
            made.append(one)
            one.bind(str(folder / file))
            if state == "listens":
                one.listen()
            elif state == "killed":
                one.close()
        then_s = folder.stat().st_mtime - age_s
        os.utime(folder, (then_s, then_s))
        return folder

    yield make
    for one in made:
        one.close()


def test_only_deserted_folders_are_removed(tmp_path, a_folder):
    """A watcher or an attach that has listened for days keeps its folder, and so does one that is about to listen."""
    (a_folder("killed attach", "s", kind=socket.SOCK_SEQPACKET) / "script.py").write_text("pass\n")
    (a_folder("killed an hour ago", "s", kind=socket.SOCK_SEQPACKET) / "script.py").write_text("pass\n")
    a_folder("killed watcher", "door")
    a_folder("killed at once")
    a_folder("watcher", "door", state="listens")
    a_folder("attach", "s", kind=socket.SOCK_SEQPACKET, state="listens")
    a_folder("young", "door", age_s=5, state="bound")
    (a_folder("other") / "of somebody").write_text("")
    base = os.open(tmp_path, os.O_RDONLY)

    for name, age_s in (("killed attach", DAYS_S), ("killed an hour ago", 3600), ("other", DAYS_S)):
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    channel._remove_deserted(tmp_path, base)

    os.close(base)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "attach",
        "killed an hour ago",
        "other",
        "watcher",
        "young",
    ]


@pytest.mark.parametrize("home", ["full", "long"])
def test_a_home_without_room_for_a_socket_is_passed_over(home, tmp_path, monkeypatch):
    """Where the private folder cannot be made, or its path is too long for a socket, the temporary folder serves."""
    long = tmp_path / ("x" * 100)

    def private():
        if home == "full":
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        long.mkdir()
        return long

    monkeypatch.setattr(door, "private_folder", private)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    made = door.Door()

    assert made.path.parent.parent == Path("/tmp")
    assert made.path.is_socket()
    assert not long.exists()
    made.close()
    assert not made.path.parent.exists()


@pytest.mark.parametrize("step", ["bind", "chmod", "listen"])
def test_a_door_that_cannot_be_opened_leaves_nothing(tmp_path, monkeypatch, step):
    """Whichever step fails, the folder, the socket's file and the descriptor are gone."""

    def fail(*_):
        raise OSError(errno.ENOSPC, "no space")

    folder = tmp_path / "new"
    monkeypatch.setattr(door, "_new_folder", lambda: folder.mkdir() or folder)
    made = []

    def keep(one):
        made.append(one)
        return one

    monkeypatch.setattr(door, "_beyond_the_streams", keep)
    if step == "chmod":
        monkeypatch.setattr(Path, "chmod", fail)
    else:
        monkeypatch.setattr(door.socket, "socket", type("Failing", (socket.socket,), {step: fail}))

    with pytest.raises(RecordingError, match="the socket cannot be created: no space"):
        door.Door()

    assert list(tmp_path.iterdir()) == []
    assert made[0].fileno() == -1


def test_a_process_that_has_ended_is_told_once():
    """The pidfd of an ended process stays readable, and must not end each later wait at once."""
    told = []
    reception = door.Reception(door.Door(), lambda *_: None, told.append)
    reading, writing = os.pipe()
    try:
        reception.keep(reading, lambda: told.append("ended"))
        os.write(writing, b"x")
        for _ in range(3):
            assert not reception.answer(0)
        assert told == ["ended"]
        reception.forget(reading)
    finally:
        reception.close()
        os.close(reading)
        os.close(writing)


@pytest.fixture
def asked():
    """Return a function that sends a message to a new door, with descriptors, and returns the answer and what was called."""
    opened = []

    def ask(magic, *descriptors, family_off=0, counts_of=None):
        calls = []
        one = door.Door()
        reception = door.Reception(one, lambda _, pid: calls.append(pid), calls.append, counts_of)
        opened.append(reception)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.connect(str(one.path))
            socket.send_fds(caller, [struct.pack("<QQ", magic, one.family ^ family_off)], descriptors)
            while reception.answer(0):  # first the call, then what it says
                pass
            caller.settimeout(0)  # an answer, or the end of the connection, is there by now
            return caller.recv(1000), calls

    yield ask
    for one in opened:
        one.close()


QUESTION = struct.unpack("<QQ", door.Door.question(0))[0]


def test_a_process_that_asks_is_told_its_own_counts(asked):
    """The kernel says which process asks, and a process that does not know the launch's number is told nothing."""

    def counts_of(pid):
        return f"of {pid}".encode()

    assert asked(QUESTION, counts_of=counts_of) == (f"of {os.getpid()}".encode(), [])
    assert asked(QUESTION, family_off=1, counts_of=counts_of) == (b"", [])
    assert asked(QUESTION + 1, counts_of=counts_of) == (b"", [])


def test_a_collector_of_a_trace_has_no_counts(asked):
    """The question ends without an answer, is no process that calls, and does not hang; nor does that of a stranger."""
    assert asked(QUESTION) == (b"", [])
    assert asked(QUESTION, counts_of=lambda _: b"") == (b"", [])


def test_a_hello_is_no_question(asked):
    """A process that begins to record is let in as before, and gets no answer."""
    with open(os.devnull, "rb") as memory:
        found = asked(door.HELLO_MAGIC, memory.fileno(), counts_of=lambda _: b"counts")
    assert found == (b"", [os.getpid()])
    assert asked(door.HELLO_MAGIC, counts_of=lambda _: b"counts") == (b"", ["Too many open files"])


def test_who_asks_and_hangs_up_disturbs_nobody():
    """An answer that nobody takes is no process that cannot be watched."""
    said, one = [], door.Door()
    reception = door.Reception(one, lambda *_: None, said.append, lambda _: b"counts")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.connect(str(one.path))
        caller.sendall(door.Door.question(one.family))
    while reception.answer(0):
        pass
    reception.close()

    assert said == []


def test_many_calls_are_heard_before_more_are_taken():
    """After a stop, a watcher finds a queue of calls that may be longer than the list of its descriptors."""
    said, one = [], door.Door()
    reception = door.Reception(one, lambda *_: None, said.append, lambda _: b"counts")
    callers = []
    for _ in range(3 * door._AT_ONCE):
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        callers.append(caller)
        caller.connect(str(one.path))
        caller.sendall(door.Door.question(one.family))
    most = 0
    while reception.answer(0):
        most = max(most, len(reception._callers))
    told = [caller.recv(100, socket.MSG_DONTWAIT) for caller in callers]
    for caller in callers:
        caller.close()
    reception.close()

    assert most == door._AT_ONCE
    assert told == [b"counts"] * len(callers)
    assert said == []
