"""Processes that begin below a process while a command is at work are entered, at the second look at them."""

import errno
import os
import threading

import pytest

from headway.cli import newcomers
from headway.cli.newcomers import Newcomers
from headway.errors import RecordingError

LIMIT_S = 60


@pytest.fixture
def there(monkeypatch):
    """Return the processes, with what distinguishes their programs; "sh" is no Python, "helper" is one of its own.

    All of them are below process 1, except an "orphan".
    """
    found = {}

    def look_at(pid):
        if "sh" in found[pid]:
            raise RecordingError("no Python")

    def ticks_of(pid):
        if pid not in found:
            raise ProcessLookupError
        return found[pid][0]

    monkeypatch.setattr(
        "headway.live.files.descendants", lambda _: sorted(pid for pid in found if "orphan" not in found[pid])
    )
    monkeypatch.setattr("headway.live.files.ticks_of", ticks_of)
    monkeypatch.setattr("headway.live.lived.incarnation_of", found.get)
    monkeypatch.setattr("headway.live.attach.look_at", look_at)
    monkeypatch.setattr("headway.live.standby.is_standby", lambda pid: "helper" in found[pid])
    return found


class Command:
    """A command that enters processes: what it has entered and said, and which errors come first."""

    def __init__(self):
        self.tried = []
        self.said = []
        self.closed = []
        self.errors = {}
        self.newcomers = Newcomers(1, self.enter, self.closed.append, "recorded", self.said.append)

    def enter(self, pid, check):
        self.tried.append(pid)
        check()
        if self.errors.get(pid):
            why = self.errors[pid].pop(0)
            raise why if isinstance(why, OSError) else RecordingError(why)
        return None if pid == 77 else f"held {pid}"

    def look(self, times=1):
        for _ in range(times):
            self.newcomers.look()


def test_a_process_is_entered_once_and_not_at_the_first_look(there):
    """A process that has just begun may become another; those that the caller enters are left to it."""
    there[10] = ("old",)
    command = Command()
    command.newcomers.leave([10, 12])
    there[11] = ("new",)
    command.look()
    assert command.tried == []
    command.look(3)

    assert command.tried == [11]
    assert command.newcomers.found == ["held 11"]
    assert command.newcomers.left_out == []
    assert command.said == []


@pytest.mark.parametrize("kind", ["sh", "helper"])
def test_other_processes_are_left_alone_until_they_become_python(there, kind):
    """A shell and a resource tracker are not entered; an id with another program is a new process."""
    command = Command()
    there[11] = (kind,)
    command.look(3)
    assert command.tried == []
    there[11] = ("new",)
    command.look(2)

    assert command.newcomers.found == ["held 11"]


def test_a_process_that_was_entered_is_entered_again_as_another_program(there):
    """The recording of a process ends when it executes another program."""
    command = Command()
    there[11] = ("new",)
    command.look(2)
    there[11] = ("new", "other code")
    command.look(2)

    assert command.tried == [11, 11]
    assert command.newcomers.found == command.closed == ["held 11"]


def test_what_is_held_of_a_process_ends_with_it(there):
    """A server may start a worker a second, and each that is held costs descriptors and a thread; an orphan lives on."""
    command = Command()
    there.update({11: ("new",), 12: ("new",), 13: ("new",)})
    command.look(2)
    assert command.newcomers.found == ["held 11", "held 12", "held 13"]
    del there[11]
    there[12] = ("new", "orphan")
    there[13] = ("a later process with the same id",)
    command.look()

    assert command.newcomers.found == ["held 12"]
    assert command.closed == ["held 11", "held 13"]
    assert command.newcomers.left_out == []


def test_a_lack_of_descriptors_ends_nothing(there, monkeypatch):
    """The reason is told like any other one, and what is held stays."""
    command = Command()
    there[11] = ("new",)
    command.look(2)
    there[12] = ("new",)
    lack = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    command.errors[12] = [lack] * 8

    def no_descriptor(_):
        raise lack

    monkeypatch.setattr("headway.live.files.ticks_of", no_descriptor)
    monkeypatch.setattr("headway.live.attach.look_at", no_descriptor)
    command.look(9)

    assert command.newcomers.found == ["held 11"]
    assert command.closed == []
    assert command.said == ["its new child process 12 is not recorded: Too many open files"]


def test_a_process_that_needs_no_entering(there):
    """A forked child of a recorded process is recorded already."""
    command = Command()
    there[77] = ("new",)
    command.look(3)

    assert (command.tried, command.newcomers.found, command.newcomers.left_out) == ([77], [], [])


def test_a_process_that_cannot_be_entered_is_told_after_some_tries(there):
    """It may be starting still; the last reason is told, once."""
    command = Command()
    there.update({11: ("new",), 12: ("new",)})
    command.errors = {11: ["why"], 12: ["why"] * 2 + ["why not"] * 8}
    command.look(9)

    assert command.newcomers.found == ["held 11"]
    assert command.tried.count(12) == newcomers._TRIES
    assert command.said == ["its new child process 12 is not recorded: why not"]
    assert command.newcomers.left_out == []


def test_the_reasons_of_many_processes_are_not_all_told(there):
    """A program that starts processes without end does not fill the terminal."""
    command = Command()
    for pid in range(100, 140):
        there[pid] = ("new",)
        command.errors[pid] = ["why"] * 8
    command.look(9)

    assert len(command.said) == newcomers._MOST_SAID + 1
    assert command.said[-1] == "further new child processes that are not recorded are not named"


def test_a_process_that_ends_too_early_is_left_out(there):
    """No reason is told of it; the caller may name it at the end, together with those that are still being entered."""
    command = Command()
    there.update({11: ("new",), 12: ("new",)})
    command.errors = {11: ["process 11 has ended"], 12: ["why"] * 8}
    command.look(2)
    del there[11]
    command.look()

    assert command.said == []
    assert command.newcomers.left_out == [11, 12]


def test_the_end_of_the_command_ends_a_try(there):
    """The thread looks by itself, and the end does not wait until a process that does not answer is entered."""
    began = threading.Event()

    def enter(_, check):
        began.set()
        while True:
            check()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newcomers, "_LOOK_S", 0.001)
        with Newcomers(1, enter, print, "recorded", print) as found:
            there[11] = ("new",)
            assert began.wait(LIMIT_S)

    assert found.left_out == [11]
    assert found.found == []
