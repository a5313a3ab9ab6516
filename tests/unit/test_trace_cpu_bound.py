"""A thread is CPU-bound if it computes in preempted holds: to be without a core in one of them is no computing."""

import pytest
from told_traces import AT_COMPUTE, AT_RECV, Script, shared

from headway.traces.analysis import analyse

ROUND_MS = 40


def sleepers(*, threads: int = 12, ran: float = 0.01, preempted_rounds: int = 20):
    """Return a trace of threads that sleep, each preempted in its turn in a hold for which its core was another's."""
    script = Script()
    for number in range(20):
        begin = number * ROUND_MS * threads
        for thread in range(threads):
            now, other = begin + thread * ROUND_MS, (thread + 1) % threads
            if number < preempted_rounds:
                script.wait(other, now, asks_ms=now + 5).hold(thread, now, now + 30, forced=True, ran=ran)
                script.wait(thread, now + 30, stack=AT_COMPUTE).hold(
                    other, now + 30, now + 30.05, stack=AT_RECV, ran=1.0
                )
                script.hold(thread, now + 30.1, now + 30.15, stack=AT_RECV, ran=1.0)
            else:
                script.hold(thread, now, now + 0.05, stack=AT_RECV, ran=1.0)
    return script.trace(20 * ROUND_MS * threads, *(f"sleeper {number}" for number in range(threads)))


def test_threads_that_had_no_core_in_preempted_holds_do_not_compute():
    """Sleeping threads that lose their cores are preempted, and no more CPU-bound threads than before."""
    found = analyse(sleepers())

    assert all(one.forced > 1 and one.forced_ns > one.holds.total_ns / 2 for one in found.threads)
    assert not any(one.computes for one in found.threads)
    assert not any("CPU-bound" in one.fact for one in found.findings)


@pytest.mark.parametrize(("ran", "computes"), [(1.0, True), (0.3, True), (0.01, False)])
def test_a_thread_computes_with_a_part_of_a_core_too(ran, computes):
    """The part of the time in which other programs had its core tells nothing of what the thread does in the rest."""
    assert {one.computes for one in analyse(sleepers(ran=ran)).threads} == {computes}


def test_one_preempted_hold_among_many_is_no_computing():
    """A thread that computed for 30 ms once, and sleeps otherwise, is not CPU-bound, though most of its time is in that hold."""
    found = analyse(sleepers(ran=1.0, preempted_rounds=1))

    assert all(one.forced == 1 and one.forced_ns > one.holds.total_ns / 2 for one in found.threads)
    assert not any(one.computes for one in found.threads)


def test_threads_of_a_short_trace_compute_with_one_preempted_hold():
    """Four threads that compute for 40 ms have had two turns each, and two for 10 ms one: there is nothing else to go by."""
    for trace in (shared(threads=4, turns=8), shared(threads=2, turns=2)):
        assert all(one.computes for one in analyse(trace).threads)
