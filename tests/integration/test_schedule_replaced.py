"""A policy that a program starts for itself, or that another process starts in it; one that replaces another."""

import contextlib
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_programs import BY_NAME, LIMIT_S, unobserved

import headway
from headway.agent.headway_agent import scheduler
from headway.agent.headway_agent.library import UnfitError
from headway.errors import SchedulingError, UsageError
from headway.library import library_path
from headway.live import schedule
from headway.live.attach import detach, look_at
from headway.live.attach import schedule as schedule_process
from headway.live.lease import Ended

HEADWAY = str(Path(sys.executable).with_name("headway"))
WAITS = "import sys, time\nprint('ready', flush=True)\nwhile True: time.sleep(0.001)"

pytestmark = pytest.mark.slow


def run(*arguments):
    """Run the command line."""
    return subprocess.run([HEADWAY, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_a_trace_names_the_first_policy():
    """A trace has the name of the first policy of its time, also if that began later, and none of an earlier one."""
    with headway.schedule("bfs"), headway.trace() as begun_before:
        pass
    with headway.trace() as begun_after:
        for name in ("fair", "bfs"):
            with headway.schedule(name):
                pass
    with headway.trace() as without:
        pass

    found = [one.trace().process for one in (begun_before, begun_after, without)]
    assert [one.policy for one in found] == ["bfs", "fair", ""]
    # The first policy outlasts the trace.
    assert [one.policy_ended_ns is None for one in found] == [True, False, True]


def test_in_process():
    """`with headway.schedule(...)` starts a policy and stops it; counts and hints work in between."""
    with headway.schedule("fair", latency_us=20000) as policy:
        assert policy.active
        with pytest.raises(SchedulingError, match="a policy is already active"):
            headway.schedule("stock")
        headway.thread_priority(-3, urgent=True)
        headway.thread_priority()
        time.sleep(0.01)
        assert policy.counts().acquires > 0
    assert not policy.active
    policy.stop()
    with pytest.raises(SchedulingError, match="is no longer active"):
        policy.counts()
    with headway.schedule():
        pass
    for wrong in (20, -21, 2**40):
        with pytest.raises(SchedulingError, match=f"priority is {wrong}, expected -20 to 19"):
            headway.thread_priority(wrong)
    with pytest.raises(UsageError, match="priority is 'high', expected a whole number: -20 to 19"):
        headway.thread_priority("high")
    with pytest.raises(UsageError, match="urgent is 'no', expected True or False"):
        headway.thread_priority(urgent="no")
    with pytest.raises(SchedulingError, match=r"latency_us is 1\.5, expected a whole number"):
        headway.schedule("fair", latency_us=1.5)


def test_a_later_policy_is_another_one():
    """A policy that replaces that of a `with` is not taken for it: neither its counts nor its end."""
    with headway.schedule("fair") as first:
        _, (lease,) = scheduler.attach(str(library_path()), "bfs", "")
        os.close(lease)
        assert not first.active
        with pytest.raises(SchedulingError, match="fair is no longer active"):
            first.counts()
    assert scheduler.detach(str(library_path())) == "the policy bfs"


@pytest.mark.parametrize(("policy", "options"), [("nobody", ""), ("/nowhere/x.so", ""), ("bfs", "slice_us=0")])
def test_a_refused_policy_leaves_the_present_one(policy, options):
    """A policy that cannot replace another one changes nothing."""
    with headway.schedule("fair") as first:
        with pytest.raises(UnfitError):
            scheduler.attach(str(library_path()), policy, options)
        assert first.active
        assert first.counts().acquires > 0


def test_a_policy_stays_where_there_is_no_page_for_a_lease():
    """A policy that cannot be leased, here because of the limit on the size of files, replaces no other one."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with headway.schedule("fair") as first:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            with pytest.raises(UnfitError, match="there is no memory to share with whoever attaches"):
                scheduler.attach(str(library_path()), "bfs", "")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert first.active


@pytest.mark.parametrize("name", ["3.14", "3.15"])
def test_attached(name):
    """A policy is started in a running process, replaced, and stopped."""
    with contextlib.ExitStack() as stack:
        command = [BY_NAME[name].executable, "-c", WAITS]
        one = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=unobserved()))
        stack.callback(one.kill)
        assert one.stdout.readline() == "ready\n"
        target = look_at(one.pid)
        with contextlib.closing(schedule_process(target, "fair")) as first:
            assert first.text == ""
            with contextlib.closing(schedule_process(target, "bfs", "slice_us=5000")) as second:
                assert (second.text, first.ended) == ("fair", Ended.BY_HAND)
                assert detach(target, recording=False, policy=True) == "the policy bfs"
        assert detach(target, recording=False, policy=True) == ""
        done = run("attach", str(one.pid), "--policy", "fair", "--duration", "0.2")
        assert done.returncode == 0, done.stderr
        assert "is scheduled by fair for 0.2 s" in done.stderr
        assert "without a policy" not in done.stderr
        assert detach(target, recording=False, policy=True) == ""
        assert one.poll() is None


def test_a_policy_that_was_replaced_does_not_come_back(tmp_path):
    """The command says whose policy it ended, as the process is without one afterwards."""
    program = tmp_path / "app.py"
    program.write_text(WAITS)
    command = [HEADWAY, "run", "--policy", "fair", "--python", BY_NAME["3.14"].executable, str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=unobserved()) as one:
        assert one.stdout.readline() == "ready\n"

        done = run("attach", str(one.pid), "--policy", "bfs", "--duration", "0.2")

        one.kill()
    assert done.returncode == 0, done.stderr
    assert f"process {one.pid} is scheduled by bfs in place of fair for 0.2 s" in done.stderr
    assert f"process {one.pid} is without a policy now; before, it was scheduled by fair" in done.stderr


def test_a_signal_handler_in_the_middle_of_a_start():
    """A handler may stop a policy although its own thread is about to start one."""
    first = headway.schedule("fair")
    with schedule._lock:
        first.stop()
    assert not first.active


CHILD = """
import os, threading
import headway
from headway.live import schedule
taken, fork = threading.Event(), threading.Event()
def begin():
    with schedule._lock:
        taken.set()
        fork.wait()
threading.Thread(target=begin, daemon=True).start()
taken.wait()
if os.fork() == 0:
    with headway.schedule("fair"):
        print("scheduled", flush=True)
    os._exit(0)
fork.set()
os.wait()
"""


def test_a_child_that_was_forked_in_the_middle_of_a_start():
    """A child has no lock of a thread that it does not have."""
    command = [sys.executable, "-W", "ignore", "-c", CHILD]

    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=unobserved())

    assert (done.stdout, done.stderr) == ("scheduled\n", "")


POOL = """
import sys
import _interpreters
def interval(config):
    _interpreters.exec(_interpreters.create(config), "import sys\\nprint(sys.getswitchinterval(), flush=True)")
print(sys.getswitchinterval(), flush=True)
interval("isolated")
sys.setswitchinterval(0.003)
interval("legacy")
print(sys.getswitchinterval(), flush=True)
"""


@pytest.mark.parametrize("policy", [(), ("--policy", "fair")], ids=["alone", "policy"])
def test_the_switch_interval_of_sub_interpreters(policy, tmp_path):
    """`--switch-interval` is for each GIL, beside a policy too; a shared GIL keeps what the program sets."""
    program = tmp_path / "app.py"
    program.write_text(POOL)

    done = run("run", "--switch-interval", "0.0005", *policy, "--python", BY_NAME["3.13"].executable, str(program))

    assert done.stdout.split()[:2] == ["0.0005", "0.0005"], done.stderr
    if policy:
        assert done.stdout.split()[2:] == ["0.003", "0.003"]


IN_A_SUBINTERPRETER = """
import _interpreters
_interpreters.exec(_interpreters.create("isolated"), '''
import threading, time
stop, rounds, waits = False, 0, 0
def compute():
    global rounds
    while not stop:
        sum(range(200))
        rounds += 1
thread = threading.Thread(target=compute)
thread.start()
while waits < 100:
    before = rounds
    time.sleep(0.001)
    waits += rounds > before  # on a busy machine, the one that computes may have no core meanwhile
stop = True
thread.join()
''')
"""


def test_work_in_a_sub_interpreter_is_told(tmp_path):
    """A policy that had to do only with the GIL of a sub-interpreter is not said to have had nothing to do."""
    program = tmp_path / "app.py"
    program.write_text(IN_A_SUBINTERPRETER)

    done = run("run", "--why", "--python", BY_NAME["3.13"].executable, str(program))

    found = re.search(r"fair requested the GILs of other interpreters early (\d+) times", done.stderr)
    assert found, done.stderr
    assert int(found[1]) > 20


def test_attaching_no_policy_is_refused():
    """`headway run` knows the policy `none`; `headway attach` says what to do instead of attaching it."""
    with subprocess.Popen(
        [BY_NAME["3.14"].executable, "-c", WAITS], stdout=subprocess.DEVNULL, env=unobserved()
    ) as one:
        done = run("attach", str(one.pid), "--policy", "none")
        one.kill()

    assert done.returncode == 2
    assert "error: --policy none schedules nothing" in done.stderr
    assert f"`headway detach {one.pid}`" in done.stderr
