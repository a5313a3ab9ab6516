"""Stalls that the end of their process, or of their loop, ends."""

from types import SimpleNamespace
from typing import cast

import pytest
from made_traces import MS
from test_stalls import AT_COMPUTE, AT_IDLE, AT_JOB, AT_POLL, AT_QUEUE, AT_REQUEST, AT_SLEEP, at, loop, with_stacks
from told_traces import Script

from headway.live.ring import Ring
from headway.live.stalled import stalls_to_tell, with_its_end
from headway.live.told import Told
from headway.live.watched import Watched
from headway.traces.analysis.stall_model import StallKind, Thresholds
from headway.traces.analysis.stall_words import stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.model import Kind

LIMITS = {"loop_ns": 50 * MS, "wait_ns": 50 * MS, "request_ns": 50 * MS}
EACH = Thresholds(**LIMITS)


def told(trace, known=None, *, gone_ms=0, finished=False):
    """Return the stalls that are told of a recording, with their ends in ms, and whether the process's end was theirs."""
    gone_ns = at(gone_ms) if gone_ms else 0
    found = stalls_to_tell(
        with_its_end(trace, gone_ns),
        {"limits": LIMITS, "since_ns": 0, "gone_ns": gone_ns, "finished": finished},
        Told(known),
    )
    return [((one.until_ns - at(0)) / MS, one.cut_off) for one in found]


def hanging(*, ended, end_ms=800):
    """Return a trace that ends in a lap of 490 ms or more."""
    return with_stacks(loop(Script()).hold(0, 10, 500, stack=AT_SLEEP).trace(end_ms, "MainThread", ended=ended))


@pytest.mark.parametrize("known", [{}, {f"1:{at(10)}": 400 * MS}])
def test_a_stall_of_a_killed_process_ends_when_the_process_was_seen_gone(known):
    """The process recorded no end. The stall is told, whether it was told before or not."""
    assert told(hanging(ended=False), known, gone_ms=900) == [(900, True)]


@pytest.mark.parametrize("finished", [True, False])
def test_a_stall_of_a_process_that_ended_itself_ends_with_its_recording(finished):
    """The watcher sees the end of the process later than the recorder does."""
    assert told(hanging(ended=True), {f"1:{at(10)}": 400 * MS}, gone_ms=900, finished=finished) == [(800, True)]


def test_a_lap_without_end_is_a_stall_unless_the_process_ended_in_order():
    """`os._exit()` in a loop leaves its lap without end; in a process that ends in order the loop may have ended before."""
    assert told(hanging(ended=True), gone_ms=900) == [(800, True)]
    assert told(hanging(ended=True), gone_ms=900, finished=True) == []
    assert told(hanging(ended=False)) == [(800, False)]


@pytest.mark.parametrize(("home", "stack", "kind"), [(AT_POLL, AT_SLEEP, "LOOP"), (AT_QUEUE, AT_REQUEST, "REQUEST")])
def test_a_call_in_progress_at_the_end_of_the_process_is_a_stall(home, stack, kind):
    """A thread needs the GIL to leave its loop or pool: one that never had it again was in its call until the end."""

    def found(then=None, *, forced=False):
        script = Script().hold(0, 0, 1, stack=home).hold(0, 10, 500, stack=stack, forced=forced)
        trace = with_stacks((then(script) if then else script).trace(800, "worker", "other"))
        return [(one.kind.name, stall_line(trace, one).partition(": ")[2]) for one in find_stalls(trace, EACH)]

    ((which, line),) = found()
    assert which == kind
    assert " 790 ms until the recording ended: " in line
    assert len(found(lambda script: script.wait(0, 510, stack=stack).hold(1, 500, 790), forced=True)) == 1
    assert found(lambda script: script.add(510, 0, Kind.ACQUIRE)) == []
    # A thread that has left its loop may have done so long before; a request lasts for as long as it was certainly in it.
    left = found(lambda script: script.hold(0, 510, 511, stack=AT_IDLE))
    assert [line.partition(":")[0] for _, line in left] == (
        [] if kind == "LOOP" else ["a request in worker took 500 ms"]
    )
    assert [name for name, _ in found(lambda script: script.hold(0, 600, 601, stack=home))] == [kind]


@pytest.mark.parametrize(("stack", "outside"), [(AT_REQUEST, AT_IDLE), (AT_SLEEP, AT_COMPUTE)])
def test_a_stall_that_was_told_is_over_when_its_thread_leaves_the_loop_or_pool(stack, outside):
    """A signal's handler that raises SystemExit, as gunicorn's time-out does, ends a request without a next one."""
    home = AT_QUEUE if stack == AT_REQUEST else AT_POLL
    script = Script().hold(0, 0, 1, stack=home).hold(0, 10, 11, stack=stack)
    script.hold(0, 600, 601, stack=outside).hold(0, 700, 701, stack=outside).add(750, 0, Kind.EXIT)
    trace = with_stacks(script.trace(800, "MainThread"))

    assert told(trace, {f"1:{at(10)}": 400 * MS}, gone_ms=900, finished=True) == [(601, False)]
    assert told(trace, {f"1:{at(10)}": 0}, gone_ms=900, finished=True) == []
    # A request that was not told counts only as far as it is certain: its call lasted until 600 ms.
    assert told(trace, gone_ms=900, finished=True) == ([(600, False)] if stack == AT_REQUEST else [])


@pytest.mark.parametrize("is_first", [False, True])
def test_a_last_request_ends_when_its_thread_was_in_it_for_the_last_time(is_first):
    """A server that stops lets a pool's thread finish its request, and the thread ends without waiting for work again."""

    def last(stack, *, exits=True, since_ms=0):
        script = Script() if is_first else Script().hold(0, 0, 1, stack=AT_QUEUE)
        script.hold(0, 10, 11, stack=stack).hold(0, 310, 311, stack=stack)
        script.wait(0, 320, stack=0).hold(0, 330, 700, stack=0)
        trace = with_stacks((script.add(701, 0, Kind.EXIT) if exits else script).trace(800, "pool_0"))
        found = find_stalls(trace, Thresholds(**LIMITS), since_ns=at(since_ms))
        return [(one.kind, one.since_ns, one.until_ns, one.goes_on) for one in found]

    assert last(AT_REQUEST) == [(StallKind.REQUEST, at(10), at(330), False)]
    assert last(AT_REQUEST, exits=False) == []
    assert last(AT_REQUEST, since_ms=400) == []
    assert last(AT_JOB) == []


@pytest.mark.parametrize("stack", [0, AT_QUEUE, AT_IDLE])
def test_an_idle_thread_of_a_pool_that_ends_has_no_request(stack):
    """A thread that is woken at its queue to end may wait for the GIL for long."""
    script = (
        Script().hold(0, 0, 1, stack=AT_QUEUE).hold(0, 10, 300, stack=stack, forced=True).hold(0, 600, 601, stack=0)
    )
    trace = with_stacks(script.add(602, 0, Kind.EXIT).trace(700, "pool_0"))

    assert find_stalls(trace, Thresholds(50 * MS, 500 * MS, 50 * MS)) == []


def test_a_first_request_that_was_told_is_over_when_its_thread_leaves_the_pool():
    """A thread that was at no home before has its first request since its first event."""
    script = Script().hold(0, 10, 11, stack=AT_REQUEST).hold(0, 600, 601, stack=AT_IDLE)
    trace = with_stacks(script.trace(800, "MainThread", ended=False))
    limits = Thresholds(**LIMITS)

    (found,) = find_stalls(trace, limits, begun={(1, at(10))})
    assert (found.kind, found.until_ns, found.goes_on) == (StallKind.REQUEST, at(601), False)
    assert [(one.until_ns, one.goes_on) for one in find_stalls(trace, limits)] == [(at(600), False)]


@pytest.mark.parametrize(("until_ms", "ends"), [(300, [(300, False)]), (30, [])])
def test_the_last_request_of_a_main_thread_ends_before_the_end_of_its_process(until_ms, ends):
    """A worker of gunicorn's default kind answers the request, leaves the server, and may need long for its exit."""
    script = Script().hold(0, 0, 1, stack=AT_QUEUE).hold(0, 10, 11, stack=AT_REQUEST)
    script.hold(0, until_ms, until_ms + 1, stack=AT_IDLE).hold(0, 700, 701, stack=AT_IDLE).hold(0, 790, 800)
    trace = with_stacks(script.trace(800, "MainThread"))

    assert told(trace, gone_ms=900, finished=True) == ends


@pytest.mark.parametrize(
    ("gone", "finished", "loops", "pools", "is_cut_off"),
    [
        (True, False, 1, 0, True),
        (True, False, 0, 2, True),
        (True, False, 0, 0, False),
        (True, True, 1, 1, False),
        (False, False, 1, 1, False),
    ],
)
def test_the_end_of_a_process_in_a_long_lap_is_a_reason_for_a_report(gone, finished, loops, pools, is_cut_off):
    """A process that is killed before its stall was told has a last report."""
    laps = SimpleNamespace(open_loops=loops, open_pools=pools)
    ring = SimpleNamespace(gone=gone, finished=finished, laps=laps)

    assert Watched(cast(Ring, ring)).is_cut_off is is_cut_off
