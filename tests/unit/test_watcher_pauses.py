"""The pauses between two reports of one process."""

import io
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.reports import Report
from headway.live.ring import Ring
from headway.live.sampling import Stops
from headway.live.slots import IDLE
from headway.live.watched import Doubt, Watched
from headway.live.watcher import Watcher
from headway.native import Laps
from headway.traces.frames import CoreTime

S = 1_000_000_000


@pytest.fixture
def watcher(tmp_path):
    """Return a watcher that watches nothing."""
    made = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
    yield made
    made._reception.close()


def learnt(watcher, told, *, of_jobs=True):
    """Return a process whose reports had found nothing for long, after one more report with these stalls."""
    jobs = Doubt(not_before_ns=160 * S, pause_ns=60 * S, was_reason=of_jobs)
    one = Watched(cast(Ring, None), not_before_ns=102 * S, jobs=jobs, waits=Doubt(was_reason=True), reported_ns=99 * S)
    report = Report(cast("subprocess.Popen[bytes]", None), io.BytesIO(), one, Path("it.hwt"), asked=False)
    watcher._learn(report, {"stalls": [], "told": told})
    return one


def test_a_stall_ends_the_long_pause(watcher):
    """The end of a wait that goes on is reported after the short pause, though earlier reports had found nothing."""
    one = learnt(watcher, {"7:1": S})

    assert (one.jobs.not_before_ns, one.jobs.pause_ns) == (102 * S, 2 * S)


def test_a_report_without_stalls_keeps_the_long_pause(watcher):
    """A process that only looks as if it stalled is analysed once a minute."""
    one = learnt(watcher, {})

    assert (one.jobs.not_before_ns, one.jobs.pause_ns) == (160 * S, 60 * S)


def test_a_report_that_finds_nothing_delays_only_its_own_reason(watcher):
    """A late request is reported at once beside CPU-bound threads, whose waits for the GIL are no stalls."""
    one = Watched(cast(Ring, None))
    for turn in range(4):
        now_ns = (100 + 20 * turn) * S
        one.waits.see(now_ns)
        for doubt in one.doubts:
            doubt.begin(now_ns)
            doubt.learn(found=False, not_before_ns=now_ns + 2 * S)
    one.waits.see(163 * S)
    one.jobs.see(163 * S)

    assert (one.waits.pause_ns, one.jobs.pause_ns) == (32 * S, 2 * S)
    assert [doubt.is_due(164 * S, S) for doubt in one.doubts] == [False, True]
    assert [doubt.is_due(176 * S, S) for doubt in one.doubts] == [True, True]
    assert one.seen_ns == (163 * S, 163 * S)


@pytest.mark.parametrize(("loops", "is_late"), [({}, False), ({9: 0}, True)], ids=["of a pool", "of a loop"])
def test_only_a_loop_is_late_for_lack_of_a_core(monkeypatch, loops, is_late):
    """A thread of a pool that got its core late is in no stall before its request is late: a report would find nothing."""
    ring = object.__new__(Ring)
    slot = SimpleNamespace(serial=9, tid=33, state=IDLE, since_ns=1, worst_wait_ns=0)
    looks = iter([CoreTime(1, 33, 0, 0), CoreTime(2, 33, 0, S)])
    monkeypatch.setattr(Ring, "slots", lambda _: [slot])
    monkeypatch.setattr(Ring, "_have_room", lambda _: None)
    monkeypatch.setattr(Ring, "_is_due", lambda *_: True)
    monkeypatch.setattr(Ring, "_account", lambda *_, **__: next(looks))
    ring.laps = cast(Laps, SimpleNamespace(loops=loops))
    ring._limits = Limits()
    ring._stops = cast(Stops, SimpleNamespace(look=lambda _: None))
    ring._long_waits, ring._queued_ns, ring._accounted = {}, {}, {}

    assert ring.look(S) == (False, False)
    assert ring.look(2 * S) == (is_late, False)


def test_a_stall_that_goes_on_is_reported_again_when_it_has_grown(watcher):
    """The next report is due when the stall is ten times as long; one that is over, or was due before, is not due."""
    told = {"7:1": 0, "7:20000000000": 1 * S, "8:98000000000": 1 * S, "9:98000000000": 2 * S}

    assert learnt(watcher, told).grown_ns == 108 * S
    assert learnt(watcher, {}).grown_ns == 0


class Loops:
    """A ring of a process of whose loops some hang, from the next copy on."""

    def __init__(self):
        self.laps = SimpleNamespace(late_loops=0, late_pools=0, open_pools=0, open_loops=0)
        self.hang = 0

    def copy(self, _now_ns, *, hurry):
        assert not hurry
        self.laps = SimpleNamespace(**{**vars(self.laps), "open_loops": self.hang})


def test_a_second_loop_that_hangs_is_reported_beside_the_first():
    """One report of a loop that hangs for hours says nothing of another loop that begins to hang."""
    ring = Loops()
    one = Watched(cast(Ring, ring))
    seen = []
    for now_s, hang in enumerate([1, 1, 2, 2, 0], 1):
        ring.hang = hang
        one.copy(now_s * S)
        seen.append((one.open_ns // S, one.is_told))
        one.is_told = hang > 0  # as by a report

    assert seen == [(1, False), (1, True), (3, False), (3, True), (0, False)]
