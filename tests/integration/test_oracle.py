"""Waits that C code timed by its own clocks, from the call to its return, are all in the trace.

The oracles (gil_oracle.c, lock_oracle.c) know nothing of the recorder. A legitimate difference is that an acquire takes
some time after the GIL or the lock is acquired, up to a microsecond here with a thread to wake.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from headway.host.interpreters import discover, select
from headway.live.collect import collecting
from headway.live.launch import environment
from headway.traces.analysis.intervals import recorded
from headway.traces.export.parks import parks
from headway.traces.model import Park
from headway.traces.reader import read

HERE = Path(__file__).parent
FOUND = select(discover()[0], ["all"])
WITH_A_GIL = [one for one in FOUND if not one.name.endswith("t")]
WITHOUT = [one for one in FOUND if one.name.endswith("t")]
SHARE = 0.01
AFTER_AN_ACQUIRE_NS = 1000
SECONDS = "0.5"

pytestmark = [pytest.mark.slow, pytest.mark.times]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Compile the oracles; return their folder."""
    folder = tmp_path_factory.mktemp("oracles")
    for name in ("gil_oracle", "lock_oracle"):
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(folder / f"{name}.so"), str(HERE / f"{name}.c")]
        subprocess.run(command, check=True, timeout=60)
    return folder


def run(interpreter, name, libraries, folder, *arguments):
    """Run an oracle's program traced; return the oracle's figures, and the trace."""
    file = folder / "oracle.hwt"
    command = [interpreter.executable, str(HERE / f"{name}_program.py"), str(libraries / f"{name}.so"), *arguments]
    with collecting(file) as door:
        done = subprocess.run(
            command, env=environment(door.environment()), capture_output=True, text=True, timeout=120, check=True
        )
    trace = read(file)
    assert trace.loss.whole
    return json.loads(done.stdout), trace


def in_function(trace, stacks, name):
    """Return a mask of the stacks whose innermost function has this name."""
    return np.isin(trace.stack_frame[stacks], [i for i, one in enumerate(trace.frames) if one.function == name])


def agrees(told_ns, oracle):
    """Assert that the trace's sum agrees with the oracle's."""
    allowed_ns = SHARE * oracle["waited_ns"] + AFTER_AN_ACQUIRE_NS * oracle["count"]
    assert abs(told_ns - oracle["waited_ns"]) <= allowed_ns, (told_ns, oracle)


@pytest.mark.parametrize("cores", ["1", "2"])
@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
def test_all_waiting_for_the_gil_is_told(interpreter, cores, libraries, tmp_path):
    """Twelve threads with holds of 20 us wait for the GIL's mutex as well as for the GIL, and the trace has it all."""
    oracle, trace = run(interpreter, "gil_oracle", libraries, tmp_path, cores, "12", "20", "0", SECONDS)

    waits = recorded(trace).waits
    names = [one.name for one in trace.threads]
    mine = np.isin(waits.thread, [i for i, name in enumerate(names) if name.startswith("turns")])
    if trace.process.has_stacks:  # waits at the threads' beginning and end are not the oracle's
        mine &= in_function(trace, waits.stack, "turns")
        agrees(int(waits.length_ns[mine].sum()), oracle)
    else:
        assert waits.length_ns[mine].sum() >= oracle["waited_ns"] * (1 - SHARE) - AFTER_AN_ACQUIRE_NS * oracle["count"]


@pytest.mark.parametrize("lock", [Park.MUTEX, Park.OBJECT])
@pytest.mark.parametrize("hold_us", ["20", "3000"])
@pytest.mark.parametrize("cores", ["1", "2"])
@pytest.mark.parametrize("interpreter", WITHOUT, ids=lambda one: one.id)
def test_all_waiting_for_locks_is_told(interpreter, cores, hold_us, lock, libraries, tmp_path):
    """A wait by spinning and parking is one wait from the call to its return, and has the object's type and line."""
    kind = ["object"] if lock == Park.OBJECT else []
    oracle, trace = run(interpreter, "lock_oracle", libraries, tmp_path, cores, "4", "1", hold_us, "5", SECONDS, *kind)

    found = parks(trace)
    length_ns = found.end_ns - found.start_ns
    of_lock = (found.kind == lock) & in_function(trace, found.stack, "contend")
    agrees(int(length_ns[of_lock].sum()), oracle)
    assert of_lock.sum() <= oracle["count"]
    if lock == Park.OBJECT:
        named = found.type == trace.types.index("Contended")
        assert length_ns[of_lock & named].sum() >= (1 - SHARE) * length_ns[of_lock].sum()
