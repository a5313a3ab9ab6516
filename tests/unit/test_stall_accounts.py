"""The account that the system keeps of a thread tells how much of a stall it ran, and how long it had no core."""

import dataclasses
import os

import numpy as np
import pytest
from made_traces import MS
from test_stalls import AT_DEEP, AT_POLL, AT_SLEEP, COMPUTE, HANDLER, SLEEP, at, loop, only, with_stacks
from told_traces import AT_COMPUTE, Script

from headway.traces.analysis import accounts
from headway.traces.analysis.stall_model import Cause, Kept, StallKind, Thresholds
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.analysis.thread_events import EventsByThread, ThreadEvents
from headway.traces.frames import Asleep, Collected, CoreTime, Frame, Sample
from headway.traces.model import Kind


def test_a_call_that_computes_without_the_gil_by_the_systems_account():
    """The system's account tells a computing call from a waiting one, because a watcher has no CPU times of holds."""
    for ran_ms, cause in ((200, Cause.OWN), (2, Cause.BLOCKED)):
        script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
        times = tuple(CoreTime(at(ms), 101, ran * MS, 0) for ms, ran in ((5, 3), (150, 4 + ran_ms), (220, 5 + ran_ms)))
        stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

        assert stall.cause is cause
        assert stall.parts[0].place == SLEEP
        assert abs(stall.parts[0].time_ns - 199 * MS) <= 2 * MS


@pytest.mark.parametrize(
    ("looks_ms", "cause"), [((2, 6), Cause.UNEXPLAINED), ((6, 150), Cause.BLOCKED), ((190, 230), Cause.BLOCKED)]
)
@pytest.mark.parametrize("calls", [1, 40])
def test_a_call_that_no_two_looks_cover_is_unexplained(looks_ms, cause, calls):
    """The account of the thread at another time does not tell whether the call computed, waited or had no core."""
    script, call_ms = loop(Script()), 200 / calls
    for number in range(calls):
        script.hold(0, 10 + call_ms * number, 10.1 + call_ms * number, stack=AT_SLEEP)
    times = tuple(CoreTime(at(ms), 101, 0, 0) for ms in looks_ms)
    stall = only(with_stacks(script.hold(0, 210, 211, stack=AT_POLL).trace(300, "MainThread"), core_times=times))
    lasts_ms = {one: sum(part.time_ns for part in stall.parts if part.cause is one) / MS for one in Cause}

    assert lasts_ms[cause] > (190 if calls == 1 else 15)
    assert not lasts_ms[Cause.BLOCKED] or cause is not Cause.UNEXPLAINED


def test_many_short_calls_between_two_looks_share_the_account():
    """A line that blocks for 0.9 ms again and again is a blocking call: what the thread ran meanwhile is not each call's own."""
    script = loop(Script())
    for turn in range(200):
        script.hold(0, 10 + turn, 10.1 + turn, stack=AT_SLEEP)
    script.hold(0, 210, 211, stack=AT_POLL)
    times = tuple(CoreTime(at(5 + 10 * look), 101, round(1.3 * look * MS), 0) for look in range(22))
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    assert stall.cause is Cause.BLOCKED
    assert stall.parts[0].place == SLEEP
    assert stall.parts[0].time_ns > 0.95 * 180 * MS


def test_many_short_calls_that_compute_are_no_blocking_call():
    """Looks far apart tell what short calls ran and for how long they had no core; the loop was at home before the calls."""
    script = loop(Script())
    for turn in range(200):
        script.hold(0, 60 + turn, 60.1 + turn, stack=AT_DEEP)
    script.hold(0, 260, 261, stack=AT_POLL)
    ran = ((1, 0), (101, 10), (201, 35), (301, 50))
    times = tuple(CoreTime(at(ms), 101, ran_ms * MS, 3 * ran_ms * MS) for ms, ran_ms in ran)
    stall = only(with_stacks(script.trace(400, "MainThread"), core_times=times))
    lasts_ms = {one: sum(part.time_ns for part in stall.parts if part.cause is one) / MS for one in Cause}

    assert stall.cause is Cause.CORE
    assert abs(lasts_ms[Cause.CORE] - 150) <= 5
    assert abs(lasts_ms[Cause.OWN] - 50) <= 5
    assert lasts_ms[Cause.BLOCKED] <= 5


@pytest.mark.parametrize(("call_ms", "least_ms", "most_ms"), [(2, 380, 390), (280, 90, 140)])
def test_what_a_thread_did_after_a_sleep_is_not_the_sleeps(call_ms, least_ms, most_ms):
    """A late look covers the holds after a call, too: the call has only what these had no room for."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP)
    for turn in range(10):
        script.hold(0, 311 + 60 * turn, 361 + 60 * turn, stack=AT_POLL if turn == 9 else AT_SLEEP)
    half_ns = (500 + call_ms) * MS // 2
    times = (CoreTime(at(5), 101, 0, 0), CoreTime(at(25), 101, MS, 0), CoreTime(at(910), 101, MS + half_ns, half_ns))
    stall = only(with_stacks(script.trace(1000, "MainThread"), core_times=times))

    assert least_ms <= sum(part.time_ns for part in stall.parts if part.cause is Cause.BLOCKED) / MS <= most_ms


@pytest.mark.parametrize("late_ms", [20, 600])
def test_a_call_that_computes_is_told_however_late_the_look_is(late_ms):
    """The holds after the call were busy for all of their time: the rest of the account is the call's."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 311, 911, stack=AT_POLL)
    times = (CoreTime(at(25), 101, MS, 0), CoreTime(at(311 + late_ms), 101, (286 + late_ms) * MS, 0))
    stall = only(with_stacks(script.trace(1000, "MainThread"), core_times=times))

    assert sum(part.time_ns for part in stall.parts if part.cause is Cause.BLOCKED) <= 5 * MS


def test_a_wait_for_a_core_that_ends_between_two_near_looks_is_of_the_call_before():
    """The system counts a wait for a core at its end: the looks around it are 4 ms apart, of which most are after the call."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 211.2, stack=AT_POLL)
    events = ThreadEvents(EventsByThread(script.trace(300, "MainThread")).of(0), 0, lambda _: True)
    looks_ms = [4 * look + 2.5 for look in range(70)]
    looks = [CoreTime(at(ms), 101, 0, 0 if ms < 211 else 200 * MS) for ms in looks_ms]
    ran_ns, queued_ns = accounts.Accounts(looks, lambda _: events).away_ns(101, 0, at(11), at(211), rests=True)

    assert ran_ns == 0
    assert 190 * MS < queued_ns <= 200 * MS


def test_a_wait_for_a_core_that_began_before_the_looks_at_its_end_is_not_summed_up():
    """A sum of many short times shares what is between two looks; what began before them is told by itself."""
    trace = loop(Script()).hold(0, 20, 21, stack=AT_SLEEP).trace(300, "MainThread")
    events = ThreadEvents(EventsByThread(trace).of(0), 0, lambda _: True)
    times = np.array([at(13)]), np.array([at(19)]), np.array([True])
    for queued_ms, is_plain in ((7, True), (9, False)):
        looks = [CoreTime(at(ms), 101, 0, 0 if ms < 20 else queued_ms * MS) for ms in (4, 12, 20)]
        found = accounts.Accounts(looks, lambda _: events).columns(101, 0, *times)

        assert found.is_plain.tolist() == [is_plain]


def test_waits_for_a_core_before_the_loop_are_none_of_the_loop():
    """A look at the account covers imports without a core and the loop's first beats, which were in time."""
    script = Script().hold(0, 0, 900, stack=AT_COMPUTE)
    for beat in range(900, 1000, 10):
        script.hold(0, beat + 1, beat + 2, stack=AT_POLL)
    for looked_ms, lasts_ms in ((995, 1100), (1200, 1400)):
        times = tuple(CoreTime(at(ms), 101, 0, queued * MS) for ms, queued in ((10, 0), (looked_ms, 600)))

        assert not find_stalls(with_stacks(script.trace(lasts_ms, "MainThread"), core_times=times), Thresholds())


def test_a_late_wake_up_is_told_after_the_loop_has_gone_on():
    """A look finds the wait for a core when the loop is at home again; the stall ends with the wake-up."""
    script = loop(Script()).hold(0, 250, 251, stack=AT_SLEEP).hold(0, 252, 253, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, 0, queued * MS) for ms, queued in ((20, 0), (259, 200)))
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    # 9 ms of the wait may have been after the wake-up.
    assert (stall.kind, stall.cause, stall.since_ns, stall.until_ns) == (StallKind.LOOP, Cause.CORE, at(59), at(250))


def test_a_preempted_thread_is_in_no_blocking_call():
    """A thread that hands the GIL over waits for the other one to get a core: no line of the thread blocks then."""
    script = loop(Script())
    for turn in range(10):
        script.hold(0, 10 + 20 * turn, 22 + 20 * turn, stack=AT_SLEEP, forced=True)
        script.hold(1, 26 + 20 * turn, 28 + 20 * turn, stack=AT_COMPUTE).wait(0, 27 + 20 * turn, stack=0)
    script.hold(0, 210, 211, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, ran * MS, 0) for ms, ran in ((5, 1), (220, 125)))
    stall = only(with_stacks(script.trace(300, "MainThread", "other"), core_times=times))
    lasts_ms = {part.cause: part.time_ns // MS for part in stall.parts}

    assert Cause.BLOCKED not in lasts_ms
    assert lasts_ms[Cause.GIL] in (19, 20)


def test_a_call_that_sleeps_with_the_gil_held_by_the_systems_account():
    """A hold in which the thread did not run is a blocking call, or has no core, as the account tells."""
    for queued_ms, cause in ((0, Cause.BLOCKED), (190, Cause.CORE)):
        script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
        times = tuple(CoreTime(at(ms), 101, 3 * MS, queued * MS) for ms, queued in ((5, 0), (220, queued_ms)))
        stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

        assert stall.cause is cause
        assert stall.parts[0].time_ns >= 188 * MS
        told = stall_line(script.trace(300, "MainThread"), stall)
        assert ("% a blocking call (line not known), or a stopped process" in told) == (cause is Cause.BLOCKED)


@pytest.mark.parametrize(("length_ms", "may_be_stop"), [(150, True), (400, False)])
def test_a_call_that_sleeps_with_the_gil_held_has_the_line_of_the_looks_that_saw_it_asleep(length_ms, may_be_stop):
    """The thread computes at one line, and then sleeps at another one; a stop of the process may be too short to be seen."""
    script = loop(Script()).hold(0, 10, 60 + length_ms, stack=AT_POLL)
    ran = {10: 0, 30: 20, 50: 40, 60: 50, 80: 50, 60 + length_ms - 10: 50, 60 + length_ms + 10: 50}
    times = tuple(CoreTime(at(ms), 101, ran_ms * MS, 0) for ms, ran_ms in ran.items())
    samples = (Sample(at(35), 101, (COMPUTE,)), Sample(at(40), 101, (COMPUTE,)), Sample(at(90), 101, (SLEEP, HANDLER)))
    trace = with_stacks(script.trace(1000, "MainThread"), core_times=times, samples=samples)
    stall = only(trace)
    row = stall_json(trace, stall)

    told = "% a blocking call at /app/app.py:50 nap that keeps the GIL" + ", or a stopped process" * may_be_stop
    assert told + ";" in stall_line(trace, stall) + ";"
    assert row["advice"].startswith("run the call in a process")


@pytest.mark.parametrize("asleep", [True, False])
def test_a_holder_that_sleeps_is_in_a_call_while_its_hold_lasts(asleep):
    """Its account stands still at each look; that of a thread that waits for a core grows. No policy helps against a call."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=15)
    script.hold(1, 5, 300, stack=AT_COMPUTE, forced=True)
    trace = script.trace(300, "MainThread", "native")
    looks = tuple(
        CoreTime(at(ms), tid, 0, 0 if asleep or tid == 101 else ms * MS)
        for ms in range(5, 300, 20)
        for tid in (101, 102)
    )
    trace = with_stacks(trace, core_times=looks)
    stall = only(trace)
    kept = [part.kept for part in stall.parts if part.cause is Cause.GIL]

    assert (stall.cause, kept) == ((Cause.GIL, [Kept.C]) if asleep else (Cause.CORE, [None]))
    assert ("no policy can change that" in stall_json(trace, stall)["advice"]) == asleep


def test_an_account_that_covers_a_part_of_a_hold_tells_nothing_of_the_rest():
    """The account tells the part of a hold that it covers, and the rest is the thread's own code."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, 3 * MS, 0) for ms in (100, 220))

    found = {
        part.cause: part.time_ns for part in only(with_stacks(script.trace(300, "MainThread"), core_times=times)).parts
    }
    assert abs(found[Cause.BLOCKED] - 110 * MS) <= 5 * MS
    assert sum(found.values()) == 200 * MS


def test_of_two_looks_the_nearer_one_begins_an_account():
    """A look right after a hold's beginning is preferred to an earlier one, which includes what was long before."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
    times = tuple(
        CoreTime(at(ms), 101, ran * MS, queued * MS) for ms, ran, queued in ((-85, 0, 0), (20, 95, 0), (220, 96, 185))
    )
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    assert stall.cause is Cause.CORE
    assert stall.parts[0].time_ns >= 180 * MS


def test_a_holder_that_hardly_ran_is_not_said_to_be_in_a_call_of_c_while_it_lasts():
    """A holder that hardly ran is not said to be in a C call while its hold lasts.

    A thread without a core looks the same until the system reports that, which it does when it is over.
    """
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=15)
    script.hold(1, 5, 300, stack=AT_COMPUTE, forced=True)
    trace = script.trace(300, "MainThread", "cruncher")
    waits = tuple(CoreTime(at(ms), 101, 0, 0) for ms in (5, 290))
    for ran_ms, cause, kept in ((20, Cause.GIL, None), (280, Cause.GIL, Kept.C)):
        times = (*waits, CoreTime(at(5), 102, 0, 0), CoreTime(at(300), 102, ran_ms * MS, 0))
        stall = only(with_stacks(trace, core_times=times))

        assert (stall.cause, stall.parts[0].kept, stall.parts[0].idle) == (cause, kept, False)


@pytest.mark.parametrize(("last_ms", "core_ms"), [(296, 261), (156, 121), (5, 0)])
def test_a_thread_that_ends_after_its_hold_had_no_core_until_the_last_look_at_it(last_ms, core_ms):
    """A thread that has ended is not looked at again: the account tells the part of its last hold before the last look."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=15)
    script.hold(1, 5, 300, stack=AT_COMPUTE, forced=True).add(301, 1, Kind.EXIT)
    script.hold(0, 302, 303, stack=AT_POLL)
    trace = script.trace(400, "MainThread", "exporter")
    looks = tuple(CoreTime(at(ms), 101, 0, 0) for ms in (5, 310))
    times = (*looks, CoreTime(at(5), 102, 0, 0), CoreTime(at(last_ms), 102, 21 * MS, (last_ms - 26) * MS))
    stall = only(with_stacks(trace, core_times=times))

    assert sum(one.time_ns for one in stall.parts if one.cause is Cause.CORE and one.thread == 1) == core_ms * MS
    assert sum(one.time_ns for one in stall.parts) == stall.length_ns
    assert stall.cause is (Cause.CORE if last_ms == 296 else Cause.GIL)


@pytest.mark.parametrize(
    ("looks", "kept"),
    [
        (((5, 0, 0), (30, 20, 0)), Kept.C),
        (((5, 0, 0), (30, 16, 0)), Kept.C),
        (((5, 0, 0), (30, 16, 4)), Kept.PYTHON),
        (((40, 30, 4),), Kept.PYTHON),
        (((40, 30, 0),), Kept.C),
        (((5, 0, 0), (18.5, 15, 0)), Kept.PYTHON),
        (((5, 0, 0), (18.5, 5, 9)), Kept.PYTHON),
        (((5, 0, 0), (18, 13, 0), (20.8, 13, 0)), Kept.C),
        (((5, 0, 0), (21, 15, 0)), Kept.C),
        ((), None),
    ],
)
def test_a_holder_is_in_a_call_of_c_only_if_it_had_a_core_after_the_request(looks, kept):
    """A holder that kept the GIL for 3 ms after a request may have had no core then: the account excludes that, or not."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=18)
    script.hold(1, 5, 21, stack=AT_COMPUTE, forced=True).hold(0, 21, 22, stack=AT_POLL)
    trace = script.trace(300, "MainThread", "cruncher")
    times = (CoreTime(at(5), 101, 0, 0), CoreTime(at(30), 101, 0, 0))
    times += tuple(CoreTime(at(ms), 102, ran * MS, queued * MS) for ms, ran, queued in looks)
    stall = only(with_stacks(trace, core_times=times), Thresholds(loop_ns=10 * MS))

    assert {part.kept for part in stall.parts if part.cause is Cause.GIL} == {kept}


def test_a_collection_of_the_holder_without_a_core_is_not_the_cause_of_that_time():
    """A collection in another thread that had no core for three quarters of its time has a quarter of it."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL)
    script.hold(1, 10, 210, stack=AT_COMPUTE).hold(0, 210, 211, stack=AT_POLL)
    looks = tuple(CoreTime(at(ms), 102, ran * MS, queued * MS) for ms, ran, queued in ((10, 0, 0), (210, 50, 150)))
    evidence = {"collections": (Collected(102, at(20), at(200), 2),), "core_times": looks}
    stall = only(with_stacks(script.trace(300, "MainThread", "collector"), **evidence))

    lasts_ms = {part.cause: part.time_ns / MS for part in stall.parts}
    assert lasts_ms[Cause.CORE] == pytest.approx(150, abs=5)
    assert lasts_ms[Cause.COLLECTION] == pytest.approx(45, abs=5)
    assert sum(part.time_ns for part in stall.parts) == stall.length_ns


def test_a_stopped_process_is_no_hold_in_python():
    """A stopped holder neither ran nor waited for a core, and released the GIL as soon as it ran: nothing else is known."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=299)
    script.hold(1, 5, 300, stack=AT_COMPUTE, forced=True).hold(0, 300, 301, stack=AT_POLL)
    trace = script.trace(400, "MainThread", "burner")
    looks = tuple(CoreTime(at(ms), 101, 0, 0) for ms in (5, 310))
    times = (*looks, CoreTime(at(5), 102, 0, 0), CoreTime(at(310), 102, 26 * MS, 0))
    stall = only(with_stacks(trace, core_times=times))

    part = stall.parts[0]
    assert (part.cause, part.idle, part.thread, part.kept) == (Cause.UNEXPLAINED, True, 1, None)
    assert part.time_ns >= 250 * MS
    words = "burner held the GIL at /app/app.py:12 compute and did not run (no core, or a sleep in a call, or a stopped process)"
    assert words in stall_line(trace, stall)


def test_a_loop_that_got_no_core_was_late_for_as_long_as_the_system_says():
    """A loop was late for as long as the system says, even if its wait began before the previous look.

    The system reports the length of a wait when the wait is over.
    """
    script = loop(Script()).hold(0, 200, 201, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, 0, queued * MS) for ms, queued in ((5, 0), (185, 0), (198, 90)))
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    assert (stall.cause, stall.length_ns) == (Cause.CORE, 90 * MS)


@pytest.mark.parametrize(
    ("line", "seen", "is_lock"),
    [
        ("with self.entry:", Asleep(at(100), 101), True),
        ("with (self.entry, other):", Asleep(at(100), 101), True),
        ("job = jobs.get()", Asleep(at(100), 101), True),
        ("with self.entry:", Asleep(at(100), 102), False),
        ("with self.entry:", Asleep(at(5), 101), False),
        ("with open(self.entry):", Asleep(at(100), 101), False),
        ("time.sleep(0.2)", Asleep(at(100), 101), False),
    ],
    ids=["lock", "two", "queue", "another thread", "another time", "a file", "a sleep"],
)
def test_a_thread_asleep_at_a_with_line_waits_for_another_thread(tmp_path, line, seen, is_lock):
    """A lock of any name from another file is known if the thread was seen asleep in the kernel's wait for threads."""
    source = tmp_path / "app.py"
    source.write_text("\n" * (SLEEP.line - 1) + f"        {line}\n")
    os.utime(source, (0, 0))
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread"), away=0, asleep=(seen,))
    frames = tuple(dataclasses.replace(one, filename=str(source)) if one == SLEEP else one for one in trace.frames)
    stall = only(dataclasses.replace(trace, frames=frames))

    assert (stall.parts[0].cause, stall.parts[0].lock) == (Cause.BLOCKED, is_lock)


@pytest.mark.parametrize(
    ("queued_ms", "cause", "least_ms"), [((0, 300, 300, 300), Cause.BLOCKED, 185), ((0, 0, 80, 180), Cause.CORE, 179)]
)
def test_a_wait_for_a_core_that_ended_just_before_is_not_the_stalls(queued_ms, cause, least_ms):
    """The account has a wait from its end on: what it adds in a stall's first moments was before it."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
    times = tuple(
        CoreTime(at(ms), 101, 0, queued * MS) for ms, queued in zip((5, 25, 105, 215), queued_ms, strict=True)
    )
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    assert (stall.cause, stall.parts[0].time_ns >= least_ms * MS) == (cause, True)


def test_in_a_trace_a_holder_that_did_not_run_is_unexplained():
    """Without the system's account, the hold's CPU time tells that the holder did not run, and not why; the rest is its call."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=15)
    script.hold(1, 5, 205, stack=AT_COMPUTE, forced=True, ran=0.13).hold(0, 205, 206, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread", "parser"))
    stall = only(trace)

    unexplained, kept = stall.parts[:2]
    assert (unexplained.cause, unexplained.idle, unexplained.place) == (Cause.UNEXPLAINED, True, kept.place)
    assert abs(unexplained.time_ns - 0.87 * 195 * MS) <= MS
    assert (kept.cause, kept.kept) == (Cause.GIL, Kept.C)
    assert "87 % unexplained: parser held the GIL at /app/app.py:12 compute and did not run" in stall_line(trace, stall)
    assert stall_json(trace, stall)["advice"].startswith("`headway watch` tells whether it had no core")


def test_in_a_trace_a_loop_that_did_not_run_is_unexplained():
    """The hold's CPU time tells how much of a loop's hold was its own code; a loop that slept or had no core is told as such."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL, ran=0.2)
    trace = with_stacks(script.trace(300, "MainThread"))
    stall = only(trace)

    assert [(one.cause, one.idle, round(one.time_ns / MS)) for one in stall.parts] == [
        (Cause.UNEXPLAINED, True, 160),
        (Cause.OWN, False, 40),
    ]
    assert "80 % unexplained: it held the GIL and did not run (no core, or" in stall_line(trace, stall)


MODULE = Frame("/app/batch.py", 16, "<module>", 1)
CRUNCH = Frame("/app/batch.py", 7, "crunch", 5)
RUN = Frame("/v/lib/python3.13/asyncio/base_events.py", 1990, "BaseEventLoop._run_once", 1940)


@pytest.mark.parametrize(
    ("stacks", "is_told"),
    [
        ([(CRUNCH, MODULE)] * 4, False),
        ([(CRUNCH, RUN, MODULE)] * 3 + [(CRUNCH, MODULE)], True),
        ([(CRUNCH,)] * 4, True),
        ([(CRUNCH, MODULE)], True),
        ([], True),
    ],
    ids=["after its end", "mostly in it", "in a greenlet", "seen once", "not seen"],
)
def test_code_after_a_loops_end_is_no_stall_of_it(stacks, is_told):
    """A batch that computes between two runs of a loop yields the GIL nowhere; the stacks that were seen tell it."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
    samples = tuple(Sample(at(20 + 40 * n), 101, stack) for n, stack in enumerate(stacks))
    found = find_stalls(
        with_stacks(script.trace(300, "MainThread"), samples=samples), Thresholds(50 * MS, 50 * MS, 50 * MS)
    )

    assert [one.kind for one in found] == [StallKind.LOOP] * is_told
