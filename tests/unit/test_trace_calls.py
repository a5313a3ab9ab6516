"""The kind of a call, read from the line that makes it."""

import dataclasses
import inspect
import os
import sched

import pytest
from told_traces import Script

from headway.traces.calls import Call, call_at, waits_for_good
from headway.traces.frames import Frame
from headway.traces.loops import home_at, waits_for_a_lock
from headway.traces.sources import changed_since, edited


def waits_at_its_second_line(file, text):
    """Write a program; return whether a thread that releases the GIL at the second line waits for a lock."""
    file.write_text(text)
    return waits_for_a_lock([Frame(str(file), 2, "handler", 1)])


@pytest.mark.parametrize(
    ("line", "is_lock"),
    [
        ("with self._lock:", True),
        ("    with cache_locks[key], other:", True),
        ("if not guard.acquire(timeout=1):", True),
        ("with self.rlock:", True),
        ("with lock_table(name):", False),
        ("with self.second:", False),
        ("with open(block):", False),
        ("with timer(clock):", False),
        ("with " + "a" * 1_000_000, False),
        ("with self.semantic_index:", False),
        ("answer = client.get(key)", False),
        ("with self._lock: time.sleep(0.005)", False),
        ("with self._lock: self.items.append(1)  # time.sleep()", True),
        ("with lock: count += 1", True),
        ("with lock: self.spent[name] += perf_counter() - begin", True),
        ("with lock: print(name)", False),
        ("with lock: handler(name)", True),
        ("with lock: self.handler(name)", True),
        ("with lock: self.peer.handler(name)", False),
        ("with lock: other(name)", False),
        ("with open(path_lock) as file:", False),
        ("with open(join(folder, lock)) as file, self.lock as held:", True),
        ("async with (lock, other):", True),
        ("with locks[hash(key)]:", True),
    ],
)
def test_a_lock_in_the_programs_own_line(tmp_path, line, is_lock):
    """A lock has no frame of its own, so the text of the line tells that a thread waits for one."""
    assert waits_at_its_second_line(tmp_path / "app.py", f"def handler():\n{line}\n") is is_lock


@pytest.mark.parametrize(
    ("text", "line", "for_good"),
    [
        ("if not guard.acquire(\n    timeout=LIMIT,\n):\n    pass", 1, False),
        ("done = any([\n    guard.acquire(\n        True, 4),\n])", 2, False),
        ("done = (guard\n    .acquire(timeout=4))", 1, False),
        ("with guard:\n    other.acquire(timeout=4)", 1, True),
        ("done = [\n    guard.acquire(\n    ),\n    other.acquire(timeout=4),\n]", 2, True),
        ("guard.acquire(  # (\n)\nother.acquire(timeout=4)", 1, True),
        ("guard.acquire(" + "\n" * 10_000 + ")", 1, True),
        ("done.result(timeout=None)", 1, True),
        ("done.result( None )", 1, True),
        ("guard.acquire(True)", 1, True),
        ("guard.acquire(blocking=True)", 1, True),
        ("guard.acquire(blocking=True, timeout=4)", 1, False),
        ("guard.acquire(timeout=timeout)", 1, False),
        ("gate.wait(4)", 1, False),
        ("worker.join(timeout=None)", 1, True),
        ("with guard: return ', '.join(names)", 1, True),
        ("with guard: return os.path.join(folder, name)", 1, True),
    ],
)
def test_a_time_out_may_be_on_a_line_of_its_own(tmp_path, text, line, for_good):
    """A call of several lines, as black writes it, has its arguments up to the bracket that closes it."""
    file = tmp_path / "app.py"
    file.write_text(text)

    assert waits_for_good(Frame(str(file), line, "f", 1)) is for_good


@pytest.mark.parametrize(
    ("named", "is_lock"),
    [
        ("SECONDS = 2; pc = time.perf_counter; rest = 1", True),
        ("pc = perf_counter", True),
        ("from time import monotonic as pc", True),
        ("pc = time.sleep", False),
        ("pc = perf_counter()", False),
    ],
)
def test_a_call_beside_a_lock_may_have_another_name(tmp_path, named, is_lock):
    """A file may have a short name for a clock, which does not wait for anything."""
    text = f"{named}\nwith lock: spent += pc() - begin\n"
    assert waits_at_its_second_line(tmp_path / "app.py", text) is is_lock


@pytest.mark.parametrize(
    ("start_ns", "begin_ns", "written_ns", "is_edited"),
    [
        (3 * 10**18, 2 * 10**18, 2 * 10**18 - 1, False),
        (3 * 10**18, 2 * 10**18, 2 * 10**18 + 1, True),
        (3 * 10**18, 0, 3 * 10**18 - 1, False),
        (3 * 10**18, 0, 3 * 10**18 + 1, True),
        (1, 0, 2, False),
    ],
    ids=["before", "since the process began", "before tracing", "since tracing began", "simulated"],
)
def test_source_is_that_of_a_program_if_it_is_older(tmp_path, start_ns, begin_ns, written_ns, is_edited):
    """A source that was written after the process began may not run; a file without that time has that of the tracing's begin."""
    source = tmp_path / "app.py"
    source.write_text("pass\n")
    os.utime(source, ns=(written_ns, written_ns))
    trace = Script().hold(0, 0, 1).trace(2, start_realtime_ns=start_ns, begin_realtime_ns=begin_ns)
    trace = dataclasses.replace(trace, frames=(*trace.frames[:-1], Frame(str(source), 1, "f")))

    assert edited(trace) == edited(trace, [str(source)]) == ({str(source)} if is_edited else set())


MADE = """
import _thread, threading
from dataclasses import field
from queue import Queue, SimpleQueue

guard = threading.Lock()

class Store:
    entry: threading.RLock = field(default_factory=threading.RLock)
    db = connect(Lock=1)

    def __init__(self):
        self._pool_guard, self.rest = None, 1
        self._pool_guard = _thread.allocate_lock()
        self.doors = [threading.Condition()]
        self.doors_of: dict[str, threading.Condition] = {}
        self.gate: threading.Condition = threading.Condition()
        self.first, self.second = threading.Lock(), threading.Lock()
        self.one = self.both = threading.Lock()
        self.by_name = {"a": threading.Lock()}
        self.jobs = SimpleQueue()
        self.others = Queue()
"""


@pytest.mark.parametrize(
    ("line", "is_lock"),
    [
        ("with guard:", True),
        ("    with self._pool_guard:  # others", True),
        ("with (open(path) as file, store.entry):", True),
        ("with self.gate as gate:", True),
        ("with self.first:", True),
        ("with self.second:", True),
        ("with self.one:", True),
        ("with self.both:", True),
        ("with self.by_name['a']:", True),
        ("job = self.jobs.get()", True),
        ("with guard.name:", False),
        ("with guard(): ", False),
        ("with self.db:", False),
        ("with self.rest:", False),
        ("async with other:", False),
        ("value = self.others.get()", False),
        ("value = self.guard.get()", False),
    ],
)
def test_a_lock_is_known_by_the_line_that_makes_it(tmp_path, line, is_lock):
    """A lock may have any name, and the file that makes it tells that it is one."""
    source = tmp_path / "app.py"
    body = "\n    pass" if "with" in line else ""
    source.write_text(f"{MADE}\nasync def handler():\n  {line.strip()}{body}\n")
    frame = Frame(str(source), MADE.count("\n") + 3, "handler", 1)

    assert waits_for_a_lock([frame]) is is_lock
    assert not waits_for_a_lock([frame], [str(source)])
    assert (call_at(frame) is Call.LOCK) is (is_lock or ".get(" in line)
    assert call_at(frame, [str(source)]) is Call.UNKNOWN


def test_what_is_no_source_is_not_read(tmp_path):
    """A program chooses the names of its code, and a pipe or a device under such a name is left alone."""
    os.mkfifo(tmp_path / "app.py")

    assert not waits_for_a_lock([Frame(str(tmp_path / "app.py"), 1, "handler", 1)])
    assert not waits_for_a_lock([Frame("/dev/zero", 1, "handler", 1)])
    assert not waits_for_a_lock([Frame("/nowhere\0", 1, "handler", 1)])
    for name in (str(tmp_path / "app.py"), "/dev/zero", "/nowhere\0"):
        assert home_at([Frame(name, 1, "main", 1)]) is None
    assert changed_since(["/nowhere\0", __file__], 2**62) == {"/nowhere\0"}


def test_the_standard_librarys_scheduler_sleeps():
    """`sched` calls the sleep that it was given by a name of its own."""
    lines = inspect.getsource(sched).splitlines()
    sleeps = [number for number, line in enumerate(lines, 1) if "delayfunc(time - now)" in line]

    assert sleeps
    assert {call_at(Frame(sched.__file__, number, "scheduler.run")) for number in sleeps} == {Call.SLEEP}
