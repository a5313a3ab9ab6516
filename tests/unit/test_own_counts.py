"""The counts that a process asks its watcher for: totals that go on, one question for one export, one line without an answer."""

import _socket
import copy
import io
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live import own_counts, watching
from headway.live.door import Door, Reception
from headway.live.options import Limits, Options
from headway.live.own_counts import OwnCounts
from headway.live.reports import Report
from headway.live.ring import Ring
from headway.live.watched import Watched, counts_of
from headway.live.watcher import Watcher
from headway.live.watchers_counts import Counts, add_stalls
from headway.traces.analysis.stall_model import Cause, StallKind

LOOP, BLOCKING = StallKind.LOOP.value, Cause.BLOCKED.value


@pytest.fixture
def answers(monkeypatch):
    """Return a list: its last item is what the watcher answers to this process, or how it fails."""
    given = [b""]

    def ask(*_):
        if isinstance(given[-1], OSError):
            raise given[-1]
        return given[-1]

    monkeypatch.setattr(own_counts, "own_door", lambda: ("door", 1))
    monkeypatch.setattr(own_counts, "_ask", ask)
    monkeypatch.setattr(own_counts, "_watcher", own_counts._Watcher())
    monkeypatch.setattr(own_counts, "_FRESH_S", 0.0)
    yield given
    own_counts._watcher = own_counts._Watcher()  # a test that forks has replaced it


def answer(since_ns, laps, stalls=0):
    counted = {(LOOP, BLOCKING): (stalls, 0.25 * stalls)} if stalls else {}
    return Counts(since_ns, [0, laps], 10 * laps, counted).to_json()


def figures(counts):
    return list(counts.laps), counts.laps_ns, counts.stalls.get((LOOP, BLOCKING))


def test_counts_come_back_from_their_text():
    """The process unpacks what the watcher packs, and anything else is an error."""
    counts = Counts(7, [0, 2, 1], 12, {(LOOP, BLOCKING): (2, 0.5), (LOOP, "GIL"): (0, 0.1)})

    assert Counts.of_json(counts.to_json()) == counts
    for text in (b"", b"{", b"[]", b"{}", json.dumps(counts._asdict() | {"stalls": [[1]]}).encode()):
        with pytest.raises(ValueError):
            Counts.of_json(text)
    for field, value in (("laps_ns", "x"), ("laps", [float("inf")]), ("since_ns", float("nan")), ("stalls", [1])):
        with pytest.raises(ValueError, match="these are no counts"):
            Counts.of_json(json.dumps(counts._asdict() | {"stalls": [], field: value}).encode())


def test_a_watch_that_begins_anew_goes_on(answers):
    """Totals never go back in one process, whichever watcher counts."""
    counts = OwnCounts()
    found = []
    for each in (answer(5, 2, stalls=1), answer(5, 3, stalls=1), answer(9, 1), answer(9, 2, stalls=1)):
        answers.append(each)
        found.append(figures(counts.now()))

    assert found == [
        ([0, 2], 20, (1, 0.25)),
        ([0, 3], 30, (1, 0.25)),
        ([0, 4], 40, (1, 0.25)),
        ([0, 5], 50, (2, 0.5)),
    ]


@pytest.mark.parametrize(("goes_on", "laps"), [(True, [0, 6]), (False, [0, 1])])
def test_a_forked_child_has_its_own_counts(answers, goes_on, laps):
    """A child begins at 0, or at its parent's totals where the SDK remembers these; its watcher counts from 0 in any case."""
    counts = OwnCounts(goes_on=goes_on)
    since_ns = counts.since_ns
    answers.append(answer(5, 5))
    counts.now()
    OwnCounts.after_fork()
    answers.append(answer(8, 1))

    assert list(counts.now().laps) == laps
    assert (counts.since_ns > since_ns) == (not goes_on)


def test_a_fork_counts_nothing_twice(answers):
    """Whichever line another thread is at when it forks, the child goes on from a total that its parent has told."""
    counts = OwnCounts(goes_on=True)
    answers.append(answer(5, 5))
    told = [list(counts.now().laps)]
    answers.append(answer(9, 2))
    forked = []

    def look(frame, event, _):
        if frame.f_code is OwnCounts.now.__code__:
            if event == "line":
                forked.append(copy.copy(counts))
            return look
        return None

    sys.settrace(look)
    try:
        told.append(list(counts.now().laps))
    finally:
        sys.settrace(None)
    answers.append(answer(11, 0))
    for child in forked:
        child._begin_in_child()

    assert told == [[0, 5], [0, 7]]
    assert {tuple(child.now().laps) for child in forked} == {(0, 5), (0, 7)}


def test_one_answer_serves_an_export(answers, monkeypatch):
    """All metrics of an export come from one answer, so that numbers and times fit each other."""
    monkeypatch.setattr(own_counts, "_FRESH_S", 1000.0)
    first, second = OwnCounts(goes_on=True), OwnCounts()
    for counts, laps in ((first, 1), (second, 2)):
        answers.append(answer(5, laps))
        assert list(counts.now().laps) == [0, 1]


@pytest.mark.parametrize(
    ("failure", "why", "told_at"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused", 1),
        (TimeoutError("timed out"), "timed out", 4),
        (BlockingIOError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable", 4),
        (b"{}", "these are no counts: b'{}'", 1),
    ],
    ids=["killed", "stopped", "crowded", "nonsense"],
)
def test_a_watcher_that_does_not_answer_is_told_once(answers, caplog, monkeypatch, failure, why, told_at):
    """There are no counts then, and the watcher is not asked again at once; they are back when it answers.

    A watcher that was late once, as while it starts, is no reason for a line; one that is late twice in turn is.
    """
    now_s = [100.0]
    monkeypatch.setattr(own_counts.time, "monotonic", lambda: now_s[0])
    counts = OwnCounts()
    said = []
    for each in (failure, answer(5, 1), failure, failure, failure):
        answers.append(each)
        found = counts.now()
        assert (found is None) == (each is failure)
        if each is failure:
            answers.append(answer(5, 1))
            assert counts.now() is None
            now_s[0] += own_counts._MOST_AGAIN_S
        said.append(len(caplog.messages))

    assert said == [int(number >= told_at) for number in range(1, 6)]
    assert caplog.messages == [f"there are no metrics of event loops and stalls: the watcher does not answer: {why}"]


def test_a_watcher_that_does_not_answer_is_asked_ever_less_often(answers, monkeypatch):
    """The pause doubles up to a limit, an answer ends that, and another watcher is asked at once."""
    now_s, asked_s, door = [100.0], [], ["door"]
    monkeypatch.setattr(own_counts.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(own_counts, "own_door", lambda: (door[-1], 1))
    ask, counts = own_counts._ask, OwnCounts()

    def counted(*where):
        asked_s.append(now_s[0])
        return ask(*where)

    def pauses(failures):
        """Return the pauses after so many questions."""
        asked_s.clear()
        while len(asked_s) <= failures:
            counts.now()
            now_s[0] += 0.5
        return [after - before for before, after in itertools.pairwise(asked_s)]

    monkeypatch.setattr(own_counts, "_ask", counted)
    answers.append(TimeoutError("timed out"))
    assert pauses(8) == [5, 10, 20, 40, 80, 160, 300, 300]
    answers.append(answer(5, 1))
    now_s[0] += 300
    assert list(counts.now().laps) == [0, 1]
    answers.append(TimeoutError("timed out"))
    assert pauses(2) == [5, 10]

    answers.append(answer(9, 1))
    assert counts.now() is None
    door.append("another door")
    assert list(counts.now().laps) == [0, 2]
    answers.append(TimeoutError("timed out"))
    assert pauses(1) == [5]


def test_the_log_is_written_without_a_lock(answers, monkeypatch):
    """A handler of the program's may wait, let greenlets run, or export metrics itself."""
    monkeypatch.setattr(own_counts, "_AGAIN_S", 1000.0)
    answers.append(ConnectionRefusedError(111, "Connection refused"))
    counts, found = OwnCounts(), []

    class Exporting(logging.Handler):
        def emit(self, _):
            locks = (counts._lock, own_counts._watcher._lock)
            free = [lock.acquire(blocking=False) for lock in locks]
            for lock, is_free in zip(locks, free, strict=True):
                if is_free:
                    lock.release()
            found.append(free)

    handler = Exporting()
    own_counts._LOG.addHandler(handler)
    try:
        assert counts.now() is None
    finally:
        own_counts._LOG.removeHandler(handler)

    assert found == [[True, True]]


def test_a_process_that_is_not_watched_has_no_counts(answers, caplog, monkeypatch):
    """Neither without a watcher, nor with one that does not count this process, is anything said."""
    assert OwnCounts().now() is None
    monkeypatch.setattr(own_counts, "own_door", lambda: None)
    answers.append(answer(5, 1))
    assert OwnCounts().now() is None
    assert caplog.messages == []


@pytest.fixture
def reception(monkeypatch):
    """Return a door whose reception tells this process b"counts" as long as the test runs, however late it has a core."""
    monkeypatch.setattr(own_counts, "_PATIENCE_S", 60.0)
    door, over = Door(), threading.Event()
    one = Reception(door, lambda *_: None, lambda _: None, lambda pid: b"counts" if pid == os.getpid() else b"")

    def work():
        while not over.is_set():
            one.answer(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    yield door
    over.set()
    thread.join()
    one.close()


def test_a_real_door_answers(reception):
    """The question that is asked is the one that is answered; with another launch's number there is no answer."""
    assert own_counts._ask(str(reception.path), reception.family) == b"counts"
    assert own_counts._ask(str(reception.path), reception.family ^ 1) == b""


def ask_through(monkeypatch, make):
    """Let questions go through other sockets, and the reception's answers not."""
    monkeypatch.setattr(own_counts, "_socket", SimpleNamespace(**vars(_socket) | {"socket": make}))


def test_a_socket_that_lets_greenlets_run_is_not_used(reception, monkeypatch):
    """A socket of gevent is one that runs other greenlets while this one holds a lock."""

    def connect(*_):
        raise AssertionError("another greenlet runs")

    made = []
    monkeypatch.setattr(socket.socket, "connect", connect)

    def unpatched(*kind):
        made.append(_socket.socket(*kind))
        return made[-1]

    ask_through(monkeypatch, unpatched)
    asked = own_counts._ask(str(reception.path), reception.family)

    assert (asked, [one.fileno() for one in made]) == (b"counts", [-1])


def test_only_one_s_own_watcher_or_root_s_is_asked(reception, monkeypatch):
    """A socket of another user may be one that gathers launches' numbers."""
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    if os.getuid() == 0:
        assert own_counts._ask(str(reception.path), reception.family) == b"counts"
        foreign = type("Foreign", (_socket.socket,), {"getsockopt": lambda *_: b"\1\0\0\0" * 3})
        ask_through(monkeypatch, foreign)
    with pytest.raises(PermissionError, match="another user's"):
        own_counts._ask(str(reception.path), reception.family)


def test_a_watcher_that_is_stopped_does_not_hang_an_export(monkeypatch):
    """A watcher that accepts no call is given up."""
    monkeypatch.setattr(own_counts, "_PATIENCE_S", 0.01)
    door = Door()
    with pytest.raises(TimeoutError):
        own_counts._ask(str(door.path), door.family)
    door.close()


TRACED = {"HEADWAY_TRACE_DOOR": "/x/door", "HEADWAY_TRACE_FAMILY": "7"}


@pytest.mark.parametrize(
    ("door", "environment", "found"),
    [
        ("", {}, None),
        ("", TRACED, None),
        ("", TRACED | {"HEADWAY_TRACE_WATCHER": "33"}, ("/x/door", 7)),
        ("8 1024 /a folder/door 44", TRACED | {"HEADWAY_TRACE_WATCHER": "33"}, ("/a folder/door", 8)),
        ("", {"HEADWAY_TRACE_DOOR": "/x/door", "HEADWAY_TRACE_WATCHER": "no number"}, None),
        ("", {"HEADWAY_TRACE_DOOR": "", "HEADWAY_TRACE_WATCHER": "33"}, None),
        ("", TRACED | {"HEADWAY_TRACE_WATCHER": "33", "HEADWAY_TRACE_FAMILY": "-7"}, None),
        ("", TRACED | {"HEADWAY_TRACE_WATCHER": "33", "HEADWAY_TRACE_FAMILY": str(2**64)}, None),
        ("", TRACED | {"HEADWAY_TRACE_WATCHER": "33", "HEADWAY_TRACE_FAMILY": str(2**64 - 1)}, ("/x/door", 2**64 - 1)),
    ],
    ids=["alone", "traced", "headway watch", "headway.watch()", "odd", "counted", "negative", "too large", "largest"],
)
def test_the_door_of_this_process(monkeypatch, tmp_path, door, environment, found):
    """Only a watcher's door is asked: neither is a collector's, nor one where there is none."""
    for name in ("HEADWAY_TRACE_DOOR", "HEADWAY_TRACE_FAMILY", "HEADWAY_TRACE_WATCHER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(watching, "_watch", watching.Watch(tmp_path, 44, door) if door else None)

    assert watching.own_door() == found


def test_the_watcher_tells_a_process_of_its_own_only():
    """A process that has ended, one that was never watched, and one without a GIL get no answer."""

    def watched(pid, *, gone=False, tells=True, laps=0):
        ring = SimpleNamespace(
            pid=pid, gone=gone, tells=tells, laps=SimpleNamespace(lengths=(0, laps), lengths_ns=laps)
        )
        return Watched(cast(Ring, ring))

    all_of_them = [watched(2, gone=True, laps=9), watched(2, laps=3), watched(3, laps=4), watched(5, tells=False)]
    add_stalls(all_of_them[1].stalls, [(LOOP, BLOCKING, [(BLOCKING, 0.4), ("GIL", 0.1)])])

    assert Counts.of_json(counts_of(all_of_them, 2)) == Counts(
        all_of_them[1].since_ns, [0, 3], 3, {(LOOP, BLOCKING): (1, 0.4), (LOOP, "GIL"): (0, 0.1)}
    )
    assert Counts.of_json(counts_of(all_of_them, 3)).stalls == {}
    assert counts_of(all_of_them, 4) == counts_of(all_of_them, 5) == b""


def test_a_stall_counts_for_its_process_and_for_the_service(tmp_path):
    """The watcher's own metrics have the stalls of all processes, and each process is told its own."""
    watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
    processes = [Watched(cast(Ring, None)), Watched(cast(Ring, None))]
    for one, stalls in zip(processes, (1, 2), strict=True):
        report = Report(cast("subprocess.Popen[bytes]", None), io.BytesIO(), one, tmp_path / "it.hwt", asked=False)
        watcher._learn(report, {"stalls": [(LOOP, BLOCKING, [(BLOCKING, 0.5)])] * stalls, "told": {}})
    totals = watcher.totals()
    watcher._reception.close()

    assert [one.stalls for one in processes] == [{(LOOP, BLOCKING): (1, 0.5)}, {(LOOP, BLOCKING): (2, 1.0)}]
    assert totals.stalls == {(LOOP, BLOCKING): (3, 1.5)}
