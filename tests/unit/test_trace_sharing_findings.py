"""The findings about threads that share one GIL, in traces on paper."""

from dataclasses import replace

import numpy as np
import pytest
from made_traces import MS, UNKNOWN_FRAME
from told_traces import AT_COMPUTE, AT_RECV, Script, convoy, shared, told

from headway.traces.analysis.words import duration
from headway.traces.model import Frame


def test_threads_that_compute_together_are_told():
    """Three threads that share a GIL which is always held are no faster than one."""
    one = told(shared())["saturated"]

    assert one.fact == (
        "the GIL was held 100 % of the time; 3 CPU-bound threads (crunch-0, crunch-1 and crunch-2) shared it, "
        "and waited 570 ms for their next turn"
    )
    assert (
        one.advice
        == "more threads do not help; instead use `ProcessPoolExecutor`, or this version's free-threaded build, "
        "where one thread alone is slower"
    )
    assert "3.13's or a later" in told(shared(python="3.11.2"))["saturated"].advice


def in_bursts(threads, burst_turns, pause_ms, *, beside=True):
    """Return a trace of threads that compute in turns of 5 ms, in bursts; with `beside` False, one burst after the other."""
    script, now = Script(), 0.0
    for burst in range(6):
        for turn in range(burst_turns):
            who = turn % threads if beside else burst % threads
            if turn >= threads or (turn and not beside):
                waits_ms = 5.0 * (threads - 1) if beside else 0.05
                script.wait(who, now - waits_ms, stack=AT_COMPUTE)
            script.hold(who, now, now + 5, forced=True)
            now += 5 if beside else 5.05
        now += pause_ms
    return script.trace(now, *(f"etl-{number}" for number in range(threads)))


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_that_compute_at_the_same_times_are_told_though_the_gil_is_free_at_others(threads):
    """A GIL that is free for a third of the time, as in calls that release it, still makes threads as fast as one."""
    one = told(in_bursts(threads, 40, 100))["saturated"]

    assert one.fact.startswith(f"the GIL was held 67 % of the time; {threads} CPU-bound threads ")
    assert one.cause.endswith("so together these threads compute as fast as one")


@pytest.mark.parametrize(("other_ms", "is_one_core"), [(1990, False), (100, True)])
def test_interpreters_that_compute_at_the_same_time_use_more_than_one_core(other_ms, is_one_core):
    """A program whose other GIL is held for much of the time does not compute on one core, and needs no such advice."""
    script = Script().hold(0, 0, 1990, gil=1).hold(1, 0, other_ms, gil=2).hold(2, 0, 5)
    one = told(script.trace(2000, "a", "b", "MainThread", gils=3))["no-contention"]

    assert ("on one core" in one.advice) is is_one_core


def test_threads_that_compute_one_after_the_other_are_not_told():
    """Threads that hardly ever compute at the same time do not share a GIL."""
    assert "saturated" not in told(in_bursts(4, 40, 100, beside=False))


@pytest.mark.parametrize(
    ("alone_ms", "waits_ms", "is_told"), [(60, 5, True), (600, 3, True), (60, 2, False), (60_000, 5, False)]
)
def test_two_threads_that_compute_are_told_though_one_begins_earlier(alone_ms, waits_ms, is_told):
    """Two threads wait as long as they hold, or somewhat less if they have too few cores; before that, one computes alone."""
    script = Script().hold(0, 0, alone_ms, forced=True)
    at_ms = alone_ms
    for turn in range(100):
        script.wait(turn % 2 == 0, at_ms - waits_ms, asks_ms=at_ms)
        script.hold(turn % 2 == 0, at_ms, at_ms + 5, forced=True)
        at_ms += 5
    found = told(script.trace(at_ms + 1, "a", "b"))

    assert ("saturated" in found) == is_told


def in_two_runs(*, beside):
    """Return a trace of two pairs of threads that compute, one pair after the other; with `beside`, none of them ends."""
    script = Script()
    for turn in range(120):
        who, now = turn % 2 + 2 * (turn >= 60), 5 * turn
        if turn % 60 >= 2:
            script.wait(who, now - 5, stack=AT_COMPUTE)
        script.hold(who, now, now + 5, forced=True)
    trace = script.trace(600, "a", "b", "c", "d")
    middle_ns = trace.start_ns + 300 * MS
    lives = [(trace.start_ns, None if beside else middle_ns)] * 2 + [(middle_ns, None)] * 2
    threads = [
        replace(one, start_ns=since_ns, end_ns=until_ns)
        for one, (since_ns, until_ns) in zip(trace.threads, lives, strict=True)
    ]
    return replace(trace, threads=tuple(threads))


@pytest.mark.parametrize(
    ("beside", "said"), [(False, "shared it, at most 2 of them at a time, and"), (True, "shared it, and")]
)
def test_threads_that_never_live_at_the_same_time_are_told_as_such(beside, said):
    """A program that embeds Python may begin it twice: the threads of both runs share no GIL with each other."""
    one = told(in_two_runs(beside=beside))["saturated"]

    assert f"4 CPU-bound threads (a, b, c and d) {said} waited" in one.fact


def test_threads_of_which_one_at_a_time_lives_do_not_share_the_gil():
    """Threads that compute one after the other wait for other threads, and not for each other."""
    trace = in_two_runs(beside=True)
    lives = [(trace.start_ns + 150 * n * MS, trace.start_ns + 150 * (n + 1) * MS) for n in range(4)]
    threads = [
        replace(one, start_ns=since_ns, end_ns=until_ns)
        for one, (since_ns, until_ns) in zip(trace.threads, lives, strict=True)
    ]

    assert "saturated" not in told(replace(trace, threads=tuple(threads)))


def in_requests(threads, stack=AT_RECV):
    """Return a trace of threads that each compute for 2 ms between blocking calls, so that the GIL is always held."""
    script = Script()
    for turn in range(10 * threads):
        who, now = turn % threads, 2 * turn
        if turn >= threads:
            script.wait(who, now - 2 * (threads - 1))
        script.hold(who, now, now + 2, stack=stack)
    return script.trace(20 * threads, *(f"worker-{number}" for number in range(threads)))


@pytest.mark.parametrize("threads", [3, 16, 100])
def test_threads_that_block_between_their_holds_use_a_gil_up_too(threads):
    """The workers of a busy server are never preempted, and wait for each other as threads that compute all the time do.

    The finding names the function that they wait for, if one is known.
    """
    one = told(in_requests(threads, stack=0))["saturated"]
    function = told(in_requests(threads))["behind-a-function"]
    names = "worker-0, worker-1 and worker-2" if threads == 3 else "worker-*"
    waited_ms = 2 * (threads - 1) * 9 * threads

    assert one.fact == (
        f"the GIL was held 100 % of the time; {threads} threads ({names}) shared it, and waited "
        f"{duration(waited_ms * MS)} for each other"
    )
    assert one.cost_ns == waited_ms * MS
    assert function.cause.startswith(one.fact)
    assert function.advice.endswith("more threads do not help")


@pytest.mark.parametrize("work_ms", [0.02, 0.8])
def test_short_waiters_behind_one_cpu_bound_thread_do_not_share_the_gil(work_ms):
    """Threads that each wait for a CPU-bound one are a convoy: the GIL is always held, but they do not want it at once."""
    found = told(convoy(rounds=80, waiters=("a", "b", "c", "d"), work_ms=work_ms))

    assert "saturated" not in found
    assert found


def test_threads_that_compute_a_little_behind_one_that_computes_do_not_share_the_gil():
    """Small jobs of a pool wait for a thread that has the GIL nearly always, and not for each other."""
    script, now = Script(), 0.0
    for turn in range(48):
        who = 1 + turn % 12
        script.wait(who, now + 1, asks_ms=now + 6)
        script.hold(0, now, now + 80, forced=True)
        script.wait(0, now + 80, stack=AT_COMPUTE)
        script.hold(who, now + 80, now + 81, forced=True)
        now += 81
    trace = script.hold(0, now, now + 1).trace(now + 1, "MainThread", *(f"pool-{number}" for number in range(12)))

    assert "saturated" not in told(trace)


LIBRARY = "/usr/lib/python3.11"
POOL_STACK = (
    Frame(f"{LIBRARY}/threading.py", 272, "Condition.__enter__", 271),
    Frame(f"{LIBRARY}/threading.py", 496, "Semaphore.release", 485),
    Frame(f"{LIBRARY}/concurrent/futures/thread.py", 90, "_worker", 69),
)
IDLE_STACK = (
    Frame(f"{LIBRARY}/site-packages/gevent/_threading.py", 69, "acquire_with_timeout", 50),
    Frame(f"{LIBRARY}/site-packages/gevent/threadpool.py", 69, "_WorkerGreenlet.run", 50),
)


def in_a_pool(threads, stack, *, hold_ms=5.0, away_ms=0.5, turns=40):
    """Return a trace of a pool's threads that compute in turn, and that end each hold at a stack of the pool's own.

    A thread is away for `away_ms` then, and waits for the GIL until the others have had their turns.
    """
    script = Script()
    for turn in range(turns):
        who, now = turn % threads, hold_ms * turn
        if turn >= threads:
            script.wait(who, now - hold_ms * (threads - 1) + away_ms, stack=1)
        script.hold(who, now, now + hold_ms, stack=1)
    return replace(
        script.trace(hold_ms * turns, *(f"pool-{number}" for number in range(threads))),
        frames=(UNKNOWN_FRAME, *stack),
        stack_frame=np.arange(len(stack) + 1),
        stack_parent=np.array([0, *range(2, len(stack) + 1), 0]),
    )


@pytest.mark.parametrize(("stack", "is_told"), [(POOL_STACK, True), (IDLE_STACK, False)])
def test_the_threads_of_a_pool_share_the_gil_though_they_take_a_lock_of_the_pool(stack, is_told):
    """A worker of `concurrent.futures` takes its pool's semaphore after each task; one of gevent awaits its work at a lock."""
    found = told(in_a_pool(4, stack))

    assert {"saturated", "contended-lock"} & set(found) == ({"saturated", "contended-lock"} if is_told else set())
    if is_told:
        assert "4 CPU-bound threads (pool-0, pool-1, pool-2 and pool-3) shared it" in found["saturated"].fact


@pytest.mark.parametrize(("away_ms", "is_told"), [(0.05, True), (0.5, False)])
def test_short_waits_for_a_lock_end_the_holds_of_threads_that_compute(away_ms, is_told):
    """Two threads that each compute for 2 ms until they block at a lock for a moment: that moment is the other one's wake-up."""
    found = told(in_a_pool(2, POOL_STACK, hold_ms=2.0, away_ms=away_ms))

    assert ("saturated" in found) is is_told
