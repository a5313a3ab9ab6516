"""Benchmarks of tests that have replaced the clock, the sleep of an event loop, or what makes random names."""

import asyncio
import multiprocessing
import os
import time
import uuid

import pytest
import trio

from headway.measure import loops
from headway.measure.bench import Bench
from headway.measure.journal import Journal, Options
from headway.measure.measured import name_of_turns


def bench(**options):
    return Bench(Journal(test="test"), Options(**{"rounds": 3, "calls": 100} | options))


async def later():
    """Do nothing, in a coroutine."""


@pytest.mark.parametrize("function", [int, later])
def test_a_stopped_clock_stops_no_measurement(function, monkeypatch):
    """A test may have stopped the clocks of `time`, as freezegun does; its function is measured all the same."""
    for name in ("time", "perf_counter", "monotonic"):
        monkeypatch.setattr(time, name, lambda: 7.0)
        monkeypatch.setattr(time, f"{name}_ns", lambda: 7 * 10**9)
    headway = bench()
    for result in (headway(function), headway.serial(function, calls=100)):
        # A round that takes no time counts as one of 1 ns.
        assert min(result.launches[0].values_s) > 1e-9 / 100
    # The time that its rounds take ends a benchmark, too.
    assert len(bench(rounds=None, calls=None, seconds=0.01)(function).launches[0].values_s) < 1000


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_a_replaced_sleep_ends_no_wait_of_ours(loop, monkeypatch):
    """A test may have replaced its library's `sleep` by one that does not wait; the lag is measured all the same."""

    async def no_sleep(*_given):
        raise AssertionError("the measurement called the function that the test has replaced")

    async def test():
        await loops.pause()
        result = await bench(loop=loop).concurrent(later, tasks=2)
        assert result.launches[0].lags_s
        begun_ns = time.monotonic_ns()
        await loops.sleep(0.002)
        assert time.monotonic_ns() - begun_ns >= 2_000_000

    for library in (asyncio, trio):
        monkeypatch.setattr(library, "sleep", no_sleep)
    loops.run(test, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"])
def test_a_pause_lets_another_task_run(loop):
    """The loop's other tasks have a turn at each pause."""
    seen = []

    async def note(name):
        for _ in range(3):
            seen.append(name)
            await loops.pause()

    loops.run(lambda: loops.gather([lambda: note("a"), lambda: note("b")]), loop)
    # Trio begins with either of them, anew at each turn.
    assert [set(seen[place : place + 2]) for place in (0, 2, 4)] == [{"a", "b"}] * 3


def test_equal_random_names_make_no_turns(monkeypatch):
    """A test may have replaced `uuid.uuid4`; two benchmarks that ran one after the other have still taken no turns."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))
    monkeypatch.setattr(os, "urandom", bytes)
    headway = bench()
    one, other = headway(int), headway(int)
    assert one.ratio_measured(other) is None
    found = headway.compare({"one": int, "other": float})
    assert found["one"].ratio_measured(found["other"]) is not None


def test_a_fork_names_its_turns_otherwise():
    """A forked process goes on with the same count, and its names are others all the same."""
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    children = [fork.Process(target=lambda: answers.put(name_of_turns())) for _ in range(2)]
    for child in children:
        child.start()
    names = {name_of_turns(), *(answers.get() for _ in children)}
    for child in children:
        child.join()
    assert len(names) == 3
