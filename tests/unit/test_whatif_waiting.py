"""Predictions for threads that wait for each other: at a lock, or for work from a queue."""

import io
import os

import pytest
from made_turns import trace_of, turn
from rich.console import Console

from headway.cli.whatif_view import one_change
from headway.errors import ScenarioError
from headway.native_sim import OpKind
from headway.sim.machine import load
from headway.sim.replay import locks, waiting
from headway.sim.replay.change import NOTHING, Change
from headway.sim.replay.learn import learn
from headway.sim.replay.trace import predicted_trace
from headway.sim.whatif import predict
from headway.traces.model import Frame

COSTS = load("preset")
LOCK, QUEUE, SLEEP, ACQUIRE = "with lock:", "item = jobs.get()", "time.sleep(0.002)", "lock.acquire()"
GUARD = "with guard: pass"
"""Only the line that makes the lock tells that it is one."""


def frames_of(tmp_path, text):
    """Return the frames of the first two lines of a file that is older than the trace."""
    source = tmp_path / "app.py"
    source.write_text(text, encoding="utf-8")
    os.utime(source, (0, 0))
    return Frame("", 0, "?"), Frame(str(source), 1, "one"), Frame(str(source), 2, "two")


def waits(tmp_path, line, *, alike=False, every_us=5_000, frame=None):
    """Return the model of `main`, which waits at a line until `other` has run for 2 ms, and then sleeps.

    If the threads are `alike`, they are of one role. A `frame` takes the place of that line's.
    """
    nowhere, here, there = frames_of(tmp_path, f"{line}\n{SLEEP}\nguard = threading.Lock()\n")
    frames = nowhere, frame or here, there
    rows = []
    for at in range(0, 900_000, every_us):
        rows += turn(at, 0, holds_us=10, stack=1)
        rows += turn(at + 100, 1, holds_us=2_000, stack=2)
        rows += turn(at + 2_160, 0, holds_us=10, stack=2)
    names = ("pool 0", "pool 1") if alike else ("main", "other")
    return learn(trace_of(rows, frames=frames, names=names), COSTS)


def outside(model, change):
    (found,) = predict(model, [change], COSTS, cores=2, seeds=1)
    return [one for one in found.outside if "replayed without a change" not in one]


# ---------------------------------------------------------------------------- more threads
def test_more_threads_may_wait_for_what_nobody_waited_for(tmp_path):
    """A lock that one thread always finds free does not show, so a prediction for more threads says that."""
    frames = frames_of(tmp_path, f"{SLEEP}\n{SLEEP}\n")
    rows = [row for n in range(200) for row in turn(n * 5_000, n % 2, holds_us=10, stack=1 + n % 2)]
    model = learn(trace_of(rows, frames=frames), COSTS)
    text = "the model does not contain a lock, or a pool, that no thread waited for in the trace: more threads of main may wait there"

    assert outside(model, Change(threads=(("main", 4),))) == [text]
    assert outside(model, Change(threads=(("main", 1),))) == []
    assert outside(model, NOTHING) == []


def test_more_threads_that_only_compute_wait_for_no_lock(tmp_path):
    """Threads that never leave the GIL by themselves hold nothing while another one runs."""
    rows = []
    for at in range(0, 900_000, 10_000):
        rows += [*turn(at, 0, holds_us=5_000, stack=1), *turn(at + 5_000, 1, holds_us=5_000, stack=2)]
    forced = [(*row, True) if row[2] != rows[0][2] else row for row in rows]
    model = learn(trace_of(forced), COSTS)

    assert {int(kind) for one in model.actors for kind in one.ops["kind"]} <= {OpKind.COMPUTE, OpKind.HOLD}
    assert outside(model, Change(threads=(("main", 8),))) == []


def test_more_threads_may_change_the_pace_of_those_that_they_wait_for(tmp_path):
    """A thread that answers in batches waits for a full one: with more threads, it answers sooner than in the trace."""
    model = waits(tmp_path, QUEUE)
    paced = "main waits for other, whose pace the model keeps as in the trace: if that depends on the number of threads of main"

    assert any(one.startswith(paced) for one in outside(model, Change(threads=(("main", 4),))))
    assert not any("whose pace" in one for one in outside(model, Change(threads=(("other", 4),))))
    assert not any("whose pace" in one for one in outside(model, Change(policy="fair")))


def test_more_threads_may_not_get_the_work_that_a_prediction_has(tmp_path):
    """Two writers at a queue do not write more than the threads before them give; or a queue's readers get more."""
    model = waits(tmp_path, QUEUE)
    fed = "main waits for other, and goes on in the model as often as in the trace: more threads of other may"

    assert any(one.startswith(fed) for one in outside(model, Change(threads=(("other", 2),))))
    assert not any("goes on" in one for one in outside(model, Change(threads=(("other", 1),))))


# ---------------------------------------------------------------------------- fewer threads
@pytest.mark.parametrize("line", [LOCK, GUARD, QUEUE])
def test_fewer_threads_are_refused_where_the_others_waited_for_them(tmp_path, line):
    """Nobody is left to wake the others: the error says so in the words of the change."""
    with pytest.raises(
        ScenarioError,
        match=r"^--threads pool:1: pool \* waited in the trace for threads of pool \* that the change leaves",
    ) as caught:
        predict(waits(tmp_path, line, alike=True), [Change(threads=(("pool", 1),))], COSTS, cores=2, seeds=1)
    assert caught.value.hint == "record the program with that number of threads"


def test_fewer_threads_that_no_one_waited_for_are_replayed(tmp_path):
    """A role may have fewer threads if the ones that are left need none of the others."""
    model = waits(tmp_path, SLEEP, alike=True)
    assert model.semaphores == 0
    assert predict(model, [Change(threads=(("pool", 1),))], COSTS, cores=2, seeds=1)


# ---------------------------------------------------------------------------- locks
@pytest.mark.parametrize("change", [Change(policy="fair"), Change(interval_ns=500_000)], ids=str)
@pytest.mark.parametrize("line", [LOCK, GUARD, QUEUE, ACQUIRE])
def test_how_often_threads_meet_at_a_lock_is_as_in_the_trace(tmp_path, line, change):
    """A change moves that, and the model does not: a line says so, but not of a queue, nor of a lock that may be a signal."""
    model = waits(tmp_path, line)
    assert model.semaphores
    text = (
        f"how often main waits for the lock or semaphore at {tmp_path}{os.sep}app.py:1 is as in the trace: the model does not know"
        " when that is free"
    )
    assert outside(model, change) == ([text] if line in (LOCK, GUARD) else [])
    assert outside(model, NOTHING) == []


def test_a_lock_that_a_library_takes_for_the_program_is_told(tmp_path):
    """More threads that log wait for the handler's lock more often, and the model repeats the waits of the trace."""
    folder = tmp_path / "lib" / "python3.13" / "logging"
    folder.mkdir(parents=True)
    text = f"how often main waits for the lock or semaphore at {folder}{os.sep}app.py:1 is as in the trace"

    assert any(one.startswith(text) for one in outside(waits(folder, LOCK), Change(threads=(("main", 4),))))
    before_3_13 = Frame("/lib/python3.11/logging/__init__.py", 927, "Handler.acquire")
    assert locks._enters((before_3_13,), before_3_13, ())


def test_threads_that_wait_for_a_lock_get_no_work_there(tmp_path):
    """The thread that releases a lock gives nothing to those that wait for it."""
    found = outside(waits(tmp_path, LOCK), Change(threads=(("other", 2),)))

    assert any("lock or semaphore" in one for one in found)
    assert not any("goes on" in one for one in found)


def test_a_lock_that_is_seldom_waited_for_is_not_told(tmp_path):
    """Waits of 2 ms in every 50 ms are less than a twentieth of the time, and hardly matter."""
    model = waits(tmp_path, LOCK, every_us=50_000)
    assert outside(model, Change(policy="fair")) == []


def test_a_semaphore_of_threading_is_a_lock_and_a_queue_is_none(tmp_path):
    """The frames between the program's own `with` and the wait tell it: the locks within a queue are no lock of the program."""
    _, own, other = frames_of(tmp_path, "with guard: work()\njobs.get()\n")
    wait, acquire = (
        Frame("/lib/python3.11/threading.py", 327, "wait"),
        Frame("/lib/python3.11/threading.py", 479, "acquire"),
    )
    get = Frame("/lib/python3.11/queue.py", 171, "get")

    assert [locks._taker(one) for one in ((wait, acquire, own), (wait, own), (acquire, other))] == [own, own, other]
    assert locks._taker((wait, get, own)) is None
    assert locks._enters((wait, acquire, own), own, ())
    assert not locks._enters((wait, own), own, ())
    assert not locks._enters((acquire, other), other, ())


# ---------------------------------------------------------------------------- a role that is left out
def test_waits_for_a_lock_of_a_role_that_is_left_out_are_left_out(tmp_path):
    """Nobody holds the lock any more, so `main` goes on without these waits, and a line says so."""
    model = waits(tmp_path, LOCK)
    assert model.semaphores
    change = Change(without=("other",))
    (found,) = predict(model, [change], COSTS, cores=2, seeds=1)

    kinds = {int(one) for one in waiting.without_lost_waits(model, change).actors[0].ops["kind"]}
    assert OpKind.TAKE not in kinds
    assert (
        "main waited for a lock or semaphore that other released: without it, the model leaves these waits out"
        in str(found.outside)
    )
    assert "nothing to do" not in str(found.outside)
    assert len(predicted_trace(model, change, COSTS, cores=2, length_ns=10**8).events)


def test_waits_for_work_of_a_role_that_is_left_out_stay(tmp_path):
    """A consumer without a producer has nothing to do: the model knows only which thread woke which, and says so."""
    with pytest.raises(ScenarioError, match=r"^--without other: the threads that are left cannot go on") as caught:
        predict(waits(tmp_path, QUEUE), [Change(without=("other",))], COSTS, cores=2, seeds=1)
    assert "the model knows only which thread woke which" in caught.value.hint


JOIN = Frame("/lib/python3.11/threading.py", 1119, "Thread.join")


@pytest.mark.parametrize(
    ("line", "frame", "stops"),
    [(QUEUE, None, True), (LOCK, None, False), (QUEUE, JOIN, False)],
    ids=["queue", "lock", "join"],
)
def test_what_a_role_that_is_left_out_waited_for_may_stop(tmp_path, line, frame, stops):
    """At a queue, but not at a lock; nor does a thread stop since no other one waits for its end."""
    model = waits(tmp_path, line, frame=frame)
    assert model.semaphores
    text = "main waited for other in the trace: without it, other may stop at an empty or a full queue, where the model goes on"
    assert (text in outside(model, Change(without=("main",)))) == stops


# ---------------------------------------------------------------------------- the condition of more threads
def provided(model, *threads):
    return waiting.provided(model, Change(threads=threads))


def test_more_threads_get_more_done_if_what_they_wait_for_serves_them_all(tmp_path):
    """A server that serves one at a time is outside the process, so the first line has the condition."""
    model = waits(tmp_path, QUEUE)
    text = "provided that what the 4 threads of main wait for serves them all at the same time"
    assert provided(model, ("main", 4)) == text
    assert provided(model, ("main", 1)) == ""
    assert provided(waits(tmp_path, SLEEP, alike=True), ("pool", 3)).startswith(
        "provided that what the 3 threads of pool *"
    )
    assert waiting.provided(model, Change(policy="fair")) == waiting.provided(model, NOTHING) == ""

    (found,) = predict(model, [Change(threads=(("main", 4),))], COSTS, cores=2, seeds=1)
    told = io.StringIO()
    Console(file=told, width=200).print(one_change(found))
    assert told.getvalue().splitlines()[0] == f"what if: --threads main:4, {text}"


def test_more_threads_that_are_hardly_away_from_the_gil_have_no_condition():
    """They wait for the GIL, which is in the model."""
    rows = []
    for at in range(0, 900_000, 10_000):
        rows += [*turn(at, 0, holds_us=9_800, stack=1), *turn(at + 9_850, 1, holds_us=100, stack=2)]
    model = learn(trace_of(rows), COSTS)
    assert provided(model, ("main", 4)) == ""
    assert provided(model, ("main", 4), ("other", 3)).startswith("provided that what the 3 threads of other wait for")
