"""Programs under a seccomp filter, at a limit, or with strange objects run as without us."""

import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from real_programs import BY_NAME, WITH_STACKS, unobserved

from headway.live.collect import collecting
from headway.live.launch import environment, scheduled_environment
from headway.traces.export.parks import parks
from headway.traces.family import read_family
from headway.traces.invariants import violations
from headway.traces.model import Park

LIMIT_S = 120

pytestmark = pytest.mark.slow

ROUND_TRIPS = """
import threading, time
def work():
    for _ in range(100):
        sum(range(3000))
        time.sleep(0)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""

ERRNO = """
import gc, os, sys, threading, time
stop, wrong, right = [], [], []
def collect():
    while not stop:
        gc.collect()
def look():
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        try:
            os.stat("/nonexistent/x")
        except FileNotFoundError:
            right.append(1)
        except OSError as error:
            wrong.append(repr(error))
collector = threading.Thread(target=collect)
threads = [threading.Thread(target=look) for _ in range(3)]
for thread in [collector, *threads]:
    thread.start()
for thread in threads:
    thread.join()
stop.append(1)
collector.join()
print(wrong, len(right) > 0)
"""

# Runs a command under a filter that answers some system calls with EPERM, or ends the process for them.
FILTERED = """
import ctypes, os, struct, sys
action = {"eperm": 0x00050001, "kill": 0x80000000}[sys.argv[1]]
calls = [int(number) for number in sys.argv[2].split(",")]
load = struct.pack("HBBI", 0x20, 0, 0, 0)
tests = b"".join(struct.pack("HBBI", 0x15, len(calls) - i, 0, number) for i, number in enumerate(calls))
program = load + tests + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000) + struct.pack("HBBI", 0x06, 0, 0, action)
buffer = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
argument = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(argument), 0, 0):
    sys.exit("no filter: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[3], sys.argv[3:])
"""
# The numbers of the calls that we make and CPython does not.
NUMBERS = {
    "x86_64": {
        "membarrier": [324],
        "sched_attr": [314, 315, 145],
        "sched_getaffinity": [204],
        "sched_yield": [24],
    },
    "aarch64": {
        "membarrier": [283],
        "sched_attr": [274, 275, 120],
        "sched_getaffinity": [123],
        "sched_yield": [124],
    },
}[platform.machine()]
NUMBERS["all"] = sorted({number for numbers in NUMBERS.values() for number in numbers})


def run(command, env):
    """Run a program to its end; return its exit code and output."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.returncode, done.stdout, done.stderr


def lines(said):
    """Return our lines without the process's number."""
    return re.sub(r"process \d+", "process N", said).splitlines()


def traced(command, folder):
    """Run a traced program to its end; return its exit code, output and traces."""
    done, file = begun(command, folder)
    return (*done, read_family(file))


def begun(command, folder):
    """Run a program that is to be traced to its end; return its exit code and output, and the trace's path."""
    file = folder / "x.hwt"
    with collecting(file) as door:
        return run(command, environment(door.environment(), base=unobserved())), file


@pytest.mark.matrix("interpreter", "action")
@pytest.mark.parametrize("call", NUMBERS)
@pytest.mark.parametrize("action", ["eperm", "kill"])
@pytest.mark.parametrize("interpreter", [BY_NAME["3.13"], BY_NAME["3.13t"]], ids=lambda one: one.id)
def test_traced_under_a_filter(interpreter, action, call, tmp_path):
    """A filter that refuses a call of ours, or ends the process for it, changes nothing."""
    numbers = ",".join(map(str, NUMBERS[call]))
    command = [sys.executable, "-I", "-c", FILTERED, action, numbers, interpreter.executable, "-c", ROUND_TRIPS]
    if interpreter.name == "3.13t" and action == "kill" and call in ("sched_yield", "all"):
        pytest.skip("CPython's own locks call sched_yield() in a free-threaded build")

    code, out, said, traces = traced(command, tmp_path)

    assert (code, out, said) == (0, "done\n", "")
    assert [violations(trace) for trace in traces] == [[]]


@pytest.mark.parametrize("action", ["eperm", "kill"])
def test_a_process_that_may_make_no_memory_says_so(action, tmp_path):
    """A filter that refuses memfd_create, or ends the process for it, is told as such, and not as a fault of the socket."""
    memfd = {"x86_64": "319", "aarch64": "279"}[platform.machine()]
    command = [sys.executable, "-I", "-c", FILTERED, action, memfd, sys.executable, "-c", "print('done')"]

    (code, out, said), file = begun(command, tmp_path)

    assert (code, out, file.exists()) == (0, "done\n", False)
    assert lines(said) == [
        "headway: process N is not traced: memory for events cannot be had (memfd_create): Operation not permitted"
    ]


def test_a_process_that_may_write_no_file_says_so(tmp_path):
    """A limit on the size of files holds for the memory of events, too."""
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-I", "-c", limited, sys.executable, "-c", "print('done')"]

    (code, out, said), file = begun(command, tmp_path)

    assert (code, out, file.exists()) == (0, "done\n", False)
    assert lines(said) == [
        "headway: process N is not traced: memory for events cannot be had: its limit on the size of files (ulimit -f) is too small"
    ]


@pytest.mark.matrix("action")
@pytest.mark.parametrize("call", NUMBERS)
@pytest.mark.parametrize("action", ["eperm", "kill"])
def test_scheduled_under_a_filter(action, call):
    """A policy works under such a filter, without the refused calls."""
    numbers = ",".join(map(str, NUMBERS[call]))
    command = [sys.executable, "-I", "-c", FILTERED, action, numbers, BY_NAME["3.13"].executable, "-c", ROUND_TRIPS]
    options = {"os_slice_us": 100, "os_batch": 1}
    expected = []
    if call in ("sched_attr", "all"):
        expected = ["headway: process N: a seccomp filter forbids sched_setattr(): os_slice_us and os_batch do nothing"]

    code, out, said = run(command, scheduled_environment("fair", options, base=unobserved()))

    assert (code, out, lines(said)) == (0, "done\n", expected)


# A program that installs a filter itself: only the calls of the bare program are allowed, and any other ends it.
SHUTS_ITSELF_IN = """
import ctypes, os, struct, sys, threading, time
calls = [int(number) for number in sys.argv[2].split(",")]
kill, allow = struct.pack("HBBI", 0x06, 0, 0, 0x80000000), struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
program = struct.pack("HBBI", 0x20, 0, 0, 0)
program += b"".join(struct.pack("HBBI", 0x15, 0, 1, number) + allow for number in calls) + kill
buffer = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
argument = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)))
def work():
    for _ in range(30):
        sum(range(3000))
        time.sleep(0.0005)
shared = list(range(100000))
together = threading.Barrier(4)
def contend():  # on one core, a thread loses it within the call, and the next one waits
    together.wait()
    for _ in range(2000):
        shared.reverse()
def threads(work=work):
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
def fork():
    for work in (threads, lambda: None, threads):
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(7)
        print(os.waitpid(pid, 0)[1], flush=True)
work_of = {
    "nothing": lambda: None,
    "threads": threads,
    "contend": lambda: threads(contend),
    "fork": fork,
    "a call of ours": os.getppid,
}[sys.argv[1]]
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, argument, 0, 0):
    sys.exit("no filter: " + os.strerror(ctypes.get_errno()))
work_of()
print("done", flush=True)
"""
# The calls of CPython and the C library in that program, and clock_gettime(), which is no system call if it tells a
# thread nothing of itself.
THEIRS = {
    "x86_64": "0 1 3 5 7 8 9 10 11 12 13 14 15 23 28 35 56 60 61 131 186 202 204 228 230 231 257 262 270 273 318 334 435",
    "aarch64": "63 64 57 80 73 62 222 226 215 214 134 135 139 72 233 101 220 93 132 260 178 98 123 113 115 94 56 79 99 278 293 435",
}[platform.machine()].split()
THREAD_S_NAME = {"x86_64": "157", "aarch64": "167"}[platform.machine()]  # prctl(), which CPython calls from 3.14 on
SCHED_YIELD = {"x86_64": "24", "aarch64": "124"}[platform.machine()]


def shut_in(interpreter, work, *more):
    """Return the command that runs `work` under the filter."""
    theirs = [*THEIRS, *more]
    theirs += [THREAD_S_NAME] if interpreter.name in ("3.14", "3.15") else []
    theirs += [SCHED_YIELD] if interpreter.name == "3.13t" else []
    return [interpreter.executable, "-c", SHUTS_ITSELF_IN, work, ",".join(theirs)]


SHUT_IN = [
    pytest.param(BY_NAME[name], work, id=f"{name}-{work}")
    for name in ("3.8", "3.11", "3.13", "3.13t", "3.14", "3.15")
    for work in ("nothing", "threads", "fork")
]


@pytest.mark.matrix("interpreter", "work")
@pytest.mark.parametrize(("interpreter", "work"), SHUT_IN)
def test_a_filter_of_the_program_s_own(interpreter, work, tmp_path):
    """A program under its own filter makes no other call than bare, traced and scheduled; its children are unrecorded."""
    bare = run(shut_in(interpreter, work), unobserved())
    assert bare == (0, ("1792\n" * 3 if work == "fork" else "") + "done\n", "")
    assert run(shut_in(interpreter, "a call of ours"), unobserved())[0] == -31  # SIGSYS: the filter does forbid

    *done, traces = traced(shut_in(interpreter, work), tmp_path)

    assert tuple(done) == bare
    assert [violations(trace) for trace in traces] == [[]]
    if interpreter.name != "3.13t":
        assert run(shut_in(interpreter, work, SCHED_YIELD), scheduled_environment("fair", base=unobserved())) == bare


def test_a_contended_object_is_named_under_a_filter_of_the_program_s_own(tmp_path):
    """To find out which object a thread waits for takes no call that CPython does not make itself."""
    command = shut_in(BY_NAME["3.13t"], "contend")

    *done, traces = traced(command, tmp_path)

    assert tuple(done) == (0, "done\n", "")
    found = parks(traces[0])
    assert traces[0].types.index("list") in found.type[found.kind == Park.OBJECT]


def test_errno_is_the_program_s_own(tmp_path):
    """A missing file is FileNotFoundError, also beside a thread that stops the world."""
    command = [BY_NAME["3.13t"].executable, "-c", ERRNO]

    assert traced(command, tmp_path)[:3] == (0, "[] True\n", "")


STRANGE_NAMES = """
import threading, time
class Text(str):
    __slots__ = ("extra",)
name = Text("hidden_" + "n" * 900)
source = "def f():\\n import time\\n for _ in range(20): time.sleep(0.001)\\n"
space = {}
exec(compile(source, name, "exec"), space)
function = space["f"]
function.__code__ = function.__code__.replace(co_name=Text("caf\\xe9"))
assert type(function.__code__.co_filename) is Text
threads = [threading.Thread(target=function) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("interpreter", WITH_STACKS, ids=lambda one: one.id)
def test_names_of_a_subclass_of_str(interpreter, tmp_path):
    """A file's name that is no plain str is recorded as it is, without any memory after it."""
    code, out, said, traces = traced([interpreter.executable, "-c", STRANGE_NAMES], tmp_path)

    assert (code, out, said) == (0, "", "")
    names = {frame.filename for trace in traces for frame in trace.frames}
    assert "hidden_" + "n" * 900 in names
    assert all(name.isprintable() for name in names)


INTERPRETERS = """
import os, sys, threading, time
import _interpreters as module
count = int(sys.argv[1])
all_of_them = [module.create() for _ in range(count)]
def use(interpreter):
    module.run_string(interpreter, "import time\\nfor _ in range(1000): time.sleep(0)")
threads = [threading.Thread(target=use, args=(one,)) for one in all_of_them]
start = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(time.perf_counter() - start, flush=True)
os._exit(0)
"""


@pytest.mark.times
@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("kind", ["traced", "scheduled"])
@pytest.mark.parametrize("interpreter", [BY_NAME["3.13"], BY_NAME["3.14"]], ids=lambda one: one.id)
def test_130_interpreters(interpreter, kind, tmp_path):
    """Each of 130 interpreters is recorded, or scheduled, without being slow; it runs beside the same without us."""
    command = [interpreter.executable, "-c", INTERPRETERS, "130"]

    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(run, command, unobserved())
        if kind == "traced":
            code, out, said, traces = traced(command, tmp_path)
            assert len(traces[0].gils) == 131
        else:
            code, out, said = run(command, scheduled_environment("fair", base=unobserved()))
        _, bare, _ = plain.result()

    assert (code, said) == (0, "")
    assert float(out) < 3 * float(bare) + 0.5


NO_ROOM = (
    "headway: process N: more than 255 GILs of interpreters are in use, or may be: those of further interpreters run as without "
    "headway, neither recorded nor scheduled"
)


@pytest.mark.times
@pytest.mark.parametrize("kind", ["traced", "scheduled"])
def test_more_interpreters_than_there_is_room_for(kind, tmp_path):
    """Interpreters above the limit run as without us, and one line says so; an idle one makes room in a recording."""
    command = [BY_NAME["3.13"].executable, "-c", INTERPRETERS, "260"]

    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(run, command, unobserved())
        if kind == "traced":
            code, out, said, traces = traced(command, tmp_path)
            assert len(traces[0].gils) == 255
            # On a machine that makes all of them within half a second, none is idle for long enough.
            assert lines(said) in ([], [NO_ROOM])
        else:
            code, out, said = run(command, scheduled_environment("fair", base=unobserved()))
            assert lines(said) == [NO_ROOM]
        _, bare, _ = plain.result()

    assert code == 0
    assert float(out) < 3 * float(bare) + 0.5
