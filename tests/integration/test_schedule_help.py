"""The operating system's help for threads under a policy: only by option, and nothing of it is left behind."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import BY_NAME, WITH_A_GIL, unobserved

import headway
from headway.live.launch import scheduled_environment

AGENT = Path(headway.__file__).parent / "agent"
LIMIT_S = 60
PR_CAPBSET_DROP = 24
CAP_SYS_NICE = 23

pytestmark = pytest.mark.slow

# Two threads that compute and one that does little, with nice 5; a fourth is SCHED_IDLE, or SCHED_BATCH, by its own
# choice. Prints what the system knows of each: before a policy, as soon as the options apply (or after `patience_s`),
# in a child, and after the policy.
PROGRAM = """
import ctypes, json, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from headway_agent.scheduler import Scheduler
scheduler = Scheduler(os.environ["HEADWAY_NATIVE"])
options, patience_s, choice = sys.argv[2], float(sys.argv[3]), getattr(os, sys.argv[4])
machine = os.uname().machine
SET, GET = {"x86_64": (314, 315), "aarch64": (274, 275)}[machine]
libc = ctypes.CDLL(None, use_errno=True)
class Attributes(ctypes.Structure):
    _fields_ = [(name, kind) for name, kind in (
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64), ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64), ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64))]
def get(tid):
    found = Attributes()
    if libc.syscall(GET, tid, ctypes.byref(found), ctypes.sizeof(found), 0):
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return {name: getattr(found, name) for name in ("policy", "flags", "nice", "runtime")}
def slices_count():
    asked = Attributes(size=ctypes.sizeof(Attributes), nice=os.getpriority(os.PRIO_PROCESS, 0), runtime=300000)
    return libc.syscall(SET, 0, ctypes.byref(asked), 0) == 0 and get(0)["runtime"] == 300000
known = []
threading.Thread(target=lambda: known.append(slices_count())).start()
stop = False
end, beget, heirs = threading.Event(), threading.Event(), []
def compute():
    while not stop:
        sum(range(200))
def compute_and_beget():
    while not stop:
        sum(range(200))
        if beget.is_set() and not heirs:
            heirs.append(threading.Thread(target=end.wait))
            heirs[0].start()
def little():
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
    while not stop:
        time.sleep(0.0002)
def choose():
    os.sched_setscheduler(0, choice, os.sched_param(0))
    while not stop:
        time.sleep(0.0002)
threads = {name: threading.Thread(target=target) for name, target in
           (("first", compute_and_beget), ("second", compute), ("little", little), ("chooses", choose))}
for thread in threads.values():
    thread.start()
while get(threads["chooses"].native_id)["policy"] != choice or get(threads["little"].native_id)["nice"] != 5:
    time.sleep(0.001)
def all_of_them():
    return {name: get(thread.native_id) for name, thread in threads.items()}
privileges = next(line for line in open("/proc/self/status") if line.startswith("CapEff"))
said = {"slices": known[0], "before": all_of_them(), "may": bool(int(privileges.split()[1], 16) >> 23 & 1)}
scheduler.start("fair", options)
until = time.monotonic() + patience_s
while time.monotonic() < until:
    said["on"] = all_of_them()
    computing = [said["on"][name]["policy"] == os.SCHED_BATCH for name in ("first", "second")]
    if all(computing) and (not known[0] or said["on"]["little"]["runtime"] == 200000):
        break
    time.sleep(0.005)
beget.set()
while not heirs or not heirs[0].native_id:
    time.sleep(0.001)
threads["heir"] = heirs[0]
into, out = os.pipe()
child = os.fork()
if child == 0:
    os.write(out, json.dumps(get(0)).encode())
    os._exit(0)
os.waitpid(child, 0)
said["child"] = json.loads(os.read(into, 1000))
assert scheduler.active == "fair"
scheduler.stop()
said["after"] = all_of_them()
stop = True
end.set()
print(json.dumps(said))
"""


def without_cap_sys_nice():
    """Forbid this process, and the programs that it executes, to raise a priority; only a privileged process can do so."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)


def told(interpreter, options, patience_s, *, choice="SCHED_IDLE", preexec=None):
    """Return what the program prints."""
    command = [interpreter.executable, "-W", "ignore", "-c", PROGRAM, str(AGENT), options, str(patience_s), choice]
    env = scheduled_environment(None, base=unobserved())
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False, preexec_fn=preexec
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def check_helped(said):
    """Assert that CPU-bound threads are SCHED_BATCH, that the other has the slice, and that all ends with the policy.

    Nice values and policies that a thread chose itself stay. The flag that children start afresh is an exception: the
    system lets only the privileged remove it.
    """
    if not said["may"]:
        for when in ("before", "on", "after"):
            for one in said[when].values():
                del one["flags"]
    on = said["on"]
    assert [on[name]["policy"] for name in ("first", "second", "little")] == [3, 3, 0]
    if said["slices"]:  # Linux 6.12 and later
        assert on["little"]["runtime"] == 200000
        assert on["first"]["runtime"] == said["before"]["first"]["runtime"]
    assert {name: one["nice"] for name, one in on.items()} == {"first": 0, "second": 0, "little": 5, "chooses": 0}
    assert on["chooses"] == said["before"]["chooses"]
    assert said["child"]["policy"] == 0
    assert said["child"]["runtime"] in (0, said["before"]["first"]["runtime"])
    del said["after"]["heir"]
    assert said["after"] == said["before"]


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
def test_threads_are_helped_and_left_as_they_were(interpreter):
    """Threads get the system's help on each version, with the rights that the tests have, and lose it afterwards."""
    said = told(interpreter, "os_slice_us=200 os_batch=1", LIMIT_S / 2)

    assert said["after"]["heir"] == said["before"]["first"]
    check_helped(said)


def test_who_is_batch_by_choice_stays_so():
    """A thread that chose SCHED_BATCH itself keeps it."""
    check_helped(told(BY_NAME["3.13"], "os_slice_us=200 os_batch=1", LIMIT_S / 2, choice="SCHED_BATCH"))


def test_the_unprivileged_are_left_as_they_were_too():
    """The help works the same without CAP_SYS_NICE."""
    said = told(BY_NAME["3.13"], "os_slice_us=200 os_batch=1", LIMIT_S / 2, preexec=without_cap_sys_nice)

    assert not said["may"]
    check_helped(said)


def test_nothing_is_asked_of_the_system_unasked():
    """Without the options, no thread's policy, nice value or slice changes."""
    said = told(BY_NAME["3.13"], "", 0.5)

    del said["after"]["heir"]
    assert said["on"] == said["before"] == said["after"]


def test_the_options_are_listed():
    """`headway policies` lists these options, with their units and what happens without them."""
    listed = subprocess.run(
        [sys.executable, "-m", "headway", "policies", "--json"], capture_output=True, text=True, check=True
    ).stdout

    engine = {one["name"]: one for one in json.loads(listed)["options"]}
    assert engine["os_slice_us"]["preset"] == engine["os_batch"]["preset"] == 0
