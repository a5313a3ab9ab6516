"""The findings about hand-overs of the GIL, in traces on paper."""

from dataclasses import replace

import numpy as np
import pytest
from told_traces import AT_RECV, AT_SERVE, Script, shared, told

from headway.traces.model import Frame


def test_a_short_switch_interval_is_told_with_its_cost():
    """Forced hand-offs that leave the GIL free for a fifth of the time come from an interval of 0.1 ms."""
    one = told(shared(turn_ms=0.1, gap_ms=0.025, interval_us=100))["short-interval"]

    assert one.fact.startswith("the GIL was handed to a waiter 57 times (7,")
    assert "19 % of the time" in one.fact
    assert "`sys.setswitchinterval(0.005)` is the default" in one.advice


def test_many_blocking_calls_are_told_with_the_line_that_makes_most():
    """The advice for many short holds that end by themselves is to do more in each call, at the most frequent line."""
    one = told(shared(turn_ms=0.1, gap_ms=0.025, forced=False))["hand-overs"]

    assert one.cause == (
        "many short turns: the holds before these hand-overs last 100 us at the median, and 100 % of them end with a "
        "blocking call"
    )
    assert one.advice.endswith("the most frequent call that handed the GIL on (57 times) is at app.py:12 compute")


def test_waits_that_begin_at_a_free_gil_are_told_without_advice():
    """No hold ended with a waiter, so nothing is known of its end, and no other call would have helped."""
    script, now = Script(), 0.0
    for turn in range(60):
        script.wait(turn % 2, now, stack=AT_RECV).hold(turn % 2, now + 0.025, now + 0.1)
        now += 0.125
    one = told(script.trace(now, "one", "other"))["hand-overs"]

    assert (
        one.cause == "no thread waited when the GIL was released: those that came later needed 25 us each to acquire it"
    )
    assert one.advice == ""


def of_tasks(*, ends, frames):
    """Return a trace in which a thread hands the GIL to 60 others, each of which may end with its hold."""
    script, now = Script(), 0.0
    for task in range(1, 61):
        script.hold(0, now, now + 0.1, stack=1).wait(task, now + 0.05)
        script.hold(task, now + 0.15, now + 0.25, stack=0).wait(0, now + 0.2)
        now += 0.3
    trace = script.trace(now, "MainThread", *(f"task-{task}" for task in range(60)))
    threading = (Frame("/usr/lib/python3.13/threading.py", 300 + at, each, 300) for at, each in enumerate(frames))
    return replace(
        trace,
        threads=(trace.threads[0], *(replace(one, end_ns=trace.end_ns if ends else None) for one in trace.threads[1:])),
        frames=(*trace.frames[:2], *threading),
        stack_parent=np.array([0, 2, 3, 4, 0]),
        stack_frame=np.array([0, 4, 3, 2, 1]),
    )


@pytest.mark.parametrize("frames", [("Thread.start", "Event.wait", "Condition.wait"), ("start", "wait", "wait")])
def test_a_thread_for_each_task_is_told_to_use_a_pool(frames):
    """A program that starts a thread for each task hands the GIL on at each start and at each end."""
    one = told(of_tasks(ends=True, frames=frames))["hand-overs"]

    assert one.cause.endswith("100 % of them are at the start or the end of a thread")
    assert one.advice == (
        "use a pool, which keeps its threads (`concurrent.futures.ThreadPoolExecutor`); most threads are started at "
        "app.py:12 compute"
    )


def test_threads_that_live_on_are_not_told_to_use_a_pool():
    """A hand-over in the middle of a thread's life is that of a blocking call, also at the end of a hold without a stack."""
    one = told(of_tasks(ends=False, frames=("Thread.join", "Event.wait", "Condition.wait")))["hand-overs"]

    assert one.cause.endswith("100 % of them end with a blocking call")
    assert one.advice.startswith("do more work per blocking call")


@pytest.mark.parametrize(
    ("gap_ms", "why"), [(0.05, "many short turns: "), (0.5, "the next thread woke up 500 us after the release")]
)
def test_holds_that_end_without_a_waiter_do_not_explain_hand_overs(gap_ms, why):
    """The imports release the GIL hundreds of times before the program has a second thread, and hand it to no thread."""
    script, now = Script(), 0.0
    for _ in range(500):
        script.hold(0, now, now + 0.002, stack=AT_RECV)
        now += 0.004
    for turn in range(60):
        script.hold(turn % 2, now, now + 0.1, stack=AT_SERVE).wait(1 - turn % 2, now + 0.05)
        now += 0.1 + gap_ms
    one = told(script.trace(now, "MainThread", "other"))["hand-overs"]

    assert one.cause.startswith(why)
    assert "2 us" not in one.cause
    assert one.advice.endswith("the most frequent call that handed the GIL on (59 times) is at app.py:30 serve")


@pytest.mark.parametrize(("wake_up_ms", "kinds"), [(0.03, {"hand-overs"}), (0.3, {"hand-overs", "late-wake-up"})])
def test_threads_that_play_ping_pong_are_not_told_to_get_cores(wake_up_ms, kinds):
    """Thousands of wake-ups of 30 us each are the cost of many short turns, which more cores do not change."""
    script, now = Script(), 0.0
    for turn in range(1000):
        script.hold(turn % 2, now, now + 0.003, stack=AT_RECV).wait(1 - turn % 2, now + 0.002)
        now += 0.003 + wake_up_ms
    found = told(script.trace(now, "ping", "pong"))

    assert {kind for kind, one in found.items() if one.weight == "problem"} == kinds


def turns_of_two(count, wait_ms):
    """Return the findings of a run of 12 ms in which two threads hand the GIL to each other a few times."""
    script, now = Script(), 0.0
    for turn in range(count):
        script.hold(turn % 2, now, now + 0.1, stack=AT_SERVE).wait(1 - turn % 2, now + 0.05)
        now += 0.1 + wait_ms
    return told(script.hold(count % 2, now, 12).trace(12, "MainThread", "other"))


def test_a_few_short_hand_overs_of_a_short_run_are_no_problem():
    """Two hand-overs that leave the GIL free for 0.8 ms are no pattern, although that is 7 % of a run of 12 ms."""
    found = turns_of_two(2, 0.4)

    assert [one.kind for one in found.values() if one.weight == "problem"] == []
    assert found["no-contention"].fact.startswith(
        "no thread waited for the GIL for more than a moment; MainThread waited longest, 450 us in 1 wait; "
    )


@pytest.mark.parametrize(("count", "wait_ms", "kind"), [(2, 1.5, "waits"), (12, 0.4, "hand-overs")])
def test_long_or_many_hand_overs_of_a_short_run_are_a_problem(count, wait_ms, kind):
    """Waits of more than a millisecond are told, and so are ten hand-overs."""
    assert turns_of_two(count, wait_ms)[kind].weight == "problem"
