"""Laps whose begin, or all of whose events, were overwritten before the recording was written."""

import dataclasses
import json

import pytest
from test_stalls import AT_POLL, AT_QUEUE, AT_SLEEP, MS, SLEEP, STACKS, at, loop, parts, with_stacks
from told_traces import Script

from headway.live.stalled import stalls_to_tell
from headway.live.told import Told
from headway.traces.analysis.overwritten import with_late_threads
from headway.traces.analysis.stall_model import Cause, StallKind, Thresholds
from headway.traces.analysis.stall_sums import sum_up
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.frames import Asleep, Away, CoreTime, Lap
from headway.traces.model import Kind

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


JOB, REQUEST = STACKS[10], (SLEEP, *STACKS[5])


def of_a_pool(begun_ms, ended_ms, frames, since_ms, until_ms, **evidence):
    """Return a trace in which a pool's thread has no event: the watcher has seen its lap, and the longest call in it."""
    seen = Lap(7, at(begun_ms), at(ended_ms) if ended_ms else 0, 1, 77, "worker-7")
    away = Away(7, at(since_ms), at(until_ms) if until_ms else 0, frames)
    script = loop(Script()).hold(0, 590, 591, stack=AT_POLL)
    trace = script.trace(600, "MainThread", ended=False)
    return with_late_threads(with_stacks(trace, away=0, laps=(seen,), longest_away=(away,), **evidence))


@pytest.mark.parametrize(
    ("ended", "until", "told"),
    [
        (0, 0, [(Cause.BLOCKED, 480, SLEEP), (Cause.UNEXPLAINED, 20, None)]),
        (500, 450, [(Cause.BLOCKED, 330, SLEEP), (Cause.UNEXPLAINED, 70, None)]),
    ],
    ids=["goes on", "over"],
)
def test_a_request_without_an_event_is_told(ended, until, told):
    """Its thread may have ended since; the longest call that the watcher has seen in it is its cause."""
    trace = of_a_pool(100, ended, REQUEST, 120, until, asleep=(Asleep(at(200), 77),))
    (stall,) = find_stalls(trace, LIMITS)

    assert (stall.kind, stall.goes_on, trace.threads[stall.thread].name) == (StallKind.REQUEST, not ended, "worker-7")
    assert (stall.since_ns, parts(stall)) == (at(100), told)
    assert "a request in worker-7 took" in stall_line(trace, stall)


def test_a_job_without_an_event_is_no_stall():
    """Only a call in a server's thread shows that a pool's lap was a request; a short request is none, either."""
    assert find_stalls(of_a_pool(100, 500, JOB, 120, 450), LIMITS) == []
    assert find_stalls(of_a_pool(100, 140, REQUEST, 120, 130), LIMITS) == []
    assert find_stalls(of_a_pool(100, 500, REQUEST, 20, 90), LIMITS) == []


def test_a_request_that_computes_without_the_gil_is_told_as_such():
    """The system's account tells whether the longest call computed."""
    times = (CoreTime(at(120), 77, 0, 0), CoreTime(at(450), 77, 330 * MS, 0))
    (stall,) = find_stalls(of_a_pool(100, 500, REQUEST, 120, 450, core_times=times), LIMITS)

    assert parts(stall)[0] == (Cause.OWN, 330, SLEEP)


def test_a_lost_call_that_no_two_looks_cover_is_unexplained():
    """The account of the thread at an earlier time does not tell whether the call computed or waited."""
    times = (CoreTime(at(20), 77, 0, 0), CoreTime(at(60), 77, MS, 0))
    (stall,) = find_stalls(of_a_pool(100, 500, REQUEST, 120, 450, core_times=times), LIMITS)

    assert parts(stall)[0] == (Cause.UNEXPLAINED, 330, SLEEP)


def test_the_longest_call_of_a_lap_of_a_loop_is_told():
    """The causes are those in the events that are left, and the call."""
    away = (Away(1, at(110), at(290), (SLEEP,)),)
    script = Script().hold(0, 300, 301, stack=AT_SLEEP).hold(0, 410, 412, stack=AT_POLL)
    trace = with_stacks(script.trace(600, "MainThread"), away=0, laps=(lap(100, 412),), longest_away=away)
    (stall,) = find_stalls(trace, LIMITS)

    assert {(cause, time_ms) for cause, time_ms, _ in parts(stall)} >= {(Cause.BLOCKED, 109), (Cause.UNEXPLAINED, 20)}
    assert sum(time_ms for _, time_ms, place in parts(stall) if place == SLEEP) == 289


def test_a_request_whose_begin_is_recorded_is_told_once():
    """The lap that the watcher has seen is the one that the events show."""
    script = Script().hold(0, 1, 2, stack=AT_QUEUE).hold(0, 100, 101, stack=5).hold(0, 400, 401, stack=AT_QUEUE)
    seen = Lap(1, at(100), at(401), 1, 101, "worker-1")
    trace = with_stacks(script.trace(600, "worker-1"), away=0, laps=(seen,))
    (stall,) = find_stalls(trace, LIMITS)

    assert (stall.kind, stall.lost_ns) == (StallKind.REQUEST, 0)


def test_the_sums_tell_what_was_overwritten_as_the_lines_do():
    """The sum is not that of unexplained time, and has the advice of more memory."""
    trace = recorded(lap(100, 290))
    (stall,) = find_stalls(trace, LIMITS)
    (key, found), *others = sum_up([stall_json(trace, stall)]).by_cause.items()

    assert (key, others) == (("event loop", "not known (overwritten)"), [])
    assert "--ring 64MB" in found.advice


def test_time_that_is_unexplained_for_another_reason_is_not_told_as_overwritten():
    """A millisecond whose events are gone does not explain three seconds of waiting for a GIL that no thread held."""
    script = Script().wait(0, 300, stack=AT_SLEEP).hold(0, 3300, 3301, stack=AT_POLL)
    trace = with_stacks(script.trace(4000, "MainThread"), away=0, laps=(lap(299, 3301),))
    (stall,) = find_stalls(trace, LIMITS)
    row = stall_json(trace, stall)
    sums = {cause: round(found.time_s, 3) for (_, cause), found in sum_up([row]).by_cause.items()}

    assert sum(part["time_s"] for part in row["parts"] if part["lost"]) == row["lost_s"] == 0.001
    assert (sums["unexplained"], sums["not known (overwritten)"]) == (3.0, 0.001)
    assert ("overwritten" in row["line"], "--ring" in row["advice"]) == (False, False)


@pytest.mark.parametrize(
    ("first_ms", "slept_ms", "lost_ms"), [(800, 298 + 98, 400), (300, 199 + 598, 0)], ids=["after it", "within it"]
)
def test_the_end_of_a_stall_tells_what_was_told_while_it_went_on(first_ms, slept_ms, lost_ms):
    """Events of the first 300 ms were there when the stall was told for the first time, and are overwritten at its end."""
    told = {"limits": dataclasses.asdict(LIMITS), "since_ns": 0, "gone_ns": 0, "finished": False}
    script = loop(Script()).hold(0, 100, 101, stack=AT_SLEEP).add(399, 0, Kind.ACQUIRE)
    so_far = Told()
    (first,) = stalls_to_tell(with_stacks(script.trace(400, "MainThread", ended=False), away=0), told, so_far)
    known = Told()
    known.update(so_far.news, json.loads(json.dumps(so_far.parts)))
    script = Script().hold(0, first_ms, first_ms + 1, stack=AT_SLEEP).hold(0, 899, 900, stack=AT_POLL)
    trace = script.trace(950, "MainThread", ended=False)
    (stall,) = stalls_to_tell(with_stacks(trace, away=0, laps=(lap(100, 900),)), told, known)
    lasts_ms = {part.cause: round(part.time_ns / MS) for part in stall.parts}

    assert (first.goes_on, stall.goes_on, stall.length_ns) == (True, False, 800 * MS)
    assert (lasts_ms[Cause.BLOCKED], lasts_ms.get(Cause.UNEXPLAINED, 0)) == (slept_ms, lost_ms)
    assert sum(part.time_ns for part in stall.parts if part.lost) == lost_ms * MS
    known.update(dict.fromkeys(known.lengths_ns, 0))
    assert known.parts == {}
