"""A watcher whose program has ended, while processes that it watches live on, such as daemons."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live import outlived
from headway.live import watcher as watching
from headway.live.detached import Program
from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.outlived import Outlived
from headway.live.ring import Ring
from headway.live.stall_log import gap_in
from headway.live.watched import Watched
from headway.live.watcher import Watcher

LONG_S = 1000.0


def ring(pid=0, *, shows_end=True):
    return cast(Ring, SimpleNamespace(pid=pid, gone=False, shows_end=shows_end))


@pytest.fixture
def let_go(monkeypatch):
    """Return a list that gets an entry whenever stderr would be let go of."""
    found = []
    monkeypatch.setattr(outlived, "let_go_of_stderr", lambda: found.append(1))
    monkeypatch.setattr(watching, "let_go_of_stderr", lambda: None)
    return found


@pytest.fixture
def sleeper():
    """Return a process that has neither our stdout nor our stderr, and waits for the end of its input."""
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=nothing, stderr=nothing
    ) as process:
        yield process.pid
        process.kill()


def test_a_daemon_is_watched_to_its_end(tmp_path, monkeypatch, let_go):
    """The program ends at once, and the daemon long after it; the watcher then stays for a moment only."""
    made = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
    made._rings.append(Watched(ring()))
    seconds = []

    def step():
        seconds.append(len(seconds))
        if len(seconds) == LONG_S:
            made._rings.clear()

    monkeypatch.setattr(made, "_step", step)
    monkeypatch.setattr(watching.time, "monotonic", lambda: 1.0 + len(seconds))
    made.run(cast(Program, SimpleNamespace(ended=lambda: True)))

    assert len(seconds) == LONG_S + 2
    assert let_go == [1]


def test_a_process_whose_end_might_not_be_seen_is_left(tmp_path, let_go):
    """The watcher would stay for ever. It leaves a note beside the log."""
    log, said = tmp_path / "it.stalls.jsonl", []
    one = Outlived("it", log, said.append)
    hidden = [ring(shows_end=False)]

    assert one.are_watched_on(hidden, 5.0)
    assert gap_in(log) is None
    assert one.are_watched_on([*hidden, ring()], LONG_S)
    assert not one.are_watched_on(hidden, LONG_S)
    words = "a process that outlived it, and whose end might not be seen, was watched no more"
    assert said[-1] == words
    assert gap_in(log)[1].startswith(f"stalls may be missing here, as {words} from 20")


def test_stderr_is_held_as_long_as_a_process_has_it(tmp_path, sleeper, let_go):
    """A reader waits for that process anyway. A line says that only the log tells of stalls afterwards, unless all end."""
    said = []
    one = Outlived("it", tmp_path / "it.stalls.jsonl", said.append)

    assert one.are_watched_on([ring(sleeper)], 0.1)
    assert one.are_watched_on([ring(sleeper), ring(os.getpid())], LONG_S)
    assert (said, let_go) == ([], [])
    for _ in range(2):
        assert one.are_watched_on([ring(sleeper)], LONG_S)
    (line,) = said
    assert line.startswith("it has ended, and 1 process of it is watched on: only ")
    assert let_go == [1]


@pytest.mark.parametrize(("pidfd", "began", "shows"), [(3, None, True), (-1, 5, True), (-1, None, False)])
def test_a_ring_shows_the_end_of_its_process(pidfd, began, shows):
    """By a pidfd, or else by the time at which the process began; one in another PID namespace may have neither."""
    one = object.__new__(Ring)
    one.pidfd, one._began = pidfd, began
    assert one.shows_end is shows
