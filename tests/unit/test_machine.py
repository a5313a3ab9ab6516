"""The cores for launches and for the runner."""

import pytest

from headway.host import machine


@pytest.mark.parametrize(
    ("siblings", "launches", "runner"),
    [
        ({0: "a", 1: "b"}, (0, 1), ()),
        ({0: "a", 1: "b", 2: "a", 3: "b"}, (0, 1, 2, 3), ()),
        ({0: "a", 1: "b", 2: "c", 3: "d"}, (0, 1, 2), (3,)),
        ({n: str(n % 4) for n in range(8)}, (0, 1, 2, 4, 5, 6), (3, 7)),
    ],
    ids=["two", "two with hyper-threads", "four", "four with hyper-threads"],
)
def test_the_runner_keeps_a_physical_core_where_there_are_enough(monkeypatch, siblings, launches, runner):
    """One of four or more physical cores, with all its hyper-threads, is the runner's."""
    monkeypatch.setattr(machine, "_siblings", siblings.__getitem__)

    assert machine.split_off_runner(tuple(siblings)) == (launches, runner)


def test_split_uses_different_physical_cores(monkeypatch):
    """The two cores of `split` are not hyper-threads of one core, if possible."""
    monkeypatch.setattr(machine, "_siblings", {0: "a", 1: "a", 2: "b", 3: "b"}.__getitem__)

    found = machine.this_machine((0, 1, 2, 3))

    assert (found.split, found.physical_cores) == ((0, 2), 2)


def test_one_core_cannot_be_split():
    """A machine with one core has no `split`."""
    assert machine.this_machine((0,)).split == ()
