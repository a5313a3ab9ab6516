"""The analysis of traces on paper: holds, waits, blame, convoys, lines of code, locks, JSON."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest
from made_traces import MS, START_NS, made_trace
from told_traces import AT_COMPUTE, AT_RECV, AT_SERVE, COMPUTE, RECV, SERVE, Script, convoy

from headway.traces.analysis import analyse, as_json
from headway.traces.analysis.intervals import recorded
from headway.traces.analysis.threads import NOTHING, Distribution, distribution
from headway.traces.analysis.words import duration, labels, listed, number, place, roles, share
from headway.traces.export.parks import parks
from headway.traces.model import Frame, Gil, Kind, Park, Thread


@pytest.fixture
def three():
    """Return a trace of three threads.

    Thread 0 holds from 0 to 10 ms, 1 from 11 to 14, and 2 from 14 to 20; 1 waits from 4, and 2 from 8.
    """
    script = Script().hold(0, 0, 10, forced=True).wait(1, 4, asks_ms=9).hold(1, 11, 14, stack=AT_SERVE)
    return script.wait(2, 8, stack=AT_SERVE).hold(2, 14, 20).trace(20, "zero", "one", "two")


def test_threads_have_their_holds_and_waits(three):
    """A thread's hold and wait times, counts and forced releases are exact, and the thread with the most time is first."""
    by_name = {thread.name: thread for thread in analyse(three).threads}
    zero, one, two = by_name["zero"], by_name["one"], by_name["two"]

    assert [thread.name for thread in analyse(three).threads] == ["two", "zero", "one"]
    assert zero.holds == Distribution(1, 10 * MS, 10 * MS, 10 * MS, 10 * MS, 10 * MS)
    assert (zero.forced, zero.voluntary, zero.waits) == (1, 0, NOTHING)
    assert (one.holds.total_ns, one.waits.total_ns, one.voluntary) == (3 * MS, 7 * MS, 1)
    assert (two.holds.total_ns, two.waits.total_ns) == (6 * MS, 6 * MS)


def test_blame_tells_who_held_during_a_wait(three):
    """A wait is divided among the holders in that time, and the time without a holder."""
    (gil,) = analyse(three).gils
    blame = gil.blame

    assert blame.waiters.tolist() == [1, 2]
    assert blame.holders.tolist() == [0, 2, 1]
    assert blame.held_ns.tolist() == [[6 * MS, 0, 0], [2 * MS, 0, 3 * MS]]
    assert blame.nobody_ns.tolist() == [1 * MS, 1 * MS]
    assert blame.others_ns.tolist() == [0, 0]
    assert blame.wait_ns.tolist() == [7 * MS, 6 * MS]
    assert (gil.nobody_ns, gil.handovers, gil.handover_ns) == (2 * MS, 2, 1 * MS)


def test_lines_of_code_have_their_holds(three):
    """A line's holds are those released there, with the others' waiting time and the time after a request."""
    found = analyse(three)
    compute, serve = found.held

    assert (compute.frame, compute.times.count, compute.times.total_ns, compute.forced) == (COMPUTE, 2, 16 * MS, 1)
    assert (compute.blocked_ns, compute.overrun_ns, compute.overrun_max_ns) == (8 * MS, 1 * MS, 1 * MS)
    assert (serve.frame, serve.threads, serve.blocked_ns) == (SERVE, ("one",), 3 * MS)
    assert [(one.frame, one.times.total_ns) for one in found.waited] == [(RECV, 7 * MS), (SERVE, 6 * MS)]
    assert found.waited[0].stack == (RECV, SERVE)
    assert [one.length_ns for one in found.longest] == [10 * MS, 6 * MS, 3 * MS]


def test_lines_of_some_threads_only(three):
    """The lines and longest holds of chosen threads are theirs, and the threads and the blame stay whole."""
    found = analyse(three, threads={1})

    assert [one.frame for one in found.held] == [SERVE]
    assert [one.frame for one in found.waited] == [RECV]
    assert [one.thread for one in found.longest] == ["one"]
    assert len(found.threads) == 3


def test_a_window_cuts_holds_and_waits(three):
    """Holds and waits are cut at the edge of the window, and not counted outside it."""
    found = analyse(three, since_ns=START_NS + 9 * MS, until_ns=START_NS + 12 * MS)
    by_name = {thread.name: thread for thread in found.threads}

    assert found.wall_ns == 3 * MS
    assert found.events == 3
    assert by_name["zero"].holds.total_ns == 1 * MS
    assert (by_name["one"].waits.total_ns, by_name["one"].holds.total_ns) == (2 * MS, 1 * MS)
    assert (by_name["two"].waits.total_ns, by_name["two"].holds.total_ns) == (3 * MS, 0)
    assert found.gils[0].blame.nobody_ns.tolist() == [1 * MS, 1 * MS]


def test_what_a_window_cuts_at_its_end_has_no_end_in_it():
    """A hold that goes on after the window was neither preempted nor ended there, and a wait that does is no hand-over."""
    script = Script().hold(0, 0, 10, forced=True).hold(1, 10, 20).wait(1, 2, asks_ms=7).wait(0, 10, stack=AT_COMPUTE)
    trace = script.hold(0, 20, 30).trace(30, "zero", "one")
    known = {until: analyse(trace, until_ns=START_NS + until * MS) for until in (5, 8, 10, 15, 30)}

    figures = {
        until: (found.gils[0].forced, found.gils[0].handovers, sum(one.voluntary for one in found.threads))
        for until, found in known.items()
    }
    assert figures == {5: (0, 0, 0), 8: (0, 0, 0), 10: (1, 1, 0), 15: (1, 1, 0), 30: (1, 2, 2)}
    assert {until: [one.open for one in found.longest] for until, found in known.items()} == {
        5: [True], 8: [True], 10: [False], 15: [False, True], 30: [False, False, False]
    }  # fmt: skip
    # What a hold runs is known from its request on.
    assert [[one.ran for one in known[until].behind] for until in (5, 8)] == [[False], [True, False]]


@pytest.mark.parametrize("window", [(-5, -1), (25, 30), (12, 8)])
def test_a_window_beside_the_trace_is_empty(three, window):
    """A window before or after the trace, or one that ends before it begins, is empty."""
    since_ns, until_ns = (START_NS + edge * MS for edge in window)
    found = analyse(three, since_ns=since_ns, until_ns=until_ns)

    assert found.wall_ns == 0
    assert sum(gil.holds.total_ns + gil.waits.total_ns for gil in found.gils) == 0


def test_use_over_time_is_by_bucket_and_thread(three):
    """The buckets of 0.2 ms between 10 and 11 ms are free, and at 9 ms two threads wait."""
    line = analyse(three).gils[0].timeline

    assert len(line.held) == 100
    assert line.held.tolist() == [1.0] * 50 + [0.0] * 5 + [1.0] * 45
    assert line.waiting[[10, 25, 45, 60, 80]].tolist() == [0, 1, 2, 1, 0]
    assert line.threads.tolist() == [0, 2, 1]
    assert line.held_by.sum(axis=1).tolist() == [50, 30, 15]


def test_what_is_open_ends_with_the_trace_the_thread_or_the_gil():
    """A hold or wait without an end lasts until its thread, its GIL or the trace ends, and is marked."""
    script = Script().add(1, 0, Kind.ACQUIRE).wait(1, 2).wait(2, 3).add(5, 2, Kind.EXIT).wait(3, 4, gil=1)
    trace = script.trace(9, "a", "b", "c", "d", gils=2)
    ended = Gil(1, False, 1, START_NS, START_NS + 7 * MS)
    found = recorded(type(trace)(**{**vars(trace), "gils": (trace.gils[0], ended)}))

    assert (found.holds.length_ns.tolist(), found.holds.open.tolist()) == ([8 * MS], [True])
    assert found.waits.length_ns.tolist() == [7 * MS, 2 * MS, 3 * MS]
    assert found.waits.open.tolist() == [True, False, True]


def test_lost_events_leave_holds_that_do_not_overlap():
    """A hold whose release was lost ends where the next begins; a wait without its end is counted and left out."""
    script = Script().add(0, 0, Kind.ACQUIRE).hold(1, 4, 6).wait(2, 1).wait(2, 5).hold(2, 6, 8).add(8, 1, Kind.RELEASE)
    found = recorded(script.trace(9, "a", "b", "c"))

    assert found.holds.length_ns.tolist() == [4 * MS, 2 * MS, 2 * MS]
    assert found.holds.open.tolist() == [True, False, False]
    assert found.waits.length_ns.tolist() == [1 * MS]
    assert found.unpaired == 2


def test_the_switch_interval_is_the_one_in_force():
    """Each time has the interval that was set last, and the main one is the one that was in force longest."""
    script = Script().add(2, 0, Kind.INTERVAL, 1000).add(9, 0, Kind.INTERVAL, 500)
    interval = recorded(script.trace(10)).interval
    times = [START_NS + time * MS for time in (0, 1, 2, 8, 9, 10)]

    assert interval.at(np.array(times)).tolist() == [5 * MS, 5 * MS, MS, MS, MS // 2, MS // 2]
    assert interval.main_ns(START_NS, START_NS + 10 * MS) == MS
    assert interval.main_ns(START_NS, START_NS + 3 * MS) == 5 * MS
    assert interval.main_ns(START_NS + 9 * MS, START_NS + 10 * MS) == MS // 2
    assert interval.main_ns(START_NS + 3 * MS, START_NS + 3 * MS) == MS


def test_a_wait_for_a_lock_whose_end_was_lost_is_left_out():
    """After a lost end, the thread has done other things until its next wait: exports leave such a wait out."""
    script = Script().add(1, 0, Kind.PARK, AT_SERVE, flags=Park.MUTEX << 8).park(0, 900, 901, Park.MUTEX)
    found = parks(script.trace(1000, stacks=True))

    assert (found.end_ns - found.start_ns).tolist() == [MS]


def test_a_sub_interpreter_has_a_switch_interval_of_its_own():
    """The interval of another GIL changes nothing about the main one."""
    script = Script().add(0, 0, Kind.INTERVAL, 50_000, gil=1).add(9, 0, Kind.INTERVAL, 1000)

    assert recorded(script.trace(10, gils=2)).interval.main_ns(START_NS, START_NS + 10 * MS) == 5 * MS


def test_percentiles_are_nearest_rank():
    """The percentiles of 1 to 10 are recorded values: p50 is 5, p90 is 9 and p99 is 10."""
    assert distribution(np.arange(10, 0, -1)) == Distribution(10, 55, 5, 9, 10, 10)


def test_a_convoy_is_found_with_its_cost():
    """A thread that waits an interval behind one that computes, 20 times, is a convoy of 20 waits and 100 ms."""
    found = analyse(convoy())
    (one,) = found.gils[0].convoys

    assert (one.waiter, one.holder, one.waits.count, one.waits.total_ns) == ("reader", "cruncher", 20, 100 * MS)
    assert (one.interval_ns, one.all_waits_ns) == (5 * MS, 100 * MS)
    assert one.waiter_stack == (RECV, SERVE)
    assert one.holder_stack == (COMPUTE,)


@pytest.mark.parametrize(
    "trace",
    [
        convoy(rounds=9),
        convoy(work_ms=1.0),
        convoy(interval_us=50_000),
    ],
    ids=["too few", "the waiter holds long itself", "shorter than the interval"],
)
def test_other_waits_are_no_convoy(trace):
    """Few waits, waits of a thread with long holds itself, and waits shorter than an interval are no convoy."""
    assert analyse(trace).gils[0].convoys == ()


def test_the_end_of_a_turn_is_no_convoy():
    """A thread that was preempted and waits for its next turn is in no convoy, however short its holds are."""
    script, now = Script(), 0.0
    for _ in range(20):
        script.wait(1, now, asks_ms=now + 5).hold(0, now, now + 5, forced=True)
        script.wait(0, now + 5).hold(1, now + 5, now + 5.02, forced=True)
        now += 5.02

    assert analyse(script.trace(now, "a", "b")).gils[0].convoys == ()


@pytest.mark.parametrize(("ran", "is_convoy"), [(0.0, False), (0.05, False), (0.5, True), (1.0, False), (None, True)])
def test_a_wait_behind_a_call_that_keeps_the_gil_is_no_convoy(ran, is_convoy):
    """A call of C that sleeps or computes with the GIL ends when it ends: neither a shorter interval nor a policy helps.

    A thread that computes, and has no core for half of the time, is in a convoy all the same.
    """
    script, now = Script(), 0.0
    for _ in range(20):
        script.wait(1, now, asks_ms=now + 5).hold(0, now, now + 9, forced=True, ran=ran)
        script.wait(0, now + 9).hold(1, now + 9, now + 9.02)
        now += 9.02

    assert bool(analyse(script.trace(now, "a", "b")).gils[0].convoys) is is_convoy


def test_a_wait_behind_a_long_call_is_no_convoy():
    """Waits behind a hold that goes on for two intervals after a request are no convoy.

    A shorter interval would not help there.
    """
    script, now = Script(), 0.0
    for _ in range(20):
        script.wait(1, now, asks_ms=now + 5).hold(0, now, now + 16, forced=True)
        script.wait(0, now + 16).hold(1, now + 16, now + 16.02)
        now += 16.02

    assert analyse(script.trace(now, "a", "b")).gils[0].convoys == ()


def test_a_pool_is_one_role():
    """Ten workers that wait in turn are one convoy of their pool, and three workers are three convoys."""
    pool = tuple(f"ThreadPoolExecutor-0_{number}" for number in range(10))
    (one,) = analyse(convoy(rounds=40, waiters=pool)).gils[0].convoys

    assert (one.waiter, one.waiters, one.waits.count) == ("ThreadPoolExecutor-*_*", 10, 40)
    assert len(analyse(convoy(rounds=40, waiters=pool[:3])).gils[0].convoys) == 3


def test_roles_are_for_many_threads_only():
    """Up to eight threads keep their names; among more, names that differ in numbers are one role."""
    few, many = [f"w-{n}" for n in range(8)], [f"w-{n}" for n in range(9)]

    def threads(names):
        return [Thread(number, number, name, 0, None) for number, name in enumerate(names, 1)]

    assert roles(threads(few), few, range(8)) == tuple(few)
    assert set(roles(threads(many), many, range(9))) == {"w-*"}


def test_a_pool_is_summed_up_by_role():
    """Nine threads of a pool are one summary with all their holds and waits; a thread outside the pool has its own."""
    script = Script()
    for worker in range(9):
        script.wait(worker, 0).hold(worker, 10 * worker, 10 * worker + 1 + worker)
    script.hold(9, 95, 96)
    found = analyse(script.trace(100, *[f"w-{number}" for number in range(9)], "main"))
    pool, main = found.roles

    assert (pool.label, pool.threads, main.label, main.threads) == ("w-*", 9, "main", 1)
    assert (pool.holds.count, pool.holds.total_ns, pool.holds.max_ns) == (9, 45 * MS, 9 * MS)
    assert (pool.waits.count, pool.waits.total_ns) == (9, 360 * MS)
    assert pool.holds.total_ns == sum(one.holds.total_ns for one in found.threads if one.label != "main")
    assert [one.threads for one in found.threads] == [1] * 10
    assert analyse(convoy()).roles == ()


def test_sub_interpreters_are_told_apart():
    """Two GILs that are held at the same time each have their own use, blame and name."""
    script = Script().hold(0, 0, 10).hold(1, 0, 8, gil=1).wait(2, 4, gil=1).hold(2, 8, 9, gil=1)
    found = analyse(script.trace(10, "main", "one", "two", gils=2))
    first, second = found.gils

    assert [gil.name for gil in found.gils] == ["GIL 1", "the main GIL"]
    assert (first.holds.total_ns, first.waits.total_ns, first.threads) == (9 * MS, 4 * MS, 2)
    assert (second.holds.total_ns, second.waits.total_ns, second.threads) == (10 * MS, 0, 1)
    assert first.blame.held_ns.tolist() == [[4 * MS, 0]]


def test_waits_for_locks_are_by_kind_line_and_type():
    """Parks of the same kind, line and type are one place, and open ones end with the trace."""
    script = Script().park(0, 0, 3, Park.OBJECT, of=1).park(1, 1, 5, Park.OBJECT, of=1).park(0, 4, 5, Park.LOCK)
    script.add(8, 1, Kind.PARK, AT_RECV, flags=Park.MUTEX << 8)
    found = analyse(script.trace(10, "a", "b", gils=0, types=("", "dict"), free_threaded=True, gil_enabled=False))
    places = [(one.kind, one.type_name, one.frame, one.times.total_ns, one.threads) for one in found.contention.places]

    assert places == [
        (Park.OBJECT, "dict", SERVE, 7 * MS, 2),
        (Park.MUTEX, "", RECV, 2 * MS, 1),
        (Park.LOCK, "", SERVE, 1 * MS, 1),
    ]
    assert {kind: times.total_ns for kind, times in found.contention.kinds.items()} == {
        Park.OBJECT: 7 * MS,
        Park.MUTEX: 2 * MS,
        Park.LOCK: 1 * MS,
    }


def test_an_empty_trace_has_an_analysis():
    """A trace without an event or a thread gives empty tables."""
    found = analyse(Script().trace(0))

    assert (found.threads, found.gils, found.held, found.longest) == ((), (), (), ())
    assert found.findings == ()


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1 us"),
        (12_345, "12.3 us"),
        (999_999, "1 ms"),
        (5 * MS, "5 ms"),
        (1_234 * MS, "1.23 s"),
        (999_900 * MS, "1,000 s"),
        (123_456_000 * MS, "123,456 s"),
    ],
)
def test_times_have_a_unit_and_three_digits(time_ns, text):
    """A time is written in the unit that fits it, and never as 1,000 of a smaller one."""
    assert duration(time_ns) == text


def test_words_for_figures():
    """Shares, counts, names and lines are written as people read them."""
    assert [share(part, 1000) for part in (0, 0.5, 23, 99.4, 995)] == ["0 %", "< 0.1 %", "2.3 %", "9.9 %", "100 %"]
    assert share(1, 0) == "-"
    assert (number(1, "wait"), number(1204, "process", "processes")) == ("1 wait", "1,204 processes")
    assert [listed(list("abcde"[:n])) for n in range(1, 6)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and d",
        "a, b, c and 2 more",
    ]
    assert place(Frame("/srv/site/app/views/show.py", 12, "show")) == ".../app/views/show.py:12 show"
    assert (place(Frame("a.py", 0, "f")), place(None)) == ("a.py:? f", "?")


def test_threads_of_one_name_are_told_apart():
    """A name that is not unique gets the native id, and then the serial."""
    ones = [("a", 7), ("b", 8), ("b", 9), ("c", 5), ("c", 5), ("", 3)]
    threads = [Thread(serial, tid, name, 0, None) for serial, (name, tid) in enumerate(ones, 1)]

    assert labels(threads) == ("a", "b [8]", "b [9]", "c [5] #4", "c [5] #5", "thread 3")


def keys(value):
    """Return all keys in JSON, with their paths."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_json_has_the_documented_keys():
    """The keys are those that programs rely on, and keys of nanoseconds say so."""
    value = as_json(analyse(convoy()))
    gil = value["gils"][0]

    assert " ".join(value) == (
        "version process window events switch_interval_ns wait_ns findings labels threads roles gils held waited longest_holds locks lock_waits what_if missing losses"
    )
    assert set(gil) == (
        {
            "index",
            "main",
            "name",
            "threads",
            "wall_ns",
            "switch_interval_ns",
            "held_share",
            "holds",
            "waits",
            "forced",
            "handovers",
        }
        | {"handover_ns", "nobody_ns", "off_core_ns", "blame", "blame_by_role", "timeline", "convoys"}
    )
    assert set(gil["holds"]) == {field.name for field in fields(Distribution)}
    assert gil["blame"][0] == {
        "waiter": 1,
        "wait_ns": 100 * MS,
        "by": [{"holder": 0, "wait_ns": 100 * MS}],
        "others_ns": 0,
        "nobody_ns": 0,
    }
    assert gil["convoys"][0]["waits"]["count"] == 20
    assert value["held"][0]["frame"] == {"file": "app.py", "line": 12, "function": "compute"}
    assert set(value["held"][0]) - set(value["waited"][0]) == {
        "overrun_ns",
        "overrun_max_ns",
        "overrun_threads",
        "blocked_ns",
        "late_blocked_ns",
    }
    assert value["window"] == {"start_ns": 0, "end_ns": round(100.4 * MS), "wall_ns": round(100.4 * MS)}
    assert not [key for key in keys(value) if re.search(r"_m?s$|_us$", key) and key != "interval_us"]
    json.dumps(value, allow_nan=False)


def test_the_same_trace_gives_the_same_json():
    """An analysis depends neither on chance nor on earlier analyses."""
    first, second = (json.dumps(as_json(analyse(made_trace(events=3000, threads=9, gils=2)))) for _ in range(2))

    assert first == second


def test_a_stack_that_is_not_known_is_a_line_of_its_own():
    """Holds released at an unknown stack count, without a frame."""
    found = analyse(Script().hold(0, 0, 5, stack=0).hold(0, 6, 7, stack=AT_COMPUTE).trace(8))

    assert [(one.frame, one.times.total_ns) for one in found.held] == [(None, 5 * MS), (COMPUTE, 1 * MS)]
