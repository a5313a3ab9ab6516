"""Hard cases for a policy: interrupts beside many CPU-bound threads, and C code that keeps the GIL, even for ever."""

import signal
import subprocess
import time

import pytest
from real_programs import BY_NAME, LIMIT_S, POLICIES, unobserved

from headway.live.launch import scheduled_environment

pytestmark = pytest.mark.slow

COMPUTING = """
import sys, threading, time
def compute():
    while True:
        sum(range(100))
for _ in range(int(sys.argv[1])):
    threading.Thread(target=compute, daemon=True).start()
try:
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("policy", POLICIES)
def test_ctrl_c_beside_sixteen_threads_that_compute(policy):
    """An interrupt arrives, and the program ends although its threads go on computing."""
    env = scheduled_environment(policy, base=unobserved())
    command = [BY_NAME["3.13"].executable, "-c", COMPUTING, "16"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(LIMIT_S) == 0


@pytest.mark.matrix("policy")
@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_process_that_is_stopped_for_long(policy, threads):
    """A process that was stopped for longer than the watchdog's limit has starved no thread, and the policy stays on."""
    env = scheduled_environment(policy, {"watchdog_ms": 1000}, base=unobserved())
    command = [BY_NAME["3.13"].executable, "-c", COMPUTING, str(threads)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.1)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
        assert process.stderr.read() == ""


TO_AND_FRO = """
import _interpreters, threading, time
stop = False
def compute():
    while not stop:
        sum(range(1000))
threads = [threading.Thread(target=compute) for _ in range(2)]
for thread in threads:
    thread.start()
other = _interpreters.create("isolated")
_interpreters.exec(other, '''
import threading
def compute():
    while not stop:
        sum(range(1000))
stop = False
thread = threading.Thread(target=compute)
thread.start()
''')
shared = {f"n{i}": i for i in range(60000)}  # a long call of C that lets the GIL go at its end
for _ in range(10):
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
    _interpreters.exec(other, "pass", shared)
_interpreters.exec(other, "stop = True; thread.join()")
stop = True
for thread in threads:
    thread.join()
_interpreters.destroy(other)
print("done")
"""


@pytest.mark.matrix("policy")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_thread_goes_from_one_gil_to_another(policy):
    """A thread that goes from the main interpreter to one with its own GIL is in one queue at a time."""
    env = scheduled_environment(policy, base=unobserved())
    command = [BY_NAME["3.13"].executable, "-c", TO_AND_FRO]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


C_CALL = """
import gc, threading, time
garbage = [[i] for i in range(300000)]
def collect():
    for _ in range(5):
        gc.collect()
        "a".join(map(str, range(200000)))
thread = threading.Thread(target=collect)
thread.start()
while thread.is_alive():
    time.sleep(0.0005)
print(len(garbage))
"""


@pytest.mark.matrix("policy")
@pytest.mark.parametrize("policy", POLICIES)
def test_long_calls_of_c_are_waited_for(policy):
    """A holder that cannot be preempted (a collection of a large heap, C code) costs only the wait."""
    env = scheduled_environment(policy, base=unobserved())
    done = subprocess.run(
        [BY_NAME["3.14"].executable, "-c", C_CALL], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )

    assert (done.stdout, done.stderr) == ("300000\n", "")


KEEPS = """
import ctypes, os, sys, threading, time
keeping = ctypes.PyDLL(None)  # does not let the GIL go
def keep(call):
    print("ready", flush=True)
    getattr(keeping, call)(int(sys.argv[3]))
done = [0]
def compute():
    while True:
        sum(range(100))
        done[0] += 1
for _ in range(int(sys.argv[2])):
    threading.Thread(target=compute, daemon=True).start()
thread = threading.Thread(target=keep, args=(sys.argv[1],), daemon=True)
thread.start()
thread.join()
before = list(done)
while done == before:  # for ever, if nobody goes on
    time.sleep(0.001)
print("on", flush=True)
"""


@pytest.mark.matrix("policy")
@pytest.mark.parametrize("threads", [2, 60])
@pytest.mark.parametrize("policy", POLICIES)
def test_who_keeps_the_gil_is_no_fault_of_the_policy(policy, threads):
    """A C call that keeps the GIL for longer than the watchdog's limit does not end the policy.

    All threads go on after it. Among many threads the last one runs after others have run often, long after its wait
    began.
    """
    # Sixty threads have a turn in 0.6 s if nothing else takes the cores.
    env = scheduled_environment(policy, {"watchdog_ms": 2000}, base=unobserved())
    command = [BY_NAME["3.13"].executable, "-c", KEEPS, "usleep", str(threads), "3000000"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True)

    assert (done.stdout, done.stderr) == ("ready\non\n", "")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_call_with_the_gil_that_never_returns(policy):
    """A call that never returns with the GIL held blocks the program, but a signal still reaches it."""
    env = scheduled_environment(policy, {"watchdog_ms": 100}, base=unobserved())
    command = [BY_NAME["3.13"].executable, "-c", KEEPS, "pause", "2", "0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.terminate()
        assert process.wait(LIMIT_S) == -signal.SIGTERM
        assert process.stderr.read() == ""
