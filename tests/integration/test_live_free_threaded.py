"""Live counters of free-threaded processes."""

import subprocess
import sysconfig
import time
from pathlib import Path

import pytest
from real_programs import LIMIT_S, unobserved

from headway.agent import AGENT_PATH
from headway.cli import top_view
from headway.host.interpreters import discover
from headway.library import library_path
from headway.live.collect import collecting
from headway.live.counted_run import Beside
from headway.live.launch import environment
from headway.live.watch import Monitor
from headway.traces.family import read_family
from headway.traces.format import HEADER_DTYPE

FREE = next((one for one in discover()[0] if one.free_threaded and not one.gil_enabled), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(FREE is None, reason="no free-threaded CPython here")]

EXTENSION = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "oldfashioned", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_oldfashioned(void) { return PyModule_Create(&definition); }
"""
APP = """
import os, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[1]))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
import oldfashioned
while True:
    time.sleep(0.01)
"""

IDLE = """
import queue, threading, time
lock = threading.Lock()
lock.acquire()
idle = {"lock": lock.acquire, "event": threading.Event().wait, "queue": queue.Queue().get}
threads = [threading.Thread(target=target, name=name, daemon=True) for name, target in idle.items()]
threads.append(threading.Thread(target=threads[0].join, name="join", daemon=True))
for one in threads:
    one.start()
time.sleep(600)
"""

FORKED = """
import os, struct, sys
sys.path.insert(0, sys.argv[1])
from headway_agent.recorder import Recorder
recorder = Recorder(os.environ["HEADWAY_NATIVE"])
def recorded():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name) == "/memfd:headway (deleted)":
                return struct.unpack("<i", os.pread(int(name), 4, int(sys.argv[2])))[0]
        except OSError:  # of the folder that is listed
            pass
recorder.start("")
assert recorded() == os.getpid() and recorder.in_memory
child = os.fork()
if child == 0:
    print(recorder.active, recorder.in_memory, recorder.path, flush=True)
    recorder.start("")
    print(recorded() == os.getpid(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert recorder.active and recorded() == os.getpid()
"""


def sampled(monitor, is_wanted, limit_s=LIMIT_S):
    """Return the first sample of the only process that is wanted."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        for one in monitor.sample():
            if is_wanted(one):
                return one
        time.sleep(0.01)
    pytest.fail("no such sample")


def test_a_process_without_a_gil_is_said_to_have_none():
    """A free-threaded process has a line that says what its waits are for."""
    with Beside([FREE.executable, str(Path(__file__).parent / "live_workload.py")]) as program:
        monitor = Monitor(program.pid)
        seen = sampled(monitor, lambda _: True)
        monitor.close()

    assert "no GIL; waits are for locks of objects and the interpreter " in top_view.head(seen)[0]
    assert top_view.head(seen)[0].endswith("and for ends of threads, not for `threading.Lock`")


def test_a_lock_of_the_program_s_own_is_no_contention():
    """A thread that idles in a lock, an event or a queue has not waited, as in a trace; one in a join() waits."""

    def states(sample):
        return {one.now.name: one.now for one in sample.interval.threads}

    def all_stand_still(sample):
        now = states(sample)
        return all(name in now and now[name].state_ns > 10**9 for name in ("lock", "event", "queue", "join"))

    with Beside([FREE.executable, "-c", IDLE]) as program:
        monitor = Monitor(program.pid)
        seen = states(sampled(monitor, all_stand_still))
        monitor.close()

    assert seen["join"].state == "waiting"
    assert {name: seen[name].state for name in ("lock", "event", "queue")} == dict.fromkeys(
        ("lock", "event", "queue"), "away"
    )


def build(folder, name, source):
    """Compile an extension module for the free-threaded interpreter."""
    (folder / f"{name}.c").write_text(source)
    include = next(Path(FREE.executable).resolve().parents[1].glob("include/python3*t"))
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [compiler, "-shared", "-fPIC", f"-I{include}", folder / f"{name}.c", "-o", folder / f"{name}.so"]
    subprocess.run(command, check=True)


def test_a_gil_that_an_extension_switches_on_is_seen(tmp_path):
    """A free-threaded process has no GIL until an extension without Py_mod_gil is imported, and then has one for good."""
    build(tmp_path, "oldfashioned", EXTENSION)
    (tmp_path / "app.py").write_text(APP)
    now = tmp_path / "now"
    with Beside([FREE.executable, str(tmp_path / "app.py"), str(now)]) as program:
        monitor = Monitor(program.pid)
        before = sampled(monitor, lambda _: True)
        now.touch()
        after = sampled(monitor, lambda one: one.gil_came_on)
        monitor.close()

    assert (before.has_gil, before.gil_came_on, after.has_gil) == (False, False, True)


def test_a_forked_child_without_a_gil():
    """A child of a process that records itself is told that it is not recorded, and can record itself."""
    pid_at = HEADER_DTYPE.fields["pid"][1]
    done = subprocess.run(
        [FREE.executable, "-c", FORKED, str(AGENT_PATH), str(pid_at)],
        env=unobserved() | {"HEADWAY_NATIVE": str(library_path())}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "False 0 \nTrue\n"


NAMED = """
import os, threading, time
def child():
    gate, waited = threading.Lock(), []
    gate.acquire()
    def wait_twice():
        # Nobody gives the lock back, so that each thread waits for certain.
        # A wait that begins while another thread makes the child's memory is not recorded.
        # That memory is there when each thread has been back from a wait.
        gate.acquire(True, 0.1)
        waited.append(1)
        while len(waited) < 3:
            time.sleep(0.001)
        gate.acquire(True, 0.1)
    threading.current_thread().name = "chief"
    threads = [threading.Thread(target=wait_twice, name=f"worker {n}") for n in range(2)]
    for one in threads:
        one.start()
    wait_twice()
    for one in threads:
        one.join()
def fork():
    if os.fork() == 0:
        child()
        os._exit(0)
    os.wait()
forker = threading.Thread(target=fork, name="forker")
forker.start()
forker.join()
"""


def test_the_threads_of_a_forked_child_have_their_names(tmp_path):
    """A forked child is told names before its first event, which without a GIL is its first wait for a lock."""
    script, path = tmp_path / "app.py", tmp_path / "app.hwt"
    script.write_text(NAMED)
    with collecting(path) as door:
        env = environment(door.environment(), base=unobserved())
        subprocess.run([FREE.executable, str(script)], env=env, timeout=LIMIT_S, check=True)
    _, child = read_family(path)
    assert {one.name for one in child.threads} == {"chief", "worker 0", "worker 1"}


WITHOUT_A_GIL = """
#include <Python.h>
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "modern", NULL, 0, NULL, slots};
PyMODINIT_FUNC PyInit_modern(void) { return PyModuleDef_Init(&definition); }
"""

SECOND_RECORDING = """
import os, sys
sys.path[:0] = sys.argv[1:]
from headway_agent.recorder import Recorder
recorder = Recorder(os.environ["HEADWAY_NATIVE"])

recorder.start("")
import modern
assert not sys._is_gil_enabled()
print(recorder.times()[0] > 0)  # while the module was loaded
recorder.stop()

recorder.start("")
print(recorder.times())
recorder.stop()

import oldfashioned
assert sys._is_gil_enabled()
recorder.start("")
print(recorder.times()[0] > 0)
"""


def test_a_gil_that_was_on_for_a_moment_is_not_held_in_a_later_recording(tmp_path):
    """An import switches the GIL on while it lasts, and a recording learns where the GIL is. One that stays on is held."""
    build(tmp_path, "modern", WITHOUT_A_GIL)
    build(tmp_path, "oldfashioned", EXTENSION)
    done = subprocess.run(
        [FREE.executable, "-W", "ignore", "-c", SECOND_RECORDING, str(AGENT_PATH), str(tmp_path)],
        env=unobserved() | {"HEADWAY_NATIVE": str(library_path())}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "True\n(0, 0)\nTrue\n"
