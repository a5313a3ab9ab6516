"""A watched process requests a recording, whoever has started its watcher."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from real_programs import LIMIT_S
from waiting import state_of, wait_for

from headway.library import library_path
from headway.live.watching import Watch

COMMAND = [str(Path(sys.executable).with_name("headway")), "watch", "--quiet", "-o", "out", sys.executable, "-c"]
RECORD = """
import headway, os, time
watch = headway.watch()
watch.record()
until = time.monotonic() + 120
while time.monotonic() < until and not list(watch.folder.glob(f"*-{os.getpid()}.hwt")):
    time.sleep(0.05)
print(os.path.basename(watch.folder), watch.watcher, len(list(watch.folder.glob(f"*-{os.getpid()}.hwt"))))
"""
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {RECORD!r}], check=True)"


@pytest.mark.parametrize(
    ("command", "folder"),
    [([*COMMAND, RECORD], ""), ([sys.executable, "-c", IN_A_CHILD], "out")],
    ids=["headway watch", "HEADWAY_WATCH"],
)
def test_a_process_under_another_s_watcher_gets_its_recording(command, folder, tmp_path):
    """The request reaches the watcher that another process has started, and no folder is made for it."""
    env = os.environ | {"HEADWAY_NATIVE": str(library_path()), "HEADWAY_WATCH": folder}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S, env=env, cwd=tmp_path)

    assert done.stdout == "out 0 1\n", done.stderr
    assert not (tmp_path / "stalls").exists()


def test_a_request_ends_no_other_process(tmp_path):
    """A process that has the id of a watcher that has ended gets no signal."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            other.send_signal(signal.SIGSTOP)
            wait_for(lambda: state_of(other.pid) == "T")
            Watch(tmp_path, other.pid).record()
            # A stopped process keeps a signal until it goes on.
            status = Path(f"/proc/{other.pid}/status").read_text()
        finally:
            other.kill()

    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    assert int(pending.split()[1], 16) == 0


WORKER = """
import os, sys
from headway.live.services import watch_worker
print(watch_worker(folder="stalls", name=sys.argv[1], listen=sys.argv[2]), flush=True)
sys.stdin.readline()
"""


def test_workers_with_one_address_are_all_watched(tmp_path):
    """The second worker's watcher cannot have the address, says so, and writes its log all the same."""
    address = f"127.0.0.1:{free_port()}"
    env = os.environ | {"HEADWAY_NATIVE": str(library_path())}
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    workers = []
    for name in ("first", "second"):
        worker = subprocess.Popen([sys.executable, "-c", WORKER, name, address], env=env, cwd=tmp_path, **pipes)
        workers.append(worker)
        assert worker.stdout.readline() == "True\n"
        wait_for((tmp_path / "stalls" / f"{name}.stalls.jsonl").exists)
    said = [worker.communicate("\n", timeout=LIMIT_S)[1] for worker in workers]

    assert said[0] == ""
    assert f"{address} is not served for process {workers[1].pid}" in said[1]


EMBEDS = """
import asyncio, os, sys, time
sys.executable = os.path.abspath("server")
from headway.live.services import watch_worker
print(watch_worker(folder="stalls", name="it"), flush=True)

async def stall():
    time.sleep(0.3)

asyncio.run(stall())
"""


def test_a_process_that_embeds_python_is_watched(tmp_path):
    """In uWSGI, sys.executable is the server: another server must not be started, and stalls are told."""
    server = tmp_path / "server"
    server.write_text("#!/bin/sh\ntouch started\n")
    server.chmod(0o755)
    env = os.environ | {"HEADWAY_NATIVE": str(library_path())}
    # From a file: a watcher that comes too late to see the thread asleep has the line to tell it by.
    (tmp_path / "embeds.py").write_text(EMBEDS)
    command = [sys.executable, "embeds.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S, env=env, cwd=tmp_path)
    log = tmp_path / "stalls" / "it.stalls.jsonl"
    try:
        # On a busy machine, the loop may have stalled for lack of a core before.
        wait_for(lambda: log.is_file() and "blocking call" in log.read_text())
    except AssertionError as error:
        files = {path.name: path.stat().st_size for path in tmp_path.rglob("*")}
        raise AssertionError(f"no blocking call was told: {done.stdout!r}, {done.stderr!r}, {files}") from error

    assert done.stdout == "True\n", done.stderr
    assert not (tmp_path / "started").exists()


HELD = """
import asyncio, threading, time
import headway
from locks import entry

watch = headway.watch("stalls", name="it")

def told(words):
    return any(words in one.read_text() for one in watch.folder.glob("*.jsonl"))

def keep():
    with entry:
        taken.set()
        until = time.monotonic() + 60
        while not told("a wait for another thread") and time.monotonic() < until:
            time.sleep(0.02)  # a watcher without a core sees nothing of a wait that is over

async def stall():
    with entry:
        pass

taken = threading.Event()
threading.Thread(target=keep).start()
taken.wait()
asyncio.run(stall())
watch.finish(120)
"""


def test_a_lock_from_another_file_is_told_as_a_wait_for_another_thread(tmp_path):
    """Neither its name nor the file of the line tells that it is a lock, but the thread is seen asleep in the kernel."""
    if not Path("/proc/self/syscall").exists():
        pytest.skip("this kernel does not tell system calls")
    (tmp_path / "locks.py").write_text("import threading\nentry = threading.Lock()\n")
    (tmp_path / "held.py").write_text(HELD)
    env = os.environ | {"HEADWAY_NATIVE": str(library_path())}
    command = [sys.executable, "held.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S, env=env, cwd=tmp_path)

    assert "a wait for another thread or process (a lock, an event, a queue) at " in done.stderr
    assert "a blocking call at" not in done.stderr
