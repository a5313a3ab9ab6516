"""The threads that had a lock, from what they did at each line: the one with most time is named first."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headway.traces.analysis.doing import Doing
from headway.traces.analysis.holders import LockHold
from headway.traces.analysis.lock_findings import who_had
from headway.traces.analysis.lock_owners import owners
from headway.traces.frames import Frame

NAMES = ("syncer", "repricer", "exporter", "waitress-0")


def hold(doing, line, **each_ns):
    """Return what threads, each with its time, did at a line."""
    spent = sorted(each_ns.items(), key=lambda item: -item[1])
    stack = (Frame("/app/app.py", line, "work", 1),) if line else ()
    threads = tuple(NAMES.index(name.replace("_", "-")) for name, _ in spent)
    return LockHold(threads, doing, stack, sum(each_ns.values()), each_ns=tuple(ns for _, ns in spent))


SLEEPS = hold(Doing.AWAY, 31, syncer=33)
COMPUTES = hold(Doing.RAN, 0, repricer=24, exporter=2, waitress_0=1)
QUEUES = hold(Doing.QUEUED, 43, repricer=12)
HASHES = hold(Doing.AWAY, 55, exporter=20)
LOCK_LINES = (SLEEPS, COMPUTES, HASHES, QUEUES)


def told(*lines, total=100):
    times = SimpleNamespace(total_ns=total)
    place = SimpleNamespace(holders=lines, times=times, known_ns=sum(one.blocked_ns for one in lines))
    return who_had(cast(Any, place), cast(Any, SimpleNamespace(labels=NAMES)))


def test_the_time_of_a_thread_is_that_of_all_its_lines():
    """A thread that did several things with the lock had it for their sum, and did one of them for longest."""
    found = [(one.threads, one.blocked_ns, one.most, one.is_all) for one in owners(LOCK_LINES)]

    assert found == [
        ((1,), 36, COMPUTES, False),
        ((0,), 33, SLEEPS, True),
        ((2,), 22, HASHES, True),
    ]


def test_the_thread_that_had_the_lock_for_longest_is_told_first():
    """The part that each thread has is that of all which it did meanwhile."""
    assert told(*LOCK_LINES) == (
        "repricer had the lock for 36 % of that time, mostly holding the GIL; "
        "syncer had the lock for 33 % of that time, in a call without the GIL at /app/app.py:31 work; "
        "exporter had the lock for 22 % of that time, in a call without the GIL at /app/app.py:55 work"
    )


def test_threads_that_did_the_same_are_told_together():
    """Their line is the news, and each of them alone is none."""
    alike = hold(Doing.AWAY, 31, syncer=40, repricer=30, exporter=30)

    assert told(alike).startswith("syncer, repricer and exporter had the lock for 100 % of that time, in a call")
    assert told(hold(Doing.AWAY, 31, syncer=6, repricer=6), total=23).startswith("syncer and repricer had the lock")


def test_time_with_the_gil_that_may_be_without_the_lock_is_told_apart():
    """It is no time for which the thread certainly had the lock."""
    text = told(hold(Doing.WENT_ON, 0, syncer=50), hold(Doing.AWAY, 31, syncer=50))

    assert "syncer had the lock for 50 % of that time, in a call" in text
    assert "for 50 % of that time, syncer held the GIL after acquiring the lock and may soon have released it" in text


@pytest.mark.parametrize(("known", "is_told"), [(70, True), (90, False)])
def test_a_large_part_without_a_known_owner_is_told(known, is_told):
    """The parts that are told are then no shares of the whole time."""
    text = told(hold(Doing.AWAY, 31, syncer=known))

    assert text.endswith("; who had it for 30 % of that time is not known") is is_told
