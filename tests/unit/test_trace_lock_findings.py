"""The findings about waits for locks, in traces without a GIL and with one."""

import dataclasses
import os

import pytest
from made_traces import MS
from told_traces import AT_RECV, AT_SERVE, SERVE, Script, told

from headway.report.trace.heading import trace_lines
from headway.traces.analysis import analyse
from headway.traces.model import Park


def test_a_gil_that_is_off_is_told_with_the_locks_that_are_contended():
    """Without a GIL, the finding names the objects whose locks threads blocked on, and where."""
    script = Script().park(0, 0, 3, Park.OBJECT, of=1).park(1, 1, 5, Park.OBJECT, of=1).park(0, 5, 7, Park.WORLD)
    found = told(script.trace(10, "a", "b", gils=0, types=("", "dict"), free_threaded=True, gil_enabled=False))

    assert list(found) == ["contended-lock", "stop-the-world", "gil-off"]
    assert found["contended-lock"].fact == (
        "a and b blocked 2 times on the lock of a `dict` at app.py:30 serve: 7 ms in total (35 % of their time), 4 ms at p99"
    )
    assert found["contended-lock"].frame == SERVE
    assert found["stop-the-world"].cost_ns == 2 * MS


def test_without_a_gil_the_longest_waits_for_locks_come_first():
    """Waits for a lock whose holder is not known come before "ok", and before shorter waits for an object's lock."""
    script = Script().park(0, 0, 9, Park.LOCK)
    object_too = Script().park(0, 0, 9, Park.LOCK).park(1, 0, 3, Park.OBJECT).park(2, 3, 5, Park.OBJECT)
    objects_longer = Script().park(0, 0, 4, Park.LOCK).park(1, 0, 3, Park.OBJECT).park(2, 3, 6, Park.OBJECT)

    def weights(one):
        trace = one.trace(10, "a", "b", "c", gils=0, free_threaded=True, gil_enabled=False)
        return [finding.weight for finding in analyse(trace).findings]

    assert weights(script) == ["note", "fine"]
    assert weights(object_too) == ["note", "problem", "fine"]
    assert weights(objects_longer) == ["problem", "fine", "note"]


def test_waiting_for_work_is_no_contention():
    """Threads that all wait at once at a `threading.Lock`, as idle workers do, are no problem."""
    script = Script().park(0, 0, 9, Park.LOCK).park(1, 0, 9, Park.LOCK)
    found = told(script.trace(10, "a", "b", gils=0, free_threaded=True, gil_enabled=False))

    assert set(found) == {"gil-off", "contended-lock"}
    assert found["contended-lock"].weight == "note"
    assert found["contended-lock"].cause == "another thread had the lock meanwhile, or this is where it is awaited"


def test_waits_that_began_before_a_window_are_at_once_as_they_are_in_it():
    """A window cuts a wait's beginning: two threads that are blocked in all of it await a third."""
    script = Script().park(0, 0, 20, Park.LOCK).park(1, 9, 20, Park.LOCK)
    trace = script.trace(20, "a", "b", gils=0, free_threaded=True, gil_enabled=False)
    since_ns, until_ns = trace.start_ns + 10 * MS, trace.start_ns + 20 * MS
    (found,) = (
        one for one in analyse(trace, since_ns=since_ns, until_ns=until_ns).findings if one.kind == "contended-lock"
    )

    assert found.weight == "note"


def test_many_threads_that_are_hardly_blocked_are_no_problem():
    """A share is one of the time of all these threads: 64 of them, each blocked for 0.02 % of its time, lose nothing."""
    script = Script()
    for thread in range(64):
        script.park(thread, 1, 1.02, Park.OBJECT, of=1)
    names = [f"t{thread}" for thread in range(64)]

    assert "contended-lock" not in free_threaded(script, *names)


def pool_of_short_lives():
    """Return a trace of 100 threads that live 1 ms one after the other, and are blocked for half of it."""
    script = Script()
    for thread in range(100):
        script.park(thread, thread + 0.2, thread + 0.7, Park.OBJECT, of=1)
    names = [f"t{thread}" for thread in range(100)]
    trace = script.trace(100, *names, gils=0, types=("", "dict"), free_threaded=True, gil_enabled=False)
    lives = [
        dataclasses.replace(one, start_ns=trace.start_ns + at * MS, end_ns=trace.start_ns + (at + 1) * MS)
        for at, one in enumerate(trace.threads)
    ]
    return dataclasses.replace(trace, threads=tuple(lives))


@pytest.mark.parametrize("window_ms", [(0, 100), (50, 60)])
def test_a_share_is_one_of_the_time_for_which_threads_lived(window_ms):
    """Threads that live shortly one after the other, as one per request, do not make each other's waits small."""
    trace = pool_of_short_lives()
    since_ns, until_ns = (trace.start_ns + at * MS for at in window_ms)
    found = {one.kind: one for one in analyse(trace, since_ns=since_ns, until_ns=until_ns).findings}

    assert "no-lock-contention" not in found
    assert "(50 % of their time)" in found["contended-lock"].fact


def test_a_stop_of_the_world_is_a_share_of_the_time_for_which_threads_lived():
    """Threads that were over before the window, or begin after it, do not hide the stops in it."""
    script = Script().park(0, 50, 50.5, Park.WORLD)
    trace = script.trace(100, *(f"t{at}" for at in range(100)), gils=0, free_threaded=True, gil_enabled=False)
    trace = dataclasses.replace(trace, threads=pool_of_short_lives().threads)
    trace = dataclasses.replace(trace, threads=(trace.threads[50], *trace.threads[:50], *trace.threads[51:]))

    window = {"since_ns": trace.start_ns + 50 * MS, "until_ns": trace.start_ns + 55 * MS}
    assert "stop-the-world" in {one.kind for one in analyse(trace, **window).findings}


def test_a_type_s_name_reaches_the_terminal_without_control_characters():
    """A program chooses the names of its classes."""
    script = Script().park(0, 0, 50, Park.OBJECT, of=1).park(1, 10, 60, Park.OBJECT, of=1)

    assert "\x1b" not in free_threaded(script, "a", "b", types=("", "\x1b]0;x"))["contended-lock"].fact


def free_threaded(script, *threads, types=("", "dict")):
    """Return the findings, by kind, about a trace without a GIL."""
    return told(script.trace(100, *threads, gils=0, types=types, free_threaded=True, gil_enabled=False))


def in_turns(park, *, threads=3, turns=30, of=0, spins=0):
    """Return the waits of threads that take turns of 1 ms at a lock; the first `spins` of them are spins for a lock not known."""
    script = Script()
    for turn in range(turns):
        for thread in range(threads):
            if thread != turn % threads:
                begin = max(0, turn - (turn - thread) % threads + 1)
                if turn == begin + threads - 2:
                    kind = Park.MUTEX if turn < spins else park
                    script.park(thread, begin, turn + 1, kind, of=of)
    return script


def test_a_lock_of_the_program_at_which_threads_take_turns_is_a_problem():
    """Threads that block at one line for a lock of the program, one after the other, are told with that line."""
    found = free_threaded(in_turns(Park.LOCK), "a", "b", "c")

    assert found["contended-lock"].weight == "problem"
    assert found["contended-lock"].fact.startswith(
        "a, b and c blocked 29 times on a lock of the program at app.py:30 serve: 58 ms in total (19 % of their time)"
    )
    assert found["contended-lock"].cause.startswith("one thread at a time has such a lock")
    assert "no-lock-contention" not in found


@pytest.mark.parametrize(("times", "weight"), [(30, "problem"), (1, "note")])
def test_a_thread_that_hardly_waited_does_not_count(times, weight):
    """A thread with a negligible part in a place's waits is not among its threads, nor does it tell how they wait."""
    script = in_turns(Park.LOCK) if times > 1 else Script().park(0, 0, 58, Park.LOCK).park(1, 0, 58, Park.LOCK)
    found = free_threaded(script.park(3, 30, 30.1, Park.LOCK), "a", "b", "c", "once")["contended-lock"]

    assert found.threads == (("a", "b", "c") if times > 1 else ("a", "b"))
    assert found.weight == weight


def test_the_figures_of_a_place_are_of_the_threads_that_it_counts():
    """The waits of a thread that is left out are no part of the time either, which would be over 100 % of theirs."""
    script = Script().park(0, 0, 100, Park.LOCK).park(1, 0, 100, Park.LOCK)
    found = free_threaded(script.park(2, 30, 31.5, Park.LOCK), "a", "b", "once")["contended-lock"]

    assert found.fact.startswith("a and b blocked 2 times on ")
    assert ": 200 ms in total (100 % of their time)" in found.fact
    assert found.cost_ns == 200 * MS


def test_many_threads_with_a_small_part_each_count_together():
    """A pool whose threads are blocked once each is told beside the thread that is blocked for longest."""
    script = Script().park(0, 0, 100, Park.LOCK)
    for thread in range(1, 51):
        script.park(thread, thread, thread + 1.5, Park.LOCK)
    found = free_threaded(script, "a", *(f"t{thread}" for thread in range(50)))["contended-lock"]

    assert found.fact.startswith("a and t* (51 threads) blocked 51 times on ")
    assert ": 175 ms in total (3.4 % of their time)" in found.fact


def test_a_thread_that_waits_shortly_but_often_counts():
    """The holder for most of the time waits little, and still takes turns with the thread that waits for it."""
    script = Script()
    for turn in range(5):
        script.park(0, turn * 10, turn * 10 + 9.9, Park.LOCK).park(1, turn * 10 + 9.9, turn * 10 + 10, Park.LOCK)
    found = free_threaded(script, "waits", "holds")["contended-lock"]

    assert found.fact.startswith("waits and holds blocked")
    assert found.weight == "problem"


def test_a_spin_at_the_line_of_a_lock_is_for_that_lock():
    """Spins for a lock that is not known are those of the lock for which threads park at the same line, at any time."""
    trace = in_turns(Park.LOCK, spins=15).trace(100, "a", "b", "c", gils=0, free_threaded=True, gil_enabled=False)
    found = analyse(trace)

    (place,) = found.contention.places
    assert (place.kind, place.threads, place.times.count) == (Park.LOCK, 3, 29)
    assert not place.at_once
    before_parks = analyse(trace, until_ns=trace.start_ns + 10 * MS)
    assert [one.kind for one in before_parks.contention.places] == [Park.LOCK]


def test_a_lock_whose_type_is_not_known_at_first_is_one_lock():
    """After an attach, the recorder knows the type of a lock only later: all waits at the line are for that lock."""
    known = in_turns(Park.LOCK, of=1, turns=30)
    script = Script().park(0, 0, 0.5, Park.LOCK).park(1, 0, 0.5, Park.LOCK)
    script.rows += known.rows[4:]
    trace = script.trace(100, "a", "b", "c", gils=0, types=("", "_thread.lock"), free_threaded=True, gil_enabled=False)
    found = analyse(trace)

    (place,) = found.contention.places
    assert (place.type_name, place.threads) == ("_thread.lock", 3)


@pytest.mark.parametrize(
    ("file", "kind"),
    [("/usr/lib/python3.13/threading.py", Park.LOCK), ("app/threading.py", Park.MUTEX), ("app.py", Park.MUTEX)],
)
def test_a_spin_in_a_condition_is_for_a_lock_of_the_program(file, kind):
    """An idle thread that spins in `Condition.wait` awaits another thread; elsewhere its lock is not known. Neither is a problem."""
    trace = Script().park(0, 0, 90, Park.MUTEX).trace(100, gils=0, free_threaded=True, gil_enabled=False)
    frames = tuple(dataclasses.replace(one, filename=file) if one == SERVE else one for one in trace.frames)
    found = analyse(dataclasses.replace(trace, frames=frames))

    assert [one.kind for one in found.contention.places] == [kind]
    assert not [one for one in found.findings if one.weight == "problem"]


@pytest.mark.parametrize(
    ("function", "kinds"), [("Condition.__enter__", {"contended-lock"}), ("Condition.wait", set())]
)
def test_the_lock_of_a_queue_may_be_contended(function, kinds):
    """Threads that take turns at the lock of a queue or a condition do not await work there, as in `Condition.wait`."""
    trace = in_turns(Park.LOCK).trace(100, "a", "b", "c", gils=0, free_threaded=True, gil_enabled=False)
    frames = tuple(
        dataclasses.replace(one, filename="/usr/lib/python3.13/threading.py", function=function)
        if one == SERVE
        else one
        for one in trace.frames
    )
    found = analyse(dataclasses.replace(trace, frames=frames))

    assert {one.kind for one in found.findings if one.weight == "problem"} == kinds


def test_waits_for_conditions_are_told_beside_locks_that_cost_nothing():
    """Where threads await each other for long, the report does not say that no lock slows the program down."""
    trace = Script().park(0, 0, 90, Park.LOCK).trace(100, gils=0, free_threaded=True, gil_enabled=False)
    frames = tuple(
        dataclasses.replace(one, filename="/usr/lib/python3.13/threading.py") if one == SERVE else one
        for one in trace.frames
    )
    found = {one.kind: one for one in analyse(dataclasses.replace(trace, frames=frames)).findings}

    assert found["no-lock-contention"].cause == (
        "these locks do not slow this program down; threads also awaited each other for 90 ms, in conditions, semaphores and "
        "queues: that is idle time, or a resource that is too small"
    )


def test_a_file_may_be_locked_twice_by_one_call():
    """Threads that block on objects use the same one; for files there is another reason, too."""
    shared = free_threaded(in_turns(Park.OBJECT, of=1), "a", "b", "c")["contended-lock"]
    alone = free_threaded(Script().park(0, 0, 50, Park.OBJECT, of=1), "a")["contended-lock"]
    file = free_threaded(Script().park(0, 0, 50, Park.OBJECT, of=1), "a", types=("", "_io.FileIO"))["contended-lock"]

    assert shared.cause.endswith("and these threads use the same object")
    assert alone.cause.endswith("and another thread used the same object")
    assert file.cause == (
        "Python 3.13 locks a file twice in one call that reads, writes or closes it, and the thread waits for itself; "
        "or another thread used the same file"
    )
    assert (file.weight, alone.weight) == ("note", "problem")
    assert "own object" not in file.advice


def importing(trace):
    """Return the findings, by kind, about a trace in which `AT_SERVE` awaits that another thread has imported a module."""
    bootstrap = {"filename": "<frozen importlib._bootstrap>", "function": "_ModuleLock.acquire"}
    frames = tuple(dataclasses.replace(one, **bootstrap) if one == SERVE else one for one in trace.frames)
    return {one.kind: one for one in analyse(dataclasses.replace(trace, frames=frames)).findings}


def test_waits_for_an_import_are_told_as_such():
    """Threads that wait until another one has imported a module are told to import it before, with a GIL and without."""
    script = in_turns(Park.LOCK)
    off = importing(script.trace(100, "a", "b", "c", gils=0, free_threaded=True, gil_enabled=False))["contended-lock"]
    on = importing(IN_TURNS.trace(100, "a", "b"))["contended-lock"]

    for one in (off, on):
        assert one.weight == "problem"
        assert "on a lock of an import at <frozen importlib._bootstrap>:30 _ModuleLock.acquire" in one.fact
        assert one.cause == "another thread was importing the same module"
        assert one.advice == "import it before the threads start"


def with_a_gil(
    script,
    folder,
    *,
    line="with self.guard_lock:",
    name="app.py",
    function="serve",
    window_ms=(0, 100),
    written_ns=0,
    threads="ab",
    **process,
):
    """Return the findings of threads with a GIL, for which the stack `AT_SERVE` is that line of a file."""
    source = folder / name
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("\n" * 28 + f"if begun:\n    {line}\n")
    os.utime(source, ns=(written_ns, written_ns))
    trace = script.trace(100, *threads, **process)
    frames = tuple(
        dataclasses.replace(one, filename=str(source), function=function) if one == SERVE else one
        for one in trace.frames
    )
    since_ns, until_ns = (trace.start_ns + one * MS for one in window_ms)
    found = analyse(dataclasses.replace(trace, frames=frames), since_ns=since_ns, until_ns=until_ns).findings
    return {one.kind: one for one in found}


def away(*times_ms):
    """Return the events of two threads that release the GIL at `AT_SERVE`; times are (thread, begin, end)."""
    script = Script()
    for thread, since_ms, until_ms in times_ms:
        script.hold(thread, since_ms - 1, since_ms, stack=AT_SERVE)
        if until_ms < 100:
            script.hold(thread, until_ms, until_ms + 1, stack=AT_RECV)
    return script


IN_TURNS = away((0, 10, 20), (1, 30, 40))
AT_ONCE = away((0, 10, 100), (1, 12, 100))


@pytest.mark.parametrize("line", ["with self.guard_lock:", "guard.acquire()"])
def test_waits_for_a_lock_are_told_with_a_gil_too(tmp_path, line):
    """Threads that block each other on a lock of the program lose time, though none of them waits for the GIL."""
    found = with_a_gil(IN_TURNS, tmp_path, line=line)
    one = found["contended-lock"]

    assert one.weight == "problem"
    assert one.fact.startswith("a and b blocked 2 times on a lock of the program at ")
    assert one.fact.endswith(
        "app.py:30 serve: 20 ms in total (10 % of their time), 10 ms at p99; they had released the GIL"
    )
    assert one.cause.startswith("one thread at a time has such a lock")
    assert "no-contention" not in found


def test_a_lock_and_a_call_on_one_line_are_both_told(tmp_path):
    """Threads may await the lock or the call: the report says that, and how to find out."""
    found = with_a_gil(AT_ONCE, tmp_path, line="with self.guard_lock: print(self.peer)")

    assert "contended-lock" not in found
    assert found["unseen-wait"].cause.startswith(
        "the line takes a lock and makes a call, and a trace does not show which"
    )
    assert found["unseen-wait"].advice.startswith("put the call on a line of its own, below the `with`")


def test_threads_that_do_not_meet_at_a_lock_take_no_turns_there(tmp_path):
    """Two threads come to a line 20 ms apart, and wait there for 5 ms each: a third one has the lock, which never waits."""
    apart = [(number % 2, 1 + 20 * number, 6 + 20 * number) for number in range(5)]
    script = Script()
    for thread, since_ms, until_ms in apart:
        script.park(thread, since_ms, until_ms, Park.LOCK)
    off = free_threaded(script, "a", "b", "holder")["contended-lock"]
    on = with_a_gil(away(*apart), tmp_path)["contended-lock"]

    for one in (off, on):
        assert one.weight == "problem"
        assert one.cause == "another thread had the lock meanwhile: these ones hardly met at that line"
        assert "let the thread that has the lock" in one.advice


def test_a_lock_that_is_had_until_the_end_is_told_with_a_gil_too(tmp_path):
    """Threads that are still blocked at the end count until then; whether the lock is awaited there is not known."""
    found = with_a_gil(AT_ONCE, tmp_path)

    assert "178 ms in total (89 % of their time)" in found["contended-lock"].fact
    assert (found["contended-lock"].weight, found["contended-lock"].advice) == ("note", "")
    assert found["no-contention"].cause == "the GIL does not slow this program down"


@pytest.mark.parametrize(("waits_ms", "is_gil"), [(4.5, True), (1, False)])
def test_threads_that_queue_at_a_lock_whose_owner_waits_for_the_gil_share_the_gil(tmp_path, waits_ms, is_gil):
    """Four threads compute for 5 ms and then queue at a lock: if its owner waits for the GIL meanwhile, the GIL is the cause."""
    script = Script()
    for turn in range(20):
        who, now = turn % 4, 5 * turn
        if turn >= 4:
            script.wait(who, now - waits_ms, stack=AT_SERVE)
        script.hold(who, now, now + 5, stack=AT_SERVE)
    found = with_a_gil(script, tmp_path, threads="abcd")

    assert found["contended-lock"].cause.startswith("for ") == is_gil
    assert ("ProcessPoolExecutor" in found["contended-lock"].advice) == is_gil
    assert ("saturated" in found) == is_gil


@pytest.mark.parametrize(("written_s", "is_told"), [(-20, True), (-5, False), (5, False)])
def test_a_line_that_was_edited_since_the_process_began_is_not_read(tmp_path, written_s, is_told):
    """A process that is attached to after 10 s runs the source that was there when it began."""
    start_ns = 1_700_000_000 * 10**9
    times_ns = {"start_realtime_ns": start_ns, "begin_realtime_ns": start_ns - 10 * 10**9}
    found = with_a_gil(IN_TURNS, tmp_path, written_ns=start_ns + written_s * 10**9, **times_ns)

    assert ("contended-lock" in found) == is_told


def test_a_lock_that_is_awaited_in_all_of_a_window_is_told_with_a_gil_too(tmp_path):
    """A window has the time for which a thread was blocked in it, though it released the GIL before and came back after."""
    found = with_a_gil(away((0, 10, 90), (1, 2, 4)), tmp_path, window_ms=(30, 70))

    assert found["contended-lock"].fact.startswith("a blocked once on a lock of the program at ")
    assert "for 40 ms (100 % of its time)" in found["contended-lock"].fact


@pytest.mark.parametrize("window_ms", [(0, 8), (91, 100)])
def test_a_lock_that_was_awaited_outside_of_a_window_is_not_told(tmp_path, window_ms):
    """Waits that ended before a window, or began after it, are left out."""
    assert "contended-lock" not in with_a_gil(away((0, 10, 90)), tmp_path, window_ms=window_ms)


@pytest.mark.parametrize(
    ("line", "name", "function", "is_told"),
    [
        ("time.sleep(1)", "app.py", "serve", False),
        ("waiter.acquire()", "lib/python3.13/threading.py", "Condition.wait", False),
        ("return self._lock.__enter__()", "lib/python3.13/threading.py", "Condition.__enter__", True),
    ],
    ids=["a sleep", "a condition is awaited", "a condition's lock"],
)
def test_only_lines_that_take_a_lock_are_told_with_a_gil(tmp_path, line, name, function, is_told):
    """A thread that awaits a condition may be idle; the lock of a condition is one that others hold while they work."""
    assert ("contended-lock" in with_a_gil(IN_TURNS, tmp_path, line=line, name=name, function=function)) == is_told


@pytest.mark.parametrize("name", ["site-packages/waitress/task.py", "app.py"])
def test_a_server_s_waits_for_locks_point_to_its_stalls(tmp_path, name):
    """The command that names requests which waited too long is told where the stack is that of a request."""
    found = with_a_gil(IN_TURNS, tmp_path, name=name)

    assert ("`headway stalls` on this file" in found["contended-lock"].advice) == ("waitress" in name)


def test_the_heading_counts_threads_that_waited_in_the_window():
    """Without a GIL, threads that waited before or after the window, or never, are not counted; `--thread` changes nothing."""
    script = Script().park(0, 0, 3, Park.OBJECT).park(1, 2, 5, Park.OBJECT).park(1, 5, 7, Park.LOCK)
    trace = script.trace(10, "a", "b", "never", gils=0, free_threaded=True, gil_enabled=False)

    heading = next(trace_lines(analyse(trace)))
    assert heading.endswith("2 threads that waited, no GIL used")
    for chosen in (None, (0,), (2,)):
        late = next(trace_lines(analyse(trace, since_ns=trace.start_ns + 4 * MS, threads=chosen)))
        assert late.endswith("1 thread that waited, no GIL used")


def test_the_share_of_threads_that_take_turns_is_one_of_their_lives():
    """Two threads that begin late, and are then blocked for half of the time, are blocked for 49 % of their lives."""
    script = Script().hold(2, 0, 90)
    for turn in range(40):
        script.hold(turn % 2, 90 + 4 * turn, 93.9 + 4 * turn, stack=AT_SERVE)
    trace = script.trace(250, "a", "b", "main")
    late = [dataclasses.replace(one, start_ns=trace.start_ns + 90 * MS) for one in trace.threads[:2]]
    one = told(dataclasses.replace(trace, threads=(*late, trace.threads[2])))["turns"]

    assert one.threads == ("a", "b")
    assert one.fact.endswith("for 156 ms in total (49 % of their time)")
