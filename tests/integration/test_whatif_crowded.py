"""Predictions from simulated traces of a machine on which other programs compute, too; the truth is known."""

import math

import pytest

from headway.sim.machine import load
from headway.sim.parse import parse
from headway.sim.replay import fit
from headway.sim.replay.change import NOTHING, Change
from headway.sim.replay.learn import learn
from headway.sim.run import Job, run
from headway.sim.whatif import predict

COSTS = load("preset")
SERVER = """
cores = 2
placement = "free"
duration_ms = 3000
%s
[role.server]
program = [{receive = "requests"}, {hold_us = 20}, {reply = true}, {hold_us = 30}]
[role.cpu]
program = [{compute = true}]
%s
[client.load]
port = "requests"
connections = 1
"""
OTHERS = '[role.others]\nprocess = "none"\nthreads = %d\nprogram = [{compute = true}]'


def trace_of(others, policy="", seed=1):
    """Return the trace of a server beside a CPU-bound thread, and beside threads of other programs."""
    text = SERVER % (f'policy = "{policy}"' if policy else "", OTHERS % others if others else "")
    return run(Job(parse(text, name="busy"), COSTS, seed, max_events=400_000)).trace


def off(found, truth):
    return abs(math.log(found / truth))


@pytest.mark.parametrize("others", [2, 4])
def test_a_busy_machine_is_replayed_as_busy(others):
    """The replay has as many other programs, and gives the server the turns of the trace, and those of a change.

    Without them it is another program: `fair` is predicted to give the server more than twice as much as it does.
    """
    trace = trace_of(others)
    model = fit.model_of(trace, COSTS, cores=2)
    assert model.others == others
    unchanged, fair = predict(model, [NOTHING, Change(policy="fair")], COSTS, cores=2, seeds=3)
    server, cpu = unchanged.roles
    assert off(server.identity["turns_per_s"], 1) < math.log(1.5)
    assert off(cpu.identity["run_share"], 1) < 0.1
    assert not any("without running on a core" in one for one in fair.outside)
    truth = learn(trace_of(others, "fair", seed=2), COSTS).measured["server"].turns_per_s
    assert off(fair.roles[0].turns_per_s.value, truth) < 0.2

    (alone,) = predict(learn(trace, COSTS), [Change(policy="fair")], COSTS, cores=2, seeds=3)
    assert off(alone.roles[0].turns_per_s.value, truth) > math.log(2)
    assert any("without running on a core" in one for one in alone.outside)


def test_a_calm_machine_is_replayed_as_calm():
    """The program's own threads take no core from each other here, so there are no other programs."""
    assert fit.model_of(trace_of(0), COSTS, cores=2).others == 0
