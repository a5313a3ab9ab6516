"""Laps of an event loop whose begin, or all of whose events, were overwritten before the recording was written."""

import dataclasses

import pytest
from test_stalls import AT_POLL, AT_SLEEP, MS, SLEEP, at, loop, parts, with_stacks
from told_traces import Script

from headway.traces.analysis.stall_model import Cause, StallKind, Thresholds
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.frames import Lap

LIMITS = Thresholds(50 * MS, 50 * MS, 50 * MS)


def lap(begun_ms, ended_ms, serial=1):
    return Lap(serial, at(begun_ms), at(ended_ms) if ended_ms else 0)


def recorded(*laps, ended=False):
    """Return a trace that begins in a lap, at 300 ms: a call to 410 ms, and the poll at 412 ms."""
    script = Script().hold(0, 300, 301, stack=AT_SLEEP).hold(0, 410, 412, stack=AT_POLL)
    return with_stacks(script.trace(600, "MainThread", ended=ended), away=0, laps=laps)


@pytest.mark.parametrize(
    ("begun", "ended", "length", "told"),
    [
        (100, 412, 312, [(Cause.UNEXPLAINED, 200, None), (Cause.BLOCKED, 109, SLEEP), (Cause.OWN, 3, None)]),
        (100, 290, 190, [(Cause.UNEXPLAINED, 190, None)]),
    ],
    ids=["in part", "whole"],
)
def test_a_lap_that_was_overwritten_is_a_stall(begun, ended, length, told):
    """The watcher knows from when to when it lasted; its events, as far as they are there, tell the rest."""
    trace = recorded(lap(begun, ended))
    (stall,) = find_stalls(trace, LIMITS)
    row = stall_json(trace, stall)

    assert (stall.kind, stall.length_ns, stall.goes_on) == (StallKind.LOOP, length * MS, False)
    assert parts(stall) == told
    assert f"not known, as the events of its first {told[0][1]} ms were overwritten" in row["line"]
    assert (row["lost_s"], row["advice"].startswith("give `headway watch` more memory")) == (told[0][1] / 1000, True)


def test_a_lap_under_way_goes_on():
    """A lap without an end lasts until the recording's end, if the process still runs."""
    script = Script().hold(0, 300, 301, stack=AT_SLEEP).add(590, 0, 2)
    trace = with_stacks(script.trace(600, "MainThread", ended=False), away=0, laps=(lap(100, 0),))
    (stall,) = find_stalls(trace, LIMITS)

    assert (stall.goes_on, stall.length_ns) == (True, 500 * MS)
    assert "stalled for 500 ms so far: 58 % a blocking call" in stall_line(trace, stall)
    over = dataclasses.replace(trace, process=dataclasses.replace(trace.process, ended=True))
    assert find_stalls(over, LIMITS) == []
    in_a_call = dataclasses.replace(over, events=over.events[:-1])
    assert [one.length_ns for one in find_stalls(in_a_call, LIMITS)] == [500 * MS]


def test_laps_of_which_nothing_is_missing_are_told_once():
    """A lap whose begin is recorded is found in the events; one that is short, or of another thread, is none here."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread"), away=0, laps=(lap(10, 212),))
    (stall,) = find_stalls(trace, LIMITS)

    assert (stall.lost_ns, stall.length_ns) == (0, 202 * MS)
    assert find_stalls(recorded(lap(270, 290), lap(100, 290, serial=7)), LIMITS) == []
    assert find_stalls(recorded(lap(100, 290)), LIMITS, since_ns=at(295)) == []
