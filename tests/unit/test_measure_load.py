"""Loads of several workers: what is counted of their begin, and how many calls make a round."""

import importlib
import os
import threading

import pytest

from headway.measure import steps
from headway.measure.drive import run_steps
from headway.measure.journal import Options
from headway.measure.rounds import Load, Open, Round, Target, Watch


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


@pytest.mark.parametrize(
    ("calls", "medians"),
    [(104, (10, 30, 51, 72, 93)), (9, (0, 2, 4, 6, 8)), (5, (0, 1, 2, 3, 4)), (3, (0, 1, 2))],
)
def test_an_open_load_has_five_stretches_of_equal_length(calls, medians):
    """Each stretch weighs the same in the interval, so none is a remainder of a few calls."""
    load = Open(Target(bool), 100, 1, Watch(wanted=False))
    try:
        one = load._round([0] * calls, [place * 1_000_000_000 for place in range(calls)], 1, 0, 0)
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
