"""Recording in one's own process: `headway.trace()`."""

import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S

import headway
from headway.errors import RecordingError
from headway.live.collect import collecting
from headway.live.launch import environment

pytestmark = pytest.mark.slow

IN_PROCESS = """
import sys, threading, time
import headway

def work():
    for _ in range(50):
        time.sleep(0.001)

def events(recording):
    trace = recording.trace()
    assert trace.loss.whole, trace.loss
    return len(trace.events)

with headway.trace(*sys.argv[1:]) as outer:
    threads = [threading.Thread(target=work, name=f"worker-{i}") for i in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    begun = events(outer)
    with headway.trace() as inner:
        work()
    assert events(inner) > begun
names = {thread.name for thread in outer.trace().threads}
assert {"worker-0", "worker-1"} <= names, names
assert begun > 200
assert events(outer) > begun
print(outer.summary().wall_ns > 0, outer.path.name)
"""

FORKED = """
import os, sys, time
import headway
from headway.errors import RecordingError

child = 0
with headway.trace(*sys.argv[1:]) as ours:
    with headway.trace() as inner:
        child = os.fork()
        if child == 0:
            try:
                ours.trace()
            except RecordingError as error:
                print(error, flush=True)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for _ in range(50):
            time.sleep(0.001)
assert len(inner.trace().events) > 100
assert len(ours.trace().events) > 100
after = os.fork()
if after == 0:
    sys.exit(0)
assert os.waitpid(after, 0)[1] == 0
assert ours.path.exists() and inner.path.exists()
print(len(os.listdir(inner.path.parent)))
"""


@pytest.mark.parametrize("name", [None, "own.hwt"])
def test_a_forked_child_leaves_its_parents_recording(tmp_path, name):
    """A child that leaves the `with`, or ends after it, neither writes nor removes a file of its parent."""
    words = [sys.executable, "-c", FORKED, *([] if name is None else [str(tmp_path / name)])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    told, left = done.stdout.splitlines()
    assert "forked child" in told
    assert left == "1"
    assert done.stderr == ""


@pytest.mark.parametrize("path", [(), ("own.hwt",)])
def test_a_recording_that_has_not_begun_says_so(tmp_path, path):
    """Before the `with`, there is nothing to read, and no file of another name is read."""
    recording = headway.trace(*(tmp_path / name for name in path))

    for read in (recording.trace, recording.summary):
        with pytest.raises(RecordingError, match="nothing is recorded yet"):
            read()


def test_a_recording_of_ones_own(tmp_path):
    """`headway.trace()` records into a named or unnamed file, readable at any time; an inner call joins the outer one."""
    own = subprocess.run(
        [sys.executable, "-c", IN_PROCESS], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert own.returncode == 0, own.stderr
    file = tmp_path / "own.hwt"
    command = [sys.executable, "-c", IN_PROCESS, str(file)]
    named = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (named.returncode, named.stdout) == (0, "True own.hwt\n"), named.stderr
    assert file.stat().st_mode & 0o777 == 0o600

    with collecting(tmp_path / "app.hwt") as door:
        joined = subprocess.run(
            [sys.executable, "-c", IN_PROCESS],
            env=environment(door.environment()), capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    assert (joined.returncode, joined.stdout) == (0, "True app.hwt\n"), joined.stderr


def ran(program, *words, env=None):
    """Run a program; return its result."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


OVERLAPPING = """
import sys, time
import headway

def work():
    for _ in range(60):
        time.sleep(0.0005)

first, second, third = headway.trace(), headway.trace(sys.argv[1]), headway.trace()
first.__enter__()
second.__enter__()
work()
first.__exit__(None, None, None)
work()
third.__enter__()
work()
second.__exit__(None, None, None)
third.__exit__(None, None, None)
counts = [len(one.trace().events) for one in (first, second, third)]
assert counts[0] > 100 and counts[1] > counts[0] + 200, counts
assert second.summary().wall_ns > first.summary().wall_ns
with headway.trace() as later:
    work()
assert 100 < len(later.trace().events) < counts[1], len(later.trace().events)
print("all there")
"""


def test_recordings_that_overlap_are_whole(tmp_path):
    """The recording ends with the last `with` that uses it, so one that began later has the time after the first's end."""
    done = ran(OVERLAPPING, str(tmp_path / "second.hwt"))
    assert (done.stdout, done.stderr) == ("all there\n", "")


LOCKED_FORK = """
import os, signal
import headway
from headway.live.own_recorder import session_lock

with session_lock:
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        headway.gil_times()
        with headway.trace() as own:
            pass
        own.summary()
        os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_child_forked_while_a_recording_is_saved_can_record():
    """The lock of a thread that the child does not have is free in the child."""
    assert ran(LOCKED_FORK).stdout == "0\n"


NO_ROOM = """
import pathlib, resource, sys
import headway
from headway.errors import RecordingError

def told(error, path, before):
    try:
        with headway.trace(path) as recording:
            before(path)
            if error:
                raise error
        print("goes on")
        recording.summary()
    except (RecordingError, KeyError) as raised:
        print(type(raised).__name__, str(raised).replace(str(path), "FILE"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    assert headway.gil_times().held_ns >= 0
    return path

folder = pathlib.Path(sys.argv[1])
headway.gil_times()
taken = told(None, folder / "taken.hwt", lambda path: path.write_text("theirs"))
assert taken.read_text() == "theirs"
told(KeyError("own"), folder / "taken-2.hwt", lambda path: path.write_text("theirs"))
full = told(None, folder / "full.hwt", lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, -1)))
print(sorted(path.name for path in folder.iterdir()))
"""


def test_a_file_that_cannot_be_written_is_told_at_the_end(tmp_path):
    """The program goes on with its own error, another's file is not lost, no half file is left, and reading says why."""
    done = ran(NO_ROOM, str(tmp_path))
    theirs = "the recording cannot be written to FILE: another process has created a file of that name"
    assert done.stdout.splitlines() == [
        "goes on",
        f"RecordingError {theirs}",
        "KeyError 'own'",
        "goes on",
        "RecordingError the recording cannot be written to FILE: File too large",
        "['taken-2.hwt', 'taken.hwt']",
    ]
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(f": {theirs.replace('FILE', str(tmp_path / 'taken-2.hwt'))}")


NAMED_INSIDE = """
import sys, time
import headway

with headway.trace(), headway.trace(sys.argv[1]) as inner:
    for _ in range(60):
        time.sleep(0.0005)
assert str(inner.path) == sys.argv[1]
print(len(inner.trace().events) > 100)
"""


def test_a_file_that_is_asked_for_is_written_though_something_records_already(tmp_path):
    """An inner recording, and one under `headway trace`, have the file that the program named."""
    assert ran(NAMED_INSIDE, str(tmp_path / "inner.hwt")).stdout == "True\n"
    with collecting(tmp_path / "app.hwt") as door:
        done = ran(NAMED_INSIDE, str(tmp_path / "part.hwt"), env=environment(door.environment()))
    assert done.stdout == "True\n"
    assert (tmp_path / "part.hwt").stat().st_mode & 0o777 == 0o600


WATCHED = """
import os, sys, time
import headway
from headway.errors import RecordingError

for name in (None, sys.argv[1]):
    with headway.trace(name) as recording:
        time.sleep(0.001)
    try:
        recording.summary()
    except RecordingError as error:
        print(error, os.path.exists(sys.argv[1]))
"""


def test_under_a_watcher_nothing_is_recorded_and_a_line_says_so(tmp_path):
    """A program that records itself goes on under `headway watch`, which has the events."""
    command = [
        str(Path(sys.executable).with_name("headway")),
        "watch",
        "-o",
        "stalls",
        "--python",
        sys.executable,
        "-c",
    ]
    done = subprocess.run(
        [*command, WATCHED, "own.hwt"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    watched = "`headway watch` records this process, and keeps its events"
    assert done.stdout.splitlines() == [f"{watched} False"] * 2
    assert done.stderr.count(f"{watched}; headway.trace() records nothing\n") == 1


ALONE = """
import headway

def compute():
    sum(range(1_000_000))

with headway.trace() as recording:
    compute()
trace = recording.trace()
stacks = [trace.stack(int(one)) for one in trace.events["value"][trace.events["kind"] == 3]]  # of releases
print(len(stacks) > 0, {(frame.filename, frame.line) for stack in stacks for frame in stack[:1]})
"""


def test_a_thread_that_never_released_the_gil_is_not_blamed_on_headway(tmp_path):
    """A thread alone may release the GIL only in Headway's own code at the end: the line of the `with` is named."""
    file = tmp_path / "alone.py"
    file.write_text(ALONE)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout == f"True {{({str(file)!r}, 7)}}\n"


TIMED = """
import os, sys, threading
import headway
from headway.agent.headway_agent import recorder
from headway.library import library_path

library, over = str(library_path()), threading.Event()
headway.gil_times()

def serve():
    while not over.is_set():
        headway.gil_times()
        sum(range(3000))

threads = [threading.Thread(target=serve) for _ in range(4)]
[one.start() for one in threads]
try:
    for _ in range(4):
        _, (lease,) = recorder.attach(library, "", 1, 1 << 20)
        os.close(lease)
        assert recorder.detach(library) == "the recording into memory"
    for _ in range(3):
        watch = headway.watch(sys.argv[1], quiet=True, required=True)
        assert watch.watches
        watch.stop()
finally:
    over.set()
    [one.join() for one in threads]
print("all began")
"""


def test_threads_that_ask_for_their_times_keep_no_recording_from_its_begin(tmp_path):
    """A service whose requests are timed can be attached to, and can begin to be watched, at any moment."""
    done = ran(TIMED, str(tmp_path / "stalls"))
    assert (done.stdout, done.stderr) == ("all began\n", "")
