"""Threads that Python has not made: their holds are in the trace, with a line where there is one."""

import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headway.host.interpreters import discover, select
from headway.live.collect import collecting
from headway.live.launch import environment
from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded
from headway.traces.reader import read

HERE = Path(__file__).parent
WITH_A_GIL = [one for one in select(discover()[0], ["all"]) if not one.name.endswith("t")]
CALLS = 20


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile the library that calls Python; return its path."""
    path = tmp_path_factory.mktemp("foreign") / "foreign_thread.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(path), str(HERE / "foreign_thread.c")]
    subprocess.run(command, check=True, timeout=60)
    return path


@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.name)
def test_a_callback_of_a_thread_of_c_code(interpreter, library, tmp_path):
    """Each callback has its holds, those that end in it have its line, and the last one has none, not a wrong one."""
    file = tmp_path / "foreign.hwt"
    command = [interpreter.executable, str(HERE / "foreign_thread_program.py"), str(library), str(CALLS)]
    with collecting(file) as door:
        done = subprocess.run(
            command, env=environment(door.environment()), capture_output=True, text=True, timeout=120, check=True
        )
    trace = read(file)
    (thread,) = [at for at, one in enumerate(trace.threads) if one.tid == int(done.stdout)]
    holds = recorded(trace).holds
    mine = holds.chosen(holds.thread == thread)
    ends = Counter(
        (trace.stack(stack)[0].function, trace.stack(stack)[-1].function) if stack else None
        for stack in mine.stack.tolist()
    )

    assert trace.loss.whole
    assert len(mine) == CALLS + CALLS // 2  # a call that blocks has two holds
    if trace.process.has_stacks:
        assert ends == {None: CALLS, ("answer", "answer"): CALLS // 2}
        unknown = next(one for one in analyse(trace).held if one.frame is None)
        assert unknown.times.count >= CALLS
    else:
        assert not np.any(mine.stack)
