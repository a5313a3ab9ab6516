"""Short-lived processes stall faster than analyses go: few of their recordings wait, and the others are known to be missing."""

import os
import resource
from typing import Any

import pytest
from test_watcher_shared_stall import MOST, WORKERS, S, Service

from headway.live.reports import most_waiting
from headway.live.stall_log import gap_in

MAY_WAIT = 20
TOGETHER = 10
SHORT_LIVED = 100


@pytest.fixture
def service(tmp_path, monkeypatch):
    """Return a service without processes, whose watcher says what it would print."""
    made: Any = Service(tmp_path, monkeypatch)
    made.watcher._rings = []
    made.said = []
    monkeypatch.setattr(made.watcher._said, "say", made.said.append)
    yield made
    made.watcher._reception.close()
    for report in made.watcher._reports:
        if report.process is not None:
            report.output.close()
        else:
            os.close(report.file)


def end_many(service):
    """Let short-lived processes stall and end, one after the other, while no analysis ends."""
    for pid in range(1000, 1000 + SHORT_LIVED):
        one = service.worker(pid)
        one.ring.gone, one.ring.gone_ns = True, service.now_ns
        service.watcher._rings.append(one)
        service.step(S // 10)


def partials(service):
    """Return the number of incomplete recordings on the disk."""
    return len(list(service.watcher.log.parent.glob("*.partial")))


def test_few_recordings_wait_and_the_log_is_known_to_be_incomplete(service):
    """Each waiting one has a descriptor and room on the disk, and the end of the watcher waits for it."""
    end_many(service)

    waiting = [one for one in service.watcher._reports if one.process is None]
    assert (len(waiting), len(service.running), partials(service)) == (MAY_WAIT, MOST, MAY_WAIT + MOST)
    assert not service.watcher._rings, "the rings of those that were left out are closed"
    left_out = SHORT_LIVED - MAY_WAIT - MOST
    assert f"as {left_out} processes have ended while too many recordings waited" in gap_in(service.watcher.log)[1]
    assert len(set(service.said)) == 1


def test_recordings_of_ended_processes_are_analysed_together(service):
    """The imports of an analysis take longer than its work; one that somebody waits for does not wait for the others."""
    end_many(service)
    one = service.worker(7)
    one.over_ns, one.asked = 0, True
    service.watcher._rings.append(one)
    service.step()
    service.end_all()

    assert service.together == [1, 1, 1, TOGETHER, MAY_WAIT - TOGETHER]
    assert [pid for pid, _ in service.begun] == [1000, 1001, 7, *range(1002, 1002 + MAY_WAIT)]
    assert partials(service) == MAY_WAIT + MOST + 1, "each has its own result"


def test_a_process_that_goes_on_is_told_when_there_is_room(service):
    """Its ring keeps the stall meanwhile, so nothing is left out."""
    end_many(service)
    one = service.worker(7)
    service.watcher._rings.append(one)
    service.step(S)
    assert not service.watcher._is_told_of(one)
    service.end_all()
    service.step(S)
    service.end_all()

    assert one.told.lengths_ns == {"7:1": 0}


def test_a_request_is_granted_in_any_case(service):
    """Somebody waits for it."""
    end_many(service)
    one = service.worker(7)
    one.over_ns, one.asked = 0, True
    service.watcher._rings.append(one)
    service.step()

    assert service.watcher._is_told_of(one)


def test_a_stall_that_many_living_workers_share_is_told_of_each(service):
    """As many may wait as there are processes that go on: their rings are overwritten soon."""
    service.watcher._rings = [service.worker(pid) for pid in range(5 * WORKERS)]
    service.step(S)

    assert len(service.watcher._reports) == 5 * WORKERS
    assert gap_in(service.watcher.log) is None


@pytest.mark.parametrize(
    ("files", "keep", "alive", "most"),
    [(1024, 3, 0, 20), (1024, 50, 0, 50), (1024, 3, 60, 60), (1024, 500, 0, 256), (40, 20, 0, 10), (2, 20, 0, 1)],
)
def test_a_quarter_of_the_files_at_most_wait(monkeypatch, files, keep, alive, most):
    """A watcher without descriptors cannot watch the next process."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    assert most_waiting(keep, alive) == most


def test_without_a_limit_of_files_as_many_wait_as_are_kept(monkeypatch):
    """RLIM_INFINITY is -1."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    assert most_waiting(500, 3) == 500
