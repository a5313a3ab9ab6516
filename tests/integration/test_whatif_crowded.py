"""Predictions from simulated traces of a machine on which other programs compute, too; the truth is known."""

import math
from dataclasses import replace

import pytest

from headway.sim.machine import load
from headway.sim.parse import parse
from headway.sim.replay import fit
from headway.sim.replay.change import NOTHING, Change
from headway.sim.replay.learn import learn
from headway.sim.replay.others import without_a_core
from headway.sim.run import Job, run
from headway.sim.whatif import predict
from headway.traces.calls import Call

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
COMPUTING = """
cores = 2
placement = "free"
duration_ms = 3000
[role.worker]
threads = %d
program = [{hold_us = %d}, {run_us = %d}]
[role.cpu]
program = [{compute = true}]
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


@pytest.mark.parametrize("workers", [(4, 100, 20_000), (8, 100, 20_000), (8, 50, 3_000)])
def test_a_program_that_fills_the_cores_by_itself_is_replayed_as_calm(workers):
    """Threads that compute without the GIL take the cores from its holder: no time is left that others could have taken."""
    trace = run(Job(parse(COMPUTING % workers, name="computing"), COSTS, 1, max_events=400_000)).trace
    model = fit.model_of(trace, COSTS, cores=2)
    assert without_a_core(model.seen.holds) > 0.1
    assert model.others == 0


def as_a_loop(trace):
    """Return the call of each stack as if the server were an event loop: a poll, and a receive that finds its data."""
    words = {"receive": Call.POLL, "run": Call.RECEIVE, "reply": Call.SEND}
    names = [trace.frames[frame].function for frame in trace.stack_frame.tolist()]
    return {
        stack: next((call for word, call in words.items() if f"server: {word}" in name), Call.UNKNOWN)
        for stack, name in enumerate(names)
    }


def traced_loop(policy="", seed=1):
    """Return the trace of an event loop on a busy machine, whose client computes before each request."""
    text = SERVER % (f'policy = "{policy}"' if policy else "", OTHERS % 4) + "work_us = 150\n"
    text = text.replace('{receive = "requests"}', '{receive = "requests"}, {hold_us = 5}, {run_us = 1}')
    return run(Job(parse(text, name="busy"), COSTS, seed, max_events=400_000)).trace


def test_the_work_of_a_client_of_a_busy_server_counts():
    """A client that computes before each request is replayed as one, and a line says so; else the rates are far too high."""
    trace, fair = traced_loop(), traced_loop("fair", seed=2)
    model = fit.model_of(trace, COSTS, cores=2, calls=as_a_loop(trace))
    assert any("the peer of server computes for 144 us" in one.text for one in model.rests_on)
    truth = learn(fair, COSTS, as_a_loop(fair)).measured["server"].turns_per_s
    idle = replace(model, ports=tuple(replace(one, work_ns=0) for one in model.ports))
    for one, is_near in ((model, True), (idle, False)):
        unchanged, changed = predict(one, [NOTHING, Change(policy="fair")], COSTS, cores=2, seeds=3)
        assert (off(unchanged.roles[0].identity["turns_per_s"], 1) < math.log(1.5)) == is_near
        assert (off(changed.roles[0].turns_per_s.value, truth) < math.log(1.5)) == is_near


def test_the_work_of_parallel_clients_of_a_calm_server_does_not_count():
    """The model's client is one thread: with the work of all clients one after the other, it would be far too slow."""
    clients = "".join(f'[client.c{n}]\nport = "requests"\nconnections = 1\nwork_us = 500\n' for n in range(4))
    server, _ = SERVER.split("[client.load]")
    text = (server % ("", "")).replace("[role.cpu]\nprogram = [{compute = true}]", "")
    text = text.replace('{receive = "requests"}', '{receive = "requests"}, {hold_us = 5}, {run_us = 1}')
    job = Job(parse(text.replace("cores = 2", "cores = 8") + clients, name="calm"), COSTS, 1, max_events=400_000)
    trace = run(job).trace
    model = fit.model_of(trace, COSTS, cores=8, calls=as_a_loop(trace))
    (unchanged,) = predict(model, [NOTHING], COSTS, cores=8, seeds=3)
    assert model.ports[0].work_ns > 0
    assert off(unchanged.roles[0].identity["turns_per_s"], 1) < math.log(2)
