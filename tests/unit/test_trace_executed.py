"""The finding that a process became another program."""

from dataclasses import replace

import pytest
from told_traces import Script

from headway.traces.analysis import analyse
from headway.traces.model import Executed


@pytest.mark.parametrize(
    ("executed", "end"),
    [
        (Executed.RECORDED, "which has a trace of its own"),
        (Executed.UNRECORDED, "which was not recorded"),
    ],
)
def test_a_process_that_became_another_program_was_not_killed(executed, end):
    """The trace ends at the exec; without a trace of what came next, nothing is said to be well."""
    trace = Script().hold(0, 0, 1).trace(10, ended=False)
    found = analyse(replace(trace, process=replace(trace.process, executed=executed))).findings

    assert ("no-contention" in [one.kind for one in found]) == (executed is Executed.RECORDED)
    assert found[-1].fact == f"the process became another program (exec) after 10 ms, {end}"
    assert bool(found[-1].advice) == (executed is Executed.UNRECORDED)
    assert ("leads to another `sitecustomize` first" in found[-1].cause) == (executed is Executed.UNRECORDED)
