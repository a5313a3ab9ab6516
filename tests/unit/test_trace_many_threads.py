"""Traces of many threads: the work of an analysis grows with the rows, and not with the rows times the threads."""

import dataclasses

import numpy as np
import pytest
from told_traces import Script

from headway.traces.analysis.contention import _met
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.late import in_one_call
from headway.traces.analysis.threads import names, role_summaries, thread_summaries
from headway.traces.export.requests import requests

THREADS = 200
LOOKS = 10
"""The most times that an analysis looks at each row."""


@pytest.fixture(scope="module")
def trace():
    """Return a trace of threads that are preempted at every turn."""
    script = Script()
    for turn in range(3 * THREADS):
        script.wait(turn % THREADS, 12 * turn, asks_ms=12 * turn + 8)
        script.hold(turn % THREADS, 12 * turn + 10, 12 * turn + 21, forced=True)
    return script.trace(36 * THREADS + 30, *(f"worker-{number}" for number in range(THREADS)))


@pytest.fixture
def looked(monkeypatch):
    """Return a list that gets the number of rows of each search."""
    found = []
    search = np.flatnonzero

    def counted(rows):
        found.append(len(rows))
        return search(rows)

    monkeypatch.setattr(np, "flatnonzero", counted)
    return found


def test_holds_in_one_call_are_found_by_thread_in_one_pass(trace, looked):
    """Each thread's holds are grouped once."""
    holds = recorded(trace).holds
    every = np.ones(len(holds), dtype=bool)
    holds = dataclasses.replace(holds, forced=every, asked_ns=holds.end_ns - 1, ran=every.astype(holds.ran.dtype))
    looked.clear()
    in_one_call(holds)

    assert len(np.unique(holds.thread)) == THREADS
    assert sum(looked) <= LOOKS * len(holds)


def test_waits_that_met_another_thread_are_found_in_one_pass(trace, looked):
    """Each thread's waits at a place are grouped once."""
    waits = recorded(trace).waits
    looked.clear()
    met = _met(waits.start_ns, waits.length_ns, waits.thread)

    assert met.any()
    assert sum(looked) <= LOOKS * len(waits)


def test_requests_are_found_by_thread_in_one_pass(trace, looked):
    """The requests of each thread at each GIL are grouped once."""
    found = recorded(trace)
    looked.clear()
    made = requests(trace, found.holds, found.waits)

    assert len(made.time_ns) >= THREADS
    assert sum(looked) <= LOOKS * (len(made.time_ns) + len(found.holds))


def test_the_life_of_a_pool_is_that_of_all_its_threads(trace):
    """A pool begins with its first thread and ends with its last one."""
    found = recorded(trace)
    named = names(trace, found, trace.start_ns, trace.end_ns)
    each = thread_summaries(trace, found, named, trace.start_ns, trace.end_ns)
    (pool,) = role_summaries(trace, found, named, trace.start_ns, trace.end_ns)

    assert len(each) == pool.threads == THREADS
    assert pool.since_ns == min(one.since_ns for one in each)
    assert pool.until_ns == max(one.until_ns for one in each)
