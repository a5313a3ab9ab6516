"""Each call that acquires or releases the GIL, or a lock, has its event in the trace, and the trace has no other.

event_oracle.c knows nothing of the recorder: it has the time before and after each call, by its own clock. oracle_books.py
compares the two. No test depends on how long something takes.
"""

import mmap
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attached import Attached
from oracle_books import compare, compare_locks, compare_marks, cut, read_books
from real_programs import FOUND, LIMIT_S, bare
from waiting import wait_for

from headway.live.attach import detach, look_at
from headway.live.collect import collecting
from headway.live.launch import environment
from headway.traces.family import read_family
from headway.traces.invariants import violations
from headway.traces.model import Kind, Park
from headway.traces.reader import read

HERE = Path(__file__).parent
PROGRAM = str(HERE / "event_oracle_program.py")
WITHOUT = [one for one in FOUND if one.free_threaded]
OWN_GILS = [one for one in FOUND if one.order >= (3, 12)]
STOP_AT = 24  # log.stop in event_oracle.c

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile the oracle; return its path."""
    path = tmp_path_factory.mktemp("oracle") / "event_oracle.so"
    command = ["cc", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, "-o", str(path), str(HERE / "event_oracle.c")], check=True, timeout=60)
    return str(path)


def gil_on(interpreter):
    """Return the environment in which an interpreter has a GIL."""
    return bare(**({"PYTHON_GIL": "1"} if interpreter.free_threaded else {}))


def run(interpreter, library, scenario, folder, *, env, status=0):
    """Run a scenario traced; return the traces of its processes, and the path of its log."""
    file, log = folder / "x.hwt", folder / "log"
    command = [interpreter.executable, PROGRAM, library, str(log), scenario]
    with collecting(file) as door:
        done = subprocess.run(
            command,
            env=environment(door.environment(), base=env),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == status, done.stderr
    traces = read_family(file)
    for trace in traces:
        assert violations(trace) == []
        assert trace.loss.whole
    return traces, log


def judge(tally, record, least):
    """Fail if anything is missing or wrong, or if there were fewer events than the scenario makes."""
    record("oracle", (tally.events, tally.waits, tally.told_ns, tally.certain_ns, len(tally.early)))
    assert tally.faults() == []
    assert tally.events >= least


SCENARIOS = ["holds", "rates", "called", "foreign", "handed", "shared", "signals"]


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_each_call_has_its_event(interpreter, scenario, library, tmp_path, record_property):
    """Holds and waits of all lengths and rates, by threads of Python's and of C's, have all their events and no others."""
    (trace,), log = run(interpreter, library, scenario, tmp_path, env=gil_on(interpreter))

    judge(compare(trace, read_books(log)), record_property, 100)


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", OWN_GILS, ids=lambda one: one.id)
def test_each_interpreters_own_gil_has_its_events(interpreter, library, tmp_path, record_property):
    """Events of sub-interpreters' own GILs are told apart, also where a thread swaps from one to another."""
    (trace,), log = run(interpreter, library, "own", tmp_path, env=gil_on(interpreter))

    tally = compare(trace, read_books(log))
    judge(tally, record_property, 400)
    assert len(trace.gils) == 3


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_each_switch_that_was_forced_is_told(interpreter, library, tmp_path, record_property):
    """Threads that only compute are forced to each of their releases, and wait from then until they have the GIL again."""
    (trace,), log = run(interpreter, library, "forced", tmp_path, env=gil_on(interpreter))

    judge(compare_marks(trace, read_books(log)), record_property, 20)


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_each_process_has_its_own_events(interpreter, library, tmp_path, record_property):
    """Forked children have all their events, and their parent has its own, also around each fork."""
    traces, log = run(interpreter, library, "forks", tmp_path, env=gil_on(interpreter))

    assert len(traces) == 4
    for trace in traces:
        own = log if trace is traces[0] else log.with_name(f"{log.name}.{trace.process.pid}")
        judge(compare(trace, read_books(own)), record_property, 240)  # a child's threads may not meet


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_a_kill_loses_no_event(interpreter, library, tmp_path, record_property):
    """A process that is killed leaves the events of all calls that had returned, and at most one more of each thread."""
    (trace,), log = run(interpreter, library, "killed", tmp_path, env=gil_on(interpreter), status=-9)

    judge(compare(trace, read_books(log), in_flight=True), record_property, 300)


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_an_attached_trace_has_all_from_its_begin_on(interpreter, library, tmp_path, record_property):
    """From the first event of the trace until it ends, each call has its event."""
    file, log = tmp_path / "x.hwt", tmp_path / "log"
    command = [interpreter.executable, PROGRAM, library, str(log), "attached"]
    with subprocess.Popen(command, env=gil_on(interpreter), stderr=subprocess.PIPE) as process:

        def calls():
            return sum(len(window) for book in read_books(log) for window in book.windows)

        wait_for(lambda: log.exists() and log.stat().st_size > 0 and calls() > 20)
        target = look_at(process.pid)
        attached = Attached(target, file)
        before = calls()
        wait_for(lambda: calls() > before + 600)
        detach(target)
        attached.close()
        with open(log, "r+b") as opened, mmap.mmap(opened.fileno(), 4096) as head:
            head[STOP_AT : STOP_AT + 8] = struct.pack("<q", 1)
        assert process.wait(LIMIT_S) == 0, process.stderr.read()
    trace = read(file)

    # Until then, the recorder finds its way into the process; a wait that began before is not seen.
    books = cut(read_books(log), trace.events["time_ns"][0], trace.end_ns)
    judge(compare(trace, books, in_flight=True), record_property, 600)


@pytest.mark.parametrize("lock", [Park.MUTEX, Park.OBJECT])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("interpreter", WITHOUT, ids=lambda one: one.id)
def test_each_wait_for_a_lock_is_told(interpreter, cores, lock, library, tmp_path, record_property):
    """Each call that wants a lock which another thread has is one wait, with the kind of the lock, and its line."""
    scenario = f"{'mutex' if lock == Park.MUTEX else 'object'}{cores}"
    (trace,), log = run(interpreter, library, scenario, tmp_path, env=bare())

    # On a busy machine the threads run one after the other for most of the time.
    judge(compare_locks(trace, read_books(log), lock, "contend"), record_property, 5)


def without(events, some):
    """Return the events without these."""
    return np.delete(events, some)


def shifted(events, some):
    """Return the events with these 50 us later."""
    moved = events.copy()
    moved["time_ns"][some] += 50_000
    return moved


def told_of(events, some, thread):
    """Return the events with these told of another thread."""
    moved = events.copy()
    moved["thread"][some] = thread
    return moved


def thread_of(trace, book):
    """Return the index of a book's thread."""
    (index,) = (number for number, one in enumerate(trace.threads) if one.tid == book.tid)
    return index


def busiest_first(trace, log):
    """Return the books, those of the threads with the most events first.

    A thread that hardly had a core has so few that the loss of them all is within what the comparisons allow.
    """
    count = np.bincount(trace.events["thread"], minlength=len(trace.threads))
    return sorted(read_books(log), key=lambda book: -count[thread_of(trace, book)])


def faults_with(trace, books, change, kind, *more):
    """Return the faults that are found once an event of this kind in the first book is changed, or all WAITs in it.

    A thread may wait without sleeping, and then only the trace knows of the wait.
    """
    mine = np.flatnonzero((trace.events["thread"] == thread_of(trace, books[0])) & (trace.events["kind"] == kind))
    inside = mine[trace.events["time_ns"][mine] > books[0].windows[0]["before_ns"][9]]
    some = inside if kind == Kind.WAIT else inside[:1]
    return compare(replace(trace, events=change(trace.events, some, *more)), books).faults()


def test_the_comparison_finds_each_fault(library, tmp_path):
    """A trace in which one event is missing, late, doubled or another thread's is not what the oracle saw."""
    (trace,), log = run(FOUND[-1], library, "holds", tmp_path, env=gil_on(FOUND[-1]))
    books = read_books(log)
    other = thread_of(trace, books[1])

    assert compare(trace, books).faults() == []
    for kind in (Kind.RELEASE, Kind.ACQUIRE, Kind.WAIT):
        assert faults_with(trace, books, without, kind), f"{kind.name} removed"
        assert faults_with(trace, books, told_of, kind, other), f"{kind.name} of another thread"
    for kind in (Kind.RELEASE, Kind.ACQUIRE):
        assert faults_with(trace, books, shifted, kind), f"{kind.name} late"
        assert faults_with(trace, books, lambda events, some: np.insert(events, some, events[some]), kind)


def test_the_comparison_of_marks_finds_each_fault(library, tmp_path):
    """A trace without one thread's waits, with its holds told of another one, or with none forced, is found."""
    (trace,), log = run(FOUND[-1], library, "forced", tmp_path, env=gil_on(FOUND[-1]))
    events = trace.events
    books = busiest_first(trace, log)
    mine = events["thread"] == thread_of(trace, books[0])
    willing = events.copy()
    willing["flags"][events["kind"] == Kind.RELEASE] = 0

    assert compare_marks(trace, books).faults() == []
    for changed in (
        without(events, np.flatnonzero(mine & (events["kind"] == Kind.WAIT))),
        told_of(events, mine, thread_of(trace, books[1])),
        willing,
    ):
        assert compare_marks(replace(trace, events=changed), books).faults()


@pytest.mark.parametrize("interpreter", WITHOUT[:1], ids=lambda one: one.id)
def test_the_comparison_of_locks_finds_each_fault(interpreter, library, tmp_path):
    """A trace without one thread's waits for a lock, or with them at another time, is found."""
    (trace,), log = run(interpreter, library, "mutex1", tmp_path, env=bare())
    books, events = busiest_first(trace, log), trace.events
    mine = np.flatnonzero(events["thread"] == thread_of(trace, books[0]))

    assert compare_locks(trace, books, Park.MUTEX, "contend").faults() == []
    for changed in (without(events, mine), shifted(events, mine)):
        assert compare_locks(replace(trace, events=changed), books, Park.MUTEX, "contend").faults()
