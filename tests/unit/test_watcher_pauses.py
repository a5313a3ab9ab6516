"""The pauses between two reports of one process."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.watched import Watched
from headway.live.watcher import Watcher, _Report

S = 1_000_000_000


@pytest.fixture
def watcher(tmp_path):
    """Return a watcher that watches nothing."""
    made = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
    yield made
    made._reception.close()


def learnt(watcher, told):
    """Return a process whose reports had found nothing for long, after one more report with these stalls."""
    one = Watched(
        cast(Ring, None),
        not_before_ns=102 * S,
        doubtful_not_before_ns=160 * S,
        doubtful_pause_ns=60 * S,
        reported_ns=99 * S,
    )
    report = _Report(cast("subprocess.Popen[bytes]", None), one, Path("it.hwt"), asked=False)
    watcher._learn(report, {"stalls": [], "told": told})
    return one


def test_a_stall_ends_the_long_pause(watcher):
    """The end of a wait that goes on is reported after the short pause, though earlier reports had found nothing."""
    one = learnt(watcher, {"7:1": S})

    assert (one.doubtful_not_before_ns, one.doubtful_pause_ns) == (102 * S, 2 * S)


def test_a_report_without_stalls_keeps_the_long_pause(watcher):
    """A process that only looks as if it stalled is analysed once a minute."""
    one = learnt(watcher, {})

    assert (one.doubtful_not_before_ns, one.doubtful_pause_ns) == (160 * S, 60 * S)


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
