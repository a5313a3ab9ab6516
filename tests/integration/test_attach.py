"""Attaching to running processes: they are recorded, go on, and compute the same, whatever they are doing."""

import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from attached import Attached
from real_programs import LIMIT_S
from waiting import state_of, wait_for

from headway.errors import RecordingError
from headway.host.interpreters import discover, select
from headway.live import inject
from headway.live.attach import detach, look_at
from headway.traces.analysis import analyse
from headway.traces.invariants import violations
from headway.traces.reader import read

HELD = []
"""What holds the processes of a test recorded."""


@pytest.fixture(autouse=True)
def let_go():
    """Close everything that is held at the end of a test."""
    yield
    while HELD:
        HELD.pop().close()


def attach(target, file, **options):
    """Attach; the end of the test, or detached(), closes what is held."""
    HELD.append(Attached(target, file, **options))


def detached(target):
    """Detach; after that, the trace is complete."""
    detach(target)
    HELD.pop().close()


BY_NAME = {interpreter.name: interpreter for interpreter in reversed(select(discover()[0], ["all"]))}
NAMES = [name for name in ("3.8", "3.11", "3.12", "3.13", "3.13t") if name in BY_NAME] + ["3.14", "3.15"]
INJECTED = [name for name in NAMES if BY_NAME[name].order < (3, 14)]

pytestmark = pytest.mark.slow
only_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="inject.py is for x86-64")

PROGRAM = r"""
import ctypes, errno, hashlib, json, os, select, signal, socket, sys, tempfile, threading, time

told = threading.Event()
value, rounds, wrong = b"", 0, []

def ended():
    return told.is_set()

def listen():
    sys.stdin.read()
    told.set()

def advance():
    global value, rounds
    value = hashlib.sha256(value).digest()
    rounds += 1

def burn():
    while not ended():
        sum(range(1000))

def computing():
    while not ended():
        advance()

def sleeping():
    while not ended():
        time.sleep(0.005)
        advance()

def reading():
    ours, theirs = socket.socketpair()
    sent = []
    def send():
        while not ended():
            theirs.sendall(bytes([len(sent) % 251]))
            sent.append(len(sent) % 251)
            time.sleep(0.003)
        theirs.close()
    others = [threading.Thread(target=send), threading.Thread(target=burn)]
    for other in others:
        other.start()
    received = []
    while True:
        data = ours.recv(1)
        if not data:
            break
        received += data
        advance()
    for other in others:
        other.join()
    ours.close()
    if received != sent:
        wrong.append("received something else than was sent")

def selecting():
    ours, theirs = os.pipe()
    while not ended():
        if select.select([ours], [], [], 0.004)[0]:
            wrong.append("select found what is not there")
        advance()

def queueing():
    others = [threading.Thread(target=burn) for _ in range(3)]
    for other in others:
        other.start()
    while not ended():
        advance()
    for other in others:
        other.join()

def writing():
    with tempfile.TemporaryFile(buffering=0) as file:
        written = 0
        while not ended():
            for _ in range(200):
                written += file.write(b"abcdefg")
            advance()
        file.seek(0)
        if file.read() != b"abcdefg" * (written // 7):
            wrong.append("the file differs")

def blocked():
    while os.read(0, 1):
        pass

def answering():
    # SIGUSR1 is answered by a byte; none may be lost. Not from the handler: the next one would come while it runs, and nest.
    handled = []
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    print("armed", flush=True)
    while not ended():
        time.sleep(0.001)
        advance()
        while handled:
            handled.pop()
            os.write(1, b".")

def locked():
    # A lock of the interpreter's own kind, which is held.
    api = ctypes.pythonapi
    api.PyThread_allocate_lock.restype = ctypes.c_void_p
    lock = ctypes.c_void_p(api.PyThread_allocate_lock())
    api.PyThread_acquire_lock(lock, 1)
    byte = ctypes.c_uint8(1)
    function = api.PyMutex_Lock if sys.version_info >= (3, 13) else api.PyThread_acquire_lock
    first = ctypes.addressof(byte) if sys.version_info >= (3, 13) else lock.value
    print(json.dumps([ctypes.cast(function, ctypes.c_void_p).value, first]), flush=True)
    while not ended():
        advance()
    api.PyThread_release_lock(lock)
    if api.PyThread_acquire_lock(lock, 0) != 1 or byte.value != 1:
        wrong.append("the lock is broken")

def calling():
    # System calls as they are, without the repetitions that Python makes.
    libc = ctypes.CDLL(None, use_errno=True)
    long, room = ctypes.c_long, ctypes.create_string_buffer(1024)
    def after(seconds):
        return (long * 2)(int(seconds), int(seconds % 1 * 1e9))
    def call(*arguments):
        result = libc.syscall(*(long(a) if isinstance(a, int) else a for a in arguments))
        return result, errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno()) if result < 0 else ""
    reader, writer = os.pipe()
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    word = (ctypes.c_int * 1)(5)
    bits = (ctypes.c_uint64 * 16)(1 << reader)
    polled = (ctypes.c_int * 2)(reader, 1)
    mask = ctypes.c_uint64(0)
    calls = {
        "nanosleep": lambda: call(35, after(0.4), None),
        "clock_nanosleep": lambda: call(230, 1, 0, after(0.4), None),
        "clock_nanosleep until": lambda: call(230, 1, 1, after(time.monotonic() + 0.4), None),
        "poll": lambda: call(7, polled, 1, 400),
        "ppoll": lambda: call(271, polled, 1, after(0.4), ctypes.byref(mask), 8),
        "select": lambda: call(23, reader + 1, bits, None, None, (long * 2)(0, 400000)),
        "pselect": lambda: call(270, reader + 1, bits, None, None, after(0.4), None),
        "futex": lambda: call(202, word, 128, 5, after(0.4), None, 0),
        "futex until": lambda: call(202, word, 137, 5, after(time.monotonic() + 0.4), None, -1),
        "read": lambda: call(0, reader, room, 1),
        "accept": lambda: call(43, server.fileno(), None, None)[0] > 0,
        "futex without end": lambda: call(202, word, 128, 5, None, None, 0),
    }
    def help_on():
        time.sleep(0.4)
        if name == "read":
            os.write(writer, b"x")
        elif name == "accept":
            socket.create_connection(server.getsockname()).close()
        elif name == "futex without end":
            while libc.syscall(long(202), word, long(129), long(1), None, None, long(0)) != 1:
                pass
    for name in calls:
        helper = threading.Thread(target=help_on)
        bits[0] = 1 << reader
        print(name, flush=True)
        begin = time.monotonic()
        helper.start()
        result = calls[name]()
        print(json.dumps([result, time.monotonic() - begin]), flush=True)
        helper.join()
        sys.stdin.readline()
        advance()
    server.close()

if sys.argv[1] not in ("blocked", "calling"):
    threading.Thread(target=listen, daemon=True).start()
names = {*globals(), "names"}
print("ready", flush=True)
globals()[sys.argv[1]]()
print()
print(json.dumps([rounds, value.hex(), wrong, sorted(set(globals()) - names)]), flush=True)
"""


@contextlib.contextmanager
def running(name, state, limit_s=LIMIT_S):
    """Run PROGRAM in a state, and yield it; it is killed at the end, or after its limit, if it still runs."""
    command = [BY_NAME[name].executable, "-u", "-c", PROGRAM, state]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        limit = threading.Timer(limit_s, process.kill)
        limit.start()
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            limit.cancel()
            process.kill()


def finish(process):
    """End the program, and assert that it computed what it would have computed alone."""
    process.stdin.close()
    output, errors = process.stdout.read(), process.stderr.read()
    assert (process.wait(), errors) == (0, "")
    rounds, value, wrong, names = json.loads(output.splitlines()[-1])
    expected = b""
    for _ in range(rounds):
        expected = hashlib.sha256(expected).digest()
    assert (value, wrong, names) == (expected.hex(), [], [])
    return rounds


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.matrix("name")
@pytest.mark.parametrize("state", ["computing", "sleeping", "reading", "selecting", "queueing", "writing"])
@pytest.mark.parametrize("name", NAMES)
def test_a_process_is_recorded_and_goes_on(tmp_path, name, state):
    """Attaching gives a sound trace of the program's lines alone, in every state of the main thread; the program goes on."""
    file = tmp_path / "trace.hwt"
    with running(name, state) as process:
        target = look_at(process.pid)
        attach(target, file)
        began = cpu_ticks(process.pid)
        wait_for(lambda: cpu_ticks(process.pid) >= began + 3)
        detached(target)
        trace = read(file)
        finish(process)
    assert violations(trace) == []
    assert trace.process.pid == process.pid
    found = analyse(trace)
    stacks = [one.stack for one in (*found.held, *found.waited)] + [one.stack for one in found.contention.places]
    assert not any("_headway" in str(frame) or "headway_agent" in str(frame) for stack in stacks for frame in stack)
    if name != "3.13t":  # on this build no GIL changes hands
        assert len(trace.threads) >= 1
        assert len(trace.events) > 0


def test_a_trace_has_the_begin_of_its_process(tmp_path):
    """It lies before the program's first line, and source that was edited before the attaching can be told by it."""
    file = tmp_path / "trace.hwt"
    with running("3.13", "sleeping") as process:
        ready_ns = time.time_ns()
        target = look_at(process.pid)
        attach(target, file)
        detached(target)
    found = read(file).process
    assert 0 < found.begin_realtime_ns <= ready_ns <= found.start_realtime_ns


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", NAMES)
def test_attaching_again_and_again(tmp_path, name):
    """Ten recordings of one process, one after the other, are each sound, and the program ends as usual."""
    with running(name, "writing") as process:
        target = look_at(process.pid)
        for i in range(10):
            file = tmp_path / f"{i}.hwt"
            attach(target, file, max_bytes=8 << 20)
            detached(target)
            assert violations(read(file)) == []
            file.unlink()
        finish(process)


def test_the_command_records_for_a_while(tmp_path):
    """`headway attach PID -o FILE --duration S` leaves a trace, and the program as it was."""
    file = tmp_path / "trace.hwt"
    with running(NAMES[0], "reading") as process:
        command = [sys.executable, "-m", "headway", "attach", str(process.pid), "-o", str(file)]
        subprocess.run([*command, "--duration", "0.2", "--no-summary"], check=True, capture_output=True)
        finish(process)
    assert violations(read(file)) == []


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", NAMES)
def test_a_main_thread_inside_one_long_call(tmp_path, name):
    """A main thread that runs no Python is given up on; when it runs again, nothing is recorded."""
    file = tmp_path / "trace.hwt"
    with running(name, "blocked") as process:
        # The thread must be in its read (system call 0) of its stdin (descriptor 0), and not asleep on the way there.
        wait_for(lambda: Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 "))
        with pytest.raises(RecordingError, match=r"has run no Python for 0\.3 s: it is in a read") as caught:
            attach(look_at(process.pid), file, patience_s=0.3)
        assert "until that call is over (--patience SECONDS)" in str(caught.value.hint)
        assert "let its main thread wait with a time-out" in str(caught.value.hint)
        with pytest.raises(RecordingError, match=r"has run no Python for 0\.3 s: it is in a read") as caught:
            detach(look_at(process.pid), patience_s=0.3)
        assert str(caught.value.hint).endswith(" ends by itself 5 s after that command")
        finish(process)
    assert not file.exists()


def test_no_such_process():
    """A process that does not exist is an error, also if it has ended since it was examined."""
    with running(NAMES[0], "computing") as process:
        target = look_at(process.pid)
    with pytest.raises(RecordingError, match="there is no process"):
        look_at(process.pid)
    with pytest.raises(RecordingError, match="has ended"):
        detach(target)
    with pytest.raises(RecordingError, match="there is no process"):
        inject.run_soon(process.pid, "pass")


@only_x86_64
def test_a_process_that_is_debugged(tmp_path):
    """A process that another process traces is an error that names the tracer."""
    traced, done = threading.Event(), threading.Event()

    def trace(pid):
        with inject._Tracee(pid):
            traced.set()
            done.wait(LIMIT_S)

    with running(INJECTED[0], "computing") as process, ThreadPoolExecutor(1) as own_thread:
        tracing = own_thread.submit(trace, process.pid)
        try:
            assert traced.wait(LIMIT_S)
            with pytest.raises(RecordingError, match=rf"already traced by process {os.getpid()} \("):
                attach(look_at(process.pid), tmp_path / "trace.hwt")
        finally:
            done.set()
            tracing.result()
        finish(process)


@only_x86_64
def test_a_process_that_is_stopped(tmp_path):
    """A process that SIGSTOP stopped is an error, stays stopped, and can be attached to once it goes on."""
    file = tmp_path / "trace.hwt"
    with running(INJECTED[-1], "computing") as process:
        target = look_at(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(process.pid) == "T")
        with pytest.raises(RecordingError, match="is stopped"):
            attach(target, file)
        assert state_of(process.pid) == "T"
        process.send_signal(signal.SIGCONT)
        attach(target, file)
        detached(target)
        finish(process)
    assert violations(read(file)) == []


@only_x86_64
@pytest.mark.times
def test_interrupted_system_calls_go_on():
    """System calls that the kernel can restart neither fail nor take longer because calls were queued meanwhile.

    Each call of the system takes 0.4 s. If a queued call restarted its timeout, it would not end before they do: they
    come for some 6 s, or longer on a busy machine.
    """
    special = {"read": [1, ""], "accept": True, "futex": [-1, "ETIMEDOUT"], "futex until": [-1, "ETIMEDOUT"]}
    with running(INJECTED[-1], "calling") as process, ThreadPoolExecutor(1) as reader:
        while called := process.stdout.readline().strip():
            answer = reader.submit(process.stdout.readline)
            for _ in range(30):  # the queue has room for 31
                inject.run_soon(process.pid, "pass")
                if wait([answer], 0.2).done:
                    break
            else:
                pytest.fail(f"{called} goes on while calls are queued")
            process.stdin.write("next\n")
            process.stdin.flush()
            result, seconds = json.loads(answer.result())
            assert (called, result) == (called, special.get(called, [0, ""]))
            assert seconds >= 0.399, called
        finish(process)


@only_x86_64
@pytest.mark.times  # not for its assertions: four of these tests at the same time leave each other no time
@pytest.mark.timeout(600)
@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", INJECTED)
def test_no_signal_is_lost(name):
    """Signals that arrive while calls are queued are all handled."""
    # Each call needs several turns of both processes: on a busy machine, a minute is not enough for 80.
    with running(name, "answering", limit_s=500) as process:
        assert process.stdout.readline() == "armed\n"
        with ThreadPoolExecutor(1) as other_thread:
            queued = other_thread.submit(lambda: [inject.run_soon(process.pid, "pass") for _ in range(80)])  # type: ignore[func-returns-value]
            while not queued.done():
                os.kill(process.pid, signal.SIGUSR1)  # send_signal would wait for the process, and take a stop of ours
                assert process.stdout.read(1) == "."
            queued.result()
        finish(process)


@only_x86_64
@pytest.mark.parametrize("name", INJECTED)
def test_a_call_that_would_wait_is_undone(monkeypatch, name):
    """A call that would wait for the queue's lock is given up; lock, main thread and program are as they were."""
    call = inject._Tracee.call
    monkeypatch.setattr(inject, "_TRIES", 3)
    with running(name, "locked") as process:
        function, lock = json.loads(process.stdout.readline())

        def call_the_lock(thread, address, *arguments, **to):
            asks = arguments == (0, 0)  # whether Python runs
            return call(thread, *((address, 0, 0) if asks else (function, lock, 1)), **to)

        monkeypatch.setattr(inject._Tracee, "call", call_the_lock)
        with pytest.raises(RecordingError, match="is locked"):
            inject.run_soon(process.pid, "pass")
        finish(process)


@only_x86_64
@pytest.mark.parametrize("name", INJECTED)
def test_a_failure_half_way(monkeypatch, name):
    """The process is released with its registers, and goes on, whichever of our steps fails."""
    wait = inject._Tracee._wait
    with running(name, "writing") as process:
        for failing in itertools.count(1):
            left = failing

            def fail_at(thread, limit_s):
                nonlocal left
                left -= 1
                if left == 0:
                    raise RecordingError("a failure of ours")
                return wait(thread, limit_s)

            monkeypatch.setattr(inject._Tracee, "_wait", fail_at)
            try:
                inject.run_soon(process.pid, "pass")
            except RecordingError as error:
                assert error.message == "a failure of ours"  # noqa: PT017 any other would be for ever
                continue
            break
        assert failing > 4  # to stop it, to map memory, to call, to unmap
        finish(process)
