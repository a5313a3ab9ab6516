"""Predictions from traces in which threads hold the GIL all the time, and other programs have the cores for much of it."""

import pytest
from made_turns import ran, trace_of

from headway.errors import ScenarioError
from headway.sim.compile import compile_scenario
from headway.sim.machine import load
from headway.sim.parse import parse
from headway.sim.ranking import Ranked, missed
from headway.sim.replay.change import Change, becoming_processes
from headway.sim.replay.learn import learn
from headway.sim.run import Job, run
from headway.sim.whatif import predict
from headway.traces.analysis import analyse
from headway.traces.calls import Call
from headway.traces.model import Kind

COSTS = load("preset")
PROCESSES = Change(processes=True)
ONE_CORE = """
cores = 1
placement = "free"
duration_ms = 1000
[role.python]
threads = 2
program = [{compute = true}]
[role.zipper]
threads = 1
program = [{hold_us = 20}, {run_ms = 20}]
"""


def sharing(names=("image", "score"), *, each_us=4_000, on_core=1.0, every_us=0):
    """Return the trace of a second in which threads preempt each other in turn.

    Args:
        names: The names of the threads.
        each_us: The length of a hold.
        on_core: The share of each hold in which its thread ran on a core.
        every_us: The time from the first thread's hold to its next one; 0: the threads hold the GIL all the time.
    """
    rows = []
    every_us = every_us or each_us * len(names)
    for n in range(1_000_000 // every_us):
        for thread in range(len(names)):
            at_us = n * every_us + thread * each_us
            rows.append((at_us, thread, Kind.ACQUIRE, 0))
            rows.append((at_us + each_us, thread, Kind.RELEASE, 1, True))
    trace = trace_of(rows, names=names, core_count=2)
    trace.events["flags"][trace.events["kind"] == Kind.RELEASE] |= ran(on_core)
    return trace


@pytest.mark.parametrize("on_core", [1.0, 0.3])
@pytest.mark.parametrize("names", [("image", "score"), ("image", "score", "parse", "index")])
def test_threads_that_a_report_calls_cpu_bound_become_processes(names, on_core):
    """They hold the GIL all the time: other programs that have their cores, or threads that share it, make no difference."""
    trace = sharing(names, on_core=on_core)
    assert all(one.computes for one in analyse(trace).threads)
    assert becoming_processes(learn(trace, COSTS), PROCESSES) == dict.fromkeys(names, 1)


def test_threads_that_seldom_hold_the_gil_do_not_become_processes():
    """Their holds are preempted, but together they have the GIL for a fifth of the time; the hint tells the rule."""
    trace = sharing(each_us=1_000, every_us=10_000)
    with pytest.raises(ScenarioError, match="no role is CPU-bound") as caught:
        predict(learn(trace, COSTS), [PROCESSES], COSTS, cores=2, seeds=1)
    assert "hold the GIL for 30 % of the time" in caught.value.hint


def predicted(on_core, change, *, cores=2):
    """Return the first role of the prediction for two threads that share a GIL, and what is told of cores they lacked."""
    (found,) = predict(learn(sharing(on_core=on_core), COSTS), [change], COSTS, cores=cores, seeds=1)
    return found.roles[0], [one for one in found.outside if "without running on a core" in one]


@pytest.mark.parametrize("change", [Change(), Change(policy="fair"), Change(gil=False), PROCESSES], ids=str)
def test_a_prediction_tells_that_the_threads_lacked_the_cores(change):
    """Every change is predicted for a machine without other programs, so a trace of a busy one is outside the model."""
    _, told = predicted(0.3, change)
    assert len(told) == 1
    assert told[0].startswith(
        "threads held the GIL without running on a core for 70 % of the time that it was held: other"
    )
    assert predicted(0.95, change)[1] == []


@pytest.mark.parametrize("on_core", [0.3, 1.0])
def test_no_role_is_predicted_more_of_the_cores_than_other_programs_leave(on_core):
    """Two threads had a core for a part of their time with the GIL: without it, they have as much of a core each."""
    role, _ = predicted(on_core, Change(gil=False))
    assert role.measured.held_share == pytest.approx(0.5, abs=0.01)
    assert role.run_share.high <= on_core + 0.01
    assert role.run_share.value > 0.8 * on_core
    assert role.run_share.low <= role.run_share.value / (2 if on_core < 1 else 1)


def test_the_programs_own_threads_are_no_other_programs():
    """Threads share their only core with one that computes without the GIL: the program uses all of it by itself."""
    scenario = parse(ONE_CORE, name="one core")
    steps = compile_scenario(scenario, COSTS, 1).steps
    calls = {number: Call.RUN if step.word == "run" else Call.UNKNOWN for number, (_, step) in enumerate(steps, 1)}
    trace = run(Job(scenario, COSTS, 1, max_events=300_000)).trace
    (found,) = predict(learn(trace, COSTS, calls), [Change(cores=2)], COSTS, cores=1, seeds=1)
    python = found.roles[0]

    assert python.measured.run_share < 0.7 * python.measured.held_share
    assert python.run_share.high > 0.9
    assert not any("without running on a core" in one for one in found.outside)


def test_more_cores_may_be_free_ones():
    """A change that adds cores is not held to the share of them that the threads had in the trace."""
    role, _ = predicted(0.3, Change(gil=False, cores=8))
    assert role.run_share.high > 0.5


def test_a_role_that_computes_is_one_on_a_busy_machine_too():
    """It has the GIL for half of the time, but a core for a sixth: its replay is judged by what it computes."""
    (found,) = predict(learn(sharing(on_core=0.3), COSTS), [Change(policy="fair")], COSTS, cores=2, seeds=1)
    (first, *_) = missed([Ranked(found, 0.0, (), ())])
    assert first.startswith("replayed without a change, image has 3.")
    assert first.endswith("of the computing in the trace: other programs may have taken the cores")
