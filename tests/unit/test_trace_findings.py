"""The findings of traces on paper: fact, cause and advice, and when there is none."""

import dataclasses
import os
from pathlib import Path

import pytest
from made_traces import MS
from told_traces import AT_COMPUTE, AT_RECV, AT_SERVE, COMPUTE, RECV, SERVE, Script, convoy, told

from headway.traces.analysis import analyse, as_json
from headway.traces.analysis.findings import findings
from headway.traces.model import RAN_SHIFT, Kind, Loss

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "schedule-a-program.md"


def test_a_convoy_is_told_with_names_lines_and_figures():
    """The finding names the waiter and the holder, where, how often and how long, and the cost of a shorter interval."""
    one = told(convoy())["convoy"]

    assert one.weight == "problem"
    assert one.fact == (
        "reader waited 20 times (199/s) for the GIL behind cruncher: 5 ms at the median (switch interval: 5 ms), "
        "100 ms in total, 100 % of its waiting time"
    )
    assert one.cause == (
        "a convoy: cruncher computes at app.py:12 compute and releases the GIL only on request, one switch interval after "
        "each return of reader from a blocking call at .../lib/python3.13/socket.py:700 SocketIO.readinto, called from app.py:30 serve"
    )
    assert one.advice.startswith(
        "move the work of cruncher at app.py:12 compute out of the process: `ProcessPoolExecutor`; or"
    )
    cost = "`sys.setswitchinterval(0.0005)` would make these waits shorter, at the cost of more forced hand-offs (each takes "
    assert cost in one.advice
    assert (one.cost_ns, one.threads, one.frame) == (100 * MS, ("reader", "cruncher"), COMPUTE)


def test_a_convoys_advice_names_our_own_remedy():
    """The advice includes `headway run`, with its effect in measured cases."""
    advice = told(convoy())["convoy"].advice

    assert "under `headway run`, so that reader acquires the GIL at once" in advice
    figures = "0.02 to 0.31"
    assert f"{figures} of their former p99" in advice
    assert f"their p99 is {figures} of its value without a policy" in GUIDE.read_text(encoding="utf-8")


def connections(threads, *, asked=True):
    """Return a trace of `threads` connections, each of which waits for the one before.

    A connection runs `compute` for 8 ms, then `recv` for 4.
    """
    script, now = Script(), 0.0
    for number in range(threads):
        script.hold(number, now, now + 8, stack=AT_COMPUTE if asked else AT_RECV, forced=asked)
        script.hold(number, now + 8, now + 12, stack=AT_RECV)
        if number + 1 < threads:
            script.wait(number + 1, now, stack=AT_RECV)
        now += 12
    return script.trace(now, *[f"Thread-{number} (process_request)" for number in range(threads)])


@pytest.mark.parametrize("threads", [20, 300])
def test_the_function_behind_which_most_waited_comes_first(threads):
    """The function is the first finding whatever the number of its threads, which are reported as one role."""
    first = analyse(connections(threads)).findings[0]

    assert first.kind == "behind-a-function"
    assert first.fact.startswith("67 % or more of all waiting for the GIL, ")
    assert "happened while `compute` ran with the GIL; it held for " in first.fact
    assert "in Thread-* (process_request)" in first.fact
    assert first.fact.endswith("at app.py:12 compute")
    assert first.frame == COMPUTE
    assert first.threads == ("Thread-* (process_request)",)


@pytest.mark.parametrize("trace", [connections(20), convoy()])
def test_the_finding_that_names_the_function_comes_before_those_without_a_line(trace):
    """A larger cost that no line explains does not say where to begin; a convoy's finding may be the one with the line."""
    found = analyse(trace)
    costly = dataclasses.replace(found.gils[0], handover_ns=1000 * found.wall_ns)
    first, second, *_ = findings(dataclasses.replace(found, gils=(costly,)))

    assert (first.frame, second.kind) == (COMPUTE, "hand-overs")
    assert first.cost_ns < second.cost_ns


def test_where_holds_end_is_not_what_they_ran():
    """The finding says where holds without a request ended, because nothing more is known of them."""
    first = analyse(connections(20, asked=False)).findings[0]

    assert first.kind == "behind-a-function"
    assert "happened in holds that ended in `serve`" in first.fact
    assert "the trace does not show what such a hold ran before" in first.cause


def test_a_function_of_which_another_finding_speaks_is_not_told_again():
    """A function that a convoy's finding names has no finding of its own."""
    assert "behind-a-function" not in told(convoy())


@pytest.mark.parametrize(("stack", "is_told"), [(AT_RECV, False), (AT_COMPUTE, True)])
def test_a_function_whose_call_in_a_library_is_told_is_not_told_again(stack, is_told):
    """A long hold in a library's line is that of the program's function which called it, and of no other."""
    script = Script()
    for now in range(0, 2000, 100):
        script.hold(0, now, now + 40, stack=AT_RECV, forced=True).wait(1, now, asks_ms=now + 5)
        script.hold(1, now + 40, now + 41)
        script.hold(0, now + 41, now + 99, stack=stack, forced=True).wait(1, now + 41, asks_ms=now + 98)
        script.hold(1, now + 99, now + 100)
    found = told(script.trace(2000, "main", "reader"))

    assert found["long-hold"].frame == RECV
    assert ("behind-a-function" in found) == is_told


def test_waiters_of_one_kind_are_told_together():
    """Two readers behind the same thread are one finding with the sums of both."""
    one = told(convoy(rounds=30, waiters=("reader-0", "reader-1")))["convoy"]

    assert one.fact.startswith(
        "reader-0 and reader-1 waited 30 times (199/s) for the GIL behind cruncher: 5 ms at the median"
    )
    assert one.fact.endswith("150 ms in total, 100 % of their waiting time")
    assert one.threads == ("reader-0", "reader-1", "cruncher")


def test_advice_fits_the_python():
    """Pools of interpreters are advised from 3.14 on, and a short interval is not made shorter."""
    assert "InterpreterPoolExecutor" in told(convoy(python="3.14.1"))["convoy"].advice
    assert "InterpreterPoolExecutor" not in told(convoy(python="3.13.1"))["convoy"].advice
    assert "setswitchinterval" not in told(convoy(interval_us=900))["convoy"].advice


def test_a_hold_that_does_not_end_when_asked_is_told():
    """A call that keeps the GIL for 95 ms after a request is found with its line; an interval would not help."""
    script = Script().hold(0, 0, 100, forced=True).wait(1, 0, asks_ms=5).hold(1, 100, 101)
    found = told(script.trace(200, "main", "reader"))
    one = found["long-hold"]

    assert "convoy" not in found
    assert one.fact == (
        "main kept the GIL at app.py:12 compute for up to 95 ms after another thread had requested it (switch interval: 5 ms), "
        "95 ms in total; holds there last 1 ms at the median and 100 ms at most, and threads waited 100 ms during them"
    )
    assert "Py_BEGIN_ALLOW_THREADS" in one.advice
    assert one.frame == COMPUTE


@pytest.mark.parametrize(("ran", "doubted"), [(None, True), (1.0, False)])
def test_a_late_hold_may_have_had_no_core(ran, doubted):
    """A hold that goes on after a request is a call into C for sure only if its thread is known to have run."""
    script = Script().hold(0, 0, 100, forced=True, ran=ran).wait(1, 0, asks_ms=5).hold(1, 100, 101)
    one = told(script.trace(200, "main", "reader"))["long-hold"]

    assert one.cause.startswith("a call into C, on that line or just before it, does not release the GIL")
    assert (
        one.cause.endswith("; or the system ran something else on the thread's core, which was not measured") == doubted
    )


def test_a_late_hold_that_lost_its_core_says_what_its_time_leaves_out():
    """A hold that ran for 60 of 100 ms is told with the 55 ms for which it ran on at least, and with what these leave out."""
    script = Script().hold(0, 0, 100, forced=True, ran=0.6).wait(1, 0, asks_ms=5).hold(1, 100, 101)
    fact = told(script.trace(200, "main", "reader"))["long-hold"].fact

    assert "for up to 55" in fact or "for up to 54" in fact
    assert "(switch interval: 5 ms; time off a core does not count)" in fact


def test_a_hold_without_a_core_is_told_as_such():
    """The known time of the holds without a core is the least, and no call into C is blamed for them."""
    script = Script().hold(0, 0, 100, forced=True, ran=0.05).wait(1, 0, asks_ms=5).hold(1, 100, 101)
    found = told(script.trace(200, "main", "reader"))

    assert "long-hold" not in found
    assert found["off-core"].fact.startswith(
        "threads held the GIL without running on a core for at least 94.9 ms, 94 %"
    )
    assert "a CPU quota was used up" in found["off-core"].cause


def test_findings_are_of_all_threads():
    """A report of one thread's lines has the findings of the whole program, and that thread's lines only."""
    trace = Script().hold(0, 0, 100, forced=True).wait(1, 0, asks_ms=5).hold(1, 100, 101).trace(200, "main", "reader")
    one = analyse(trace, threads={1})

    assert one.findings == analyse(trace).findings
    assert [place.threads for place in one.held] == [("reader",)]


def test_a_pool_behind_two_holders_is_counted_once():
    """A pool's part of its waiting time is of all its threads that waited, also if few of them met the last holder."""
    script, now, pool = Script(), 0.0, [f"worker-{number}" for number in range(12)]
    for turn in range(60):
        holder, waiter = (13, 1) if turn % 20 == 19 else (0, 1 + turn % 12)
        script.wait(waiter, now, asks_ms=now + 5)
        script.hold(holder, now, now + 5, forced=True)
        script.hold(waiter, now + 5, now + 5.02, stack=AT_RECV)
        now += 5.02
    one = told(script.trace(now, "hot", *pool, "rare"))["convoy"]

    assert "worker-* (12 threads) waited 60 times" in one.fact
    assert "100 % of their waiting time" in one.fact


def test_one_late_hold_in_a_long_convoy_is_no_long_hold():
    """One of a thousand holds that goes on for 12 ms after a request, on a busy machine, explains nothing."""
    script, begin = Script(), 0.0
    for round_ in range(1000):
        length = 17 if round_ == 500 else 5.1
        script.wait(1, begin, asks_ms=begin + 5, stack=AT_RECV).hold(0, begin, begin + length, forced=True)
        script.hold(1, begin + length, begin + length + 0.1)
        begin += length + 0.2
    found = told(script.add(begin, 0, Kind.INTERVAL, 5000).trace(begin, "main", "reader"))

    assert "convoy" in found
    assert "long-hold" not in found


def test_a_long_hold_is_told_without_stacks_too():
    """The finding names the thread, without advice about a line, if no line is known."""
    script = Script().hold(0, 0, 100, stack=0, forced=True).wait(1, 0, stack=0, asks_ms=5).hold(1, 100, 101, stack=0)
    one = told(script.trace(200, "main", "reader", stacks=False))["long-hold"]

    assert one.fact.startswith("main kept the GIL for up to 95 ms after another thread had requested it")
    assert (one.advice, one.frame) == ("", None)


def test_a_long_hold_that_has_not_ended_has_no_line():
    """The line of a hold is known at its end; `headway watch` sees it before."""
    script = Script().add(0, 0, Kind.ACQUIRE).wait(1, 1, asks_ms=6)
    one = told(script.trace(1000, "main", "reader", ended=False))["long-hold"]

    assert one.cause.startswith("a call into C had not returned when the trace ended")
    assert one.advice == "`headway watch` names the line of such a call while it goes on"


def test_a_long_hold_that_nobody_asked_for_is_fine():
    """A thread that holds for a second and releases as soon as another wants the GIL does no harm."""
    script = Script().hold(0, 0, 1000, forced=True).wait(1, 995, asks_ms=1000).hold(1, 1000, 1001)
    found = told(script.trace(1010, "main", "reader"))

    assert list(found) == ["no-contention"]
    assert found["no-contention"].fact == (
        "no thread waited for the GIL for more than 1 % of the time; reader waited longest, 5 ms in 1 wait; "
        "the GIL was held 99 % of the time"
    )


def test_one_thread_that_computes_is_told_to_divide_its_work():
    """One thread alone waits for no other; if it computes all the time, more cores need more processes."""
    busy = told(Script().hold(0, 0, 1000).trace(1000))["no-contention"]
    idle = told(Script().hold(0, 0, 100).trace(1000))["no-contention"]
    short = told(Script().hold(0, 0, 10).trace(10))["no-contention"]

    assert (
        busy.fact == "only MainThread held the GIL, so no thread could wait for it; the GIL was held 100 % of the time"
    )
    assert busy.weight == "fine"
    assert busy.advice.startswith(
        "the program computes on one core all the time; to use more cores, divide the work: `ProcessPoolExecutor`"
    )
    assert (idle.advice, short.advice) == ("", "")


def in_turn(threads=3, turns=60, turn_ms=4.0, beside_ms=0.0, stack=AT_SERVE):
    """Return a trace of threads that run one after the other, each `beside_ms` before the one before it has ended."""
    script, now = Script(), 0.0
    for turn in range(turns):
        if beside_ms and turn:
            script.wait(turn % threads, now - beside_ms, stack=stack)
        script.hold(turn % threads, now, now + turn_ms, stack=stack)
        now += turn_ms
    return script.trace(now, *(f"work-{number}" for number in range(threads)))


@pytest.mark.parametrize(
    ("process", "loss", "is_told"),
    [
        ({}, None, True),
        ({"free_threaded": True, "gil_enabled": False}, None, False),
        ({}, Loss(dropped_events=5), False),
    ],
)
def test_a_trace_without_an_event_of_the_gil_is_fine_if_there_is_a_gil(process, loss, is_told):
    """A whole trace of a build with a GIL shows that no thread wanted the GIL; one that lacks events does not."""
    found = told(Script().trace(1000, loss=loss, **process))

    assert ("no-contention" in found) == is_told
    if is_told:
        assert found["no-contention"].fact == "no thread held or wanted the GIL here"


def test_threads_that_take_turns_are_told():
    """Threads of which one runs while the others are blocked at one line share a lock, and more cores do not help."""
    found = told(in_turn())
    one = found["turns"]

    assert one.fact == (
        "work-0, work-1 and work-2 take turns at app.py:30 serve: one at a time runs, and the others are blocked there, "
        "without the GIL, for 456 ms in total (63 % of their time)"
    )
    assert (one.weight, one.threads) == ("problem", ("work-0", "work-1", "work-2"))
    assert "no-contention" not in found


@pytest.mark.parametrize(
    ("line", "is_told"), [("work(item)", True), ("peer.recv(4)", False), ("time.sleep(0.004)", False)]
)
def test_threads_take_no_turns_at_a_line_that_receives_or_sleeps(tmp_path, line, is_told):
    """The thread that is away at such a line may have the lock that the others wait for elsewhere."""
    source = tmp_path / "app.py"
    source.write_text("\n" * 29 + f"    {line}\n")
    os.utime(source, (1, 1))  # older than the program, which it is the source of
    trace = in_turn()
    frames = tuple(dataclasses.replace(one, filename=str(source)) if one == SERVE else one for one in trace.frames)

    assert ("turns" in told(dataclasses.replace(trace, frames=frames))) is is_told


@pytest.mark.parametrize(
    "trace",
    [
        in_turn(beside_ms=1.0),
        in_turn(stack=AT_RECV),
        in_turn(stack=0),
        in_turn(turns=9),
        Script().hold(0, 0, 4, stack=AT_SERVE).trace(10, "only"),
    ],
    ids=["beside each other", "in a library", "unknown", "too few", "one thread"],
)
def test_other_threads_take_no_turns(trace):
    """Threads that also want to run beside each other, wait in a library, or came to the line seldom, take no turns."""
    assert "turns" not in told(trace)


def test_waiting_for_a_free_gil_is_the_systems_doing():
    """Waits while no thread holds the GIL are not the GIL's fault."""
    script = Script()
    for turn in range(10):
        script.hold(0, turn * 10, turn * 10 + 1).wait(1, turn * 10).hold(1, turn * 10 + 6, turn * 10 + 7)
    one = told(script.trace(100, "a", "b"))["late-wake-up"]

    assert (
        one.fact
        == "threads waited 60 ms for the GIL, 83 % of that while no thread held it; it was held 20 % of the time"
    )
    assert "CPU quota" in one.advice


@pytest.mark.parametrize(("rounds_ms", "is_told"), [(20, True), (100, False)])
@pytest.mark.parametrize("kind", ["late-wake-up", "off-core", "behind-a-function"])
def test_waits_of_a_moment_for_each_of_many_threads_are_no_problem(rounds_ms, is_told, kind):
    """Eight threads that each wait for less than 1 % of the time are not slowed down, whatever the sum of their waits."""
    script, threads, until_ms = Script(), 8, 4000
    for turn, now in enumerate(range(0, until_ms, rounds_ms)):
        one, other = turn % threads, (turn + 1) % threads
        free_ms = 2 if kind == "late-wake-up" else 0
        script.hold(one, now, now + 4 - free_ms, stack=AT_SERVE).wait(other, now)
        if kind == "off-core":
            time_ns, value, thread, event, gil, flags = script.rows[-2]
            script.rows[-2] = (time_ns, value, thread, event, gil, flags | 1 << RAN_SHIFT)
        script.hold(other, now + 4, now + 4.1, stack=AT_SERVE)
    found = told(script.trace(until_ms, *(f"poll-{chr(97 + number)}" for number in range(threads))))

    assert (kind in found) == is_told
    assert ("no-contention" in found) != is_told


def test_waits_without_a_pattern_are_told_without_advice():
    """A finding about waits that no rule explains has their length, and no advice."""
    script = Script().hold(0, 0, 4).wait(1, 0).hold(1, 4, 5)
    one = told(script.trace(10, "a", "b"))["waits"]

    assert (
        one.fact
        == "threads waited 4 ms for the GIL in total, b longest (4 ms, 4 ms at p99); the GIL was held 50 % of the time"
    )
    assert one.advice == ""


@pytest.mark.parametrize(("lived_ms", "kind"), [(10, "waits"), (3000, "no-contention")])
def test_short_threads_are_held_against_their_own_lives(lived_ms, kind):
    """Three hundred threads that wait for half of their lives are slowed down; those that live on hardly are."""
    script, count = Script(), 300
    for number in range(1, count + 1):
        now = 10 * number
        script.hold(0, now, now + 5, stack=0).wait(number, now, stack=0).hold(number, now + 5, now + 6, stack=0)
    trace = script.trace(10 * count + 10, "main", *(f"Thread-{number}" for number in range(count)), stacks=False)
    lives = [
        dataclasses.replace(one, start_ns=start_ns, end_ns=start_ns + lived_ms * MS)
        for number, one in enumerate(trace.threads)
        if (start_ns := trace.start_ns + 10 * number * MS if number and lived_ms < 3000 else trace.start_ns)
    ]
    found = told(dataclasses.replace(trace, threads=tuple(lives)))

    assert kind in found
    if kind == "waits":
        assert "Thread-* (300 threads) longest (1.5 s, 5 ms at p99)" in found["waits"].fact


def test_what_a_recording_lacks_is_told():
    """Losses, a missing end and missing stacks are notes, after everything else."""
    loss = Loss(dropped_events=3, overwritten_events=1200, lost_stacks=1, damaged_bytes=8)
    trace = Script().hold(0, 0, 1, stack=0).trace(10, loss=loss, stacks=False, ended=False, python="3.8.2")
    found = analyse(trace).findings

    assert [one.kind for one in found] == ["no-contention", "losses", "unfinished", "no-stacks"]
    assert found[1].fact == (
        "this trace is incomplete: 3 events not recorded because there was no room, 1,200 events overwritten by newer ones, "
        "1 stack recorded as unknown, 8 bytes damaged or missing"
    )
    assert found[2].fact == (
        "the process was killed or ended by `_exit()` in C: the trace ends where it was last seen alive, or at its last event"
    )
    assert found[3].fact == "no lines of code are known: this recording of Python 3.8.2 has no stacks"


ROOM = "record with a larger `--max-size`, onto a disk that has so much free space"


@pytest.mark.parametrize(
    ("counts", "fact", "advice"),
    [
        ((3, 0), "3 traces of ended children were removed to make room", ROOM),
        ((0, 1), "1 process could not be recorded", ""),
        (
            (1, 2),
            "1 trace of an ended child was removed to make room, and 2 processes could not be recorded",
            ROOM,
        ),
    ],
)
def test_processes_without_a_trace_are_told(counts, fact, advice):
    """A report of some of a launch's processes says how many others there were, and its JSON has the counts."""
    loss = Loss(removed_files=counts[0], unrecorded_processes=counts[1])
    found = analyse(Script().hold(0, 0, 1).trace(10, loss=loss))
    note = next(one for one in found.findings if one.kind == "missing-processes")

    assert (note.weight, note.advice) == ("note", advice)
    assert ("free space of the disk" in note.cause) == bool(advice)
    assert note.fact == f"this launch had more processes than are shown: {fact}"
    losses = as_json(found)["losses"]
    assert (losses["removed_files"], losses["unrecorded_processes"]) == counts


@pytest.mark.parametrize(("enabled", "kind", "weight"), [(True, "gil-on", "note"), (False, "gil-came-on", "problem")])
def test_a_gil_on_a_free_threaded_build_is_told(enabled, kind, weight):
    """A free-threaded build with a GIL is reported, whether it is on from the beginning or since an import."""
    trace = Script().hold(0, 0, 5).trace(10, free_threaded=True, gil_enabled=enabled, python="3.14.0")

    assert told(trace)[kind].weight == weight


def test_findings_stand_in_order_of_their_cost():
    """Problems come first, with the costliest of them at the top."""
    script = Script()
    for round_ in range(30):
        begin = round_ * 30
        script.wait(1, begin, asks_ms=begin + 5, stack=AT_RECV).hold(0, begin, begin + 5, forced=True)
        script.hold(1, begin + 5, begin + 5.02)
        script.wait(1, begin + 6, asks_ms=begin + 11).hold(2, begin + 6, begin + 29, forced=True)
        script.hold(1, begin + 29, begin + 29.02)
    found = analyse(script.add(900, 0, Kind.INTERVAL, 5000).trace(900, "cruncher", "reader", "caller")).findings
    costs = [one.cost_ns for one in found if one.weight == "problem"]

    assert [one.kind for one in found][:2] == ["long-hold", "convoy"]
    assert costs == sorted(costs, reverse=True)
