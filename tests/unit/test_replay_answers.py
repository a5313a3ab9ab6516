"""From a trace to a model: how soon threads release the GIL when they are asked to."""

import numpy as np
import pytest
from made_turns import MS, US, ran, trace_of

from headway.sim import whatif
from headway.sim.machine import load
from headway.sim.replay.answers import find_answers
from headway.sim.replay.bursts import see
from headway.sim.replay.change import NOTHING, Change, specify
from headway.sim.replay.learn import learn
from headway.sim.whatif import predict
from headway.traces.model import Kind

COSTS = load("preset")


def asked(answers_us, *, ran_share=1.0):
    """Return a trace of two threads that take turns; `main` answers each request after one of the times."""
    rows, flags, at = [], [], 0
    for answer_us in answers_us:
        rows += [(at, 0, Kind.ACQUIRE, 0), (at + 1, 1, Kind.WAIT, 2), (at + 5001, 1, Kind.REQUEST, 0)]
        rows += [(at + 5001 + answer_us, 0, Kind.RELEASE, 1, True)]
        at += 5002 + answer_us
        rows += [(at, 1, Kind.ACQUIRE, 0), (at + 1, 0, Kind.WAIT, 1), (at + 5001, 0, Kind.REQUEST, 0)]
        rows += [(at + 5001 + 30, 1, Kind.RELEASE, 2, True)]
        flags += [0, 0, 0, ran(ran_share), 0, 0, 0, ran(1.0)]
        at += 5002 + 30
    trace = trace_of(rows, until_ns=at * US, core_count=2)
    trace.events["flags"] |= np.array(flags, dtype=np.uint16)
    return trace


def answers_of(trace):
    return find_answers(see(trace, 0, 0, trace.end_ns), COSTS, trace.process.core_count)


def test_a_thread_in_calls_of_c_answers_late_and_the_others_do_not():
    """The answers of a thread that keeps the GIL in calls of C are its own, and no part of the others' cost."""
    trace = asked([100 * n for n in range(1, 21)] * 2)
    found = answers_of(trace)
    assert list(found.late) == [0]
    assert found.late[0][0] == 100 * US
    assert found.late[0][-1] == 2000 * US
    assert set(found.own_costs["pending"]) == {30 * US}
    model = learn(trace, COSTS)
    assert [one.answers for one in model.actors] == [1, 0]
    spec, _ = specify(model, NOTHING, COSTS, 7, MS, cores=2)
    assert [one.answers for one in spec.roles] == [1, 0]
    assert len(spec.dists) == 1
    assert spec.dists == model.dists


@pytest.mark.parametrize(
    ("answers_us", "ran_share"),
    [([2000] + [5] * 39, 1.0), ([2000] * 40, 0.5)],
    ids=["one late answer", "no core"],
)
def test_an_answer_that_is_late_for_another_reason_is_no_call_of_c(answers_us, ran_share):
    """A single late answer, and answers of a thread that waited for a core, do not make a thread one of calls of C."""
    assert not answers_of(asked(answers_us, ran_share=ran_share)).late


@pytest.mark.parametrize(
    ("answers_us", "found"),
    [([180_000] * 2, []), ([180_000] * 3, [0]), ([180_000] * 8, [0]), ([180_000] * 7 + [5], []), ([5] * 8, [])],
    ids=["two", "three", "eight", "one is prompt", "all are prompt"],
)
def test_a_few_answers_are_late_if_all_are(answers_us, found):
    """Eight calls of 180 ms fill a second, and no policy can end one sooner; one prompt answer leaves that open."""
    assert list(answers_of(asked(answers_us)).late) == found


def in_calls(call_us, *, turns=40, ran_share=1.0):
    """Return a trace of `main`, which calls C for so long in each hold, and of a thread that comes 2 ms after its begin."""
    return in_varied_calls([call_us] * turns, ran_share=ran_share)


def in_varied_calls(calls_us, *, stack_of=lambda _: 1, ran_share=1.0):
    """Return the same for holds of these lengths, each of which ends at its stack."""
    rows, flags, at = [], [], 0
    for call_us in calls_us:
        rows += [(at, 0, Kind.ACQUIRE, 0), (at + 2000, 1, Kind.WAIT, 2), (at + 7000, 1, Kind.REQUEST, 0)]
        rows += [(at + call_us, 0, Kind.RELEASE, stack_of(call_us), True), (at + call_us, 0, Kind.WAIT, 1)]
        at += call_us + 20
        rows += [(at, 1, Kind.ACQUIRE, 0), (at + 40, 1, Kind.RELEASE, 2)]
        flags += [0, 0, 0, ran(ran_share), 0, 0, 0]
        at += 60
    trace = trace_of(rows, until_ns=at * US, core_count=2)
    trace.events["flags"] |= np.array(flags, dtype=np.uint16)
    return trace


def test_a_call_that_begins_with_a_hold_is_learned_with_its_length():
    """Each hold is one call of 9.5 ms: that is its length, and not the 2.5 ms after a request that came after 7 ms."""
    found = answers_of(in_calls(9500))
    assert set(found.calls) == set(found.late) == {0}
    assert found.calls[0][0] == found.calls[0][-1] == 9500 * US
    model = learn(in_calls(9500), COSTS)
    assert [(one.answers, one.in_calls) for one in model.actors] == [(1, True), (0, False)]
    spec, _ = specify(model, NOTHING, COSTS, 7, MS, cores=2)
    assert [one.in_calls for one in spec.roles] == [True, False]
    assert "main makes calls of C that keep the GIL for 9.5 ms" in model.rests_on[0].text


NEAR_A_CALLS_END_US = [7000 + answer for answer in (50, 80, 120, 300, 60, 90, 1300, 40, 6900, 150)] * 6
"""Holds of one call of about 7 ms each, or of two, if the request comes 7 ms after their begin."""


def test_a_call_of_varying_length_is_not_taken_for_a_shorter_one():
    """Requests that come near the end of calls say little of how long requests that come sooner wait."""
    found = answers_of(in_varied_calls(NEAR_A_CALLS_END_US))
    assert 6950 * US <= found.calls[0][0] <= found.calls[0][-1] <= 8300 * US
    model = learn(in_varied_calls(NEAR_A_CALLS_END_US), COSTS)
    predictions = predict(model, [NOTHING, Change(policy="fair")], COSTS, cores=2)
    before, after = (next(one for one in each.roles if one.role == "other") for each in predictions)
    assert after.turns_per_s.value < 1.25 * before.turns_per_s.value


def test_python_code_that_makes_some_calls_of_c_is_not_one_call():
    """Most of these answers are prompt, and at other lines than the late ones."""
    trace = in_varied_calls(NEAR_A_CALLS_END_US, stack_of=lambda call_us: 1 if call_us >= 7200 else 2)
    found = answers_of(trace)
    assert set(found.late) == {0}
    assert not found.calls


def test_holds_that_follow_the_requests_are_made_of_shorter_calls():
    """Answers that spread evenly up to 2 ms, in holds of 7 to 9 ms, are those of calls of 2 ms."""
    found = answers_of(in_varied_calls([7000 + 100 * number for number in range(1, 21)] * 3))
    assert set(found.late) == {0}
    assert not found.calls


@pytest.mark.parametrize(
    "trace",
    [asked([100 * n for n in range(1, 21)] * 2), in_calls(9500, turns=9)],
    ids=["calls shorter than a hold", "few calls"],
)
def test_calls_of_which_a_hold_has_several_have_no_length(trace):
    """Answers that spread from 0 are of calls that a request meets at any time, and nine holds show no pattern."""
    assert not answers_of(trace).calls


def test_no_policy_promises_a_gain_beside_a_few_long_calls():
    """A thread that waits for calls of 180 ms waits as long under a policy, as the answers to eight requests show."""
    model = learn(in_calls(180_000, turns=8), COSTS)
    predictions = predict(model, [NOTHING, Change(policy="fair")], COSTS, cores=2)
    before, after = (next(one for one in each.roles if one.role == "other") for each in predictions)
    assert after.turns_per_s.value < 1.5 * before.turns_per_s.value
    assert any("main releases the GIL 173 ms after a request" in one.text for one in model.rests_on)


@pytest.mark.parametrize("change", [Change(interval_ns=500 * US), Change(policy="fair")], ids=["interval", "policy"])
def test_a_request_that_comes_sooner_ends_no_such_call_sooner(change):
    """A shorter interval and a policy promise nothing to a thread that waits for calls of 9.5 ms."""
    predictions = predict(learn(in_calls(9500, turns=200), COSTS), [NOTHING, change], COSTS, cores=2)
    before, after = (next(one for one in each.roles if one.role == "other") for each in predictions)
    assert after.turns_per_s.value == pytest.approx(before.turns_per_s.value, rel=0.05)


def test_every_other_run_has_the_machines_answers(monkeypatch):
    """A recorded answer has the signal's time in it, so half of the runs have the machine's, which are shorter."""
    model, made, run = learn(asked([30] * 40), COSTS), [], whatif._run

    def keeping(spec, *rest):
        made.append(spec)
        return run(spec, *rest)

    monkeypatch.setattr(whatif, "_run", keeping)
    predict(model, [NOTHING], COSTS, cores=2, seeds=4)
    assert [one.seed for one in made] == [1, 2, 3, 4]
    recorded, own = model.own_costs["pending"], COSTS.costs["pending"]
    assert recorded != own
    assert [recorded in one.costs for one in made] == [True, False, True, False]
    assert [own in one.costs for one in made] == [False, True, False, True]
