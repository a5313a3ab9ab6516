"""Traces of simulated programs, with times in milliseconds, for tests of predictions."""

from functools import cache

from headway.sim import machine
from headway.sim.parse import parse
from headway.sim.run import Job, run
from headway.traces.model import Trace

SLEEPERS = """
title = "threads that sleep beside one that computes"
duration_s = 1
[role.sleeper]
threads = 2
program = [{sleep_ms = 1}, {hold_us = 20}]
[role.burner]
program = [{compute = true}]
"""
ALONE = """
title = "threads that sleep"
duration_s = 1
[role.sleeper]
threads = 2
program = [{sleep_ms = 5}, {hold_us = 20}]
"""


@cache
def traced(text: str = SLEEPERS) -> Trace:
    """Return the trace of a scenario's run."""
    trace = run(Job(parse(text, name="app"), machine.load(machine.PRESET), 1, 1_000_000)).trace
    assert trace is not None
    return trace
