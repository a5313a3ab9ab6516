"""Headway's own work in a stalled thread, as that of `headway attach`, hides neither the stall nor its end."""

import pytest
from made_traces import MS
from test_stalls import AT_IDLE, AT_JOB, AT_OURS, AT_POLL, AT_QUEUE, AT_REQUEST, AT_SLEEP, at, loop, with_stacks
from told_traces import Script

from headway.traces.analysis import analyse
from headway.traces.analysis.stall_model import StallKind, Thresholds
from headway.traces.analysis.stalls import find_stalls
from headway.traces.model import Kind

LIMITS = Thresholds(50 * MS, 500 * MS, 50 * MS)
CASES = [(AT_POLL, AT_SLEEP, StallKind.LOOP), (AT_QUEUE, AT_REQUEST, StallKind.REQUEST)]


def interrupted(home, stack):
    """Return a lap that Headway's work interrupts at 300 ms, in a call that lasts from 11 ms on."""
    script = Script().hold(0, 0, 1, stack=home).hold(0, 10, 11, stack=stack)
    return script.hold(0, 300, 301, stack=AT_OURS)


def spans(trace, **known):
    """Return the kind, the begin and the end in ms of each stall, and whether it goes on."""
    found = find_stalls(trace, LIMITS, **known)
    return [(one.kind, *((ns - at(0)) / MS for ns in (one.since_ns, one.until_ns)), one.goes_on) for one in found]


@pytest.mark.parametrize(("home", "stack", "kind"), CASES)
def test_a_lap_that_headway_interrupts_is_a_stall(home, stack, kind):
    """`headway attach` and `headway detach` run in the main thread, which may be in its loop, or answer a request."""
    ends = interrupted(home, stack).hold(0, 600, 601, stack=home).trace(800, "MainThread")
    open_at_end = interrupted(home, stack).trace(800, "MainThread")

    assert spans(with_stacks(ends)) == [(kind, 10, 601, False)]
    assert spans(with_stacks(open_at_end)) == [(kind, 10, 800, True)]


@pytest.mark.parametrize(("home", "stack", "kind"), CASES)
def test_a_stall_that_was_told_goes_on_after_headways_own_work(home, stack, kind):
    """The work of Headway does not show that the thread has left its loop or its pool; code of the program does."""
    known = {"begun": {(1, at(10))}}
    ends = interrupted(home, stack).hold(0, 500, 501, stack=AT_IDLE).trace(800, "MainThread")

    assert spans(with_stacks(interrupted(home, stack).trace(800, "MainThread")), **known) == [(kind, 10, 800, True)]
    assert spans(with_stacks(ends), **known) == [(kind, 10, 501, False)]


@pytest.mark.parametrize(("home", "stack"), [(AT_POLL, AT_IDLE), (AT_QUEUE, AT_JOB)])
def test_headways_own_work_makes_no_stall(home, stack):
    """A thread outside of its loop, or with a job, has none, whatever Headway does in it."""
    assert spans(with_stacks(interrupted(home, stack).trace(800, "MainThread"))) == []


def test_headways_own_work_is_not_work_on_a_request():
    """The last request of a thread ends when the thread was in it for the last time, and not in Headway's work."""
    script = interrupted(AT_QUEUE, AT_REQUEST).hold(0, 500, 501, stack=AT_IDLE).hold(0, 700, 701, stack=AT_OURS)
    trace = with_stacks(script.add(750, 0, Kind.EXIT).trace(800, "MainThread"))

    assert [(one.until_ns - at(0)) / MS for one in find_stalls(trace, Thresholds(*[50 * MS] * 3))] == [300]


@pytest.mark.parametrize("goes_on", [True, False])
def test_the_report_has_a_loop_that_headway_interrupted(goes_on):
    """The report reads laps in a way of its own."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 300, 301, stack=AT_OURS)
    script = script if goes_on else script.hold(0, 600, 601, stack=AT_POLL)
    (late,) = analyse(with_stacks(script.trace(800, "MainThread"))).late_loops

    assert (late.laps, late.max_ns / MS) == (1, 790 if goes_on else 591)
