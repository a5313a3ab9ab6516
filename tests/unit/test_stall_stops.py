"""A process that was stopped (SIGSTOP, a debugger) made no progress for that reason, whatever it did before and after."""

import os
import signal
import subprocess
from types import SimpleNamespace
from typing import cast

import pytest
from made_traces import MS
from test_stalls import AT_POLL, AT_SLEEP, COMPUTE, SLEEP, at, loop, only, with_stacks
from told_traces import AT_COMPUTE, Script

from headway.live import sampling
from headway.live.ring import Ring
from headway.live.sampling import Accounts, Stops
from headway.traces.analysis.stall_model import Cause
from headway.traces.analysis.stall_words import advice, stall_line
from headway.traces.frames import CoreTime, Stopped
from headway.traces.model import Kind


def stop(running_ms, since_ms, until_ms, runs_ms):
    return Stopped(at(running_ms), at(since_ms), at(until_ms), at(runs_ms))


def lasts_ms(stall):
    """Return for how long each cause lasts."""
    found = {}
    for part in stall.parts:
        found[part.cause] = found.get(part.cause, 0) + round(part.time_ns / MS)
    return found


def test_a_stop_in_a_hold_lasts_as_long_as_the_holder_did_not_run():
    """The account tells the length of a stop during the loop's own code, and no line is charged with it."""
    script = loop(Script()).hold(0, 10, 310, stack=AT_SLEEP, forced=True).hold(0, 311, 312, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, ran * MS, 0) for ms, ran in ((5, 0), (320, 56)))
    trace = with_stacks(script.trace(400, "MainThread"), core_times=times, stopped=(stop(40, 60, 260, 320),))
    stall = only(trace)

    assert lasts_ms(stall)[Cause.STOPPED] == 240
    assert Cause.BLOCKED not in lasts_ms(stall)
    assert sum(part.time_ns for part in stall.parts) == stall.length_ns
    assert "79 % the process was stopped (SIGSTOP, a debugger); 20 % its own code at" in stall_line(trace, stall)
    assert "SIGSTOP" in advice(stall.kind, stall.parts[0])


@pytest.mark.parametrize(("asked_ms", "line"), [(309.9, None), (100, SLEEP)])
def test_a_preempted_thread_that_did_not_run_was_in_no_call(asked_ms, line):
    """Python code that answers a request at once was in no call at that line: what kept it from running is not known."""
    script = loop(Script()).hold(0, 10, 310, stack=AT_SLEEP, forced=True).hold(0, 311, 312, stack=AT_POLL)
    script.add(asked_ms, 0, Kind.REQUEST)
    times = tuple(CoreTime(at(ms), 101, ran * MS, 0) for ms, ran in ((5, 0), (320, 56)))
    stall = only(with_stacks(script.trace(400, "MainThread"), core_times=times))

    assert (stall.parts[0].cause, stall.parts[0].place) == (Cause.BLOCKED, line)


def test_a_stop_in_a_blocking_call_has_its_own_share():
    """A sleep and a stop during it look the same to the account: the looks at the process's state tell them apart."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 611, 612, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, ran * MS, 0) for ms, ran in ((5, 0), (150, 2), (650, 3)))
    stall = only(with_stacks(script.trace(700, "MainThread"), core_times=times, stopped=(stop(100, 120, 590, 611),)))

    assert lasts_ms(stall)[Cause.STOPPED] == 490
    assert (stall.parts[1].cause, stall.parts[1].place) == (Cause.BLOCKED, SLEEP)
    assert sum(part.time_ns for part in stall.parts) == stall.length_ns


def test_a_stop_while_another_thread_has_the_gil_is_no_call_of_c():
    """A holder that was stopped after a request did not run: no call kept the GIL."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=15)
    script.hold(1, 5, 300, stack=AT_COMPUTE, forced=True).hold(0, 300, 301, stack=AT_POLL)
    looks = tuple(CoreTime(at(ms), 101, 0, 0) for ms in (5, 310))
    times = (*looks, CoreTime(at(5), 102, 0, 0), CoreTime(at(310), 102, 26 * MS, 0))
    trace = script.trace(400, "MainThread", "burner")
    stall = only(with_stacks(trace, core_times=times, stopped=(stop(11, 20, 280, 305),)))

    assert stall.cause is Cause.STOPPED
    assert lasts_ms(stall)[Cause.STOPPED] >= 260
    assert {(part.place, part.kept) for part in stall.parts if part.cause is Cause.GIL} == {(COMPUTE, None)}


def test_a_stop_at_another_time_changes_nothing():
    """A stop before the stall is none of its causes."""
    script = loop(Script()).hold(0, 110, 111, stack=AT_SLEEP).hold(0, 311, 312, stack=AT_POLL)
    stall = only(with_stacks(script.trace(400, "MainThread"), away=0, stopped=(stop(5, 10, 90, 105),)))

    assert stall.cause is Cause.BLOCKED
    assert Cause.STOPPED not in lasts_ms(stall)


def test_the_kernel_tells_that_a_process_is_stopped():
    """The state of a process is read again and again."""
    with subprocess.Popen(["sleep", "60"]) as process:
        accounts = Accounts(process.pid)
        try:
            for number, ends, is_stopped in (
                (signal.SIGSTOP, os.WUNTRACED, True),
                (signal.SIGCONT, os.WCONTINUED, False),
            ):
                process.send_signal(number)
                os.waitpid(process.pid, ends)
                state, exits = accounts.state()
                assert (state in sampling._STOPPED, exits) == (is_stopped, False)
        finally:
            process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert accounts.state() == (b"Z", True)
    assert accounts.state() is None
    accounts.close()


@pytest.mark.parametrize(
    ("states", "stops"),
    [
        ("RRR", []),
        ("RTTRR", [(0, 1, 2, 3)]),
        ("TTR", [(0, 0, 1, 2)]),
        ("RTRTT", [(0, 1, 1, 2), (2, 3, 4, 4)]),
    ],
)
def test_looks_bound_a_stop(monkeypatch, states, stops):
    """A stop lies between the last look before it and the first look after it; looks soon after others are left out."""
    turns = iter(states)
    monkeypatch.setattr(Accounts, "state", lambda _: (next(turns).encode(), False))
    found = Stops(Accounts(os.getpid()))
    step_ns = sampling._STATE_NS
    for turn in range(len(states)):
        found.look(1000 * step_ns + turn * step_ns)
        found.look(1000 * step_ns + turn * step_ns + step_ns // 2)

    assert list(found.known) == [Stopped(*((1000 + one) * step_ns for one in row)) for row in stops]


@pytest.mark.parametrize(
    ("looks", "last_event", "until"),
    [
        ("RRR", 2, 0),
        ("RRXXX", 1, 1001),
        ("RRXXX", 2, 1001),
        ("RRX-", 1, 1001),
        ("RRXXX", 4, 0),
        ("RRXR", 1, 0),
    ],
    ids=["lives", "exits", "an event just before", "gone", "a thread goes on", "another program"],
)
def test_a_process_that_exits_has_run_until_the_look_before(monkeypatch, looks, last_event, until):
    """The kernel may take long to give back the memory of a process: that is no time of any of its threads."""
    turns = iter(looks)
    states = {"R": (b"R", False), "X": (b"R", True), "-": None}
    monkeypatch.setattr(Accounts, "state", lambda _: states[next(turns)])
    found = Stops(Accounts(os.getpid()))
    for turn in range(len(looks)):
        found.look((1000 + turn) * sampling._STATE_NS)

    assert found.exits_ns((1000 + last_event) * sampling._STATE_NS) == until * sampling._STATE_NS


def test_the_last_lap_ends_where_its_process_began_to_exit(monkeypatch):
    """The end of the process is known only later, when the kernel has given back its memory."""
    ring = object.__new__(Ring)
    ring.gone_ns = 0
    monkeypatch.setattr(Ring, "slots", lambda _: [SimpleNamespace(since_ns=7), SimpleNamespace(since_ns=5)])
    ring._stops = cast(Stops, SimpleNamespace(seems_to_exit=True, exits_ns=lambda last_ns: 4 + last_ns))
    ring.end()

    assert ring.gone_ns == 11
