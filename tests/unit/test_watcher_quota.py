"""A watcher under a CPU quota: its analyses do not make the stalls that they report, and lose none that the ring has."""

import json
import math
import os
import subprocess
import time
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.allowance import Allowance
from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.watched import Watched
from headway.live.watcher import Watcher

S = 1_000_000_000
STEP_NS = S // 10


class Service:
    """A watched process, an analysis of which takes 0.4 s of CPU time, and the clock of both."""

    def __init__(self, tmp_path, monkeypatch, quota):
        self.now_ns = 1000 * S
        self.begun_s: list[float] = []
        """When analyses began."""
        self.told: list[dict] = []
        self.ends_ns = 0
        self.wall_ns = round(0.4 * S / min(1.0, quota))
        self.laps = SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0)
        self.is_late = False
        self.wanted_ns: list[int] = []
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "time_ns", lambda: self.now_ns)  # recordings have the time in their names
        monkeypatch.setattr(subprocess, "Popen", self.popen)
        self.watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
        self.watcher._allowance = Allowance(lambda: quota)
        ring = SimpleNamespace(
            pid=7,
            pidfd=-1,
            gone=False,
            gone_ns=0,
            finished=False,
            blind="",
            lost_children=0,
            stopped=False,
            laps=self.laps,
            look=lambda _: (False, False),
            copy=self.copy,
            evidence=self.evidence,
            save=lambda _: None,
            close=lambda: None,
        )
        self.one = Watched(cast(Ring, ring))

    def popen(self, *_, **options):
        self.told.append(json.load(options["stdin"]))
        self.begun_s.append((self.now_ns - 1000 * S) / S)
        self.ends_ns = ends_ns = self.now_ns + self.wall_ns
        found = {
            "stalls": [],
            "told": {f"7:{self.now_ns}": 0},
            "cpu_ns": 4 * S // 10,
            "waited_ns": self.wall_ns - 4 * S // 10,
        }
        options["stdout"].write(json.dumps(found).encode())
        # No process has the id.
        return SimpleNamespace(pid=1 << 30, poll=lambda: 0 if self.now_ns >= ends_ns else None)

    def copy(self, *_, **__):
        """Be late all the time in which an analysis runs slowly, as a throttled service is."""
        is_throttled = self.now_ns < self.ends_ns and self.wall_ns > S
        late = self.one.ring.laps.late_loops + (self.is_late or is_throttled)
        self.is_late = False
        self.one.ring.laps = SimpleNamespace(**{**vars(self.laps), "late_loops": late})

    def evidence(self, _now_ns, since_ns):
        self.wanted_ns.append(since_ns)
        return {}

    def until(self, end_s, *, late_at=()):
        """Go on until `end_s`, with stalls of the service's own that end at these times."""
        late_ns = {1000 * S + round(one * S) for one in late_at}
        while self.now_ns < 1000 * S + round(end_s * S):
            self.now_ns += STEP_NS
            if self.now_ns in late_ns:
                self.is_late = True
            self.watcher._look(self.one, self.now_ns)
            self.watcher._collect()


@pytest.fixture
def service(tmp_path, monkeypatch):
    """Return a function that makes a service with a quota in cores."""
    made = []

    def make(quota):
        made.append(Service(tmp_path, monkeypatch, quota))
        return made[-1]

    yield make
    for one in made:
        one.watcher._reception.close()
        for report in one.watcher._reports:
            report.output.close()


def test_stalls_of_an_analysis_lead_to_one_more(service):
    """Under a tenth of a core, one stall is followed by two analyses a minute apart, and by no more for an hour."""
    one = service(0.1)
    one.until(3600, late_at=[5])

    first, second = one.begun_s
    assert 5.2 <= first <= 5.4
    assert second == pytest.approx(first + 60, abs=0.2)


def test_the_first_stall_and_requests_are_not_delayed(service):
    """A stall after a long rest is analysed at once, and so is a request, even while an analysis runs."""
    one = service(0.1)
    one.until(400, late_at=[5, 300])
    assert one.begun_s[2] == pytest.approx(300.3, abs=0.15)

    before = len(one.begun_s)
    one.one.asked = True
    one.until(400.1)
    one.one.asked = True
    # As if of another process: an analysis of this one is waited for.
    one.watcher._reports.pop().output.close()
    one.until(400.2)
    assert len(one.begun_s) == before + 2


def test_a_stall_in_the_pause_is_reported_after_it(service):
    """A stall that ends while the next analysis must wait is a reason for it, with what was observed before the stall."""
    one = service(0.5)
    one.until(100, late_at=[5, 9])

    # 0.4 s of CPU time are a twentieth of what half a core gives in 16 s.
    assert one.begun_s == [pytest.approx(5.3, abs=0.15), pytest.approx(21.3, abs=0.2)]
    assert one.wanted_ns[1] == 1000 * S + 9 * S - 15 * S


def test_a_stall_in_progress_waits_a_quarter_of_the_pause(service):
    """A loop that hangs is told of before its stall is over."""
    one = service(0.5)
    one.until(6.9, late_at=[5])
    one.laps.open_loops = 1
    one.until(15)

    assert one.begun_s[1:] == [pytest.approx(one.begun_s[0] + 4, abs=0.15)]


def test_what_waits_is_reported_at_the_end_of_the_process(service):
    """Stalls beside the second analysis are no reason for a third one, and are in the last report all the same."""
    one = service(0.1)
    one.until(200, late_at=[5])
    assert (len(one.begun_s), one.one.is_left) == (2, True)

    one.one.ring.gone, one.one.ring.gone_ns = True, one.now_ns - 5 * S
    one.watcher._rings.append(one.one)
    one.watcher._service = SimpleNamespace(end=lambda *_: None)
    one.watcher._over(one.one)
    assert (len(one.begun_s), one.one.is_left) == (3, False)
    assert one.told[2]["gone_ns"] == one.now_ns - 5 * S, "the end of the process, and not the time of the report"


def test_nothing_is_spared_without_a_quota(service):
    """Analyses follow each other by two seconds, as stalls do."""
    one = service(math.inf)
    one.until(9, late_at=[1, 2, 3, 4, 5, 6, 7, 8])

    assert [later - earlier for earlier, later in zip(one.begun_s, one.begun_s[1:], strict=False)] == [
        pytest.approx(2, abs=0.15)
    ] * (len(one.begun_s) - 1)
    assert len(one.begun_s) >= 4


def test_an_analysis_is_not_in_a_real_time_class(tmp_path):
    """Where the watcher is in one, for which nice means nothing, the analysis is not."""
    watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
    laps = SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0)
    ring = SimpleNamespace(
        pid=7,
        gone=False,
        gone_ns=0,
        finished=False,
        laps=laps,
        copy=lambda *_, **__: None,
        evidence=lambda *_: {},
        save=lambda _: None,
    )
    before, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        watcher._reception.close()
        pytest.skip("this user may not use real-time classes")
    try:
        watcher._report(Watched(cast(Ring, ring)), time.monotonic_ns())
        (report,) = watcher._reports
        found = os.sched_getscheduler(report.process.pid)
        nice = os.getpriority(os.PRIO_PROCESS, report.process.pid)
        report.process.wait()
        report.output.close()
    finally:
        os.sched_setscheduler(0, before, priority)
        watcher._reception.close()

    assert (found, nice) == (os.SCHED_OTHER, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10))
