"""A stall that is a deadlock: the lock's owner waits for the stalled thread, and nothing but a restart ends that."""

import dataclasses
import json
import os

import numpy as np
import pytest
from made_traces import MS, START_NS, UNKNOWN_FRAME
from told_traces import Script

from headway.traces.analysis.holders import Holders
from headway.traces.analysis.spent_holds import SpentHolds
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.stall_sums import sum_up, told_rows
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.frames import Asleep, Evidence, Frame

SOURCE = """\
import threading
accounts = threading.Lock()
ledger = threading.Lock()
class Cache:
    def __init__(self):
        self.guard = threading.Lock()
def transfer():
    with accounts:
        with ledger:
            pass
def audit():
    with ledger:
        with accounts:
            pass
def move(source, target):
    with source.guard:
        with target.guard:
            pass
def again():
    with ledger:
        more()
def more():
    with ledger:
        pass
def hog():
    pass
def in_turn():
    with ledger: query()
"""
WORKER = Frame("/usr/lib/python3.13/concurrent/futures/thread.py", 89, "_worker", 70)
GUNICORN = Frame("/v/lib/python3.13/site-packages/gunicorn/workers/gthread.py", 300, "ThreadWorker.handle", 290)
IDLE, TRANSFER, AUDIT, MOVE, AGAIN, HOG, OUTSIDE, IN_TURN = 1, 4, 5, 6, 8, 9, 10, 11
SAME_ORDER = "acquire these locks in the same order everywhere, or use one lock for both"


@pytest.fixture
def stalls(tmp_path):
    """Return a function that makes the trace of a script and finds the stalls of the pool's threads."""
    file = tmp_path / "app.py"
    file.write_text(SOURCE)
    os.utime(file, (1, 1))  # before every trace
    lines = [
        Frame(str(file), line, name, first)
        for line, name, first in (
            (9, "transfer", 7),
            (13, "audit", 11),
            (17, "move", 15),
            (21, "again", 19),
            (23, "more", 22),
            (26, "hog", 25),
            (12, "audit", 11),
            (28, "in_turn", 27),
        )
    ]
    frames = (UNKNOWN_FRAME, WORKER, GUNICORN, *lines)

    def found(script, end_ms, *threads, asleep=()):
        trace = dataclasses.replace(
            script.trace(end_ms, *threads, ended=False),
            frames=frames,
            # Stack 1 is an idle thread; stack 3 is a request, in which all others are.
            stack_frame=np.array([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            stack_parent=np.array([0, 0, 0, 2, 3, 3, 3, 3, 7, 3, 3, 3]),
            evidence=Evidence(asleep=tuple(Asleep(START_NS + 1_000 * MS, 101 + thread) for thread in asleep)),
        )
        return [(one, stall_json(trace, one), stall_line(trace, one)) for one in find_stalls(trace, Thresholds())]

    return found


def waiting(*stacks, until_ms=3_000):
    """Return a script of requests that yield the GIL at these stacks at the begin, and of a thread that is there at the end."""
    script = Script()
    for thread in range(len(stacks)):
        script.hold(thread, thread, thread + 0.5, stack=IDLE)
    for thread, stack in enumerate(stacks):
        script.hold(thread, 100 + thread, 100.5 + thread, stack=stack)
    return script.hold(len(stacks), until_ms - 1, until_ms, stack=HOG)


def test_threads_that_wait_for_each_other(stalls):
    """The line, the log and the sums say that it is a deadlock, and the advice is about the order of locks."""
    found = stalls(waiting(TRANSFER, AUDIT), 3_000, "a", "b", "main")

    lines = [line for *_, line in found]
    assert len(lines) == 2
    assert all(": 100 % a deadlock: a wait for a lock at " in line for line in lines)
    assert "b had it, waiting for another lock at " in lines[0]
    for _, row, _ in found:
        assert (row["parts"][0]["deadlock"], row["advice"]) == ("sure", SAME_ORDER)
    rows, _ = told_rows(json.dumps(row) for _, row, _ in found)
    assert {cause: one.advice for (_, cause), one in sum_up(rows).by_cause.items()}["deadlock"] == SAME_ORDER


def test_locks_of_one_name_may_be_several_objects(stalls):
    """Then it is a deadlock only if they are the same, and the sums say that, too."""
    found = stalls(waiting(MOVE, MOVE), 3_000, "a", "b", "main")

    assert len(found) == 2
    for _, row, line in found:
        assert "100 % a deadlock, if the locks of these names are the same objects: a wait" in line
        assert row["parts"][0]["deadlock"] == "perhaps"
        assert row["advice"] == f"look first whether another thread has these locks; if not, {SAME_ORDER}"
        assert ("request", "perhaps a deadlock") in sum_up([row]).by_cause


def test_a_thread_that_waits_for_itself(stalls):
    """A `threading.Lock` is not acquired twice."""
    ((_, row, line),) = stalls(waiting(AGAIN), 3_000, "a", "main")

    assert "100 % a deadlock: a wait for a lock at " in line
    assert line.endswith("app.py:23 more that the thread has itself")
    assert row["advice"].startswith("use a `threading.RLock`")
    assert [held.doing for held in sum_up([row]).by_holder] == ["itself"]


def test_what_waits_for_threads_in_a_circle_is_in_none(stalls):
    """A third thread waits for the first two: they are the deadlock, and it is behind them."""
    found = stalls(waiting(TRANSFER, AUDIT, OUTSIDE), 3_000, "a", "b", "c", "main")

    assert {row["thread"]: row["parts"][0]["deadlock"] for _, row, _ in found} == {"a": "sure", "b": "sure", "c": "no"}


@pytest.mark.parametrize("wakes", [0, 1])
def test_a_wait_that_ends_was_no_deadlock(stalls, wakes):
    """The owner may be about to release the lock; its own wait is over, or the stalled thread's is."""
    script = waiting(TRANSFER, AUDIT).hold(wakes, 2_400, 2_401, stack=IDLE)
    found = stalls(script, 3_000, "a", "b", "main")

    assert found
    assert all(part["deadlock"] == "no" for _, row, _ in found for part in row["parts"])


def test_a_line_that_takes_a_lock_and_makes_a_call_may_be_in_the_call(stalls):
    """Two threads take turns at such a line: the one that has the lock may wait for no thread."""
    found = stalls(waiting(IN_TURN, IN_TURN), 3_000, "a", "b", "main", asleep=(0,))

    assert len(found) == 2
    for _, row, line in found:
        assert "deadlock" not in line
        assert all(part["deadlock"] == "no" for part in row["parts"])


def test_a_row_of_an_earlier_version_has_no_such_word():
    """Its lock is a wait for another thread, as before."""
    row = {"began": "2026-11-29T16:00:00+00:00", "kind": "request", "cause": "blocking call", "length_s": 1.0}
    part = {"cause": "blocking call", "lock": True, "time_s": 1.0, "place": None}
    assert list(sum_up([row | {"parts": [part]}]).by_cause) == [("request", "wait for another thread")]


def test_many_threads_that_are_stuck_at_one_lock_are_not_searched_for_each_other(stalls, monkeypatch):
    """Neither its owner at the end, nor who kept the GIL meanwhile: 5,000 stuck threads would need 25 million looks."""
    looks, timeline, held, whole = [], Holders.timeline, SpentHolds._held, SpentHolds._whole_hold

    def counted(*given):
        looks.append(given)
        return timeline(*given)

    def counted_hold(*given):
        looks.append(given)
        return held(*given)

    def counted_whole(*given):
        looks.append(given)
        return whole(*given)

    monkeypatch.setattr(Holders, "timeline", counted)
    monkeypatch.setattr(SpentHolds, "_held", counted_hold)
    monkeypatch.setattr(SpentHolds, "_whole_hold", counted_whole)
    names = [f"waiter-{number}" for number in range(100)]
    found = stalls(waiting(AUDIT, *[OUTSIDE] * len(names)), 3_000, "owner", *names, "main")

    had = [row["parts"][0]["holder"]["thread"] for _, row, _ in found if row["thread"] in names]
    assert had == ["owner"] * len(names)
    assert len(looks) < 20 * len(names)
