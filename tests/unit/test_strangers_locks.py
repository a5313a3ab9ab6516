"""The locks that calls take, and for how long they hold them: a condition lets go of its lock while it waits."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from headway_agent.strangers import locks


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets, in ns."""
    now = SimpleNamespace(ns=1)
    monkeypatch.setattr(locks, "time", SimpleNamespace(perf_counter_ns=lambda: now.ns))
    return now


def waiting_in_a_loop(name, clock):
    """Return the watched condition after a hold of 5 ns, a wait of 1000 ns and a hold of 7 ns."""
    watched = locks._WatchedInLoop(asyncio.Condition(), "CONDITION")
    ready = []

    async def waits():
        async with watched:
            clock.ns += 5
            await (watched.wait_for(lambda: ready) if name == "wait_for" else watched.wait())
            clock.ns += 7

    async def both():
        task = asyncio.ensure_future(waits())
        while not watched._waiters:  # noqa: ASYNC110  (the condition has no event for it)
            await asyncio.sleep(0)
        clock.ns += 1000
        ready.append(True)
        async with watched._lock:
            watched.notify()
        await task

    asyncio.run(both())
    return watched


@pytest.mark.parametrize("name", ["wait", "wait_for"])
def test_a_wait_at_a_condition_of_asyncio_is_no_hold(clock, name):
    """The lock of a condition counts as held before and after a wait, and not in it."""
    assert waiting_in_a_loop(name, clock).held_ns == 12


@pytest.mark.parametrize("name", ["wait", "wait_for"])
def test_a_wait_at_a_condition_of_threads_is_no_hold(clock, name):
    """The same holds for a condition of threads."""
    watched = locks._Watched(threading.Condition(), "CONDITION")

    def slept(*_):
        clock.ns += 1000

    watched._lock = SimpleNamespace(acquire=lambda: True, release=lambda: None, wait=slept, wait_for=slept)
    with watched:
        clock.ns += 5
        getattr(watched, name)(lambda: True)
        clock.ns += 7
    assert watched.held_ns == 12
