"""Stalls and their causes, from traces whose truth is known; the homes of loops and pools; sums and messages."""

import dataclasses
import io

import numpy as np
import pytest
from made_traces import MS, START_NS
from rich.console import Console
from told_traces import AT_COMPUTE, Script

from headway.report.stalls import render_stalls
from headway.traces.analysis.stall_model import Cause, Kept, StallKind, Thresholds
from headway.traces.analysis.stall_sums import sum_up, told_rows
from headway.traces.analysis.stall_words import stall_json, stall_line
from headway.traces.analysis.stalls import find_stalls
from headway.traces.frames import CUT, OURS, Collected, CoreTime, Evidence, Frame, Sample
from headway.traces.loops import Home, home_at, is_for_a_request, is_in_a_loop
from headway.traces.model import RAN_ALL, RAN_SHIFT, Kind, Loss

LIB = "/usr/lib/python3.13"
SELECT = Frame(f"{LIB}/selectors.py", 452, "EpollSelector.select", 440)
RUN_ONCE = Frame(f"{LIB}/asyncio/base_events.py", 1989, "BaseEventLoop._run_once", 1960)
FOREVER = Frame(f"{LIB}/asyncio/base_events.py", 679, "BaseEventLoop.run_forever", 670)
HANDLER = Frame("/app/app.py", 42, "handler", 40)
SLEEP = Frame("/app/app.py", 50, "nap", 48)
WAIT = Frame(f"{LIB}/threading.py", 359, "Condition.wait", 320)
WORKER = Frame(f"{LIB}/concurrent/futures/thread.py", 89, "_worker", 70)
GUNICORN = Frame("/v/lib/python3.13/site-packages/gunicorn/workers/gthread.py", 300, "ThreadWorker.handle", 290)
GRPC = Frame("/v/lib/python3.13/site-packages/grpc/_server.py", 620, "_call_behavior", 600)
SERVE = Frame(f"{LIB}/socketserver.py", 235, "BaseServer.serve_forever", 220)
STARTS = Frame(f"{LIB}/socketserver.py", 706, "ThreadingMixIn.process_request", 698)
CLOSE = Frame(f"{LIB}/socketserver.py", 513, "TCPServer.shutdown_request", 508)
ANSWER = Frame(f"{LIB}/http/server.py", 404, "BaseHTTPRequestHandler.handle_one_request", 395)
READ = Frame(f"{LIB}/socket.py", 719, "SocketIO.readinto", 706)
RECEIVE = Frame(f"{LIB}/ssl.py", 1251, "SSLSocket.recv_into", 1240)
COMPUTE = Frame("/app/app.py", 12, "compute", 10)
MAIN = Frame("/app/app.py", 90, "<module>", 1)
THREAD = Frame(f"{LIB}/threading.py", 1012, "Thread.run", 1000)
BEGIN = Frame(f"{LIB}/threading.py", 1032, "Thread._bootstrap", 1000)
ANYIO = Frame("/v/lib/python3.13/site-packages/anyio/_backends/_asyncio.py", 967, "WorkerThread.run", 950)
UVICORN = Frame("/v/lib/python3.13/site-packages/uvicorn/server.py", 70, "Server.serve", 68)
POOL = Frame(f"{LIB}/multiprocessing/pool.py", 114, "worker", 97)
ACCEPT = Frame(f"{LIB}/socket.py", 298, "socket.accept", 290)
SYNC = "/v/lib/python3.13/site-packages/gunicorn/workers/sync.py"
ACCEPTS, SYNC_WAIT = Frame(SYNC, 26, "SyncWorker.accept", 25), Frame(SYNC, 34, "SyncWorker.wait", 31)

STACKS = [
    (),
    (COMPUTE, MAIN),
    (SELECT, RUN_ONCE, FOREVER),
    (SLEEP, HANDLER, RUN_ONCE, FOREVER),
    (WORKER,),
    (HANDLER, GUNICORN, WORKER),
    (WAIT, HANDLER, RUN_ONCE, FOREVER),
    (SLEEP, THREAD, BEGIN),
    (SLEEP,) * 128 + (CUT,),
    (THREAD,),
    (SLEEP, POOL, BEGIN),
    (READ, ANSWER, THREAD),
    (SLEEP, ANSWER, THREAD),
    (CLOSE, THREAD),
    (SLEEP, GRPC, WORKER),
    (WAIT, ANYIO),
    (SLEEP, ANYIO),
    (UVICORN,),
    (ACCEPT, ACCEPTS),
    (SYNC_WAIT,),
    (SLEEP, ACCEPTS),
    (SELECT, SERVE),
    (WAIT, STARTS, SERVE),
    (OURS,),
]
AT_POLL, AT_SLEEP, AT_QUEUE, AT_REQUEST, AT_LOCK, AT_IDLE, AT_DEEP, AT_TARGET, AT_JOB = 2, 3, 4, 5, 6, 7, 8, 9, 10
AT_READ, AT_ANSWER, AT_CLOSE, AT_RPC = 11, 12, 13, 14
AT_ANYIO, AT_ENDPOINT = 15, 16
AT_ACCEPT, AT_SYNC_WAIT, AT_SYNC = 18, 19, 20
AT_SELECT, AT_START, AT_OURS = 21, 22, 23


def with_stacks(trace, away=None, **evidence):
    """Return a trace whose stacks are those of STACKS; `away` is the share for which threads ran between their holds."""
    frames, parents, innermost, ids = [Frame("", 0, "?")], [0], [0], {}
    places = {0: 0}
    for number, stack in enumerate(STACKS):
        at = 0
        for frame in reversed(stack):
            if (at, frame) not in ids:
                if frame not in frames:
                    frames.append(frame)
                parents.append(at)
                innermost.append(frames.index(frame))
                ids[at, frame] = len(parents) - 1
            at = ids[at, frame]
        places[number] = at
    events = trace.events.copy()
    of_a_stack = np.isin(events["kind"], (Kind.WAIT, Kind.RELEASE))
    events["value"][of_a_stack] = [places[value] for value in events["value"][of_a_stack]]
    if away is not None:
        events["flags"][events["kind"] == Kind.ACQUIRE] |= 1 + round(away * RAN_ALL) << RAN_SHIFT
    return dataclasses.replace(
        trace,
        events=events,
        frames=tuple(frames),
        stack_parent=np.array(parents),
        stack_frame=np.array(innermost),
        evidence=Evidence(**evidence),
    )


def at(time_ms):
    return START_NS + round(time_ms * MS)


def loop(script, start_ms=0):
    """Add a loop's first poll of its connections."""
    return script.hold(0, start_ms, start_ms + 1, stack=AT_POLL)


def only(trace, thresholds=None):
    (found,) = find_stalls(trace, thresholds or Thresholds(50 * MS, 50 * MS, 50 * MS))
    return found


def parts(stall):
    return [(one.cause, round(one.time_ns / MS), one.place) for one in stall.parts]


def test_a_blocking_call_in_the_loop():
    """A loop that releases the GIL in a handler for long is in a blocking call there."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
    stall = only(with_stacks(script.trace(300, "MainThread"), away=0))

    assert (stall.kind, stall.since_ns, stall.until_ns, stall.goes_on) == (StallKind.LOOP, at(10), at(212), False)
    assert parts(stall) == [(Cause.BLOCKED, 200, SLEEP), (Cause.OWN, 2, None)]


@pytest.mark.parametrize("away", [None, 0.3])
def test_a_call_that_may_have_computed_is_no_blocking_call(away):
    """Without an account, a call that released the GIL may have waited, computed or had no core; its line is told."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread"), away=away)
    stall = only(trace)

    assert parts(stall)[0] == (Cause.UNEXPLAINED, 140 if away else 200, SLEEP)
    assert "% unexplained: a call at /app/app.py:50 nap that released the GIL (it computed" in stall_line(trace, stall)
    assert stall_json(trace, stall)["parts"][0]["advice"].startswith("run the call with `asyncio.to_thread()`")


@pytest.mark.parametrize(("poll", "stack"), [(AT_POLL, AT_IDLE), (AT_POLL, AT_JOB), (AT_TARGET, AT_QUEUE)])
def test_a_thread_that_has_left_its_loop_does_not_stall(poll, stack):
    """A thread, or a pool's worker, that runs a loop for each job is idle between two of them."""
    script = Script().hold(0, 0, 1, stack=poll).hold(0, 10, 11, stack=stack).hold(0, 211, 212, stack=poll)

    assert find_stalls(with_stacks(script.trace(300, "worker"))) == []


@pytest.mark.parametrize(("poll", "stack"), [(AT_POLL, AT_DEEP), (AT_TARGET, AT_IDLE)])
def test_a_stack_that_may_be_in_the_loop_stalls_it(poll, stack):
    """A stack that is too deep to be recorded whole, or the code that a target in C calls, may be in the loop."""
    script = Script().hold(0, 0, 1, stack=poll).hold(0, 10, 11, stack=stack).hold(0, 211, 212, stack=poll)
    stall = only(with_stacks(script.trace(300, "worker"), away=0))

    assert (stall.kind, stall.cause, stall.parts[0].place) == (StallKind.LOOP, Cause.BLOCKED, SLEEP)


def test_own_code_is_where_it_was_seen():
    """The release of a long hold tells no line; samples do, and each function has its share."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
    trace = script.trace(300, "MainThread")
    frames = {(COMPUTE, HANDLER, RUN_ONCE): 3, (SLEEP, HANDLER, RUN_ONCE): 1}
    stacks = [stack for stack, count in frames.items() for _ in range(count)]
    samples = tuple(Sample(at(20 + 40 * n), 101, stack) for n, stack in enumerate(stacks))

    assert parts(only(with_stacks(trace))) == [(Cause.OWN, 200, None)]
    assert parts(only(with_stacks(trace, samples=samples))) == [(Cause.OWN, 150, COMPUTE), (Cause.OWN, 50, SLEEP)]


def test_the_gil_in_one_call_of_c():
    """A holder that keeps the GIL after a request is in a C call, at the line where it then released the GIL."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL, asks_ms=15)
    script.hold(1, 5, 205, stack=AT_COMPUTE, forced=True).hold(0, 205, 206, stack=AT_POLL)
    stall = only(with_stacks(script.trace(300, "MainThread", "cruncher")))

    assert stall.cause is Cause.GIL
    assert (stall.parts[0].thread, stall.parts[0].kept, stall.parts[0].place) == (1, Kept.C, COMPUTE)
    trace = with_stacks(script.trace(300, "MainThread", "cruncher"))
    told = "99 % the GIL held by cruncher at /app/app.py:12 compute, in one call of C"
    assert stall_line(trace, stall).endswith(f"{told} or a garbage collection")
    assert stall_line(with_stacks(trace, watched=True), stall).endswith(told)


def test_many_holders_are_one_cause():
    """Parts that are small by themselves add up to their cause."""
    script = loop(Script()).wait(0, 10, stack=AT_POLL)
    for n in range(100):
        script.hold(1 + n % 60, 10 + 2 * n, 12 + 2 * n, stack=AT_COMPUTE, forced=True)
    script.hold(0, 210, 211, stack=AT_POLL)
    stall = only(with_stacks(script.trace(300, "MainThread", *(f"cpu-{n}" for n in range(60)))))

    assert stall.cause is Cause.GIL
    assert sum(one.time_ns for one in stall.parts if one.cause is Cause.GIL) == 200 * MS


def test_a_garbage_collection():
    """A garbage collection is named, even if another thread made it."""
    collection = Collected(102, at(20), at(200), 2)
    script = loop(Script()).wait(0, 10, stack=AT_POLL)
    script.hold(1, 5, 205, stack=AT_COMPUTE).hold(0, 205, 206, stack=AT_POLL)
    stall = only(with_stacks(script.trace(300, "MainThread", "cruncher"), collections=(collection,)))

    assert (stall.cause, stall.parts[0].thread, stall.parts[0].time_ns) == (Cause.COLLECTION, 1, 180 * MS)


def test_a_garbage_collection_without_a_core():
    """A collection that waited for a core for most of its time is not the cause of that time."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
    evidence = {
        "collections": (Collected(101, at(20), at(200), 2),),
        "core_times": (CoreTime(at(10), 101, 0, 0), CoreTime(at(210), 101, 50 * MS, 150 * MS)),
    }
    stall = only(with_stacks(script.trace(300, "MainThread"), **evidence))

    assert parts(stall) == [(Cause.CORE, 150, None), (Cause.COLLECTION, 45, None), (Cause.OWN, 5, None)]


def test_no_core():
    """The system's account tells a hold without a core from one that ran."""
    script = loop(Script()).hold(0, 10, 210, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, 0, queued * MS) for ms, queued in ((5, 0), (100, 80), (215, 150)))
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    assert stall.cause is Cause.CORE
    assert stall.parts[0].time_ns == 150 * MS


def test_a_loop_that_woke_late():
    """A loop that had work but no core, before it wanted the GIL, woke late, although no lap shows that."""
    script = loop(Script()).hold(0, 250, 251, stack=AT_POLL)
    times = tuple(CoreTime(at(ms), 101, 0, queued * MS) for ms, queued in ((5, 0), (25, 0), (245, 200)))
    stall = only(with_stacks(script.trace(300, "MainThread"), core_times=times))

    assert (stall.kind, stall.cause, stall.since_ns, stall.until_ns) == (StallKind.LOOP, Cause.CORE, at(45), at(245))


def test_a_lock_that_nobody_can_let_go():
    """A thread that waits for a lock of Python's while one C call keeps the GIL waits for that call."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_LOCK).wait(2, 12, asks_ms=17)
    script.hold(1, 12, 192, stack=AT_COMPUTE, forced=True).hold(2, 192, 193).hold(0, 213, 214, stack=AT_POLL)
    stall = only(
        with_stacks(script.trace(300, "MainThread", "cruncher", "owner")), Thresholds(50 * MS, 900 * MS, 900 * MS)
    )

    assert parts(stall)[:2] == [(Cause.GIL, 180, COMPUTE), (Cause.BLOCKED, 22, HANDLER)]


@pytest.mark.parametrize("stack", [AT_LOCK, AT_POLL])
def test_a_wait_is_for_the_gil_of_its_event(stack):
    """A thread that mostly uses the GIL of its sub-interpreter waits for the main one, or for a lock there, behind a C call."""
    script = Script()
    for number in range(20):
        script.hold(0, number, number + 0.5, stack=AT_POLL, gil=1)
    script.hold(0, 30, 31, stack=stack)
    if stack == AT_POLL:
        script.wait(0, 31)
    script.wait(2, 31, asks_ms=36)
    script.hold(1, 31, 231, stack=AT_COMPUTE, forced=True).hold(0, 231, 232, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread", "keeper", "other", gils=2))
    stall = next(one for one in find_stalls(trace, Thresholds()) if one.thread == 0)

    assert parts(stall)[0] == (Cause.GIL, 200, COMPUTE)
    assert stall.parts[0].kept is Kept.C


def test_requests_and_jobs():
    """A pool's thread that answers a request is a request, and one that does a job is none, however long it takes."""

    def work(stack):
        script = Script().hold(0, 0, 1, stack=AT_QUEUE).hold(0, 10, 11, stack=stack).hold(0, 400, 401, stack=AT_QUEUE)
        return find_stalls(with_stacks(script.trace(500, "pool_0"), away=0), Thresholds(50 * MS, 50 * MS, 50 * MS))

    assert [(one.kind, one.cause) for one in work(AT_REQUEST)] == [(StallKind.REQUEST, Cause.BLOCKED)]
    assert work(AT_QUEUE) == []
    assert [one.kind for one in work(AT_RPC)] == [StallKind.REQUEST]


@pytest.mark.parametrize("stack", [AT_ENDPOINT, AT_ANYIO])
def test_a_thread_of_anyio_works_for_requests_where_a_loop_serves_the_web(stack):
    """A function in AnyIO's pool is a request where a loop serves the web, also if it releases the GIL only at home."""
    script = Script().hold(0, 0, 1, stack=AT_ANYIO).hold(0, 10, 11, stack=stack).hold(0, 210, 400, stack=AT_ANYIO)
    trace = with_stacks(script.trace(500, "AnyIO worker thread"))
    imported = tuple(dataclasses.replace(one, function="<module>") if one == UVICORN else one for one in trace.frames)

    assert only(trace, Thresholds(900 * MS, 900 * MS, 150 * MS)).kind is StallKind.REQUEST
    assert find_stalls(dataclasses.replace(trace, frames=imported)) == []


def test_a_first_request_goes_on():
    """The first request of a new thread is a stall while it lasts, for it may never end; a job is none."""

    def first(stack, **process):
        script = Script().hold(0, 10, 11, stack=stack)
        found = find_stalls(with_stacks(script.trace(500, "pool_0", **process)), Thresholds(50 * MS, 50 * MS, 50 * MS))
        return [(one.kind, one.since_ns, one.goes_on) for one in found]

    assert first(AT_REQUEST, ended=False) == [(StallKind.REQUEST, at(10), True)]
    assert first(AT_REQUEST) == [(StallKind.REQUEST, at(10), True)]
    assert first(AT_QUEUE, ended=False) == []
    assert first(AT_IDLE, ended=False) == []
    assert first(AT_JOB, ended=False) == []


@pytest.mark.parametrize(("overwritten", "start_ms", "is_told"), [(9, 10, True), (9, -9000, False), (0, -9000, True)])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_request_whose_begin_is_lost_is_none(overwritten, start_ms, is_told, is_over):
    """The earliest event that is left of a long request is not its begin: each recording would show another stall."""
    script = Script().hold(0, 10, 11, stack=AT_REQUEST)
    if is_over:
        script.hold(0, 410, 411, stack=AT_QUEUE)
    trace = with_stacks(script.trace(500, "pool_0", ended=False))
    thread = dataclasses.replace(trace.threads[0], start_ns=at(start_ms))
    trace = dataclasses.replace(trace, threads=(thread,), loss=Loss(overwritten_events=overwritten))

    assert bool(find_stalls(trace, Thresholds(50 * MS, 50 * MS, 50 * MS))) is is_told


@pytest.mark.parametrize("between", [AT_ACCEPT, AT_SYNC_WAIT])
def test_gunicorns_default_worker(between):
    """A worker without threads has no pool: its requests are between two calls that wait for a connection."""
    script = Script()
    for number in range(3):
        script.hold(0, 400 * number, 400 * number + 1, stack=between)
        script.hold(0, 400 * number + 10, 400 * number + 11, stack=AT_SYNC)
    script.hold(0, 1200, 1201, stack=between)
    found = find_stalls(with_stacks(script.trace(1300, "MainThread")), Thresholds(50 * MS, 50 * MS, 50 * MS))

    assert [(one.kind, one.length_ns) for one in found] == [(StallKind.REQUEST, 391 * MS)] * 3


def test_a_thread_for_each_connection():
    """Requests of a connection with its own thread count, also the last one; a connection that only lasts does not."""

    def connection(*stacks):
        script = Script().hold(0, 0, 1, stack=stacks[0])
        for number, stack in enumerate(stacks[1:]):
            script.hold(0, 400 * number + 10, 400 * number + 11, stack=stack)
        script.add(400 * len(stacks), 0, Kind.EXIT)
        found = find_stalls(with_stacks(script.trace(2000, "Thread-1")), Thresholds(50 * MS, 50 * MS, 50 * MS))
        return [(one.kind, one.since_ns, one.until_ns) for one in found]

    request = StallKind.REQUEST
    assert connection(AT_READ, AT_ANSWER, AT_CLOSE) == [(request, at(10), at(411))]
    assert connection(AT_READ, AT_ANSWER, AT_READ, AT_ANSWER, AT_CLOSE) == [
        (request, at(10), at(411)),
        (request, at(810), at(1211)),
    ]
    assert connection(AT_READ, AT_READ, AT_CLOSE) == []
    assert connection(AT_IDLE, AT_IDLE, AT_CLOSE) == []


def test_a_loop_that_is_left_is_none():
    """The work of a thread after its loop has ended is no lap."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_COMPUTE).hold(0, 400, 401, stack=AT_POLL)

    assert find_stalls(with_stacks(script.trace(500, "MainThread"))) == []


def test_waits_of_threads_that_compute_are_none():
    """A thread that was preempted waits for its turn, which is no stall; a thread that comes from elsewhere stalls."""

    def waits(forced):
        script = Script().hold(0, 0, 10, stack=AT_COMPUTE, forced=forced).wait(0, 10, stack=AT_COMPUTE)
        script.hold(1, 10, 210, stack=AT_COMPUTE).hold(0, 210, 211, stack=AT_COMPUTE)
        return find_stalls(with_stacks(script.trace(300, "one", "other")))

    assert [one.kind for one in waits(forced=False)] == [StallKind.WAIT]
    assert waits(forced=True) == []


def test_one_that_goes_on():
    """A lap that is too long at the end is a stall if the process still runs, and none if it has ended."""
    script = loop(Script()).add(10, 0, Kind.ACQUIRE)
    running = with_stacks(script.trace(200, "MainThread", ended=False))

    assert only(running).goes_on
    assert find_stalls(with_stacks(script.trace(200, "MainThread"))) == []
    assert "stalled for 190 ms so far" in stall_line(running, only(running))


@pytest.mark.parametrize(
    ("frames", "home"),
    [
        ((SELECT, RUN_ONCE, FOREVER), Home.LOOP),
        ((SELECT, SERVE), Home.POOL),
        ((SELECT, HANDLER, SERVE), None),
        ((READ, ANSWER, SERVE), Home.POOL),
        ((Frame(f"{LIB}/ssl.py", 1103, "SSLSocket.read"), RECEIVE, READ, ANSWER), Home.POOL),
        ((READ, HANDLER, ANSWER), None),
        ((ANSWER, SERVE), None),
        ((CLOSE, SERVE), Home.POOL),
        ((Frame(f"{LIB}/asyncio/runners.py", 118, "Runner.run"),), Home.LOOP),
        ((Frame("/x/site-packages/trio/_core/_io_epoll.py", 200, "EpollIOManager.get_events"),), Home.LOOP),
        ((WORKER,), Home.POOL),
        ((Frame(f"{LIB}/queue.py", 171, "Queue.get"), WORKER), Home.POOL),
        ((WAIT, Frame("/x/site-packages/waitress/task.py", 80, "ThreadedTaskDispatcher.handler_thread")), Home.POOL),
        ((WAIT, HANDLER, WORKER), None),
        ((HANDLER, WORKER), None),
        ((), None),
    ],
)
def test_homes(frames, home):
    """The homes of loops and pools are recognised by their own frames."""
    assert home_at(frames) is home


def test_a_line_that_runs_a_loop(tmp_path):
    """A loop that is not in Python is recognised by the line of the program that calls it."""
    file = tmp_path / "app.py"
    file.write_text("import x\nloop.run_forever()\nloop.stop()\n")

    assert home_at((Frame(str(file), 2, "<module>"),)) is Home.LOOP
    assert home_at((Frame(str(file), 3, "<module>"),)) is None
    assert home_at((Frame(str(file), 99, "<module>"),)) is None
    assert is_in_a_loop((HANDLER, Frame(str(file), 2, "<module>")))
    assert not is_in_a_loop((HANDLER,))
    assert is_for_a_request((HANDLER, GUNICORN), is_web=False)


def test_json_and_sums():
    """A stall that was reported while it went on counts once, with its last report, and cut-off lines are counted."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL)
    trace = with_stacks(script.trace(300, "MainThread"), away=0)
    row = stall_json(trace, only(trace))
    early = row | {"goes_on": True, "length_s": 0.1}
    sums = sum_up([early, row, row | {"pid": 1, "length_s": 1.0}])

    assert row["parts"][0]["place"] == {"file": "/app/app.py", "line": 50, "function": "nap"}
    assert row["advice"].startswith("await the call")
    assert [one["goes_on"] for one in sums.rows] == [False, False]
    assert sums.by_cause["event loop", "blocking call"].count == 2
    assert list(sums.by_process) == [("app.py", "1", "", ""), ("app.py", "4242", "", "")]
    assert sums.by_line["blocking call", "/app/app.py:50 nap"].count == 2
    assert told_rows(['{"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []}', '{"began": "20']) == (
        [{"began": "2026-01-01T00:00:00+00:00", "length_s": 1, "parts": []}],
        1,
    )


def test_lines_in_deep_folders_have_short_paths():
    """The table has the last folders of a path; two files that differ in their outer folders only stay apart."""
    trace = with_stacks(
        loop(Script()).hold(0, 10, 11, stack=AT_SLEEP).hold(0, 211, 212, stack=AT_POLL).trace(300, "MainThread")
    )
    row = stall_json(trace, only(trace))
    rows = [
        {**row, "pid": pid, "parts": [{**row["parts"][0], "place": {"file": file, "line": 50, "function": "nap"}}]}
        for pid, file in enumerate(
            ("/srv/one/app/views/naps.py", "/srv/one/app/views/naps.py", "/srv/two/app/views/naps.py")
        )
    ]
    output = io.StringIO()
    Console(width=120, file=output).print(render_stalls(sum_up(rows)))
    told = output.getvalue()

    assert ".../app/views/naps.py:50 nap" in told
    assert "/srv/two/app/views/naps.py:50 nap" in told
    assert "/srv/one" not in told


def test_a_stall_counts_once_for_each_cause():
    """A stall counts once for each cause, however many parts have that cause, or that line."""
    part = {"cause": "GIL", "time_s": 0.1, "place": None}
    row = {
        "began": "2026-11-25T19:00:00+00:00",
        "pid": 1,
        "serial": 1,
        "since_ns": 1,
        "length_s": 0.4,
        "kind": "event loop",
    }
    found = sum_up([row | {"parts": [part, part, part | {"cause": "no core"}]}])

    assert {key: (one.count, round(one.time_s, 6)) for key, one in found.by_cause.items()} == {
        ("event loop", "GIL"): (1, 0.2),
        ("event loop", "no core"): (1, 0.1),
    }
    assert found.by_line["GIL", "?"].count == 1


def test_a_lock_that_nobody_could_let_go_of_with_an_account_a_tick_off():
    """The thread that kept the GIL is named even if its running time is known only to a tick."""
    script = loop(Script()).hold(0, 10, 11, stack=AT_LOCK).hold(0, 311, 312, stack=AT_POLL)
    script.wait(2, 12, stack=0, asks_ms=17).hold(1, 11, 311, stack=AT_COMPUTE, forced=True)
    trace = script.trace(400, "MainThread", "keeper", "starting")
    times = tuple(CoreTime(at(ms), 101, ran * MS, 0) for ms, ran in ((5, 0), (150, 4), (320, 8)))
    times += tuple(CoreTime(at(ms), 102, ran * MS, 0) for ms, ran in ((5, 0), (320, 300)))
    stall = next(one for one in find_stalls(with_stacks(trace, core_times=times), Thresholds()) if one.thread == 0)

    assert (stall.cause, stall.parts[0].kept, stall.parts[0].place) == (Cause.GIL, Kept.C, COMPUTE)
