"""Threads that acquire the GIL or a lock by turns tell by their own clocks who had it when, and the trace has the same.

The oracles (gil_oracle.c, lock_oracle.c) know nothing of the recorder. A thread waits for certain while it is in the
call that acquires, and another thread has returned from that call and not yet begun to release. The rest of its call is
not compared: when the call acquires, only the trace knows. A thread may be without a core for some time between that
and its return, as those that it wakes may take it.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from headway.host.interpreters import discover, select
from headway.live.collect import collecting
from headway.live.launch import environment
from headway.traces.analysis import analyse
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.missing import FIRST_NS, Unseen
from headway.traces.export.parks import parks
from headway.traces.model import Park
from headway.traces.reader import read

HERE = Path(__file__).parent
FOUND = select(discover()[0], ["all"])
WITH_A_GIL = [one for one in FOUND if not one.name.endswith("t")]
WITHOUT = [one for one in FOUND if one.name.endswith("t")]
SHARE = 0.01
BEFORE_A_WAIT_NS = 1000  # in a call, on the way to its first wait
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


def time_within(spans):
    """Return a function from starts and ends to how much of each is within the spans; these do not overlap."""
    spans = spans[spans[:, 0].argsort()]
    assert (spans[1:, 0] >= spans[:-1, 1]).all()
    before_ns = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
    at, passed_ns = spans.ravel(), np.repeat(before_ns, 2)[1:-1]
    return lambda start_ns, end_ns: np.interp(end_ns, at, passed_ns) - np.interp(start_ns, at, passed_ns)


def in_turns(trace, oracle, thread, start_ns, end_ns):
    """Return a mask of the recorded waits that began while their threads took turns.

    Assert that the trace has the time for which threads certainly waited, and none of that for which they held. Without a
    GIL, a thread that never waits has no event, so the trace does not have it: on a busy machine a thread may have its core
    only while it is alone.
    """
    index = {one.name: number for number, one in enumerate(trace.threads)}
    by_name = {name: np.array(times, np.int64) for name, times in oracle.items() if times}
    held = time_within(np.concatenate([one[:, 1:] for one in by_name.values()]))
    for name in by_name.keys() - index.keys():
        begin_ns, acquired_ns, _ = by_name[name].T
        assert (held(begin_ns, acquired_ns) <= BEFORE_A_WAIT_NS).all(), name
    turns = {index[name]: times for name, times in by_name.items() if name in index}
    mask, waited_ns, told_ns, allowed_ns = np.zeros(len(thread), bool), 0, 0, 0
    for number, (begin_ns, acquired_ns, released_ns) in ((number, times.T) for number, times in turns.items()):
        mine = (thread == number) & (start_ns >= begin_ns[0]) & (start_ns < released_ns[-1])
        assert not time_within(turns[number][:, 1:])(start_ns[mine], end_ns[mine]).any()
        waited_ns += held(begin_ns, acquired_ns).sum()
        told_ns += held(start_ns[mine], end_ns[mine]).sum()
        allowed_ns += BEFORE_A_WAIT_NS * len(begin_ns)
        mask |= mine
    assert (1 - SHARE) * waited_ns - allowed_ns <= told_ns <= waited_ns + allowed_ns
    return mask


def within_the_bound(trace, oracle, thread, start_ns, end_ns):
    """Assert that the true waiting is at most what the trace has and the bound of what it lacks; return the bound's parts.

    A wait belongs to the call in which it ends. A thread may lose its core in a call before it wants anything, which is no
    waiting, but cannot be told from it here: a hundredth of all waiting is left for that.
    """
    index = {one.name: number for number, one in enumerate(trace.threads)}
    by_name = {name: np.array(times, np.int64).T for name, times in oracle.items() if times}
    held = time_within(np.concatenate([one[1:].T for one in by_name.values()]))
    missed_ns, waited_ns = [], 0
    for name, (begin_ns, acquired_ns, released_ns) in by_name.items():
        mine = (thread == index.get(name, -1)) & (end_ns >= begin_ns[0]) & (end_ns < released_ns[-1])
        told_ns = held(start_ns[mine], end_ns[mine])
        call = np.searchsorted(begin_ns, end_ns[mine], side="right") - 1
        certain_ns = held(begin_ns, acquired_ns)
        missed_ns.append(certain_ns - np.bincount(call, weights=told_ns, minlength=len(begin_ns)))
        waited_ns += certain_ns.sum()
    missed_ns = np.maximum(np.concatenate(missed_ns), 0)
    bound = analyse(trace).missing
    assert bound.bounded
    assert missed_ns[missed_ns <= FIRST_NS].sum() <= bound.most_ns
    assert missed_ns.sum() <= bound.most_ns + SHARE * waited_ns
    return {one.why for one in bound.parts}


@pytest.mark.parametrize("cores", ["1", "2"])
@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
def test_all_waiting_for_the_gil_is_told(interpreter, cores, libraries, tmp_path):
    """Twelve threads with holds of 20 us wait for the GIL's mutex as well as for the GIL, and the trace has it all."""
    oracle, trace = run(interpreter, "gil_oracle", libraries, tmp_path, cores, "12", "20", "0", SECONDS)

    waits = recorded(trace).waits
    mine = in_turns(trace, oracle, waits.thread, waits.start_ns, waits.end_ns)
    assert not trace.process.has_stacks or in_function(trace, waits.stack[mine], "turns").all()
    parts = within_the_bound(trace, oracle, waits.thread, waits.start_ns, waits.end_ns)
    assert parts <= {Unseen.WAY, Unseen.PREEMPTED, Unseen.MUTEX}


@pytest.mark.parametrize("cores", ["1", "2"])
@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
def test_waits_that_are_not_seen_are_bounded(interpreter, cores, libraries, tmp_path):
    """Threads that come while one thread uses the GIL alone may wait for the mutex unseen, and the bound has that time."""
    oracle, trace = run(interpreter, "gil_oracle", libraries, tmp_path, cores, "3", "2", "20000", "0.3", "seldom")

    waits = recorded(trace).waits
    parts = within_the_bound(trace, oracle, waits.thread, waits.start_ns, waits.end_ns)
    assert Unseen.MUTEX in parts


@pytest.mark.parametrize("lock", [Park.MUTEX, Park.OBJECT])
@pytest.mark.parametrize("hold_us", ["20", "3000"])
@pytest.mark.parametrize("cores", ["1", "2"])
@pytest.mark.parametrize("interpreter", WITHOUT, ids=lambda one: one.id)
def test_all_waiting_for_locks_is_told(interpreter, cores, hold_us, lock, libraries, tmp_path):
    """The time from a call to its return is told, by spinning and by parking, with the object's type and the line."""
    kind = ["object"] if lock == Park.OBJECT else []
    oracle, trace = run(interpreter, "lock_oracle", libraries, tmp_path, cores, "4", "1", hold_us, "5", SECONDS, *kind)

    found = parks(trace)
    mine = in_turns(trace, oracle, found.thread, found.start_ns, found.end_ns)
    named = (found.kind == lock) & in_function(trace, found.stack, "contend")
    if lock == Park.OBJECT:
        named &= found.type == trace.types.index("Contended")
    length_ns = found.end_ns - found.start_ns  # to release takes short waits for a lock of the interpreter's own
    assert length_ns[mine & named].sum() >= (1 - SHARE) * length_ns[mine].sum()
    assert within_the_bound(trace, oracle, found.thread, found.start_ns, found.end_ns) == {Unseen.WAY}


@pytest.mark.parametrize("interpreter", WITHOUT, ids=lambda one: one.id)
def test_a_thread_that_is_woken_in_vain_has_one_wait(interpreter, libraries, tmp_path):
    """A call that wants a lock waits once, however often it is woken and finds the lock taken again."""
    oracle, trace = run(interpreter, "lock_oracle", libraries, tmp_path, "1", "2", "1", "200", "0", SECONDS, "barge")

    found = parks(trace)
    mine = in_turns(trace, oracle, found.thread, found.start_ns, found.end_ns)
    for index, one in enumerate(trace.threads):
        if one.name in oracle:
            begin_ns, acquired_ns, _ = np.array(oracle[one.name]).T
            start_ns = found.start_ns[mine & (found.thread == index) & (found.kind == Park.MUTEX)]
            waits = np.bincount(np.searchsorted(begin_ns, start_ns, side="right") - 1, minlength=len(begin_ns))
            assert waits.max() == 1
            # A thread is handed the lock after a millisecond, and the other one has it for 0.2 ms at a time.
            assert (waits[acquired_ns - begin_ns > 500_000] == 1).any()
