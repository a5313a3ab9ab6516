"""Other programs that had the cores: what a trace tells of them, and the threads that stand for them in a replay."""

from dataclasses import replace

import numpy as np
import pytest
from made_turns import MS, US, ran, trace_of, turn

from headway.native_sim import OF_DIST, OpKind
from headway.sim.machine import load
from headway.sim.replay import crowded as module
from headway.sim.replay.bursts import see
from headway.sim.replay.change import NOTHING, Change, specify
from headway.sim.replay.crowded import crowded, let_in_ns
from headway.sim.replay.learn import learn
from headway.sim.replay.others import crowd, without_a_core
from headway.traces.model import Flag, Kind

COSTS = load("preset")


def holding(on_core=1.0, *, let_in_us=0, forced=True, rounds=250, stops=()):
    """Return the trace of two threads that hold the GIL for 4 ms in turn, and run for a part of each hold.

    A thread has the GIL some time after the other one released it. Each of the `stops` is a hold of 400 ms off the cores.
    """
    rows, runs, at = [], [], 0
    for n in range(rounds):
        holds_us = 400_000 if n in stops else 4_000
        rows += [(at, n % 2, Kind.ACQUIRE, 0), (at + holds_us, n % 2, Kind.RELEASE, 1, forced)]
        rows += [] if forced or n == 0 else [(at - let_in_us - 3_990, n % 2, Kind.WAIT, 1)]
        runs.append(ran(0.0 if n in stops else on_core))
        at += holds_us + let_in_us
    trace = trace_of(rows, until_ns=at * US, core_count=2)
    trace.events["flags"][trace.events["kind"] == Kind.RELEASE] |= np.array(runs, dtype=trace.events["flags"].dtype)
    return trace


def test_a_thread_is_let_in_from_the_first_release_on():
    """The holder may take the GIL again and again before a thread has it that slept for it.

    A thread that did not sleep yet does not count. A preempted thread wants the GIL from its release on.
    """
    rows = [
        (0, 1, Kind.ACQUIRE, 0),
        (1_000, 1, Kind.RELEASE, 1, True),
        *turn(1_010, 0, holds_us=30, stack=2),  # too early: thread 1 has not fallen asleep
        *turn(1_100, 0, holds_us=100, stack=2),  # thread 1 could have the GIL from 1,200 us on
        *turn(1_210, 0, holds_us=100, stack=2),
        (1_500, 1, Kind.ACQUIRE, 0),
        *turn(1_520, 0, waits_us=480, holds_us=10, stack=2),  # thread 0 gets it at once
    ]
    rows += [(1_990, 1, Kind.RELEASE, 1, True), (2_020, 1, Kind.ACQUIRE, 0), (2_030, 1, Kind.RELEASE, 1)]
    seen = see(trace_of(rows, until_ns=3 * MS), 0, 0, 3 * MS)
    assert sorted(let_in_ns(seen).tolist()) == [10 * US, 300 * US]
    assert len(let_in_ns(see(trace_of(rows[:2], until_ns=3 * MS), 0, 0, 3 * MS))) == 0


def test_only_long_holds_tell_of_the_cores():
    """The recorder measures holds of a millisecond and longer, so a simulated hold that is shorter tells nothing either."""
    rows = [
        *turn(0, 0, holds_us=3_000, stack=1),
        *turn(4_000, 0, holds_us=900, stack=1),
        *turn(6_000, 0, holds_us=100, stack=1),
    ]
    trace = trace_of(rows, until_ns=10 * MS)
    trace.events["flags"][trace.events["kind"] == Kind.RELEASE] |= ran(0.5)
    assert without_a_core(see(trace, 0, 0, 10 * MS).holds) == pytest.approx(1500 / 4000, abs=0.002)


@pytest.mark.parametrize(("others", "each", "share"), [(0.5, 1, 0.25), (2.0, 1, 1.0), (3.0, 2, 0.75), (8.0, 4, 1.0)])
def test_each_core_has_as_many_threads_of_other_programs(others, each, share):
    """Threads that want a part of a core compute for that part of the time, and the others all the time."""
    roles, dists = crowd(others, 2, 3)
    assert [(one.threads, one.cores, one.gil) for one in roles] == [(each, 0b01, -1), (each, 0b10, -1)]
    for one in roles:
        ops = np.asarray(one.ops)
        if share == 1:
            assert ops["kind"].tolist() == [OpKind.COMPUTE]
        else:
            assert ops["kind"].tolist() == [OpKind.HOLD, OpKind.BLOCK]
            assert ops["index"].tolist() == [3, 4]
            assert set(ops["flags"].tolist()) == {OF_DIST}
            computes_ns, pauses_ns = map(np.mean, dists)
            assert computes_ns / (computes_ns + pauses_ns) == pytest.approx(share)
    assert crowd(0.0, 2, 0) == ((), ())


def test_other_programs_are_there_with_any_change_and_have_no_figures():
    """They come after the program's roles; fewer cores have their share of them, and more cores have all of them."""
    model = replace(learn(holding(), COSTS), others=4.0)
    for change, threads in ((NOTHING, 4), (Change(policy="fair"), 4), (Change(cores=1), 2), (Change(cores=4), 4)):
        spec, replayed = specify(model, change, COSTS, 1, MS, cores=2)
        assert [one.role for one in replayed] == ["main", "other"]
        assert sum(one.threads for one in spec.roles[2:]) == threads
        assert all(one.gil == -1 for one in spec.roles[2:])
    spec, _ = specify(replace(model, others=0.0), NOTHING, COSTS, 1, MS, cores=2)
    assert len(spec.roles) == 2


def test_other_programs_are_on_as_many_cores_as_the_simulator_has():
    """Of more than 64 cores, each of the simulated ones keeps its share of the other programs; no mask means all cores."""
    model = replace(learn(holding(), COSTS), others=256.0)
    spec, _ = specify(model, NOTHING, COSTS, 1, MS, cores=128)
    assert [one.cores for one in spec.roles[2:]] == [1 << core for core in range(64)]
    assert {one.threads for one in spec.roles[2:]} == {2}


def test_threads_that_had_their_cores_have_no_other_programs_beside_them():
    """A trace of a calm machine is learned as it is, without a simulation."""
    model = learn(holding(0.99), COSTS)
    assert crowded(model, COSTS, 2) is model


@pytest.mark.parametrize(("on_core", "let_in_us"), [(0.6, 300), (0.3, 8_000)])
def test_other_programs_take_what_the_trace_tells(on_core, let_in_us):
    """Threads that had a core for a part of their holds have it for as much of them in the replay."""
    model = crowded(learn(holding(on_core, let_in_us=let_in_us), COSTS), COSTS, 2)
    (told,) = [one.text for one in model.rests_on if "without running on a core" in one.text]
    assert told.startswith(
        f"threads held the GIL without running on a core for {100 * (1 - on_core):.0f} % of the time"
    )
    assert "record again on a calm machine" in told
    trace = module.predicted_trace(model, NOTHING, COSTS, cores=2, length_ns=1_000 * MS)
    share = without_a_core(see(trace, 0, trace.start_ns, trace.end_ns).holds)
    assert share == pytest.approx(1 - on_core, abs=0.1)


@pytest.mark.parametrize("on_core", [0.9, 0.7, 0.5, 0.3, 0.1, 0.0])
def test_threads_that_sleep_with_the_gil_have_no_other_programs_beside_them(on_core):
    """They sleep in a call of C that keeps the GIL: the next thread has a core at once when the GIL is released."""
    model = learn(holding(on_core, let_in_us=40, forced=False), COSTS)
    assert np.median(let_in_ns(model.seen)) == 40 * US
    assert crowded(model, COSTS, 2) is model


def test_a_lone_thread_has_no_other_programs_beside_it():
    """Nobody waits for the GIL there, so only one of the two figures is known."""
    trace = trace_of([row for at in range(0, 900_000, 6_000) for row in turn(at, 0, holds_us=4_000, stack=1)])
    trace.events["flags"][trace.events["kind"] == Kind.RELEASE] |= ran(0.5)
    model = learn(trace, COSTS)
    assert without_a_core(model.seen.holds) == pytest.approx(0.5, abs=0.01)
    assert crowded(model, COSTS, 2) is model


@pytest.mark.parametrize("stops", [(100,), (80, 90, 100, 110, 120)])
def test_a_few_stops_are_no_other_programs(stops):
    """A stopped process, or a page that is read from a disk, takes a holder's core for long, but in few holds."""
    model = learn(holding(0.99, let_in_us=3_000, stops=stops), COSTS)
    assert without_a_core(model.seen.holds) > 0.2
    assert crowded(model, COSTS, 2) is model


def test_a_stop_beside_a_few_lost_cores_is_no_crowd():
    """The holds that were longest without a core tell nothing, also where a dozen others lost it for a part of their time."""
    trace = holding(0.99, let_in_us=300, stops=(100,))
    releases = np.flatnonzero(trace.events["kind"] == Kind.RELEASE)[110:122]
    trace.events["flags"][releases] = trace.events["flags"][releases] & Flag.FORCED | ran(0.8)
    model = learn(trace, COSTS)
    assert without_a_core(model.seen.holds) > 0.2
    assert crowded(model, COSTS, 2) is model


def test_a_replay_is_compared_with_all_of_the_window(monkeypatch):
    """Threads that begin late begin as late in a replay that is shorter than the window, also if its events end it earlier."""
    model = learn(holding(0.6, let_in_us=3_000, rounds=1_000), COSTS)
    actors = tuple(replace(one, begin_ns=n * model.seen.elapsed_ns // 2) for n, one in enumerate(model.actors))
    begins = []
    predicted_trace = module.predicted_trace

    def noted(one, *words, length_ns, **settings):
        begins.append(one.actors[1].begin_ns / length_ns)
        return predicted_trace(one, *words, length_ns=length_ns, **settings)

    monkeypatch.setattr(module, "predicted_trace", noted)
    crowded(replace(model, actors=actors), COSTS, 2)
    assert begins == pytest.approx([0.5] * len(begins), abs=0.001)
    assert len(begins) > 1
    del begins[:]
    monkeypatch.setattr(module, "_MOST_EVENTS", 300)
    crowded(replace(model, actors=actors), COSTS, 2)
    assert begins == pytest.approx([0.5] * len(begins), abs=0.001)


@pytest.mark.parametrize(
    ("others", "words"), [(1, "1 core "), (0.7, "0.7 cores "), (22, "22 cores "), (128, "128 cores ")]
)
def test_the_number_of_cores_is_told_in_plain_digits(others, words):
    """One core is no cores, and a large number has no exponent."""
    (told,) = module._told(learn(holding(), COSTS), 0.4, others)
    assert f"want {words}all the time" in told.text
    assert "a CPU quota" in told.text
