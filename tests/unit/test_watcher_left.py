"""A watcher whose processes have ended their recordings, as by `headway detach`, and live on."""

import http.client
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest
from ports import free_port

from headway.live import attach
from headway.live.door import Door
from headway.live.left import Left
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.served import serve
from headway.live.watched import Watched
from headway.live.watcher import Watcher

S = 1_000_000_000
LIMIT_S = 60


@pytest.fixture
def watcher(tmp_path):
    """Return a watcher, of another process than this one, that watches nothing."""
    made = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits()))
    yield made
    made._reception.close()


@pytest.fixture
def sleeper():
    """Return a process that waits for the end of its input."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_that_lives_on_is_told_once(sleeper):
    """A process that is only exiting has ended by the time that it would be told, and one may be recorded again."""
    left = Left()
    for pid in (sleeper.pid, os.getpid()):
        left.note(pid, 5 * S)
    left.forget(os.getpid())
    assert left.alive(7 * S) == []
    assert left.alive(8 * S) == [sleeper.pid]
    assert left.alive(9 * S) == []

    left.note(sleeper.pid, 5 * S)
    sleeper.kill()
    sleeper.wait(LIMIT_S)
    assert left.alive(8 * S) == []


@pytest.mark.parametrize(("stopped", "own", "told"), [(True, False, True), (False, False, False), (True, True, False)])
def test_the_watcher_says_that_a_process_is_no_longer_watched(watcher, capfd, stopped, own, told):
    """A process that has executed another program, or has ended its own watch, gets no line."""
    watcher._options = watcher._options._replace(own=own, pid=os.getpid())
    ring = SimpleNamespace(pid=os.getpid(), pidfd=-1, gone=True, finished=True, stopped=stopped, close=lambda: None)
    watcher._rings.append(Watched(cast(Ring, ring)))
    watcher._service = SimpleNamespace(end=lambda *_: None)
    now_ns = 2**62
    watcher._over(watcher._rings[0])
    watcher._tell_of_none(now_ns, asked=False)

    line = f"headway: process {os.getpid()} is no longer watched: its recording was ended"
    assert capfd.readouterr().err.count(line) == told


@pytest.mark.parametrize(("pid", "watched"), [(4711, 1), (0, 2)])
def test_a_process_without_an_id_does_not_end_the_watch_of_another(watcher, monkeypatch, pid, watched):
    """A process that calls again has executed another program; 0 is the id of each process that we cannot see."""

    def ring(*_):
        it = {"pidfd": -1, "tells": False, "gone": True, "finished": True, "stopped": False}
        return SimpleNamespace(pid=pid, close=lambda: None, **it)

    monkeypatch.setattr("headway.live.watcher.Ring", ring)
    watcher._service = SimpleNamespace(end=lambda *_: None)
    for _ in range(2):
        watcher._begin(-1, pid)

    assert len(watcher._rings) == watched


def test_each_request_for_a_recording_of_nothing_is_answered(watcher, capfd):
    """The line comes a second after the request: a process that calls meanwhile is recorded."""
    for seconds, lines in ((0, 0), (0.5, 0), (1, 1), (2, 0)):
        watcher._tell_of_none(round((100 + seconds) * S), asked=seconds == 0)
        assert capfd.readouterr().err.count("no recording is written, because no process is watched") == lines
    watcher._tell_of_none(200 * S, asked=True)
    watcher._rings.append(Watched(cast(Ring, None)))
    watcher._tell_of_none(201 * S, asked=False)
    watcher._rings.clear()
    watcher._tell_of_none(202 * S, asked=False)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("watches", "status", "text"),
    [(True, 200, b"a recording of each process is being written\n"), (False, 503, b"no process is watched, so no")],
)
def test_a_request_over_http_tells_whether_anything_is_watched(watches, status, text):
    """The answer promises a recording only if there is a process to record."""
    asked = []
    port = free_port()
    serve(cast(Watcher, SimpleNamespace(watches=watches, ask=lambda: asked.append(1))), f"127.0.0.1:{port}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET", "/dump")
    answer = connection.getresponse()
    assert (answer.status, answer.read().startswith(text), asked) == (status, True, [1])
    connection.close()


def test_the_hint_for_a_watched_process_is_no_advice_to_end_its_watching():
    """A process that has been detached is watched again only after a restart; other recordings can be begun anew."""
    target = attach.Target(7, (3, 13), free_threaded=False, started=0)

    assert attach._hint("it is already recorded, into headway watch", target).startswith("`kill -USR2`")
    assert attach._hint("it is already recorded, since 10:00:00 into /a.hwt", target) == "`headway detach 7` ends that"
