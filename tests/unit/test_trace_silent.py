"""Threads without an event: the reader finds them by the names that a recording has of all threads."""

import dataclasses
import os
import sys

import pytest
from made_traces import START_NS, made_process, small
from patched_traces import patch, patch_chunk, patch_header
from told_traces import Script, told

from headway.agent.headway_agent.recorder import _places
from headway.report.trace.summary import summary_lines
from headway.traces import format as hwt
from headway.traces.analysis import analyse
from headway.traces.frames import Evidence, Unreleased
from headway.traces.model import Frame, Kind, Silent
from headway.traces.notes import append_notes
from headway.traces.reader import read
from headway.traces.writer import CHUNKS_OFFSET, record, write

A, R = Kind.ACQUIRE, Kind.RELEASE
TOLD = [
    (1, 70, "MainThread"),
    (1, 81, "worker-1"),
    (2, 80, "worker-0"),
    (9, 80, "worker-0, renamed"),
    (9, 82, " "),
    (9, 83, "Dummy-12"),
]


def named(path, *, note=b"", **process):
    """Write a trace of one thread, 70, the names of others, and a note; return its path."""
    trace = small([(0, A, 0), (5, R, 0), (8, A, 0), (9, R, 0)], threads=1)
    path = write(dataclasses.replace(trace, process=made_process(**process)) if process else trace, path / "x.hwt")
    data = b"".join(
        record(hwt.META_NAME, hwt.META_NAME_DTYPE, name.encode(), tid=tid, name_bytes=len(name), time_ns=START_NS + at)
        for at, tid, name in TOLD
    )
    if note:
        data += record(hwt.META_NOTE, hwt.META_NOTE_DTYPE, note, note_bytes=len(note))
    patch(path, CHUNKS_OFFSET + hwt.CHUNK_HEADER_BYTES, data)
    patch_chunk(path, 0, "used", len(data))
    return path


def test_a_thread_without_an_event_is_silent(tmp_path):
    """Each has the last name that it had; the thread with events is none of them, nor is one without a name, or with that of an ended thread of C."""
    found = read(named(tmp_path))

    assert found.silent == (Silent("worker-0, renamed"), Silent("worker-1"))
    assert len(found.threads) == 1


def test_events_that_are_lost_may_be_those_of_any_thread(tmp_path):
    """After a loss, or in a file that was cut off, a thread without an event may have had some."""
    assert read(patch_header(named(tmp_path), "dropped_events", 1)).silent == ()
    path = named(tmp_path)
    os.truncate(path, CHUNKS_OFFSET + hwt.CHUNK_BYTES)
    assert read(path).silent == ()


@pytest.mark.parametrize("gil_enabled", [True, False])
def test_without_a_gil_a_thread_that_works_has_no_event_either(tmp_path, gil_enabled):
    """A free-threaded build with the GIL on has events like any other."""
    found = read(named(tmp_path, free_threaded=True, gil_enabled=gil_enabled))

    assert bool(found.silent) == gil_enabled


def test_a_report_names_silent_threads_and_does_not_say_that_all_is_well():
    """Workers that are blocked for ever are the reason to attach to a program, and have no event."""
    trace = Script().hold(0, 0, 50).hold(0, 50.1, 99.9).trace(100, "MainThread")
    silent = told(dataclasses.replace(trace, silent=(Silent("worker-0"), Silent("work\x1b[1mer-1"))))
    crowd = told(dataclasses.replace(trace, silent=tuple(Silent(f"worker-{number}") for number in range(40))))

    assert silent["silent-threads"].weight == "note"
    assert silent["silent-threads"].fact.startswith("worker-0 and work")
    assert silent["silent-threads"].fact.endswith("-1 neither held nor wanted the GIL in all of the recording")
    assert "\x1b" not in silent["silent-threads"].fact
    assert silent["no-contention"].cause == "the GIL does not slow this program down"
    assert crowd["silent-threads"].fact.startswith("worker-* (40 threads) neither held nor wanted the GIL")
    assert told(trace)["no-contention"].cause.endswith("nothing to improve at the GIL")


def test_what_attach_says_at_its_end_names_silent_threads():
    """The summary leaves out other notes; a program that hangs has little else."""
    trace = Script().hold(0, 0, 50).hold(0, 50.1, 99.9).trace(100, "MainThread")
    (line,) = summary_lines([analyse(dataclasses.replace(trace, silent=(Silent("worker-0"),)))])[-1:]

    assert line == "  note worker-0 neither held nor wanted the GIL in all of the recording"


def test_a_thread_that_kept_a_gil_of_its_own_is_not_silent(tmp_path):
    """It has its name in Python if it has one; what is noted of a GIL that is recorded after all is left out."""
    recorded = read(named(tmp_path)).gils[0].address
    note = b'{"unreleased":[[4096,81,"python3",true],[8192,99,"python3",false],[%d,80,"python3",true]]}' % recorded
    found = read(named(tmp_path, note=note))

    assert found.evidence.unreleased == (Unreleased(4096, 81, "worker-1", True), Unreleased(8192, 99, "python3", False))
    assert found.silent == (Silent("worker-0, renamed"),)


def test_a_report_names_threads_that_kept_a_gil_and_does_not_say_that_all_is_well():
    """Of a thread that released its GIL later, only that is not known; a process that has ended does not tell either."""
    trace = Script().hold(0, 0, 50).hold(0, 50.1, 99.9).trace(100, "MainThread")
    kept = Unreleased(4096, 81, "wor\x1b[1mker", True)
    found = told(dataclasses.replace(trace, evidence=Evidence(unreleased=(kept,))))
    (line,) = summary_lines([analyse(dataclasses.replace(trace, evidence=Evidence(unreleased=(kept,))))])[-1:]
    left = dataclasses.replace(kept, to_the_end=False)
    other = told(dataclasses.replace(trace, evidence=Evidence(unreleased=(left,))))

    assert found["unreleased-gil"].weight == "note"
    assert " held a sub-interpreter's own GIL from before the recording to its end" in found["unreleased-gil"].fact
    assert line == f"  note {found['unreleased-gil'].fact}"
    assert "\x1b" not in line
    assert found["no-contention"].cause == "the GIL does not slow this program down"
    assert "to its end" not in other["unreleased-gil"].fact
    assert "did not acquire it again, or the process ended" in other["unreleased-gil"].cause
    assert "ended" not in found["unreleased-gil"].cause


def test_a_note_of_a_kept_gil_can_be_appended_and_read(tmp_path):
    """A trace that is damaged there has none."""
    path = write(small([(0, A, 0), (5, R, 0)], threads=1), tmp_path / "x.hwt")
    kept = Unreleased(8192, 81, "\u5de5", False)
    with path.open("r+b") as file:
        append_notes(file.fileno(), Evidence(unreleased=(kept,)))

    assert read(path).evidence.unreleased == (kept,)
    for wrong in (b'[[1,2,"x"]]', b'[["1",2,"x",true]]', b"[1]", b"7"):
        assert read(named(tmp_path, note=b'{"unreleased":%s}' % wrong)).evidence.unreleased == ()


def test_a_silent_thread_has_the_stack_that_it_had_when_attach_began(tmp_path):
    """The recorder writes it down as JSON of its own making, whatever characters the names have."""
    namespace = {}
    exec(compile("def \u5de5(told):\n    return list(told())", '/a "b"/\\\U0001f600.py', "exec"), namespace)
    frames = list(namespace["\u5de5"](lambda: _places(sys._getframe(1))))
    found = read(named(tmp_path, note=b'{"standing":[[80,[%s]]]}' % b",".join(frames))).silent[0].frames

    assert found[0] == Frame('/a "b"/\\\U0001f600.py', 2, "\u5de5", 1)
    assert found[1].function == "test_a_silent_thread_has_the_stack_that_it_had_when_attach_began"


def test_a_stack_that_does_not_fit_in_a_note_is_cut_at_its_outer_end():
    """A note of 16 KiB or more would not be written at all."""

    def deep(depth):
        return deep(depth - 1) if depth else _places(sys._getframe())

    found = deep(400)
    assert 9000 < len(b",".join(found)) < 12000
    assert all(b"deep" in one for one in found)


SOURCE = """\
def first():
    with a_lock:
        with b_lock:
            pass

def second():
    with b_lock:
        with a_lock:
            pass

def third():
    with a_lock:
        pass
"""


def at(file, line, first):
    """Return a stack of one frame."""
    return (Frame(str(file), line, f"f{first}", first),)


def test_silent_threads_that_wait_for_each_others_locks_are_a_deadlock(tmp_path):
    """The stacks at the begin tell where each waits, and the source which lock it has there."""
    file = tmp_path / "app.py"
    file.write_text(SOURCE)
    os.utime(file, (0, 0))
    silent = (Silent("one", at(file, 3, 1)), Silent("two", at(file, 8, 6)), Silent("three", at(file, 12, 11)))
    trace = dataclasses.replace(Script().hold(0, 0, 50).trace(100, "MainThread"), silent=silent)
    found = told(trace)

    assert "app.py:3 f1 for a lock that two may have and two waits at " in found["deadlock"].fact
    assert found["deadlock"].fact.endswith("until the end of the recording; 1 more thread waits for them")
    assert "three at " in found["silent-threads"].fact
    assert found["silent-threads"].fact.endswith("app.py:12 f11, for a lock that one may have")


def test_a_silent_thread_waits_for_a_global_lock_that_another_one_has(tmp_path):
    """There is only one lock of that name, so the owner is sure in both findings."""
    file = tmp_path / "app.py"
    file.write_text(f"{SOURCE}\na_lock, b_lock = Lock(), Lock()\n")
    os.utime(file, (0, 0))
    silent = (Silent("one", at(file, 3, 1)), Silent("two", at(file, 8, 6)), Silent("three", at(file, 12, 11)))
    found = told(dataclasses.replace(Script().hold(0, 0, 50).trace(100, "MainThread"), silent=silent))

    assert "app.py:3 f1 for a lock that two has and two waits at " in found["deadlock"].fact
    assert found["silent-threads"].fact.endswith("app.py:12 f11, for a lock that one has")


def test_silent_threads_are_in_no_deadlock_if_a_function_keeps_such_locks(tmp_path):
    """Another thread may have run it, and have the locks still."""
    file = tmp_path / "app.py"
    file.write_text(f"{SOURCE}\ndef keep(one):\n    one.a_lock.acquire()\n    one.b_lock.acquire()\n")
    os.utime(file, (0, 0))
    silent = (Silent("one", at(file, 3, 1)), Silent("two", at(file, 8, 6)))
    trace = dataclasses.replace(Script().hold(0, 0, 50).trace(100, "MainThread"), silent=silent)

    assert "deadlock" not in told(trace)


def test_a_silent_thread_that_waits_for_work_has_no_line(tmp_path):
    """A pool's idle thread is where it belongs; a lock that no thread is seen to have is no deadlock."""
    file = tmp_path / "app.py"
    file.write_text(SOURCE)
    os.utime(file, (0, 0))
    idle = (Frame("/usr/lib/python3.13/concurrent/futures/thread.py", 89, "_worker", 70),)
    trace = dataclasses.replace(
        Script().hold(0, 0, 50).trace(100, "MainThread"),
        silent=(Silent("idle", idle), Silent("three", at(file, 12, 11))),
    )
    found = told(trace)

    assert "deadlock" not in found
    assert found["silent-threads"].fact.endswith("app.py:12 f11")
    assert ": three at " in found["silent-threads"].fact
