"""What an agent reads of the kernel's count of busy time."""

import os

import pytest
from headway_agent import proc

HERTZ = os.sysconf("SC_CLK_TCK")


def stat(*cores):
    """Return /proc/stat with (user, system, idle) ticks of each core; guest and steal time are no work of ours."""
    lines = ["cpu  1 2 3 4 5 6 7 8 9 10"]
    lines += [f"cpu{core} {user} 0 {system} {idle} 0 0 0 7 3 0" for core, (user, system, idle) in enumerate(cores)]
    return "\n".join([*lines, "intr 12345", "ctxt 99"])


@pytest.fixture
def said(monkeypatch):
    """What /proc/stat says at each moment, and the clock: a second from one to the next."""

    def said(*texts):
        answers, clock = iter(texts), iter(range(10**9, 10**12, 10**9))
        monkeypatch.setattr(proc, "read", lambda path: next(answers))
        monkeypatch.setattr(proc.time, "monotonic_ns", lambda: next(clock))

    return said


def test_each_stretch_has_the_busy_time_of_the_allowed_cores(said):
    """The third core is somebody else's."""
    second = HERTZ
    said(
        stat((0, 0, 0), (0, 0, 0), (0, 0, 0)),
        stat((second, 0, 0), (0, 0, second), (second, 0, 0)),
        stat((second, second, 0), (second // 2, 0, 2 * second - second // 2), (2 * second, 0, 0)),
        stat((2 * second, second, 0), (second // 2, 0, 3 * second - second // 2), (3 * second, 0, 0)),
    )
    course = proc.Course({0, 1})
    for phase in ("set-up", "timed", "timed"):
        course.mark(phase)

    assert course.stretches() == [
        {"phase": "set-up", "until_s": 1, "busy_s": 1},
        {"phase": "timed", "until_s": 2, "busy_s": 1.5},
        {"phase": "timed", "until_s": 3, "busy_s": 1},
    ]
    assert course.utilisation("timed") == {0: 1, 1: 0.25}


def test_without_proc_there_is_no_course(monkeypatch):
    """A launch goes on."""

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(proc, "read", refuse)
    course = proc.Course({0})
    course.mark("timed")

    assert (course.stretches(), course.utilisation("timed")) == ([], {})
