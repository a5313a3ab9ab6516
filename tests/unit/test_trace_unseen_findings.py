"""The findings of programs that the GIL does not slow down: late event loops, and waits that a trace does not show."""

import dataclasses
import os

import pytest
from told_traces import AT_COMPUTE, AT_RECV, AT_SERVE, COMPUTE, RECV, SERVE, Script, told

from headway.report.trace.summary import summary_lines
from headway.traces.analysis import analyse, findings
from headway.traces.analysis.result import Finding
from headway.traces.analysis.words import place
from headway.traces.model import Kind

FINE = "the GIL does not slow this program down"


def renamed(trace, **files):
    """Return a trace whose frames SERVE (`serve`), RECV (`recv`) and COMPUTE (`compute`) are others: (file, function)."""
    for name, (filename, function) in files.items():
        old = {"serve": SERVE, "recv": RECV, "compute": COMPUTE}[name]
        frames = tuple(
            dataclasses.replace(one, filename=filename, function=function) if one == old else one
            for one in trace.frames
        )
        trace = dataclasses.replace(trace, frames=frames)
    return trace


def loop_of(script, until_ms, **process):
    """Return the trace of a thread for which the stack `AT_RECV` is a loop's poll, and `AT_SERVE` the loop."""
    return renamed(
        script.trace(until_ms, "MainThread", **process),
        recv=("/usr/lib/python3.13/selectors.py", "EpollSelector.select"),
        serve=("/usr/lib/python3.13/asyncio/base_events.py", "BaseEventLoop._run_once"),
    )


def loop(lap_ms):
    """Return a trace of an event loop with a lap of this length between two of 1 ms."""
    script, now = Script(), 0.0
    for length_ms in (1, lap_ms, 1):
        script.hold(0, now, now + length_ms, stack=AT_RECV)
        now += length_ms + 10
    return loop_of(script, now)


def test_a_loop_that_is_late_for_long_is_told():
    """A loop that one callback keeps for 300 ms is no program with nothing to improve, and `headway stalls` has more."""
    found = told(loop(300))
    one = found["late-loop"]

    assert found["no-contention"].cause == FINE
    assert one.fact == (
        "the event loop of MainThread made no progress for 100 ms or more 1 time: 300 ms at most, 300 ms in total"
    )
    assert (one.weight, one.advice.partition(" has ")[0]) == ("note", "`headway stalls` on this file")


@pytest.mark.parametrize(("since_ms", "until_ms"), [(315, None), (None, 10)])
def test_a_loop_that_is_late_outside_of_the_window_is_not_told(since_ms, until_ms):
    """A window has the late laps that happened in it."""
    trace = loop(300)
    window = {
        name: None if at_ms is None else trace.start_ns + at_ms * 1_000_000
        for name, at_ms in (("since_ns", since_ms), ("until_ns", until_ms))
    }

    assert "late-loop" not in {one.kind for one in analyse(trace, **window).findings}


@pytest.mark.parametrize(("since_ms", "until_ms", "most_ms"), [(150, 305, 155), (20, 160, 140), (100, 250, 150)])
def test_a_lap_that_is_longer_than_the_window_is_cut_to_it(since_ms, until_ms, most_ms):
    """A lap that began before a window, or ended after it, is late in it; the times are those within the window."""
    trace = loop(300)  # the late lap lasts from 11 to 311 ms
    since_ns, until_ns = trace.start_ns + since_ms * 1_000_000, trace.start_ns + until_ms * 1_000_000
    found = {one.kind: one for one in analyse(trace, since_ns=since_ns, until_ns=until_ns).findings}

    assert found["late-loop"].fact.endswith(f"1 time: {most_ms} ms at most, {most_ms} ms in total")


@pytest.mark.parametrize(("ended", "back", "is_told"), [(False, True, True), (True, True, False), (True, False, True)])
def test_a_lap_that_goes_on_is_told_unless_its_loop_may_have_been_left(ended, back, is_told):
    """A thread that has the GIL again may leave its loop before its process ends; one in a call is in its loop."""
    script = Script().hold(0, 0, 1, stack=AT_RECV).hold(0, 10, 20, stack=AT_SERVE)
    script = script.add(30, 0, Kind.ACQUIRE) if back else script
    assert ("late-loop" in told(loop_of(script, 300, ended=ended))) == is_told


def test_time_between_two_loops_is_no_lap():
    """A program that leaves its loop, works, and runs another one was not late in between."""
    script = Script().hold(0, 0, 1, stack=AT_RECV).hold(0, 10, 200, stack=AT_COMPUTE, forced=True)
    script.hold(0, 201, 300, stack=AT_RECV)

    trace = renamed(loop_of(script, 310), compute=("/app/app.py", "<module>"))
    assert "late-loop" not in told(trace)


def test_a_loop_in_time_has_nothing_to_improve():
    """A loop whose laps are short has no finding but that."""
    found = told(loop(20))

    assert "late-loop" not in found
    assert found["no-contention"].cause == f"{FINE}: nothing to improve at the GIL"


def test_a_trace_without_lines_does_not_show_that_all_is_well():
    """Without lines, a loop or a lock is not known, so that the report speaks of the GIL alone."""
    script = Script().hold(0, 0, 1, stack=0).hold(0, 90, 91, stack=0)

    assert told(script.trace(100, stacks=False))["no-contention"].cause == FINE


def away(folder, line, names=("one", "two"), *, until_ms=100):
    """Return the findings of threads that spend all their time at this line of a program."""
    source = folder / "app.py"
    source.write_text("\n" * 29 + f"    {line}\n")
    os.utime(source, (0, 0))
    script = Script()
    for thread in range(len(names)):
        script.hold(thread, thread, thread + 0.5, stack=AT_SERVE)
        if until_ms < 100:
            script.hold(thread, until_ms + thread, until_ms + thread + 0.5, stack=0)
    return told(renamed(script.trace(100, *names), serve=(str(source), "serve")))


def test_a_line_at_which_threads_are_for_most_of_the_time_is_told(tmp_path):
    """The report names the line, and says that the trace does not show what the threads await there."""
    found = away(tmp_path, "connection.execute(BEGIN)")
    one = found["unseen-wait"]

    assert found["no-contention"].cause == FINE
    assert one.fact.startswith("one and two spent 198 ms (99 % of their time) at ")
    assert one.fact.endswith("app.py:30 serve, without the GIL")
    assert one.weight == "note"
    assert one.cause.startswith("a trace does not show what a thread awaits")


@pytest.mark.parametrize(("line", "until_ms"), [("time.sleep(1)", 100), ("connection.execute(BEGIN)", 20)])
def test_sleeps_and_short_waits_are_nothing_to_improve(tmp_path, line, until_ms):
    """A program that sleeps is idle by its own will, and one that is at a line for a fifth of its time hardly waits."""
    found = away(tmp_path, line, until_ms=until_ms)

    assert "unseen-wait" not in found
    assert found["no-contention"].cause == f"{FINE}: nothing to improve at the GIL"


@pytest.mark.parametrize(
    ("filename", "function", "name", "is_told"),
    [
        ("threading.py", "Condition.wait", "worker", True),
        ("threading.py", "Condition.wait", "MainThread", False),
        ("threading.py", "Thread.join", "worker", False),
        ("socket.py", "socket.accept", "worker", False),
        ("sqlite3/dbapi2.py", "connect", "MainThread", True),
    ],
)
def test_idle_threads_are_not_told(filename, function, name, is_told):
    """A main thread that awaits the others, joins and accepting sockets are idle; a queue's reader may not be."""
    script = Script().hold(0, 0, 1, stack=AT_RECV).hold(1, 1, 2, stack=AT_RECV)
    trace = renamed(script.trace(100, name, name), recv=(f"/usr/lib/python3.13/{filename}", function))

    assert ("unseen-wait" in told(trace)) == is_told


def test_a_pool_is_told_as_one(tmp_path):
    """Many threads at one line are one name."""
    found = away(tmp_path, "pool.get()", tuple(f"worker-{number}" for number in range(12)))

    assert found["unseen-wait"].fact.startswith("worker-* (12 threads) spent ")


CERTAIN = f"{FINE}: nothing to improve at the GIL"


def awaiting(folder, script, *names, until_ms=250, function="Condition.wait"):
    """Return the findings of threads for which `AT_RECV` awaits another thread, and `AT_COMPUTE` sleeps."""
    source = folder / "app.py"
    source.write_text("\n" * 11 + "    time.sleep(0.04)\n")
    os.utime(source, (0, 0))
    trace = script.trace(until_ms, *names)
    waits = ("/usr/lib/python3.13/threading.py", function)
    return told(renamed(trace, recv=waits, compute=(str(source), "compute")))


def pool_of_two(wait_ms):
    """Return the events of three threads that use one of two things for 40 ms each, after a wait for it.

    The thread that gives its thing back ends the wait of another one.
    """
    script = Script()
    for turn in range(12):
        now = 20 * turn
        if turn >= 2:
            script.hold((turn - 2) % 3, now, now + 0.1)
            script.hold((turn - 2) % 3, now + 20 - wait_ms, now + 20.1 - wait_ms, stack=AT_RECV)
        script.hold(turn % 3, now + 0.2, now + 0.3)
    return script


def test_threads_that_wait_for_a_part_of_their_time_for_what_they_share_are_told(tmp_path):
    """A pool that is too small is told, although no thread waits for it for most of its time."""
    found = awaiting(tmp_path, pool_of_two(15), "q0", "q1", "q2")
    one = found["unseen-wait"]

    assert found["no-contention"].cause == FINE
    assert one.weight == "note"
    assert one.fact.startswith("q0, q1 and q2 spent ")
    assert one.fact.endswith("threading.py:700 Condition.wait, called from app.py:30 serve, without the GIL")
    assert "they seem to share what they await" in one.cause


def test_a_pool_may_give_each_thread_that_waits_an_event_of_its_own(tmp_path):
    """The connections of httpcore are handed over so: the thread that gives one back sets the next one's event."""
    found = awaiting(tmp_path, pool_of_two(15), "q0", "q1", "q2", function="Event.wait")

    assert found["no-contention"].cause == FINE
    assert "they seem to share what they await" in found["unseen-wait"].cause


def test_an_event_that_another_role_or_a_timer_ends_is_idle_time(tmp_path):
    """A flag to stop, a start for all, or a period: nothing is too small there, though others of the role work meanwhile."""
    given, timed = Script(), Script()
    for turn in range(12):
        given.hold(3, 20 * turn, 20 * turn + 0.1).hold(turn % 3, 20 * turn + 0.2, 20 * turn + 0.3)
        given.hold(turn % 3, 20 * turn + 15, 20 * turn + 15.1, stack=AT_RECV)
        timed.hold(turn % 3, 20 * turn, 20 * turn + 0.1).hold(turn % 3, 20 * turn + 10, 20 * turn + 10.1, stack=AT_RECV)
    for script, names in ((given, ("w0", "w1", "w2", "MainThread")), (timed, ("w0", "w1", "w2"))):
        found = awaiting(tmp_path, script, *names, function="Event.wait")
        assert "unseen-wait" not in found
        assert found["no-contention"].cause == CERTAIN


@pytest.mark.parametrize(("cost_ms", "is_told"), [(0, True), (1, True), (10_000, False)])
def test_a_pool_that_costs_more_than_the_problems_is_told_beside_them(tmp_path, monkeypatch, cost_ms, is_told):
    """A small finding about the GIL must not hide that threads mostly wait for each other."""
    problem = Finding("convoy", "problem", "", cost_ns=cost_ms * 1_000_000)
    monkeypatch.setattr(findings, "RULES", (lambda _analysis: iter([problem]),))

    assert ("unseen-wait" in awaiting(tmp_path, pool_of_two(15), "q0", "q1", "q2")) == is_told


@pytest.mark.parametrize(("cost_ms", "is_first"), [(0, False), (1, True), (200, False)])
def test_waits_of_threads_for_each_other_stand_before_a_problem_that_costs_far_less(
    tmp_path, monkeypatch, cost_ms, is_first
):
    """A pool at which threads spend 100 ms and more is the cause, and a millisecond at the GIL comes after it."""
    problem = Finding("convoy", "problem", "a problem", cost_ns=cost_ms * 1_000_000)
    monkeypatch.setattr(findings, "RULES", (lambda _analysis: iter([problem]),))
    trace = pool_of_two(15).trace(250, "q0", "q1", "q2")
    waits = {"recv": ("/usr/lib/python3.13/threading.py", "Condition.wait")}
    lines = summary_lines([analyse(renamed(trace, **waits))])
    weights = [line.split()[0] for line in lines if line.startswith(("  !", "  note"))]

    assert next(iter(awaiting(tmp_path, pool_of_two(15), "q0", "q1", "q2"))) == (
        "unseen-wait" if is_first else "convoy"
    )
    assert (weights[0] == "note") == is_first


@pytest.mark.parametrize(("cost_ms", "is_told"), [(0, False), (19, True), (21, False)])
def test_a_wait_that_may_be_idle_is_told_beside_problems_if_it_is_far_longer(tmp_path, monkeypatch, cost_ms, is_told):
    """Two threads spend 198 ms at a full queue, or wait for work: beside a problem of a tenth of that, it matters."""
    problem = Finding("off-core", "problem", "", cost_ns=cost_ms * 1_000_000)
    monkeypatch.setattr(findings, "RULES", (lambda _analysis: iter([problem]),))

    assert ("unseen-wait" in away(tmp_path, "connection.execute(BEGIN)")) == is_told


def test_threads_that_never_wait_for_what_they_share_end_the_waits_of_others(tmp_path):
    """A semaphore may let the thread that gives a permit back have it again, so that some of its users never wait."""
    script = Script().hold(1, 1, 1.1, stack=AT_RECV)
    for turn in range(5):
        script.hold(0, 20 * turn, 20 * turn + 0.1)
    script.hold(1, 80.2, 80.3)
    found = awaiting(tmp_path, script, "q0", "q1", until_ms=250)

    assert found["unseen-wait"].fact.startswith("q1 spent 79.1 ms (32 % of its time) at ")
    assert "they seem to share what they await" in found["unseen-wait"].cause


def meetings(threads, last):
    """Return the events of threads that meet every 20 ms; `last(turn)` arrives last, and the others wait for 13 ms or more.

    Those that wake up first have the GIL before the next ones do.
    """
    script = Script()
    for turn in range(16):
        now, late = 20 * turn, last(turn)
        others = [one for one in range(threads) if one != late]
        script.hold(late, now + 15, now + 15.1)
        for number, one in enumerate(others):
            script.hold(one, now + 1 + 0.1 * number, now + 1.1 + 0.1 * number, stack=AT_RECV)
            wakes = now + 15.05 + 0.1 * number
            script.wait(one, wakes, stack=AT_RECV).hold(one, wakes + 0.05, wakes + 0.15)
    return script


@pytest.mark.parametrize(
    ("last", "which"),
    [
        (lambda _turn: 7, "MainThread for 100 % of that time"),
        (lambda turn: turn % 2, "r0 for 50 % and r1 for 50 % of that time"),
        (lambda turn: turn % 8, "another one each time"),
    ],
)
def test_the_thread_that_others_await_at_a_barrier_is_told(tmp_path, last, which):
    """Threads at a barrier share nothing: they wait for the thread with most to do, which has the GIL when they wake up."""
    names = (*(f"r{number}" for number in range(7)), "MainThread")
    one = awaiting(tmp_path, meetings(8, last), *names, until_ms=320, function="Barrier.wait")["unseen-wait"]

    assert one.cause == f"at a `threading.Barrier` threads wait until the last of them arrives: {which}"
    assert one.advice.startswith("divide the work between two meetings more evenly")


def test_a_barrier_whose_last_thread_is_not_seen_has_its_note(tmp_path):
    """The trace may have begun after the last meeting."""
    script = Script()
    for thread in range(2):
        script.hold(thread, thread, thread + 0.5, stack=AT_RECV)
    found = awaiting(tmp_path, script, "one", "two", until_ms=100, function="Barrier.wait")

    assert found["unseen-wait"].cause.endswith("arrives: the trace does not tell which one that was")


def test_short_waits_for_what_threads_share_are_nothing_to_improve(tmp_path):
    """A pool at which threads wait for less than a tenth of their time is large enough."""
    found = awaiting(tmp_path, pool_of_two(4), "q0", "q1", "q2")

    assert "unseen-wait" not in found
    assert found["no-contention"].cause == CERTAIN


def test_the_threads_of_a_role_count_together(tmp_path):
    """Threads that wait for 40 to 60 % of their time are all told, and not only those above a half."""
    script = Script()
    for thread, away_ms in enumerate((40, 58, 60)):
        script.hold(thread, thread, thread + 1, stack=AT_RECV)
        script.hold(thread, thread + 1 + away_ms, thread + 2 + away_ms, stack=0)

    assert awaiting(tmp_path, script, "w0", "w1", "w2", until_ms=100)["unseen-wait"].fact.startswith(
        "w0, w1 and w2 spent 158 ms"
    )


def test_workers_that_wait_for_jobs_for_a_part_of_their_time_are_not_told(tmp_path):
    """Another thread gives the jobs, so nothing is too small; but a report does not say that nothing can be improved."""
    script = Script()
    for turn in range(12):
        script.hold(3, 20 * turn, 20 * turn + 0.1)
        script.hold(turn % 3, 20 * turn + 0.2, 20 * turn + 0.3)
        script.hold(turn % 3, 20 * turn + 35, 20 * turn + 35.1, stack=AT_RECV)
    found = awaiting(tmp_path, script, "w0", "w1", "w2", "MainThread")

    assert "unseen-wait" not in found
    assert found["no-contention"].cause == FINE


def test_workers_that_get_jobs_at_once_do_not_give_them_to_each_other(tmp_path):
    """A worker that has just got a job has the GIL when the next one wakes up, and yet does not end its wait."""
    script = Script()
    for turn in range(6):
        script.hold(2, 40 * turn, 40 * turn + 0.1)
        for thread in range(2):
            now = 40 * turn + 0.2 * thread
            script.hold(thread, now + 0.2, now + 0.3).hold(thread, now + 25, now + 25.1, stack=AT_RECV)
    found = awaiting(tmp_path, script, "w0", "w1", "MainThread")

    assert "unseen-wait" not in found
    assert found["no-contention"].cause == FINE


def at_a_lock(source, *, at_ms=10, **process):
    """Return the findings of two threads that are, at this line of a program, without the GIL in turn for some time."""
    script = Script()
    for thread in range(2):
        begin = 20 + thread * 40
        script.hold(thread, begin - 1, begin, stack=AT_SERVE).hold(thread, begin + at_ms, begin + at_ms + 1, stack=0)
    return told(renamed(script.trace(100, "a", "b", **process), serve=(str(source), "serve")))


def program(folder, mtime_s=0):
    """Return the path of a program whose line 30 takes a lock."""
    source = folder / "app.py"
    source.write_text("\n" * 29 + "    with guard_lock:\n")
    os.utime(source, (mtime_s, mtime_s))
    return source


def test_a_lock_is_told_where_the_line_can_be_read(tmp_path):
    """The words of the line tell that it takes a lock; then there is no note."""
    found = at_a_lock(program(tmp_path))

    assert "contended-lock" in found
    assert "unread-lines" not in found


ELSEWHERE = "read the trace on the machine where the program ran, before its files change"


@pytest.mark.parametrize(
    ("name", "reason", "advice"),
    [
        ("app.py", "edited since", ELSEWHERE),
        ("gone.py", "the file is not there", ELSEWHERE),
        (
            "<string>",
            "it is in no file",
            "put the code of `python -c`, of standard input or of `exec()` into a file, and record that",
        ),
        ("<template>", "it is in no file", ""),
    ],
)
def test_a_report_does_not_say_that_all_is_well_if_it_could_not_read_a_line(tmp_path, name, reason, advice):
    """A line of an edited or missing file may take a lock: the report says so, and speaks of the GIL alone."""
    found = at_a_lock(name if name.startswith("<") else program(tmp_path, mtime_s=1 << 32).with_name(name))
    one = found["unread-lines"]

    assert found["no-contention"].cause == FINE
    assert (one.weight, one.advice) == ("note", advice)
    assert one.fact.startswith("threads were without the GIL for 20 ms in total at 1 line that cannot be read: ")
    assert one.fact.endswith(f"{name}:30 serve ({reason})")


def test_the_only_thread_of_a_program_awaits_no_lock_of_another_thread():
    """`python -c 'time.sleep(1)'` has a line that cannot be read, and no thread that could have a lock."""
    script = Script().hold(0, 19, 20, stack=AT_SERVE).hold(0, 30, 31, stack=0)

    assert "unread-lines" not in told(renamed(script.trace(100, "a"), serve=("<string>", "serve")))


@pytest.mark.parametrize("path", ["/lib/headway/agent/startup.zip/sitecustomize.py", "<headway>/startup/start.py"])
def test_a_line_of_our_own_start_up_is_not_the_programs(path):
    """Headway starts in each sub-interpreter; its lines are in no file that could be read, and take no lock of the program."""
    shown = f"Headway's start-up, {path.rpartition('/')[2]}:30 _start"

    assert "unread-lines" not in at_a_lock(path)
    assert place(dataclasses.replace(SERVE, filename=path, function="_start", line=30)) == shown
    assert "unread-lines" not in at_a_lock("<headway>/headway_agent/library.py")


@pytest.mark.parametrize(("at_ms", "process"), [(0.5, {}), (10, {"executable": "headway whatif"})])
def test_a_short_time_at_a_line_and_a_simulated_run_need_no_source(tmp_path, at_ms, process):
    """A lock of less than 1 % of the time would be no finding, and a simulated program has no source."""
    found = at_a_lock(tmp_path / "gone.py", at_ms=at_ms, **process)

    assert found["no-contention"].cause == f"{FINE}: nothing to improve at the GIL"


def test_the_function_of_a_library_tells_what_its_line_awaits():
    """The standard library need not be on the machine where the report is made."""
    found = at_a_lock("/gone/lib/python3.13/threading.py")

    assert found["no-contention"].cause == f"{FINE}: nothing to improve at the GIL"


def hanging(folder, *, before_ms=10.0, stuck_ms=2000.0, function=("queue.py", "Queue.put"), until_ms=None):
    """Return the findings of a thread that stays at a line until the recording ends, after visits there, and a convoy."""
    script, now = Script().hold(1, 0, 1, stack=AT_RECV), 1 + before_ms
    for _ in range(20):
        script.hold(1, now, now + 199, stack=AT_RECV)
        now += 200
    script.wait(0, now - 3000, stack=AT_COMPUTE).hold(0, now, now + 0.1, stack=AT_COMPUTE)
    script.hold(1, now + 0.1, now + 0.2, stack=AT_RECV).hold(0, now + stuck_ms, now + stuck_ms + 0.1, stack=AT_COMPUTE)
    source = folder / "app.py"
    source.write_text("\n" * 11 + "    time.sleep(0.04)\n")
    os.utime(source, (0, 0))
    trace = script.trace(now + stuck_ms + 0.2, "main", "feeder", ended=False)
    files = {"recv": (f"/usr/lib/python3.13/{function[0]}", function[1]), "compute": (str(source), "compute")}
    until_ns = None if until_ms is None else trace.start_ns + until_ms * 1_000_000
    return {one.kind: one for one in analyse(renamed(trace, **files), until_ns=until_ns).findings}


def test_a_thread_that_is_blocked_until_the_recording_ends_is_told_beside_any_problem(tmp_path):
    """A hang of seconds at the end is what the recording was made for, whatever was waited for before it."""
    found = hanging(tmp_path)
    one = found["unseen-wait"]

    assert max(other.cost_ns for other in found.values()) > 2_000_000_000
    assert one.fact.endswith(
        "queue.py:700 Queue.put, called from app.py:30 serve, without the GIL; it was still there when "
        "the recording ended, for 2 s"
    )
    assert one.advice.startswith("if this thread should have gone on, look at what ends that wait")


@pytest.mark.parametrize(
    "other",
    [
        {"stuck_ms": 900.0},
        {"before_ms": 600.0, "stuck_ms": 1100.0},
        {"function": ("queue.py", "Queue.get")},
        {"until_ms": 5900},
    ],
    ids=["short", "hardly longer than before", "takes work", "goes on after the window"],
)
def test_a_thread_that_may_come_back_is_not_told_as_blocked(tmp_path, other):
    """An idle thread is away when a recording ends, too, as a reader of a queue, or one that often waits for as long."""
    assert "unseen-wait" not in hanging(tmp_path, **other)
