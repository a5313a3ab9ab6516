"""The thread that had a lock while others waited for it, in traces of a few events."""

import dataclasses
import os

import numpy as np
import pytest
from made_traces import MS, UNKNOWN_FRAME
from told_traces import Script, told

from headway.traces.analysis import analyse
from headway.traces.analysis.doing import Doing
from headway.traces.analysis.lock_findings import who_had
from headway.traces.analysis.stall_model import Thresholds
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.frames import CoreTime, Frame
from headway.traces.model import Kind, Park

SOURCE = """\
import threading, time
lock = threading.Lock()
other_lock = threading.Lock()

def refresh():
    with lock:
        time.sleep(0.03)
        compute()
    time.sleep(0.01)

def lookup():
    with lock:
        pass
    work()

def first():
    with lock:
        with other_lock:
            pass

def second():
    with other_lock:
        with lock:
            pass

def hog():
    compute()
"""
LINES = {6: 5, 7: 5, 8: 5, 9: 5, 12: 11, 14: 11, 17: 16, 18: 16, 22: 21, 23: 21, 27: 26}
"""The lines that occur in traces, with the first line of their function."""
AT = {line: number for number, line in enumerate(LINES, 1)}
TAKES, SLEEPS, COMPUTES, PAUSES, LOOKUP, WORKS, FIRST, SECOND, HOG = (
    AT[one] for one in (6, 7, 8, 9, 12, 14, 18, 23, 27)
)


def written(folder, source):
    """Return the path of a program that was written before every trace."""
    file = folder / "app.py"
    file.write_text(source)
    os.utime(file, (0, 0))
    return file


@pytest.fixture
def program(tmp_path):
    """Return a function that makes a trace of the program from a script."""
    file = written(tmp_path, SOURCE)
    frames = tuple(Frame(str(file), line, f"f{first}", first) for line, first in LINES.items())

    def trace(script, end_ms, *names, **process):
        none = np.zeros(len(frames) + 1, dtype=np.int64)
        return dataclasses.replace(
            script.trace(end_ms, *names, **process),
            frames=(UNKNOWN_FRAME, *frames),
            stack_frame=np.arange(len(frames) + 1),
            stack_parent=none,
        )

    return trace


def refreshed(rounds=10, *, at=SLEEPS, hog=False):
    """Return a script: thread 0 is at a line for 30 ms while thread 1 waits for the lock, and works 10 ms elsewhere."""
    script, now = Script(), 0.0
    for _ in range(rounds):
        script.hold(0, now, now + 0.1, stack=at)
        script.hold(1, now + 1, now + 1.1, stack=LOOKUP)
        script.hold(0, now + 30, now + 30.2, stack=PAUSES)
        if hog:  # it takes the GIL as soon as it is free, before the waiter is back
            script.hold(2, now + 30.2, now + 35, stack=HOG, forced=True)
            script.wait(1, now + 30.4, stack=LOOKUP)
        back = now + (35.1 if hog else 30.3)
        script.hold(1, back, back + 0.1, stack=WORKS)
        now += 40
    return script


def test_the_thread_that_has_the_lock_and_its_line_are_named(program):
    """The waiter comes back when the holder has released the lock; the holder slept at a line inside meanwhile."""
    found = told(program(refreshed(), 400, "refresher", "lookup"))["contended-lock"]

    assert found.weight == "problem"
    assert "refresher had the lock for 100 % of that time, in a call without the GIL at " in found.cause
    assert found.cause.endswith("app.py:7 f5")
    assert found.advice.startswith("make that call before the lock is taken, or after it is released")


def in_turns(line, *, forced):
    """Return a script: thread 0 acquires the lock and computes for 8 ms until the waiter, thread 1, is there again."""
    script, now = Script(), 0.0
    for _ in range(10):
        script.hold(0, now, now + 0.1, stack=TAKES)
        script.hold(1, now + 0.2, now + 0.3, stack=LOOKUP)
        script.wait(0, now + 1, stack=TAKES).hold(0, now + 1.1, now + 9.1, stack=line, forced=forced)
        script.hold(1, now + 9.2, now + 9.3, stack=WORKS)
        now += 20
    return script


@pytest.mark.parametrize(
    ("line", "forced", "cores", "doing"),
    [
        (PAUSES, True, 1, Doing.WENT_ON),
        (PAUSES, False, 1, Doing.WENT_ON),
        (COMPUTES, True, 1, Doing.RAN),
        (PAUSES, True, 2, Doing.RAN),
    ],
)
def test_a_waiter_that_wakes_up_late_does_not_tell_when_the_lock_was_released(program, line, forced, cores, doing):
    """On one core the holder goes on after the release, and the waiter wakes up when it has stopped; lines inside tell."""
    analysis = analyse(program(in_turns(line, forced=forced), 200, "refresher", "lookup", core_count=cores))
    (place,) = (one for one in analysis.lock_waits if one.frame.line == 12)

    assert place.holders[0].doing is doing
    hedged = "refresher held the GIL after acquiring the lock and may soon have released it" in who_had(place, analysis)
    assert hedged is (doing is Doing.WENT_ON)


def test_a_thread_that_never_uses_the_lock_did_not_have_it(program):
    """A thread that computes has the GIL when the waiter wakes up, but no line of it names the lock."""
    trace = program(refreshed(hog=True), 400, "refresher", "lookup", "hog")
    (place,) = (one for one in analyse(trace).lock_waits if one.frame.line == 12)

    assert [(one.threads, one.doing, one.stack[0].line) for one in place.holders[:1]] == [((0,), Doing.AWAY, 7)]
    assert place.known_ns > 0.9 * place.times.total_ns


def test_a_thread_that_only_came_from_a_line_outside_did_not_have_the_lock(program):
    """The only thread that held the GIL before had been at a line of its function without the lock: nobody is named."""
    (place,) = analyse(program(refreshed(at=PAUSES), 400, "refresher", "lookup")).lock_waits

    assert place.known_ns < 0.02 * place.times.total_ns


def test_a_waiter_that_gets_the_lock_before_others_passes_the_blame_on(program):
    """Thread 1 gets the lock 0.3 ms before thread 2; for the time before, both waited for thread 0."""
    script, now = Script(), 0.0
    for _ in range(10):
        script.hold(0, now, now + 0.1, stack=SLEEPS)
        script.hold(1, now + 1, now + 1.1, stack=LOOKUP)
        script.hold(2, now + 2, now + 2.1, stack=LOOKUP)
        script.hold(0, now + 30, now + 30.2, stack=PAUSES)
        script.hold(1, now + 30.3, now + 30.5, stack=WORKS)
        script.hold(2, now + 30.6, now + 30.7, stack=WORKS)
        now += 40
    (place,) = analyse(program(script, now, "refresher", "a", "b")).lock_waits

    assert place.holders[0].threads == (0,)
    assert place.holders[0].blocked_ns > 0.95 * place.times.total_ns


def test_a_signal_does_not_hide_the_owner_of_a_lock(program):
    """The waiter handles it at 200 ms, when no thread can have released the lock: the owner still has it."""
    script = Script().hold(0, 0, 0.1, stack=SLEEPS).hold(1, 1, 1.1, stack=LOOKUP).hold(1, 200, 200.1, stack=LOOKUP)
    script.hold(0, 300, 300.2, stack=PAUSES).hold(1, 300.3, 300.4, stack=WORKS)
    analysis = analyse(program(script, 310, "refresher", "lookup"))

    assert who_had(analysis.lock_waits[0], analysis).startswith("refresher had the lock for 100 %")


def test_computing_with_the_lock_is_told_apart_from_a_call(program):
    """A holder that was preempted inside computes with the lock: the advice is about that."""
    script, now = Script(), 0.0
    for _ in range(10):
        script.hold(0, now, now + 15, stack=COMPUTES, forced=True)
        script.hold(1, now + 15, now + 15.1, stack=LOOKUP)
        script.hold(0, now + 15.1, now + 30, stack=COMPUTES, forced=True)
        script.hold(2, now + 30, now + 30.1, stack=HOG)
        script.hold(0, now + 30.1, now + 30.2, stack=PAUSES)
        script.hold(1, now + 30.3, now + 30.4, stack=WORKS)
        now += 40
    found = told(program(script, now, "refresher", "lookup", "hog"))["contended-lock"]

    assert "refresher had the lock for 99 % of that time, holding the GIL at" in found.cause
    assert found.advice.startswith("compute before the lock is taken, or after it is released")


def stuck(*, until_ms=2_000):
    """Return a script of two threads that wait for each other's locks, and of one that waits for a lock of theirs."""
    script = Script().hold(0, 0, 1, stack=FIRST).hold(1, 1, 2, stack=SECOND).hold(2, 3, 4, stack=LOOKUP)
    return script.hold(3, until_ms - 1, until_ms, stack=HOG)


def test_threads_that_wait_for_each_others_locks_are_a_deadlock(program):
    """The finding names the threads, their lines, and how many more wait; the lines have no further finding."""
    found = told(program(stuck(), 2_000, "one", "two", "three", "main"))

    assert "contended-lock" not in found
    fact = found["deadlock"].fact
    assert fact.startswith("one waits at ")
    assert "app.py:18 f16 for a lock that two has" in fact
    assert "app.py:23 f21 for a lock that one has, until the end of the recording; 1 more thread waits for them" in fact
    assert found["deadlock"].threads == ("one", "two")


def test_a_deadlock_is_found_without_a_gil_too(program):
    """A free-threaded build's trace has no holds; the lines at which threads wait for ever tell what they have."""
    script = Script().park(0, 1, 1_999, Park.LOCK, stack=FIRST).park(1, 2, 1_999, Park.LOCK, stack=SECOND)
    script.rows = [row for row in script.rows if row[3] == Kind.PARK]
    trace = program(script, 2_000, "one", "two", gils=0, free_threaded=True, gil_enabled=False)
    found = told(trace)

    assert "app.py:18 f16 for a lock that two has" in found["deadlock"].fact
    assert "app.py:23 f21 for a lock that one has" in found["deadlock"].fact
    assert not {"contended-lock", "no-lock-contention"} & set(found)


def test_threads_that_have_waited_shortly_are_no_deadlock_yet(program):
    """A recording that ends within half a second of the wait does not show that it would never end."""
    assert "deadlock" not in told(program(stuck(until_ms=400), 400, "one", "two", "three", "main"))


def test_a_deadlock_that_a_window_cuts_is_told_of_the_recordings_end_only(program):
    """In a window in which a thread waits, and that ends before it gets the lock, nothing is stuck."""
    trace = program(refreshed(hog=True), 400, "refresher", "lookup", "hog")
    found = analyse(trace, since_ns=trace.start_ns, until_ns=trace.start_ns + 20 * MS)

    assert all(one.kind != "deadlock" for one in found.findings)


def test_a_thread_that_takes_a_lock_that_it_has_is_told(tmp_path):
    """A caller's line runs with the lock that the innermost line takes, and no other thread has it."""
    file = written(
        tmp_path,
        "class Cache:\n    def __init__(self):\n        self._lock = threading.Lock()\n    def get(self):\n        with self._lock:\n            return self.load()\n"
        "    def load(self):\n        with self._lock:\n            return 1\n",
    )
    script = Script().hold(0, 0, 1, stack=2).hold(1, 1_999, 2_000, stack=0)
    trace = dataclasses.replace(
        script.trace(2_000, "worker", "main"),
        frames=(UNKNOWN_FRAME, Frame(str(file), 6, "Cache.get", 4), Frame(str(file), 8, "Cache.load", 7)),
        stack_frame=np.array([0, 1, 2]),
        stack_parent=np.array([0, 0, 1]),
    )
    found = told(trace)["deadlock"]

    assert "worker waits at" in found.fact
    assert "for a lock that it may have itself" in found.fact
    assert "RLock" in found.advice


MOVE = "def move(source, target):\n    with source.lock:\n        with target.lock:\n            pass\n"


def moving(file):
    """Return a trace of two threads that wait at the third line of a file until the recording ends."""
    script = Script().hold(0, 0, 1, stack=1).hold(1, 1, 2, stack=1).hold(2, 1_999, 2_000, stack=0)
    return dataclasses.replace(
        script.trace(2_000, "one", "two", "main"),
        frames=(UNKNOWN_FRAME, Frame(str(file), 3, "move", 1)),
        stack_frame=np.array([0, 1]),
        stack_parent=np.array([0, 0]),
    )


def test_two_objects_of_one_class_may_be_in_a_deadlock(tmp_path):
    """Each of two threads has taken one lock of that name, and waits for another one: the finding says that it may be so."""
    trace = moving(written(tmp_path, MOVE))
    found = told(trace)["deadlock"]

    assert "one waits at" in found.fact
    assert "for a lock that two may have and two waits at" in found.fact
    assert found.cause.startswith("perhaps a deadlock, if the locks of these names are the same objects")
    assert found.advice.startswith("look first whether another thread has these locks; if not, acquire these locks")
    assert (found.weight, next(iter(told(trace)))) == ("note", "deadlock")


@pytest.mark.parametrize(
    ("keeps", "is_told"),
    [
        ("def close(accounts):\n    for one in accounts:\n        one.lock.acquire()\n    report()\n", False),
        ("def close(one):\n    one.lock.acquire()\n    report()\n    one.lock.release()\n", True),
        ("class Account:\n    def acquire(self):\n        self.lock.acquire()\n", True),
    ],
    ids=["a function keeps locks of that name", "one releases them", "a class wraps one"],
)
def test_a_lock_that_a_function_keeps_may_be_the_one_that_others_wait_for(tmp_path, keeps, is_told):
    """No line tells which threads have such a lock, so nobody knows whether those that wait for one wait for each other."""
    found = told(moving(written(tmp_path, MOVE + keeps)))

    assert ("deadlock" in found) == is_told
    assert ("contended-lock" in found) != is_told


@pytest.mark.parametrize(
    ("takes", "maker"),
    [("with self._lock:", "RLock"), ("self._lock.acquire(timeout=9)", "Lock"), ("with self._lock:", None)],
)
def test_a_wait_that_ends_or_may_be_for_another_lock_is_no_deadlock(tmp_path, takes, maker):
    """A thread has an RLock twice, a time-out ends a wait, and a lock that another file makes may be an RLock."""
    made = (
        f"    def __init__(self):\n        self._lock = threading.{maker}()\n"
        if maker
        else "    one = 1\n    two = 2\n"
    )
    file = written(
        tmp_path,
        f"class Cache:\n{made}    def get(self):\n        with self._lock:\n            return self.load()\n"
        f"    def load(self):\n        {takes}\n            {'' if 'with' in takes else '#'}return 1\n".replace(
            "            #", "        #"
        ),
    )
    trace = dataclasses.replace(
        Script().hold(0, 0, 1, stack=2).hold(1, 1_999, 2_000, stack=0).trace(2_000, "worker", "main"),
        frames=(UNKNOWN_FRAME, Frame(str(file), 6, "Cache.get", 4), Frame(str(file), 8, "Cache.load", 7)),
        stack_frame=np.array([0, 1, 2]),
        stack_parent=np.array([0, 0, 1]),
    )

    assert "deadlock" not in told(trace)


def stalled(program, *, back_ms, inside):
    """Return a trace and the stall of its event loop, which waits from 1.1 ms on for a lock; `inside` adds what its holder does."""
    poll_at, lookup_at = len(LINES) + 2, len(LINES) + 3
    script = Script().hold(1, 0, 0.1, stack=poll_at).hold(0, 0.2, 0.3, stack=SLEEPS)
    inside(script.hold(1, 1, 1.1, stack=lookup_at))
    trace = program(script.hold(1, back_ms, back_ms + 0.1, stack=poll_at), back_ms + 10, "refresher", "loop", "next")
    loop = Frame("/usr/lib/python3.13/asyncio/base_events.py", 700, "BaseEventLoop._run_once", 690)
    poll = Frame("/usr/lib/python3.13/selectors.py", 450, "EpollSelector.select", 440)
    last = len(LINES) + 1
    trace = dataclasses.replace(
        trace,
        frames=(*trace.frames, loop, poll),
        stack_frame=np.array([*trace.stack_frame, last, last + 1, LOOKUP]),
        stack_parent=np.array([*trace.stack_parent, 0, last, last]),
    )
    (stall,) = find_stalls(trace, Thresholds(loop_ns=10 * MS))
    return trace, stall


def test_a_stall_at_a_lock_names_the_thread_that_had_it(program):
    """The line of an event loop that waited for a lock says who had it and where that thread was."""
    trace, stall = stalled(program, back_ms=30.3, inside=lambda script: script.hold(0, 30, 30.2, stack=PAUSES))
    (part,) = (one for one in stall_json(trace, stall)["parts"] if one["lock"])

    assert "a wait for a lock at" in stall_line(trace, stall)
    assert "refresher had it, in a call without the GIL at" in stall_line(trace, stall)
    assert (part["holder"]["thread"], part["holder"]["doing"], part["holder"]["place"]["line"]) == (
        "refresher",
        "away",
        7,
    )


@pytest.mark.parametrize(
    ("queued_ms", "line", "doing"),
    [(20, 8, "waiting for a core"), (5, 8, "in a call without the GIL"), (29, 7, "in a call without the GIL")],
)
def test_a_thread_that_had_the_lock_may_have_had_no_core(program, queued_ms, line, doing):
    """The system's account of the thread tells that it had the lock and no core.

    Line 7 is a sleep, which the account may have as a wait for a core: that was seen once, with the 301 ms of a `recv()`.
    """
    trace, _ = stalled(program, back_ms=30.3, inside=lambda script: script.hold(0, 30, 30.2, stack=PAUSES))
    looks = tuple(
        CoreTime(trace.start_ns + round(ms * MS), trace.threads[0].tid, 0, queued * MS)
        for ms, queued in ((1, 0), (30.3, queued_ms))
    )
    frames = [dataclasses.replace(one, line=line) if one.line == 7 else one for one in trace.frames]
    evidence = dataclasses.replace(trace.evidence, core_times=looks)
    trace = dataclasses.replace(trace, evidence=evidence, frames=tuple(frames))
    (stall,) = find_stalls(trace, Thresholds(loop_ns=10 * MS))

    assert f"refresher had it, {doing} at" in stall_line(trace, stall)
    (part,) = (one for one in stall_json(trace, stall)["parts"] if one["lock"])
    assert ("had no core" in part["advice"]) == (doing == "waiting for a core")


def test_the_lock_has_an_owner_also_if_the_waker_is_not_known(program):
    """Of many waiters each wakes the next one, some of them late: for most of the wait the lock was the refresher's."""
    trace, stall = stalled(program, back_ms=40, inside=lambda script: script.hold(0, 30, 30.2, stack=PAUSES))
    assert "refresher had it, in a call without the GIL at" in stall_line(trace, stall)


def test_a_thread_that_did_several_things_with_the_lock_is_named(program):
    """No line of the holder has half of the wait, but the thread had the lock all the time: its longest time is told."""

    def inside(script):
        script.hold(0, 15, 26, stack=COMPUTES).hold(0, 34, 36, stack=PAUSES)

    trace, stall = stalled(program, back_ms=36.1, inside=inside)

    assert "refresher had it, in a call without the GIL at" in stall_line(trace, stall)


def test_a_thread_that_went_on_before_the_waiter_was_back_had_the_lock(program):
    """The waiter gets a core late: the holder has released the lock and held the GIL twice more, at lines outside."""

    def inside(script):
        script.hold(0, 30, 30.2, stack=PAUSES).hold(0, 30.3, 30.4, stack=WORKS).hold(0, 30.5, 30.6, stack=WORKS)

    trace, stall = stalled(program, back_ms=30.7, inside=inside)

    assert "refresher had it, in a call without the GIL at" in stall_line(trace, stall)


def test_threads_that_had_the_lock_in_turn_have_each_its_time(program):
    """One thread sleeps with the lock for 20 ms, and the next one computes for 15 ms: both are told, longest first."""

    def inside(script):
        script.hold(2, 2, 2.1, stack=LOOKUP).hold(0, 21, 21.1, stack=PAUSES)
        script.hold(2, 21.2, 36.2, stack=SLEEPS).hold(2, 36.3, 36.4, stack=WORKS)

    trace, stall = stalled(program, back_ms=36.5, inside=inside)
    (part,) = (one for one in stall_json(trace, stall)["parts"] if one["lock"])

    assert [(one["thread"], round(one["time_s"], 3)) for one in part["holders"]] == [
        ("refresher", 0.02),
        ("next", 0.015),
    ]
    assert part["holder"] == part["holders"][0]
    assert "refresher had it for 20 ms, in a call without the GIL at" in (line := stall_line(trace, stall))
    assert "app.py:7 f5, and next for 15.2 ms, holding the GIL" in line
    assert "holding the GIL at" not in line  # where its long hold ended is not where it was


def test_a_waiter_that_got_its_core_late_names_the_thread_that_ended_after_the_release(program):
    """The holder releases the lock with its last hold, and ends; the waiter had no core for 5 ms after it was woken."""

    def inside(script):
        script.hold(0, 15, 16, stack=COMPUTES, forced=True).hold(0, 16.1, 30, stack=0).add(30.1, 0, Kind.EXIT)

    trace, stall = stalled(program, back_ms=35.3, inside=inside)
    assert "had it" not in stall_line(trace, stall)
    looks = tuple(
        CoreTime(trace.start_ns + round(ms * MS), trace.threads[1].tid, 0, queued * MS)
        for ms, queued in ((1, 0), (35.3, 5))
    )
    trace = dataclasses.replace(trace, evidence=dataclasses.replace(trace.evidence, core_times=looks))
    (stall,) = find_stalls(trace, Thresholds(loop_ns=10 * MS))

    assert "refresher had it, " in stall_line(trace, stall)


@pytest.mark.parametrize(("line", "is_named"), [(COMPUTES, True), (WORKS, False)])
def test_a_thread_that_computes_with_the_lock_at_the_end_of_a_recording_is_named(program, line, is_named):
    """Its last hold has no end, and so no line: it came from a line with the lock, and nobody was woken since."""

    def inside(script):
        script.hold(0, 15, 16, stack=line, forced=True).hold(0, 16.1, 90, stack=0)

    trace, _ = stalled(program, back_ms=100, inside=inside)
    end_ns = trace.start_ns + 60 * MS
    trace = dataclasses.replace(
        trace,
        events=trace.events[trace.events["time_ns"] < end_ns],
        end_ns=end_ns,
        process=dataclasses.replace(trace.process, ended=False),
    )
    (stall,) = find_stalls(trace, Thresholds(loop_ns=10 * MS))

    assert stall.goes_on
    assert ("refresher had it, holding the GIL" in stall_line(trace, stall)) is is_named


@pytest.mark.parametrize(
    ("imports", "maker", "who"),
    [
        ("import threading, time", "threading.Lock()", "another thread"),
        ("import time; from threading import Lock", "Lock()", "another thread"),
        ("import threading, time, multiprocessing", "multiprocessing.Lock()", "another thread or process"),
        ("import time; from app.locks import lock", "print()", "another thread or process"),
    ],
)
def test_a_lock_of_threading_is_not_that_of_another_process(program, tmp_path, imports, maker, who):
    """Without a known holder, the file of the line tells whether the lock may be one of `multiprocessing`."""
    source = SOURCE.replace("threading.Lock()", maker).replace("import threading, time", imports)
    written(tmp_path, source)
    trace, stall = stalled(program, back_ms=30.3, inside=lambda script: script.hold(0, 3, 3.1, stack=HOG))

    assert f"a wait for {who} (a lock{', an event, a queue' * ('process' in who)}) at" in stall_line(trace, stall)
