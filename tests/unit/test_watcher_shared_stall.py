"""A stall that all workers share: each is recorded at once, and few are analysed at a time, as memory is the service's."""

import json
import os
import subprocess
import time
from types import SimpleNamespace
from typing import cast

import pytest

from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.watched import Watched
from headway.live.watcher import Watcher

S = 1_000_000_000
WORKERS = 7
MOST = 2
AN_ANALYSIS_NS = 200 * S
"""Two such analyses, one after the other, take longer than one may take."""


class Service:
    """Workers that all stall now, and analyses that end when the test says so."""

    def __init__(self, tmp_path, monkeypatch):
        self.now_ns = 1000 * S
        self.begun = []
        """The process id, and what the recording has, of each analysis, in their order."""
        self.together = []
        """The number of recordings of each process that analyses some."""
        self.running = {}
        self.killed = []
        self.refuses = False
        self.watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
        self.watcher._service = cast("type", SimpleNamespace(end=lambda *_: None, add_stalls=lambda _: None))
        self.watcher._rings = [self.worker(pid) for pid in range(100, 100 + WORKERS)]
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(subprocess, "Popen", self.popen)
        monkeypatch.setattr(self.watcher, "_wait", lambda: None)

    def worker(self, pid):
        laps = SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0)
        state = {"pid": pid, "pidfd": -1, "gone": False, "gone_ns": 0, "finished": False, "blind": "", "stopped": False}
        ring = SimpleNamespace(laps=laps, lost_children=0, tells=True, data=b"the stall", **state)
        ring.look = lambda _: (False, False)
        ring.copy = lambda *_, **__: None
        ring.evidence = lambda *_: {}
        ring.collection = SimpleNamespace(fills=lambda: False)
        ring.save = lambda file: os.write(file, ring.data)
        ring.close = lambda: None
        return Watched(cast(Ring, ring), over_ns=self.now_ns)

    def popen(self, command, **options):
        if self.refuses:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        first, *more = command[command.index("headway.live.stalled") + 1 :]
        files = options["pass_fds"][: 1 + len(more) // 2]
        pids = [int(path.rsplit("-", 1)[1].split(".")[0]) for path in (first, *more[::2])]
        outputs = [options["stdout"].fileno(), *map(int, more[1::2])]
        for pid, file, output, line in zip(pids, files, outputs, options["stdin"], strict=True):
            self.begun.append((pid, os.pread(file, 100, 0).decode()))
            told = {} if json.loads(line)["told"] else {f"{pid}:1": 0}
            os.write(output, json.dumps({"stalls": [], "told": told}).encode())
        self.together.append(len(pids))
        self.running[pids[0]] = None

        def kill():
            self.killed.append(pids[0])

        return SimpleNamespace(
            pid=1 << 30, poll=lambda: self.running.get(pids[0], 0), kill=kill
        )  # no process has the id

    def step(self, ns=0):
        self.now_ns += ns
        self.watcher._step()

    def end_all(self):
        """End the analyses that run, until none is left."""
        while self.watcher._reports:
            self.running.clear()
            self.step()


@pytest.fixture
def service(tmp_path, monkeypatch):
    """Return the service."""
    made = Service(tmp_path, monkeypatch)
    yield made
    made.watcher._reception.close()
    for report in made.watcher._reports:
        if report.process is not None:
            report.output.close()
        else:
            os.close(report.file)


def test_few_analyses_run_at_a_time_and_each_stall_is_told_once(service):
    """All recordings are written at once: the rings are overwritten while they wait."""
    service.step(S)
    for one in service.watcher._rings:
        one.ring.data = b"later"
    most = 0
    while service.watcher._reports:
        most = max(most, len(service.running))
        service.running.pop(next(iter(service.running)))
        service.step(S)

    assert most == MOST
    assert sorted(service.begun) == [(pid, "the stall") for pid in range(100, 100 + WORKERS)]
    assert [one.told.lengths_ns for one in service.watcher._rings] == [
        {f"{pid}:1": 0} for pid in range(100, 100 + WORKERS)
    ]


def test_stalls_of_workers_that_end_meanwhile_are_told(service):
    """The last recording of a worker, which has all until its end, follows the one that waits."""
    service.step(S)
    for one in service.watcher._rings:
        one.ring.gone, one.ring.gone_ns, one.ring.data = True, service.now_ns, b"its end"
        one.over_ns = service.now_ns
    rings = list(service.watcher._rings)
    for _ in range(4):
        service.step(S)
    assert len(service.watcher._rings) == WORKERS, "the ring of a worker is kept until its last recording"
    while service.watcher._rings or service.watcher._reports:
        service.running.clear()
        service.step(S)

    assert sorted(service.begun) == sorted(
        (pid, data) for pid in range(100, 100 + WORKERS) for data in ("the stall", "its end")
    )
    assert all(one.told.lengths_ns == {f"{one.ring.pid}:1": 0} for one in rings)


def test_what_somebody_waits_for_is_analysed_first(service):
    """A request is answered before the stalls that were seen before it."""
    *_, last = service.watcher._rings
    last.over_ns = 0
    service.step(S)
    last.asked = True
    service.step()
    service.running.clear()
    service.step()

    assert next(pid for pid, _ in service.begun[MOST:]) == last.ring.pid


def test_a_request_to_more_processes_than_are_kept_removes_none_of_its_recordings(service, tmp_path):
    """Lines on stderr name all of them. A later request to one process keeps as many as the setting says."""
    watcher = service.watcher
    watcher._options = watcher._options._replace(keep=2)
    for one in watcher._rings:
        one.over_ns = 0

    def ask():
        watcher.ask()
        service.step(S)
        while watcher._reports:
            for report in watcher._reports:
                report.path.touch()  # as the analysis names the recording
            service.running.clear()
            service.step()
        return sorted(int(one.stem.rsplit("-", 1)[1]) for one in tmp_path.glob("*.hwt"))

    assert ask() == [one.ring.pid for one in watcher._rings]
    del watcher._rings[1:]
    assert len(ask()) == 2


def test_the_time_of_an_analysis_counts_from_its_own_start(service):
    """One that has waited for longer than an analysis may take is not killed for that."""
    service.step(S)
    for _ in range(WORKERS):
        service.step(AN_ANALYSIS_NS)
        service.running.clear()
        service.step()

    assert (service.killed, len(service.begun)) == ([], WORKERS)


def test_an_analysis_that_cannot_begin_is_put_off(service):
    """The process table may be full when its turn comes: the stall is still in the ring, and is due again."""
    service.step(S)
    service.refuses = True
    service.running.clear()
    service.step()
    assert service.watcher._reports == []
    assert len(list(service.watcher.log.parent.glob("*.partial"))) == MOST

    service.refuses = False
    service.step(3 * S)
    service.end_all()
    assert sorted(pid for pid, _ in service.begun) == list(range(100, 100 + WORKERS))
    assert all(one.told.lengths_ns for one in service.watcher._rings)


def test_the_kernel_kills_an_analysis_before_the_service(tmp_path):
    """Where the memory of a container ends, the largest process would go otherwise, which is a worker."""
    watcher = Watcher(Door(), Options(str(tmp_path), "it", 1, Limits(), quiet=True))
    ring = SimpleNamespace(
        pid=7,
        gone=False,
        gone_ns=0,
        finished=False,
        laps=SimpleNamespace(late_loops=0, late_pools=0, open_loops=0, open_pools=0),
        copy=lambda *_, **__: None,
        evidence=lambda *_: {},
        save=lambda _: None,
    )
    try:
        watcher._report(Watched(cast(Ring, ring)), time.monotonic_ns())
        (report,) = watcher._reports
        with open(f"/proc/{report.process.pid}/oom_score_adj") as file:
            found = file.read().strip()
        report.process.wait()
        report.output.close()
    finally:
        watcher._reception.close()

    assert found == "1000"
