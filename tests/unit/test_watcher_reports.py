"""Results of any size come from the analyses of recordings, and no analysis goes on for ever."""

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from made_traces import MS
from test_stalls import AT_DEEP, AT_QUEUE, AT_REQUEST, with_stacks
from told_traces import Script

from headway.live import reports
from headway.live.detached import Program
from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.stall_log import gap_in
from headway.live.told import Told
from headway.live.watched import Watched
from headway.live.watcher import Watcher
from headway.traces import writer

LIMIT_S = 120
PIPE_BYTES = 64 << 10


@pytest.fixture
def watcher(tmp_path, monkeypatch):
    """Return a watcher that keeps no other's recordings, and prints nothing; its analyses are as urgent as the tests.

    Beside eight busy processes, an analysis that gives way to them has a fortieth of a core.
    """
    monkeypatch.setattr(reports, "_NICER", 0)
    made = Watcher(Door(), Options(str(tmp_path / "stalls"), "it", 1, Limits(wait_ns=50 * MS), quiet=True))
    yield made
    made._reception.close()


@pytest.fixture
def ended(watcher, monkeypatch):
    """Return the watcher of a program that has ended; it does not wait for others."""
    monkeypatch.setattr("headway.live.watcher._LINGER_S", 0)
    monkeypatch.setattr("headway.live.watcher.let_go_of_stderr", lambda: None)
    return cast(Program, SimpleNamespace(ended=lambda: True))


def watched(data, **more):
    """Return a process whose recordings are these bytes."""
    laps = SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0)
    state = {"pid": 7, "pidfd": -1, "gone": False, "gone_ns": 0, "finished": False, "blind": "", "lost_children": 0}
    state |= {"stopped": False, "laps": laps, "evidence": lambda *_: {}, "close": lambda: None} | more
    ring = SimpleNamespace(copy=lambda *_, **__: None, save=lambda file: os.write(file, data), **state)
    return Watched(cast(Ring, ring))


def of_hanging_requests(threads):
    """Return a trace of a server whose requests all hang."""
    script = Script()
    for thread in range(threads):
        script.hold(thread, thread / 10, thread / 10 + 0.05, stack=AT_QUEUE)
        script.hold(thread, 100 + thread / 10, 100 + thread / 10 + 0.05, stack=AT_REQUEST)
    return script.trace(5000, *(f"waitress-{number}" for number in range(threads)), ended=False)


def of_waits(threads, rounds):
    """Return a trace of threads that all wait, again and again, while one computes for 60 ms."""
    script = Script()
    for number in range(rounds):
        begun = number * 100
        script.hold(0, begun + 1, begun + 61, stack=AT_DEEP)
        for thread in range(1, threads):
            script.wait(thread, begun, stack=AT_DEEP, asks_ms=begun + 5)
            script.hold(thread, begun + 62 + thread / 10, begun + 62 + thread / 10 + 0.05, stack=AT_DEEP)
    return script.trace(rounds * 100 + 1, *(f"pool-{number}" for number in range(threads)), ended=False)


@pytest.mark.parametrize(
    ("name", "trace"), [("parts", of_hanging_requests(250)), ("told", of_waits(30, 24))], ids=["parts", "told"]
)
def test_results_of_any_size_come_from_an_analysis(watcher, tmp_path, monkeypatch, name, trace):
    """A pipe would hold 64 KiB of them, and each of the two processes would wait for the other one."""
    results = []
    learn = watcher._learn

    def learnt(report, found):
        results.append(found)
        return learn(report, found)

    monkeypatch.setattr(watcher, "_learn", learnt)
    data = writer.write(with_stacks(trace), tmp_path / "it.hwt").read_bytes()
    one = watched(data)
    watcher._report(one, time.monotonic_ns())
    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline, "the watcher waits for an analysis that waits for the watcher"
        watcher._collect()
        time.sleep(0.02)

    (found,) = results
    other = {"parts", "told"} - {name}
    assert len(json.dumps({key: value for key, value in found.items() if key not in other})) > PIPE_BYTES
    assert gap_in(watcher.log) is None
    assert len(watcher.log.read_text().splitlines()) == len(one.told.lengths_ns) == len(found["told"])


def test_an_analysis_is_told_how_the_clock_stands(watcher, monkeypatch):
    """The begin of the recording tells that no more once the clock has been set, or the machine suspended."""
    told = []

    def start(recordings):
        told.extend(json.loads(words) for _, _, words in recordings)
        raise BlockingIOError

    monkeypatch.setattr(reports, "start_analysis", start)
    monkeypatch.setattr(time, "time_ns", lambda: 77_000_000_000)
    before_ns = time.monotonic_ns()
    watcher._report(watched(b"it"), before_ns)

    realtime_ns, time_ns = told[0]["evidence"]["clock"]
    assert realtime_ns == 77_000_000_000
    assert before_ns <= time_ns <= time.monotonic_ns()


def test_a_watcher_ends_although_an_analysis_does_not(watcher, tmp_path, ended, monkeypatch):
    """The analysis is killed after its time, and the stall is told without a cause; its recording is kept."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(reports, "_MOST_S", 0.25)
    watcher._has_watched = True
    watcher._rings.append(watched(b"it", gone=True, look=lambda _: (False, False)))
    watcher._rings[0].asked = True
    watcher._service = SimpleNamespace(end=lambda *_: None, add_stalls=lambda _: None)

    watcher.run(ended)

    (recording,) = (tmp_path / "stalls").glob("*.hwt*")
    assert recording.suffix == ".hwt"
    words = f"a stall could not be explained in 0.25 s; {Path(recording)} has the recording"
    assert f"as {words}; last at 20" in gap_in(watcher.log)[1]


def report(watcher, one):
    """Let the watcher report a process's stalls, and wait for the analysis."""
    watcher._report(one, time.monotonic_ns())
    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline
        watcher._collect()
        time.sleep(0.02)


def unwritten(watcher, tmp_path):
    """Let the watcher report stalls while its folder takes neither a log nor a note; then the folder is back."""
    watcher._folder.write_text("no folder")
    one = watched(writer.write(with_stacks(of_waits(2, 2)), tmp_path / "it.hwt").read_bytes())
    report(watcher, one)
    assert one.told.lengths_ns
    watcher._folder.unlink()
    watcher._folder.mkdir()
    assert gap_in(watcher.log) is None
    return one


def assert_noted(watcher):
    """Assert that the log is called incomplete."""
    assert "as the log could not be written: Not a directory; last at 20" in gap_in(watcher.log)[1]


def test_a_gap_is_noted_when_the_folder_is_back(watcher, tmp_path, monkeypatch):
    """While nothing can be written, no note can be either; the next stall's log would be taken for complete."""
    one = unwritten(watcher, tmp_path)
    one.told, one.reported_ns = Told(), 0
    report(watcher, one)
    assert len(watcher.log.read_text().splitlines()) == 2
    monkeypatch.setattr("headway.live.stall_log._AGAIN_NS", 0)

    watcher._step()

    assert_noted(watcher)


def test_a_gap_is_noted_although_no_other_stall_follows(watcher, tmp_path):
    """The watcher tries again by itself, and no more often than once a second."""
    unwritten(watcher, tmp_path)
    tried_ns = watcher._gaps._tried_ns

    watcher._gaps.write_again(tried_ns + 999 * MS)
    assert gap_in(watcher.log) is None
    watcher._gaps.write_again(tried_ns + 1000 * MS)

    assert_noted(watcher)


def test_a_gap_is_noted_at_the_last_moment(watcher, tmp_path, ended, monkeypatch):
    """A watcher that ends has no second for it."""
    unwritten(watcher, tmp_path)
    monkeypatch.setattr("headway.live.stall_log._AGAIN_NS", 3600_000 * MS)

    watcher.run(ended)

    assert_noted(watcher)


def test_without_memory_no_analysis_begins(watcher, tmp_path, ended, monkeypatch):
    """The stall is told without a cause and its recording is kept; where the memory is not known, one begins."""
    began = []
    monkeypatch.setattr(reports, "start_analysis", lambda *_: began.append(1))
    monkeypatch.setattr(reports, "memory_left_bytes", lambda *_, **__: (30 << 20) - 1)
    watcher._has_watched = True
    watcher._rings.append(watched(b"it", gone=True, look=lambda _: (False, False)))
    watcher._rings[0].asked = True
    watcher._service = SimpleNamespace(end=lambda *_: None, add_stalls=lambda _: None)

    watcher.run(ended)

    (recording,) = (tmp_path / "stalls").glob("*.hwt*")
    assert recording.suffix == ".hwt"
    assert not began
    words = f"a stall could not be explained, as too little memory is left; {Path(recording)} has the recording"
    found = gap_in(watcher.log)
    assert found is not None
    assert words in found[1]
    now_ns = time.monotonic_ns()
    assert not watcher._allowance.allows(now_ns)
    assert watcher._allowance.allows(now_ns + 60_000_000_000)


def test_an_analysis_that_the_kernel_has_ended_is_followed_by_a_pause(watcher, tmp_path, monkeypatch):
    """The next one would be ended, too, and in some containers the service with it."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    watcher._report(watched(b"it"), time.monotonic_ns())
    deadline = time.monotonic() + LIMIT_S
    while watcher._reports:
        assert time.monotonic() < deadline
        watcher._collect()
    assert not watcher._allowance.allows(time.monotonic_ns())
