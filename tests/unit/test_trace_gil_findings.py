"""The findings about a process with several GILs: each is told of its own threads, waits and switch interval."""

import io
from dataclasses import replace

import numpy as np
import pytest
from made_traces import MS
from rich.console import Console
from told_traces import AT_COMPUTE, AT_RECV, Script, told

from headway.report.trace.summary import summary_lines
from headway.report.trace.terminal import render_traces
from headway.sim.replay.bursts import see
from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded
from headway.traces.model import Kind


def beside_main():
    """Return a trace of a thread that has a GIL to itself, and that a busy main thread keeps waiting for the main GIL."""
    script, now = Script(), 0.0
    for _ in range(50):
        script.wait(1, now, asks_ms=now + 5)
        script.hold(0, now, now + 5, forced=True).wait(0, now + 5, stack=AT_COMPUTE)
        script.hold(1, now + 5, now + 5.02, stack=AT_RECV)
        script.hold(1, now + 5.02, now + 6, stack=AT_RECV, gil=1)
        script.hold(0, now + 5.02, now + 6)
        now += 6
    return script.trace(now, "MainThread", "interp-0", gils=2)


def shared(*, gils, turns=120, turn_ms=5.0, work_ms=0.01):
    """Return a trace of pairs of threads that compute at GILs of their own, after one of each has used the main GIL."""
    script, names = Script(), [f"{name}-{gil}" for gil in gils for name in ("host", "guest")]
    for pair, gil in enumerate(gils):
        script.hold(2 * pair, pair, pair + work_ms, stack=AT_RECV)
        now = 10.0
        for turn in range(turns):
            who = 2 * pair + turn % 2
            script.hold(who, now, now + turn_ms, forced=True, gil=gil)
            if turn + 2 < turns:
                script.wait(who, now + turn_ms, stack=AT_COMPUTE, gil=gil)
            now += turn_ms
    return script.trace(now, *names, gils=max(gils) + 1)


def convoy(*, of_ms=5.0, changes=(), **process):
    """Return a trace of a convoy at GIL 1, whose waits last `of_ms`; `changes` are (ms, us) of its switch interval."""
    script, now = Script(), 0.0
    for _ in range(40):
        script.wait(1, now, asks_ms=now + of_ms, gil=1)
        script.hold(0, now, now + of_ms, forced=True, gil=1).wait(0, now + of_ms, stack=AT_COMPUTE, gil=1)
        script.hold(1, now + of_ms, now + of_ms + 0.02, stack=AT_RECV, gil=1)
        now += of_ms + 0.02
    for at_ms, value_us in changes:
        script.add(at_ms, 0, Kind.INTERVAL, value_us, gil=1)
    script.add(now, 0, Kind.ACQUIRE, gil=1)
    return script.trace(now, "cruncher", "reader", gils=2, **process)


def test_a_gil_that_no_thread_waited_for_has_no_problem():
    """A thread's waits for the main GIL are no waits for its own, which nobody else uses."""
    found = analyse(beside_main()).findings

    assert {one.gil for one in found if one.weight == "problem"} == {0}
    assert not any("GIL 1" in one.fact for one in found)


def test_threads_share_the_gil_at_which_they_compute():
    """Two pairs of threads compute at GILs of their own; the main GIL, which one of each pair used once, is idle."""
    found = [one for one in analyse(shared(gils=(1, 2))).findings if one.kind == "saturated"]

    assert [one.gil for one in found] == [1, 2]
    for one in found:
        assert one.threads == (f"host-{one.gil}", f"guest-{one.gil}")
        assert "2 CPU-bound threads" in one.fact


def test_the_figures_of_a_gil_are_of_its_own_holds_and_waits():
    """Each GIL has the holds and waits of its threads there, which add up to those of the GIL."""
    analysis = analyse(beside_main())

    for gil in analysis.gils:
        assert sum(one.holds.total_ns for one in gil.by_thread) == gil.holds.total_ns
        assert sum(one.waits.total_ns for one in gil.by_thread) == gil.waits.total_ns
        assert all(one.gils == (gil.index,) for one in gil.by_thread)


def test_a_sub_interpreters_gil_has_the_default_interval_whatever_the_main_one_has():
    """The main GIL's interval of 1 ms is not that of GIL 1."""
    one = told(convoy(interval_us=1000))["convoy"]

    assert "(switch interval: 5 ms)" in one.fact
    assert one == told(convoy())["convoy"]


def test_a_convoy_at_a_short_interval_is_found_where_the_main_one_is_long():
    """The first event of a GIL tells its first interval: waits of 1 ms at GIL 1 are a convoy, though the main GIL has 5 ms."""
    trace = convoy(of_ms=1, changes=[(0, 1000)])

    assert "(switch interval: 1 ms)" in told(trace)["convoy"].fact
    assert analyse(trace).gils[0].interval_ns == 1 * MS
    assert analyse(trace).interval_ns == 5 * MS


def test_a_prediction_learns_the_interval_of_the_gil_that_it_replays():
    """The effect of a change at GIL 1 depends on the interval there."""
    trace = convoy(of_ms=1, changes=[(0, 1000)])

    assert see(trace, 1, trace.start_ns, trace.end_ns).interval_ns == 1 * MS


def test_an_interval_that_a_recording_tells_only_after_a_hold_has_changed():
    """Recordings of older versions have no first value of a sub-interpreter's GIL, which began with the default."""
    trace = convoy(of_ms=1, changes=[(10.5, 1000), (30.5, 2000)])
    times_ns = np.array([trace.start_ns + ms * MS for ms in (0, 10, 11, 31)])

    assert recorded(trace).interval_of(1).at(times_ns).tolist() == [5 * MS, 5 * MS, 1 * MS, 2 * MS]
    assert recorded(trace).interval_of(2).at(times_ns).tolist() == [5 * MS] * 4


def test_a_hold_is_late_by_the_interval_of_its_gil():
    """A call that keeps GIL 1 for 4 ms after a request is late at an interval of 1 ms, and not at the main GIL's of 5 ms."""

    def long(value_us):
        script = Script().add(0, 0, Kind.INTERVAL, value_us, gil=1)
        for number in range(20):
            now = number * 10
            script.wait(1, now, asks_ms=now + 1, gil=1).hold(0, now, now + 5, forced=True, gil=1, ran=1)
            script.hold(1, now + 5, now + 5.1, gil=1)
        return told(script.trace(200, "caller", "waiter", gils=2))

    assert "(switch interval: 1 ms;" in long(1000)["long-hold"].fact
    assert "long-hold" not in long(5000)


def test_hand_overs_at_a_short_interval_are_told_by_the_interval_of_their_gil():
    """A GIL that is free for a tenth of the time, because its own interval is short, is told the default."""
    script, now = Script().add(0, 0, Kind.INTERVAL, 100, gil=1), 0.0
    for number in range(200):
        if number > 1:
            script.wait(number % 2, now, stack=AT_COMPUTE, gil=1)
        script.hold(number % 2, now + 0.02, now + 0.12, forced=True, gil=1)
        now += 0.12
    one = told(script.trace(now, "one", "two", gils=2))["short-interval"]

    assert one.cause == "the switch interval is 100 us: 200 releases were forced"
    assert one.gil == 1


def behind(*, gils, ran=True):
    """Return a trace of two threads at each of the GILs, the first of which keeps the second waiting for `compute`."""
    script, names = Script(), []
    for gil in gils:
        holder = len(names)
        names += [f"host-{gil}", f"guest-{gil}"]
        for now in range(0, 2000, 100):
            script.hold(holder, now, now + 8, gil=gil, forced=ran).wait(holder + 1, now, gil=gil)
            script.hold(holder + 1, now + 8, now + 9, gil=gil, stack=AT_RECV)
    idle = len(names)
    script.hold(idle, 0, 1, gil=max(gils) + 1).hold(idle + 1, 1, 2, gil=max(gils) + 1)
    return script.trace(2000, *names, "idle-0", "idle-1", gils=max(gils) + 2)


def test_threads_behind_a_function_are_those_of_the_gil_that_is_waited_for():
    """Threads of a GIL that nobody waited for do not share the one behind whose holder others wait."""
    one = told(behind(gils=(0,)))["behind-a-function"]

    assert one.cause == "every thread that needs the main GIL meanwhile waits: 2 threads shared it"


def test_no_number_of_threads_is_told_where_several_gils_are_waited_for():
    """The threads behind a function that runs in several interpreters share no single GIL."""
    ran, ended = (told(behind(gils=(0, 1), ran=ran))["behind-a-function"] for ran in (True, False))

    assert ran.cause == "every thread that needs the same GIL meanwhile waits"
    assert ended.cause == "the trace does not show what such a hold ran before, because no thread requested its end"


@pytest.mark.parametrize(("wait_ms", "kind"), [(1, "no-contention"), (40, "waits")])
def test_waits_are_told_with_the_use_of_the_gil_that_was_waited_for(wait_ms, kind):
    """The share is that of the main GIL, for which a thread waited, and not of the busier GIL 1, which has one user."""
    script = Script().hold(0, 0, 900, gil=1)
    script.hold(1, 0, wait_ms).wait(2, 0).hold(2, wait_ms, wait_ms + 60).hold(1, 500, 900 - wait_ms - 100)
    found = told(script.trace(1000, "guest", "host", "reader", gils=2))

    assert found[kind].fact.endswith("the main GIL was held 36 % of the time")


def test_a_gil_that_came_late_is_told_with_the_time_for_which_it_existed():
    """A GIL that is held for half of its life has that share in its heading, in the summary and as the mean of its bars."""
    script = Script().hold(0, 0, 10).hold(1, 60, 80, gil=1)
    trace = script.trace(100, "MainThread", "guest", gils=2)
    gils = (trace.gils[0], replace(trace.gils[1], start_ns=trace.start_ns + 60 * MS))
    console = Console(file=io.StringIO(), width=100)
    found = analyse(replace(trace, gils=gils))
    console.print(render_traces([found]))
    lines = [line.strip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]

    at = lines.index("GIL 1: held 50 % of the 40 ms for which it existed, waited for 0 ns")
    assert [line.rpartition("mean ")[2] for line in (lines[at + 1], lines[at + 3])] == ["50 %", "50 %"]
    assert "Main GIL: held 10 % of the time, waited for 0 ns" in lines
    assert summary_lines([found])[1:3] == [
        "  GIL 1 held 50 % of the 40 ms for which it existed, no waits",
        "  the main GIL held 10 % of the time, no waits",
    ]


def test_a_finding_tells_for_how_long_its_gil_existed():
    """A GIL that was held for most of its short life was not held for most of the time."""
    script = Script().hold(0, 0, 100).hold(1, 990, 998, gil=1).wait(2, 992, gil=1).hold(2, 998, 999, gil=1)
    trace = script.trace(1000, "MainThread", "guest", "late", gils=2)
    gils = (trace.gils[0], replace(trace.gils[1], start_ns=trace.start_ns + 990 * MS))
    fact = told(replace(trace, gils=gils))["no-contention"].fact

    assert fact.endswith("GIL 1 was held 90 % of the 10 ms for which it existed")


def test_threads_of_a_sub_interpreter_are_not_told_to_become_what_they_are():
    """Its GIL is one of its own, which its threads share: only further interpreters, or processes, have others."""
    advice = told(convoy(python="3.14.0"))["convoy"].advice

    assert "InterpreterPoolExecutor" not in advice
    assert "further interpreters with a GIL each" in advice
    for one in analyse(shared(gils=(1, 2))).findings:
        assert one.kind != "saturated" or "further interpreters with a GIL each" in one.advice
