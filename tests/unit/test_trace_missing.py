"""The bound of the waiting that a trace cannot have: each rule, on traces made by hand."""

from dataclasses import replace

import pytest
from made_traces import MS, START_NS, US, made_process, small

from headway.report.trace.heading import trace_lines
from headway.traces.analysis import analyse
from headway.traces.analysis.json_form import as_json
from headway.traces.analysis.missing import CORE_NS, FIRST_NS, QUIET, WAY_NS, Missing, Part, Unseen
from headway.traces.analysis.missing_words import bound
from headway.traces.model import Evidence, Flag, Gap, Kind, Loss, Park

S = 1000 * MS
MUTEX = Park.MUTEX << 8
WORKER, OTHER = 0, 1


def parts_of(trace, **window):
    """Return the count and the bound of each reason."""
    return {one.why: (one.count, one.most_ns) for one in analyse(first_seen(trace), **window).missing.parts}


def first_seen(trace):
    """Return a trace as the reader gives it: each thread was first seen when it recorded its first event."""
    first_ns = dict(zip(trace.events["thread"][::-1].tolist(), trace.events["time_ns"][::-1].tolist(), strict=True))
    threads = [replace(one, start_ns=first_ns.get(at, one.start_ns)) for at, one in enumerate(trace.threads)]
    return replace(trace, threads=tuple(threads))


def alone(trips, *, thread=WORKER, since=0, each=1 * US):
    """Return the events of a thread that holds the GIL for half of each trip, and does not wait."""
    return [
        (since + each * trip + half * each // 2, kind, thread)
        for trip in range(trips)
        for half, kind in enumerate((Kind.ACQUIRE, Kind.RELEASE))
    ]


def in_order(*rows):
    """Return rows by time."""
    return sorted((one for some in rows for one in some), key=lambda row: row[0])


def free(**changes):
    """Return a process without a GIL."""
    return made_process(free_threaded=True, gil_enabled=False, has_stacks=False, **changes)


def test_each_wait_may_have_begun_a_moment_earlier():
    """The way to the recorder's first look counts for each wait, and a first wait of each thread counts for more."""
    rows = [(0, Kind.ACQUIRE, 0), (1 * MS, Kind.WAIT, 1), (2 * MS, Kind.RELEASE, 0), (2 * MS, Kind.ACQUIRE, 1)]
    rows += [(3 * MS, Kind.WAIT, 0), (4 * MS, Kind.RELEASE, 1), (4 * MS, Kind.ACQUIRE, 0), (5 * MS, Kind.WAIT, 1)]
    rows += [(6 * MS, Kind.RELEASE, 0), (6 * MS, Kind.ACQUIRE, 1)]
    found = analyse(small(rows, end=6 * MS)).missing

    most_ns = 3 * WAY_NS + 2 * FIRST_NS
    assert found == Missing(3 * MS, (Part(Unseen.WAY, 3, most_ns),))
    assert found.most_ns == most_ns
    assert found.share == most_ns / (3 * MS + most_ns)
    assert found.bounded


def test_waits_for_locks_count_without_a_gil():
    """Without a GIL, waits for the interpreter's locks and for objects are waiting; those for the program's may be idle time."""
    rows = [(0, Kind.PARK, 0, 0, 0, MUTEX), (2 * MS, Kind.UNPARK, 0, 0, 0, MUTEX)]
    rows += [(3 * MS, Kind.PARK, 1, 0, 0, Park.LOCK << 8), (9 * MS, Kind.UNPARK, 1, 0, 0, Park.LOCK << 8)]
    found = analyse(small(rows, gils=0, process=free(), end=9 * MS)).missing

    assert found == Missing(2 * MS, (Part(Unseen.WAY, 1, WAY_NS + FIRST_NS),))


def test_a_trace_without_waits_lacks_nothing():
    """A thread alone has no reason to wait, whatever else the recorder does not see."""
    found = analyse(small(alone(2 * QUIET), threads=1, end=2 * QUIET * US)).missing

    assert found == Missing(0, ())
    assert bound(found, 2 * QUIET * US) == ""


def test_a_simulated_run_lacks_nothing():
    """A simulated trace has all waits that there were."""
    rows = [(0, Kind.ACQUIRE, 0), (1 * MS, Kind.WAIT, 1), (2 * MS, Kind.RELEASE, 0), (2 * MS, Kind.ACQUIRE, 1)]
    process = made_process(executable="headway simulate", has_stacks=False)

    assert analyse(small(rows, end=2 * MS, process=process)).missing == Missing(1 * MS, ())


@pytest.mark.parametrize(
    ("trips", "most_ns"), [(QUIET - 1, None), (QUIET, 1 * MS + 500), (QUIET + 10, 1 * MS + 9 * US)]
)
def test_mutex_waits_are_not_watched_after_one_thread_was_alone(trips, most_ns):
    """After 4,096 releases in a row, a thread that comes may have waited since the last of these releases at the earliest."""
    back = QUIET * US + 1 * MS
    rows = in_order(alone(trips), [(back, Kind.ACQUIRE, OTHER), (back + 1, Kind.RELEASE, OTHER)])
    found = parts_of(small(rows, end=back + 1))

    expected = back - (QUIET - 1) * US - 500  # the time of the 4,096th release
    assert found.get(Unseen.MUTEX, (1, None)) == (1, None if most_ns is None else expected)


def test_a_wait_for_the_mutex_is_shorter_than_a_thread_is_without_a_core():
    """Of a long time alone, the last 10 ms count."""
    rows = alone(QUIET) + alone(QUIET, since=QUIET * US, each=100 * US)
    back = rows[-1][0] + 1
    found = parts_of(small([*rows, (back, Kind.ACQUIRE, OTHER), (back + 1, Kind.RELEASE, OTHER)], end=back + 1))

    assert found == {Unseen.MUTEX: (1, CORE_NS)}


def test_a_thread_waits_for_the_mutex_after_its_own_release_only():
    """A thread that held the GIL a moment ago did not want it before, also the one that was alone."""
    rows = [*alone(QUIET), (QUIET * US, Kind.ACQUIRE, OTHER), (QUIET * US + 10, Kind.RELEASE, OTHER)]
    rows += alone(QUIET, since=QUIET * US + 20)
    back = 2 * QUIET * US + 20
    rows += [(back, Kind.ACQUIRE, OTHER), (back + 1, Kind.RELEASE, OTHER)]
    found = parts_of(small(rows, end=back + 1))

    out = (QUIET - 1) * US + 500  # also the last release of the thread that was alone, which is back at 4096.02 us
    out_again = (2 * QUIET - 1) * US + 20 + 500
    assert found == {Unseen.MUTEX: (3, (QUIET * US - out) + (QUIET * US + 20 - out) + (back - out_again))}


def test_threads_that_come_just_after_the_hook_may_have_wanted_the_mutex_before():
    """Those that want the GIL within 10 ms of the hook's return count; one that comes later does not."""
    back = QUIET * US
    rows = [*alone(QUIET), (back, Kind.ACQUIRE, 1), (back + 10, Kind.RELEASE, 1)]
    rows += [(back + 2 * MS, Kind.ACQUIRE, 2), (back + 2 * MS + 10, Kind.RELEASE, 2)]
    rows += [(back + 11 * MS, Kind.ACQUIRE, 3), (back + 11 * MS + 10, Kind.RELEASE, 3)]
    found = parts_of(small(rows, threads=4, end=back + 12 * MS))

    out = (QUIET - 1) * US + 500
    assert found == {Unseen.MUTEX: (2, (back - out) + (back + 2 * MS - out))}


def test_taking_turns_keeps_the_mutex_watched():
    """Threads that acquire the GIL by turns are all seen to wait for its mutex, however seldom they wait for the GIL."""
    rows = in_order(alone(QUIET, each=2 * US), alone(QUIET, thread=OTHER, since=US, each=2 * US))

    assert parts_of(small(rows, end=2 * QUIET * US)) == {}


def test_the_hook_is_out_for_all_gils():
    """One thread alone at one GIL leaves the waits for the others' mutexes unwatched, and any other thread ends that."""
    out, back = (QUIET - 1) * US + 500, QUIET * US
    rows = in_order(alone(QUIET + 9), [(1 * US + 1, Kind.ACQUIRE, 1, 1), (1 * US + 9, Kind.RELEASE, 1, 1)])
    rows = in_order(rows, [(back + 1, Kind.ACQUIRE, 2, 1), (back + 9, Kind.RELEASE, 2, 1)])
    rows = in_order(rows, [(back + 20 * MS, Kind.ACQUIRE, 1, 0), (back + 20 * MS, Kind.RELEASE, 1, 0)])
    found = parts_of(small(rows, threads=3, gils=2, end=back + 20 * MS))

    # The thread that was alone has its GIL when the other one comes, and does not wait.
    assert found == {Unseen.MUTEX: (1, back + 1 - out)}


def test_one_thread_alone_at_its_own_gil_leaves_the_main_one_unwatched():
    """That GIL has no other thread; those of the main GIL, which take turns, may wait for its mutex meanwhile."""
    out, back = (QUIET - 1) * US + 500, QUIET * US
    main = in_order(alone(9, thread=1, each=10 * US), alone(9, thread=2, since=5 * US, each=10 * US))
    main += [(back + 2, Kind.ACQUIRE, 1, 0), (back + 9, Kind.RELEASE, 1, 0)]
    own = [(*row, 1) for row in alone(QUIET)]
    found = parts_of(small(in_order(own, main), threads=3, gils=2, end=back + 9))

    assert found == {Unseen.MUTEX: (1, back + 2 - out)}


def test_a_wait_brings_the_hook_back_also_that_of_the_last_one_to_release():
    """While the hook is out for another GIL, a thread that comes back to its own may have waited for the mutex first."""
    out = (QUIET - 1) * US + 500
    main = [(8 * US, Kind.ACQUIRE, 1), (9 * US, Kind.RELEASE, 1), (10 * US, Kind.ACQUIRE, 2)]
    main += [(out + 5 * US, Kind.WAIT, 1), (out + 9 * US, Kind.RELEASE, 2), (out + 9 * US, Kind.ACQUIRE, 1)]
    own = [(*row, 1) for row in alone(QUIET)]
    found = parts_of(small(in_order(own, main), threads=3, gils=2, end=out + 9 * US))

    assert found[Unseen.MUTEX] == (1, 5 * US)


def test_what_was_overwritten_may_have_been_one_thread_alone():
    """A trace that begins in the middle may begin while waits for the mutex were not watched."""
    rows = [(3 * MS, Kind.ACQUIRE, 1), (4 * MS, Kind.RELEASE, 1)]

    assert parts_of(small(rows, end=4 * MS)) == {}
    found = parts_of(small(rows, end=4 * MS, loss=Loss(overwritten_events=9)))
    assert found == {Unseen.MUTEX: (1, 3 * MS)}


def preempted(asked_ms, back_ns):
    """Return a trace in which a thread releases the GIL on request at 10 ms, and wants it again so long after the hand-off."""
    rows = [(0, Kind.ACQUIRE, 0), (1 * MS, Kind.WAIT, 1), (asked_ms * MS, Kind.REQUEST, 1)]
    rows += [(10 * MS, Kind.RELEASE, 0, 0, 0, Flag.FORCED), (10 * MS + 5 * US, Kind.ACQUIRE, 1)]
    back = 10 * MS + 5 * US + back_ns
    rows += [(back, Kind.WAIT, 0), (30 * MS, Kind.RELEASE, 1), (30 * MS, Kind.ACQUIRE, 0)]
    return small(rows, end=30 * MS)


def test_a_preempted_thread_may_have_lost_its_core_before_it_waited():
    """A release long after the request, and a return neither quick nor late: the thread may have waited since the release."""
    found = parts_of(preempted(6, 3 * MS))

    assert found[Unseen.PREEMPTED] == (1, 5 * US + 3 * MS)
    assert Unseen.PREEMPTED not in parts_of(
        preempted(9.5, 3 * MS)
    )  # it answered the request: its wait has the right begin
    assert Unseen.PREEMPTED not in parts_of(preempted(6, 40 * US))  # so has that of a thread that is back at once
    assert Unseen.PREEMPTED not in parts_of(preempted(6, 11 * MS))  # it was in a call


def test_under_a_policy_a_quick_answer_tells_nothing():
    """A policy makes many requests, so the recorder takes no release for an answer."""
    trace = preempted(9.5, 3 * MS)
    trace = replace(trace, process=replace(trace.process, policy="fair"))

    assert parts_of(trace)[Unseen.PREEMPTED] == (1, 5 * US + 3 * MS)


def test_threads_may_have_waited_when_the_recording_began():
    """A thread that was there, and comes within a switch interval, may have waited since the begin; another one did not."""
    rows = [(1 * MS, Kind.ACQUIRE, 0, 0, 0, Flag.ASSUMED), (3 * MS, Kind.WAIT, 1), (4 * MS, Kind.WAIT, 2)]
    rows += [(56 * MS, Kind.WAIT, 3), (57 * MS, Kind.WAIT, 4)]
    trace = small(rows, threads=5, end=60 * MS)

    assert Unseen.BEGIN not in parts_of(trace)
    trace = replace(trace, evidence=Evidence(there=tuple(trace.threads[one].tid for one in (0, 1, 3, 4))))
    assert parts_of(trace)[Unseen.BEGIN] == (2, 3 * MS + 56 * MS)
    assert parts_of(trace, until_ns=START_NS + 9 * MS)[Unseen.BEGIN] == (2, 3 * MS + 9 * MS)
    assert parts_of(trace, since_ns=START_NS + 5 * MS)[Unseen.BEGIN] == (1, 51 * MS)
    assert Unseen.BEGIN not in parts_of(trace, since_ns=START_NS + 56 * MS)


def test_threads_that_were_seen_before_a_cut_did_not_wait_from_before_the_recording():
    """Where the front was overwritten, or not read, the threads still tell when they were first seen."""
    rows = [(1 * MS, Kind.WAIT, 0), (2 * MS, Kind.WAIT, 1)]
    trace = first_seen(small(rows, threads=2, end=9 * MS, loss=Loss(overwritten_events=9)))
    early = replace(trace.threads[0], start_ns=START_NS - 9 * MS)
    trace = replace(trace, threads=(early, trace.threads[1]), evidence=Evidence(there=(70, 71)))

    found = {one.why: one for one in analyse(trace).missing.parts}
    assert found[Unseen.BEGIN] == Part(Unseen.BEGIN, 1, 2 * MS)


@pytest.mark.parametrize("loss", [Loss(), Loss(overwritten_events=9)])
def test_nothing_bounds_waits_for_locks_in_a_later_window(loss):
    """A thread that was not seen before the window may still sleep in the call from before the recording."""
    rows = [(1 * MS, Kind.PARK, 0, 0, 0, MUTEX), (2 * MS, Kind.UNPARK, 0, 0, 0, MUTEX)]
    rows += [(6 * MS, Kind.PARK, 1, 0, 0, MUTEX), (7 * MS, Kind.UNPARK, 1, 0, 0, MUTEX)]
    trace = small(rows, gils=0, process=free(), end=9 * MS, loss=loss, evidence=Evidence(there=(70, 71, 99)))

    assert parts_of(trace)[Unseen.BEGIN] == (3, None)
    assert parts_of(trace, since_ns=START_NS + 5 * MS)[Unseen.BEGIN] == (2, None)
    assert parts_of(trace, since_ns=START_NS + 8 * MS)[Unseen.BEGIN] == (1, None)
    assert parts_of(replace(trace, events=trace.events[:0]))[Unseen.BEGIN] == (3, None)
    seen = replace(trace, evidence=Evidence(there=(70, 71)))
    assert Unseen.BEGIN not in parts_of(seen, since_ns=START_NS + 8 * MS)


def test_nothing_bounds_waits_for_locks_from_before_the_recording():
    """Without a GIL, a wait that was under way has no beginning in the trace, and its thread may have no event for long."""
    rows = [(1 * MS, Kind.PARK, 0, 0, 0, MUTEX), (9 * MS, Kind.UNPARK, 0, 0, 0, MUTEX)]
    trace = small(rows, gils=0, process=free(), end=9 * MS, evidence=Evidence(there=(70,)))
    found = analyse(trace).missing

    assert found.parts[0] == Part(Unseen.BEGIN, 1, None)
    assert not found.bounded
    assert bound(found, 9 * MS) == (
        "nothing bounds the waiting that may be missing: waits of 1 thread from before the recording; "
        "for other reasons, at most 0.3 % of the waiting (21 us)"
    )


def test_a_thread_may_have_waited_where_its_events_are_missing():
    """The gaps count, as far as they are in the window."""
    trace = small([(0, Kind.ACQUIRE, 0)], end=9 * MS, loss=Loss(dropped_events=7))
    trace = replace(
        trace, gaps=(Gap(0, START_NS + 1 * MS, START_NS + 3 * MS), Gap(1, START_NS + 5 * MS, START_NS + 6 * MS))
    )

    assert parts_of(trace) == {Unseen.DROPPED: (2, 3 * MS)}
    assert parts_of(trace, since_ns=START_NS + 2 * MS) == {Unseen.DROPPED: (2, 2 * MS)}


def test_threads_without_an_event_may_have_waited_all_the_time():
    """Each thread of which the file has nothing counts with the whole window, and dropped events without a place may be its own."""
    loss = Loss(dropped_events=7, unseen_threads=2, unplaced_events=3)

    assert parts_of(small([(0, Kind.ACQUIRE, 0)], end=9 * MS, loss=loss)) == {Unseen.THREADS: (2, 18 * MS)}
    assert parts_of(small([(0, Kind.ACQUIRE, 0)], end=9 * MS, loss=replace(loss, dropped_events=0))) == {}


def test_nothing_bounds_what_has_no_place():
    """Dropped events of unknown threads, and damage, may have been any waits; without a GIL, two such events are one wait."""
    rows = [(0, Kind.ACQUIRE, 0)]
    lost = Loss(dropped_events=7, unplaced_events=3, damaged_bytes=16)

    assert parts_of(small(rows, end=9 * MS, loss=lost)) == {Unseen.UNPLACED: (3, None), Unseen.DAMAGED: (16, None)}
    trace = small([], gils=0, process=free(), end=9 * MS, loss=Loss(dropped_events=4, unplaced_events=4))
    assert parts_of(trace) == {Unseen.FORKED: (2, 18 * MS)}


def test_a_killed_process_has_lost_the_last_spins():
    """Without a GIL, a spin is written at the thread's next event: 40 yields of it may be missing at the end of each thread."""
    rows = [(1 * MS, Kind.PARK, 0, 0, 0, MUTEX), (2 * MS, Kind.UNPARK, 0, 0, 0, MUTEX), (3 * MS, Kind.EXIT, 2)]
    rows += [(4 * S - 5 * MS, Kind.PARK, 1, 0, 0, MUTEX), (4 * S - 5 * MS, Kind.UNPARK, 1, 0, 0, MUTEX)]
    killed = small(rows, threads=3, gils=0, process=free(ended=False), end=4 * S)

    assert parts_of(killed)[Unseen.SPINS] == (2, 40 * CORE_NS + 5 * MS)
    assert Unseen.SPINS not in parts_of(replace(killed, process=free()))
    assert Unseen.SPINS not in parts_of(killed, until_ns=START_NS + 1 * S)


def test_a_parked_thread_has_no_spin_to_lose():
    """A thread that is parked when its process is killed has a wait until then, with the spin before it."""
    killed = small([(1 * MS, Kind.PARK, 0, 0, 0, MUTEX)], threads=1, gils=0, process=free(ended=False), end=9 * MS)

    assert Unseen.SPINS not in parts_of(killed)


def test_the_report_says_the_bound_in_one_line():
    """The terminal and the page have one line, the greatest reason first; JSON has all reasons."""
    rows = [(0, Kind.ACQUIRE, 0), (1 * MS, Kind.WAIT, 1), (9 * MS, Kind.RELEASE, 0), (9 * MS, Kind.ACQUIRE, 1)]
    trace = small(rows, end=9 * MS, gaps=(Gap(0, START_NS + 4 * MS, START_NS + 6 * MS),), loss=Loss(dropped_events=1))
    analysis = analyse(trace)

    line = "at most 20 % of the waiting (2.02 ms) may be missing: 1 gap in the events of threads"
    assert [one for one in trace_lines(analysis) if "missing" in one] == [line]
    most_ns = 2 * MS + WAY_NS + FIRST_NS
    assert as_json(analysis)["missing"] == {
        "waited_ns": 8 * MS,
        "most_ns": most_ns,
        "share": round(most_ns / (8 * MS + most_ns), 6),
        "parts": [
            {"why": "dropped", "count": 1, "most_ns": 2 * MS},
            {"why": "way", "count": 1, "most_ns": WAY_NS + FIRST_NS},
        ],
    }


def test_json_has_no_bound_where_there_is_none():
    """The sum of some reasons would be taken for the bound."""
    trace = small([(0, Kind.ACQUIRE, 0)], end=9 * MS, loss=Loss(damaged_bytes=16))

    found = as_json(analyse(trace))["missing"]
    assert (found["most_ns"], found["share"]) == (None, None)


def test_waiting_that_does_not_matter_has_no_line():
    """Where waiting cannot be a hundredth of the time, its bound is of no use, whatever its share; JSON has it all the same."""
    rows = [
        (0, Kind.ACQUIRE, 0),
        (1 * MS, Kind.WAIT, 1),
        (1 * MS + 10, Kind.RELEASE, 0),
        (1 * MS + 10, Kind.ACQUIRE, 1),
    ]
    analysis = analyse(small(rows, end=100 * MS))

    assert analysis.missing.share > 0.9
    assert not any("missing" in one for one in trace_lines(analysis))
    assert (
        bound(analysis.missing, 1 * MS)
        == "at most 100 % of the waiting (21 us) may be missing: the first moment of 1 wait"
    )


def test_what_nothing_bounds_has_a_line_however_little_is_known():
    """The sum of the other reasons leaves it out: where that sum does not matter, the line says only what has no bound."""
    rows = [(1 * MS, Kind.PARK, 0, 0, 0, MUTEX), (1 * MS + 10, Kind.UNPARK, 0, 0, 0, MUTEX)]
    trace = small(rows, gils=0, process=free(), end=900 * MS, evidence=Evidence(there=(71, 72)))
    lines = [one for one in trace_lines(analyse(trace)) if "missing" in one]

    assert lines == ["nothing bounds the waiting that may be missing: waits of 2 threads from before the recording"]


def test_every_reason_has_words():
    """A line can be made of any reason, with a bound and without one."""
    for why in Unseen:
        for most_ns in (5 * MS, None):
            assert bound(Missing(9 * MS, (Part(why, 2, most_ns),)), 9 * MS).startswith(
                "at most" if most_ns else "nothing"
            )


def test_the_limits_are_the_recorders(request):
    """The rules stand for the recorder's own numbers."""
    native = request.config.rootpath / "native"
    texts = {name: (native / name).read_text() for name in ("gil/hooks.c", "trace/events.c")}

    assert f"hw__hooks_quiet = {QUIET};" in texts["gil/hooks.c"]
    assert f"#define MUTEX_MOST_NS {CORE_NS}\n" in texts["trace/events.c"]
    assert "#define ANSWERED_NS 1000000\n" in texts["trace/events.c"]
    assert "#define PREEMPTED_NS 50000\n" in texts["trace/events.c"]
