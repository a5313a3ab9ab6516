"""`headway.trace()` and `headway.gil_times()` in a program that closes descriptors, and reuses their numbers."""

import subprocess
import sys

import pytest
from real_programs import LIMIT_S

pytestmark = pytest.mark.slow

COMMON = """
import os, sys, time
import headway
from headway.live.own_recorder import the_recorder

def work():
    for _ in range(60):
        time.sleep(0.0005)

def close_all(count):
    os.closerange(3, 1000)
    return [os.open(os.path.join(sys.argv[1], f"own-{number}"), os.O_RDWR | os.O_CREAT) for number in range(count)]

def check(files):
    for file in files:
        os.write(file, b"ours")
    assert [os.fstat(file).st_size for file in files] == [4] * len(files)

def path(name):
    return os.path.join(sys.argv[1], name)
"""

CLOSED = """
with headway.trace(path("outer.hwt")) as outer:
    files = close_all(int(sys.argv[2]))
    work()
    with headway.trace(path("inner.hwt")) as inner:
        work()
        so_far = len(outer.trace().events)
check(files)
assert not the_recorder().active
counts = [len(one.trace().events) for one in (inner, outer)]
assert so_far > 200 and min(counts) >= so_far, (so_far, counts)
with headway.trace(path("later.hwt")) as later:
    work()
assert 100 < len(later.trace().events) < so_far
print(sorted(name for name in os.listdir(sys.argv[1]) if name.endswith(".hwt")))
"""

RAISES = """
try:
    with headway.trace(path("own.hwt")) as own:
        files = close_all(6)
        work()
        raise ValueError("the program's own error")
except ValueError as error:
    print(error)
check(files)
print(len(own.trace().events) > 100)
"""

DAEMON = """
with headway.trace(path("parents.hwt")) as parents:
    child = os.fork()
    if child == 0:
        files = close_all(int(sys.argv[2]))
    work()
if child == 0:
    check(files)
    with headway.trace(path("own.hwt")) as own:
        work()
    check_events = len(own.trace().events) > 100
    print("child", check_events, os.path.exists(path("parents.hwt")) or "not its parent's", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", len(parents.trace().events) > 100)
"""

COUNTED = """
headway.gil_times()
files = close_all(6)
work()
assert headway.gil_times().held_ns > 0
with headway.trace(path("own.hwt")) as own:
    work()
assert the_recorder().counts_only
the_recorder().stop()
check(files)
print(len(own.trace().events) > 100)
"""

METRICS = """
from headway.live.metrics import Counting

counting = Counting(None, 8)

def holds():
    return sum(sum(one.hold_buckets) for one in counting.totals().values())

assert holds()
files = close_all(int(sys.argv[2]))
work()
before = holds()
work()
assert holds() > before + 50
check(files)
print("counts")
"""

LOW = """
from headway.live import recording

low = [int(number) for number in sys.argv[2].split()]
out = os.dup(1)
for number in low:
    os.close(number)

def taken():
    return [number for number in low if os.path.exists(f"/proc/self/fd/{number}")]

found = []
with headway.trace(path("own.hwt")) as own:
    found += taken()
    for number in low:
        try:
            os.write(number, b"a library's own words" * 100)
        except OSError:
            pass
    work()
file = recording._open(path("beside"), os.O_WRONLY | os.O_CREAT)
found += taken()
headway.gil_times()
found += taken()
os.write(out, f"{len(own.trace().events) > 100} {found} {file > 2} {os.get_inheritable(file)}".encode())
"""


def ran(program, *words):
    """Run a program that says nothing on stderr; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + program, *map(str, words)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("files", [0, 12])
def test_a_program_that_closes_all_descriptors_is_recorded(tmp_path, files):
    """Recordings are whole, files that have the numbers by then stay open, and a later recording begins."""
    assert ran(CLOSED, tmp_path, files) == "['inner.hwt', 'later.hwt', 'outer.hwt']\n"


def test_the_program_has_its_own_error(tmp_path):
    """An exception that leaves the `with` is the program's own, and the recording is saved."""
    assert ran(RAISES, tmp_path) == "the program's own error\nTrue\n"


@pytest.mark.parametrize("files", [0, 12])
def test_a_forked_child_becomes_a_daemon(tmp_path, files):
    """A child that closes all descriptors and leaves its parent's `with` goes on, and records itself; so does its parent."""
    told = ran(DAEMON, tmp_path, files).splitlines()
    assert [line.split()[:2] for line in told] == [["child", "True"], ["parent", "True"]]


def test_counting_goes_on_when_all_descriptors_are_closed(tmp_path):
    """A process that counts, and then records itself, closes no file of the program's."""
    assert ran(COUNTED, tmp_path) == "True\n"


@pytest.mark.parametrize("files", [0, 12])
def test_metrics_go_on_when_all_descriptors_are_closed(tmp_path, files):
    """The counters of a process are found again, and no file of the program's is closed."""
    assert ran(METRICS, tmp_path, files) == "counts\n"


@pytest.mark.parametrize("low", ["0", "2", "0 1 2"])
def test_no_standard_stream_is_a_file_of_ours(tmp_path, low):
    """Where the program has closed a standard stream, what it writes to that number spoils no recording."""
    assert ran(LOW, tmp_path, low) == "True [] True False"
