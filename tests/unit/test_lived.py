"""Until when a process has certainly run the program that it records."""

import mmap
import os
import sys
from subprocess import PIPE, Popen
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live import lived
from headway.native import Collection

MS = 1_000_000


@pytest.fixture
def process(monkeypatch):
    """Return the identity of a made process, which a test changes, and the times that its collection is told."""
    made = SimpleNamespace(identity=("1", "2", "3"), told=[], looks=0)

    def look(_):
        made.looks += 1
        if isinstance(made.identity, OSError):
            raise made.identity
        return made.identity

    monkeypatch.setattr(lived, "incarnation_of", look)
    return made


def looked(made):
    """Return the object that looks at it."""
    with open(os.devnull) as memory:  # process 7 is none of ours, or none at all
        return lived.Lived(7, cast(Collection, SimpleNamespace(lived=made.told.append)), memory.fileno())


def test_a_program_that_was_executed_before_we_came_is_not_the_recorded_one():
    """The memory of the recorded program is gone with it, and the new one's life is not the trace's."""
    told = cast(Collection, SimpleNamespace(lived=lambda _: None))
    with (
        open(os.memfd_create("headway-test"), "r+b") as memory,
        open(os.memfd_create("headway-test"), "r+b") as unmapped,
        Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=PIPE, stdout=PIPE) as other,
    ):
        assert other.stdout is not None
        other.stdout.readline()  # Popen returns while the process may still be in the middle of exec()
        memory.truncate(4096)
        unmapped.truncate(4096)
        with mmap.mmap(memory.fileno(), 4096):
            assert lived.Lived(other.pid, told, memory.fileno()).over
            assert not lived.Lived(os.getpid(), told, memory.fileno()).over
            assert not lived.Lived(other.pid, told, unmapped.fileno()).over  # this kernel may not show what is mapped
            other.kill()
            other.wait()
            assert not lived.Lived(other.pid, told, memory.fileno()).over


def test_looks_are_rare(process):
    """A look reads a file of /proc, so most passes over the processes have none."""
    one = looked(process)
    for now_ms in range(1000, 2000, 20):
        one.look(now_ms * MS)

    assert process.told == [1000 * MS, 1260 * MS, 1520 * MS, 1780 * MS]
    assert process.looks == 1 + len(process.told)


@pytest.mark.parametrize(
    "then",
    [("1", "2", "4"), ("1", "0", "0"), None, ("1", "1", "0"), PermissionError()],
    ids=["executed", "in exec", "ended", "hidden", "refused"],
)
def test_another_program_and_an_end_are_final(process, then):
    """The recording of a process ends when it executes another program, whatever is seen later.

    If no program is seen, its first thread may have ended before the others.
    """
    one = looked(process)
    one.look(1000 * MS)
    before, process.identity = process.identity, then
    one.look(2000 * MS)
    process.identity = before
    one.look(3000 * MS)

    assert process.told == [1000 * MS]
    assert one.over == (then in [("1", "2", "4"), ("1", "0", "0")])


def test_a_program_that_we_meet_in_exec_is_over(process):
    """It called us, so it had code, and the next program has none yet."""
    process.identity = ("1", "0", "0")
    one = looked(process)
    process.identity = ("1", "2", "4")
    one.look(1000 * MS)

    assert one.over
    assert process.told == []


def test_a_process_that_cannot_be_seen_is_left_alone(process):
    """/proc may hide the processes of other users."""
    process.identity = PermissionError()
    one = looked(process)
    process.identity = ("1", "2", "3")
    one.look(1000 * MS)

    assert process.told == []
