"""From a trace to a model: how soon threads release the GIL when they are asked to."""

import numpy as np
import pytest
from made_turns import MS, US, ran, trace_of

from headway.sim.machine import load
from headway.sim.replay.answers import find_answers
from headway.sim.replay.bursts import see
from headway.sim.replay.change import NOTHING, specify
from headway.sim.replay.learn import learn
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
