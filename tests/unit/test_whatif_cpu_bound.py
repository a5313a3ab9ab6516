"""Predictions from traces in which threads hold the GIL all the time, and other programs have the cores for much of it."""

import pytest
from made_turns import ran, trace_of

from headway.errors import ScenarioError
from headway.sim.machine import load
from headway.sim.replay.change import Change, becoming_processes
from headway.sim.replay.learn import learn
from headway.sim.whatif import predict
from headway.traces.analysis import analyse
from headway.traces.model import Kind

COSTS = load("preset")
PROCESSES = Change(processes=True)


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
    assert "hold the GIL for a third of the time" in caught.value.hint
