"""Calls that last until times of a clock, told from calls that last for a time, on made bursts with seeded noise."""

import numpy as np
import pytest
from made_turns import MS, US, trace_of, turn

from headway.native_sim import CLOCKS, OF_CLOCK, OpKind
from headway.sim.machine import load
from headway.sim.replay.bursts import Bursts
from headway.sim.replay.clocks import find_clocks, shrinks
from headway.sim.replay.learn import learn
from headway.traces.calls import Call

COSTS = load("preset")
PERIOD_NS = 10 * MS
AT_ONCE_NS = 15 * US


def bursts_of(starts_ns, gone_ns, *, stacks=None, runs_ns=None):
    """Return bursts that end at `starts_ns`, each with a call after it."""
    count = len(starts_ns)
    starts = np.array(starts_ns, dtype=np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    return Bursts(
        want_ns=starts,
        begin_ns=starts,
        end_ns=starts,
        run_ns=np.array([100 * US] * count if runs_ns is None else runs_ns, dtype=np.int64),
        stack=np.array([1] * count if stacks is None else stacks, dtype=np.uint32),
        away_ns=np.array(gone_ns, dtype=np.int64),
        away_cpu_ns=zeros - 1,
        handed=zeros.astype(bool),
        holds=zeros + 1,
        first_hold=np.arange(count),
        unfinished_ns=0,
        goes_on=False,
    )


def made(count, *, keeps, waits_ms=(0.0, 5.0), seed=1, calls_when_late=True, skips=False):
    """Return bursts of a thread whose calls last until a stroke each 10 ms (`keeps`), or for 10 ms."""
    rng = np.random.default_rng(seed)
    now, due, starts, gone, runs, run = 0.0, 0.0, [], [], [], 0
    while len(starts) < count:
        now += rng.uniform(*waits_ms) * MS + 100 * US
        run += 100 * US
        due += PERIOD_NS
        if skips:
            due += max(0, (now - due) // PERIOD_NS + 1) * PERIOD_NS
        until = max(now, due) if keeps else now + PERIOD_NS
        if until > now or calls_when_late:
            until += rng.exponential(20 * US)
            starts.append(now)
            gone.append(until - now)
            runs.append(run)
            run = 0
            now = until
    return bursts_of(starts, gone, runs_ns=runs)


def exact(count, *, keeps, seed):
    """Return bursts as `made` does whose calls end late by some microseconds, and by up to 60 us more at some times."""
    rng = np.random.default_rng(seed)
    now, starts, gone = 0.0, [], []
    for number in range(count):
        now += 5 * MS + rng.exponential(100 * US)
        starts.append(now)
        late_ns = rng.exponential(3 * US) + 30 * US * (1 + np.sin(number / 9 + seed))
        until = ((number + 1) * 2 * PERIOD_NS if keeps else now + 2 * PERIOD_NS) + late_ns
        gone.append(until - now)
        now = until
    return bursts_of(starts, gone)


def clocks_of(bursts, *, kind=Call.SLEEP, others=None):
    others = np.zeros(len(bursts), dtype=bool) if others is None else others
    return find_clocks(bursts, {1: kind, 2: Call.SLEEP}, others, AT_ONCE_NS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [64, 500])
def test_calls_that_end_at_strokes_are_on_a_clock_and_others_are_not(count, seed):
    """The period is found within 1 %; calls of one length, beside the same waits, are on no clock."""
    found = clocks_of(made(count, keeps=True, seed=seed))
    assert found.periods_ns == pytest.approx((PERIOD_NS,), rel=0.01)
    assert (found.of == 0).all()
    assert found.moves_ns == pytest.approx(np.full(count, PERIOD_NS), rel=0.01)
    assert clocks_of(made(count, keeps=False, seed=seed)).periods_ns == ()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [64, 171])
def test_exact_ends_that_drift_a_little_are_on_a_clock(count, seed):
    """Wake-ups are late by tens of microseconds more at some times than at others: the more exact, the more that shows.

    Sleeps of one length whose ends drift by as little are on no clock.
    """
    found = clocks_of(exact(count, keeps=True, seed=seed))
    assert found.periods_ns == pytest.approx((2 * PERIOD_NS,), rel=0.001)
    assert (found.of == 0).all()
    assert clocks_of(exact(count, keeps=False, seed=seed)).periods_ns == ()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [Call.RUN, Call.SEND])
def test_calls_that_wait_for_no_time_are_on_no_clock(kind, seed):
    """A call that computes or sends ends when it is done."""
    assert clocks_of(made(100, keeps=True, seed=seed), kind=kind).periods_ns == ()


def test_a_thread_that_is_late_and_makes_no_call_then_has_its_strokes_counted():
    """The next call moves the clock on by all the strokes since the last call, and the work between was as much more."""
    found = clocks_of(made(400, keeps=True, waits_ms=(0.0, 18.0), calls_when_late=False))
    assert found.periods_ns == pytest.approx((PERIOD_NS,), rel=0.01)
    strokes = np.rint(found.moves_ns / found.periods_ns[0])
    assert set(np.unique(strokes)) >= {1, 2}


def test_a_thread_that_leaves_missed_strokes_out_does_not_catch_up():
    """Its work between two calls is the same, so each call moves the clock on by one stroke in the model."""
    found = clocks_of(made(400, keeps=True, waits_ms=(0.0, 14.0), skips=True))
    assert found.periods_ns == pytest.approx((PERIOD_NS,), rel=0.01)
    assert len(np.unique(found.moves_ns)) == 1


def test_calls_that_wait_for_another_thread_are_left_alone():
    """A consumer of what a thread with a clock produces follows that thread, and not a clock of its own."""
    bursts = made(100, keeps=True)
    assert clocks_of(bursts, others=np.ones(100, dtype=bool)).periods_ns == ()


def test_an_event_loops_short_polls_are_not_those_of_its_timer():
    """A loop polls without a wait between two of its timer; only the long polls are on its clock."""
    timer = made(100, keeps=True)
    starts = np.repeat(timer.end_ns, 2)
    starts[1::2] += timer.away_ns + 20 * US
    gone = np.repeat(timer.away_ns, 2)
    gone[1::2] = 2 * US
    found = clocks_of(bursts_of(starts, gone), kind=Call.POLL)
    assert found.periods_ns == pytest.approx((PERIOD_NS,), rel=0.01)
    assert found.of.tolist() == [0, -1] * 100


def test_few_calls_and_calls_without_noise_tell_nothing():
    """A clock needs enough calls; where nothing differs, both kinds of calls look the same."""
    assert clocks_of(made(31, keeps=True)).periods_ns == ()
    steady = bursts_of(np.arange(100) * PERIOD_NS, np.full(100, 9 * MS))
    assert clocks_of(steady).periods_ns == ()


def test_no_more_clocks_are_found_than_the_simulator_has():
    """Places beyond the simulator's number of clocks are replayed as recorded."""
    one = made(40, keeps=True)
    many = CLOCKS + 2
    starts = np.concatenate([one.end_ns + n * 1000 * MS for n in range(many)])
    stacks = np.repeat(np.arange(1, many + 1), 40)
    bursts = bursts_of(starts, np.tile(one.away_ns, many), stacks=stacks)
    found = find_clocks(bursts, dict.fromkeys(range(1, many + 1), Call.SLEEP), np.zeros(len(bursts), bool), AT_ONCE_NS)
    assert len(found.periods_ns) == CLOCKS
    assert found.of.max() == CLOCKS - 1


def test_calls_that_shrink_with_the_wait_before_them_are_seen_without_a_clock():
    """A call until a time that is different for each call is the shorter the later it begins."""
    rng = np.random.default_rng(3)
    gaps = rng.uniform(8, 16, 200) * MS
    waits = rng.uniform(0, 7, 200) * MS
    starts = np.cumsum(gaps) - gaps + waits
    bursts = bursts_of(starts, gaps - waits)
    assert clocks_of(bursts).periods_ns == ()
    assert shrinks(bursts, np.arange(200))
    steady = made(200, keeps=False)
    assert not shrinks(steady, np.arange(200))
    assert not shrinks(bursts, np.arange(31))


def test_a_models_thread_on_a_clock_sleeps_until_its_strokes_and_says_so():
    """The operations have the clock and its period, and the model names the clock and its period."""
    rng = np.random.default_rng(5)
    rows = []
    for n in range(1, 80):
        woken_us = n * 10_000 + int(rng.integers(5, 60))
        rows += turn(woken_us, 1, waits_us=int(rng.integers(1, 5000)), holds_us=100, stack=2)
    model = learn(trace_of(rows), COSTS, {1: Call.UNKNOWN, 2: Call.SLEEP})
    (actor,) = model.actors
    sleeps = actor.ops[actor.ops["kind"] == OpKind.SLEEP]
    assert len(sleeps) >= 60
    assert (sleeps["flags"][:-1] == OF_CLOCK).all()
    assert sleeps["value"][:-1] == pytest.approx(np.full(len(sleeps) - 1, PERIOD_NS), rel=0.01)
    assert [one.text for one in model.rests_on if one.role == actor.role] == [
        "other keeps a clock of 10 ms, as in the trace: it waits until fixed times, and catches up when it was late"
    ]


def test_sleeps_until_times_that_are_not_known_are_outside_the_model():
    """Sleeps that are the shorter the longer the thread waited before are repeated, and a line says so."""
    rng = np.random.default_rng(6)
    rows, at_us = [], 0
    for _ in range(160):
        wait_us = int(rng.integers(1, 5000))
        rows += turn(at_us, 1, waits_us=wait_us, holds_us=100, stack=2)
        at_us += int(rng.integers(6000, 12000))
    model = learn(trace_of(rows, until_ns=2200 * MS), COSTS, {1: Call.UNKNOWN, 2: Call.SLEEP})
    assert any("sleeps the less the longer it waited before" in one for one in model.outside)


def test_receives_of_a_peer_keep_no_clock():
    """A receive is replayed with the time in which its peer answers, also if the peer answers at times of a clock."""
    rng = np.random.default_rng(1)
    rows = []
    for stroke_us in range(0, 2_000_000, 10_000):
        work_us = int(rng.uniform(100, 5000))
        rows += turn(stroke_us + int(rng.exponential(10)), 0, holds_us=work_us, stack=2)
        rows += turn(stroke_us + work_us + 200, 0, holds_us=5, stack=1)
    calls = {0: Call.UNKNOWN, 1: Call.RECEIVE, 2: Call.SEND}

    model = learn(trace_of(rows, until_ns=rows[-1][0] * US), COSTS, calls)

    assert OpKind.ANSWER in model.actors[0].ops["kind"]
    assert not any("keeps a clock" in one.text for one in model.rests_on)
