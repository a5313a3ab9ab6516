"""Loads of several workers: what is counted of their begin, and how many calls make a round."""

import asyncio
import importlib
import os
import threading
import weakref
from concurrent.futures import Future
from pathlib import Path

import pytest

from headway.measure import loops, open_load, steps
from headway.measure.bench import Bench
from headway.measure.drive import run_steps
from headway.measure.journal import Journal, Options
from headway.measure.open_load import Open, told_of_begins
from headway.measure.rounds import Begins, Load, Round, Target, Watch
from headway.report import benchmarks


@pytest.mark.parametrize("tasks", [1, 2, 8])
def test_no_thread_begins_before_all_have_read_their_times(tasks, monkeypatch):
    """A thread whose first turn comes late has waited for it, so its times are read before another one begins."""
    events, lock = [], threading.Lock()

    def note(event):
        with lock:
            events.append(event)

    watch = Watch(wanted=False)
    monkeypatch.setattr(watch, "_times", lambda: note("read") or (0, 0))
    load = Load(Target(lambda: note("call")), tasks, "threads", watch)
    for _ in range(3):
        events.clear()
        load.once(2)
        assert events[:tasks] == ["read"] * tasks
        assert events.count("call") == 2 * tasks
    load.close()


IMPORTED = """
import os

with open(os.environ["IMPORTED"], "a") as file:
    print(os.getpid(), file=file)

def work():
    return None
"""


def test_workers_have_imported_the_function_before_the_first_round(tmp_path, monkeypatch):
    """Each process imports the function's module when the load starts: else those that import faster begin earlier."""
    imported = tmp_path / "imported"
    monkeypatch.setenv("IMPORTED", str(imported))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "measured_by_a_load.py").write_text(IMPORTED)
    work = importlib.import_module("measured_by_a_load").work
    load = Load(Target(work), 2, "processes-spawn", Watch(wanted=False))
    try:
        pids = imported.read_text().split()
        assert (len(pids), len(set(pids)), pids[0]) == (3, 3, str(os.getpid()))
        assert load.once(3).calls == 6
        assert imported.read_text().split() == pids
    finally:
        load.close()


class Made:
    """A source of two tasks whose calls take 1 ms, one after the other; the first two rounds are unlike the others."""

    def __init__(self):
        self.asked = []

    def once(self, calls):
        self.asked.append(calls)
        if len(self.asked) == 1:  # cold calls
            return Round(600_000_000, 2 * calls, [300_000_000] * 2 * calls)
        late_ns = 500_000_000 if len(self.asked) == 2 else 0  # a worker begins late
        return Round(late_ns + 2_000_000 * calls, 2 * calls, [1_000_000] * 2 * calls)

    def close(self):
        """Do nothing."""


@pytest.mark.parametrize(
    ("model", "asked"),
    [("processes-spawn", [1, 1, 10, 22, 22]), ("threads", [1, 1, 10, 22, 22]), ("serial", [1, 1, 10, 22, 22])],
)
def test_calls_of_a_round_are_those_of_warm_workers_that_run(model, asked):
    """Two tasks have 20 ms of calls each, whatever the first calls take, and however late a worker begins.

    The last round before the measurement confirms the one before.
    """
    source = Made()
    options = Options(rounds=3)
    plan = steps.Plan("work", Target(bool), options, model, 2, lambda *_: source)
    run_steps(steps.measured([plan]))
    assert source.asked == [*asked, *asked[-1:] * 3]


BEGINS = Begins(calls=200, late=2, latest_ns=5_000_000, took_ns=1_000_000_000, asked_ns=995_000_000)


@pytest.mark.parametrize(
    ("calls", "medians"),
    [(104, (10, 30, 51, 72, 93)), (9, (0, 2, 4, 6, 8)), (5, (0, 1, 2, 3, 4)), (3, (0, 1, 2))],
)
def test_an_open_load_has_five_stretches_of_equal_length(calls, medians):
    """Each stretch weighs the same in the interval, so none is a remainder of a few calls."""
    load = Open(Target(bool), 100, 1, Watch(wanted=False))
    try:
        one = load._round([0] * calls, [place * 1_000_000_000 for place in range(calls)], BEGINS, 1, 0, 0)
    finally:
        load.close()
    assert one.stretches_s == medians


def test_latencies_are_in_the_order_in_which_calls_begin():
    """Calls of several tasks that are slow at the same time are neighbours, so that a burst of them is one burst."""
    load = Load(Target(int, (), {}), 2, "threads", Watch(wanted=False))
    try:
        found = load._of([([0, 10, 20], [1, 19, 21]), ([2, 11, 22], [3, 18, 24])])
    finally:
        load.close()

    assert found.latencies_ns == [1, 1, 9, 7, 1, 2]
    assert (found.took_ns, found.calls) == (24, 6)


def test_few_late_begins_are_not_told():
    """One call in a hundred moves no percentile that has an interval; more are told with both rates."""
    more = Begins(calls=200, late=3, latest_ns=430_000_000, took_ns=3_000_000_000, asked_ns=995_000_000)

    assert told_of_begins([BEGINS]) == ""
    assert told_of_begins([BEGINS, more]) == (
        "1 % of the calls began over 1 ms late, by up to 0.43 s, which is in their latencies: "
        "200 calls/s were asked for, and 100 began"
    )
    assert told_of_begins([Begins(1, 1, 2_000_000, 2_000_000, 0)]).endswith("which is in their latencies")
    assert told_of_begins([]) == ""


async def awaited():
    """Do nothing, in a coroutine."""


@pytest.mark.parametrize("function", [int, awaited])
@pytest.mark.parametrize("late", [True, False])
def test_calls_that_begin_late_are_told(monkeypatch, function, late):
    """The table, JSON and the text of an assertion say that calls began late; here every call counts as late, or none."""
    hour_ns = 3600 * 10**9
    monkeypatch.setattr(open_load, "_LATE_NS", -hour_ns if late else hour_ns)
    bench = Bench(Journal(test="test"), Options())
    result = bench.open(function, rate=1000, seconds=0.05)

    told = "100 % of the calls began over 1 ms late"
    groups = {"group": list(bench.journal.entries.values())}
    (in_json,) = benchmarks.results_to_json(groups, Path())["groups"]["group"][0]["launches"]
    places = (
        result.launches[0].late,
        repr(result.percentile(0.5).below(1e-9)),
        benchmarks.benchmark_tables(groups)[0].caption,
        in_json["late"],
    )
    assert [told in one for one in places] == [late] * 4


class Counted:
    """A pool that runs each call at once, and notes how many of its futures live at the most."""

    def __init__(self):
        self.made, self.most = [], 0

    def submit(self, function):
        future = Future()
        future.set_result(function())
        self.made.append(weakref.ref(future))
        self.most = max(self.most, sum(one() is not None for one in self.made))
        return future

    def shutdown(self, **_options):
        """Do nothing."""


def test_a_long_open_load_keeps_no_futures():
    """The future of a call that has ended goes at once: it takes many times the memory of a latency."""
    load = Open(Target(int), 1e6, 1, Watch(wanted=False))
    load.close()
    load._pool = Counted()

    assert load.once(100).calls == 100
    assert load._pool.most <= 2


def test_a_long_open_load_keeps_no_tasks():
    """Neither does that of an async function keep its tasks."""
    lived = []

    async def one():
        lived.append(weakref.ref(asyncio.current_task()))

    async def begin_all(begin):
        for _ in range(100):
            begin(one)
            for _ in range(3):
                await loops.pause()
            assert sum(task() is not None for task in lived) <= 2

    asyncio.run(loops.gathered(begin_all))
    assert len(lived) == 100
