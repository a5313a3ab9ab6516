"""The ids of threads of a process that is in a PID namespace below ours: the kernel tells both."""

import os
import shutil
import subprocess
import sys

import pytest
from waiting import wait_for

from headway.live.beginnings import UNKNOWN, beginnings
from headway.live.sampling import Accounts
from headway.live.thread_ids import ThreadIds

PID = 4711
UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
PROGRAM = """
import threading
held = threading.Lock()
held.acquire()
waiter = threading.Thread(target=held.acquire, daemon=True)
waiter.start()
print(threading.get_native_id(), waiter.native_id, flush=True)
input()
"""


class Kernel:
    """One process with threads, as a folder that stands for /proc tells it."""

    def __init__(self, proc, **threads):
        self.proc = proc
        self.reads = 0
        self.tell("status", threads["main"])
        for words in threads.values():
            self.add(words)

    def tell(self, name, words):
        """Write a status with these ids, from our namespace to the process's own."""
        path = self.proc / str(PID) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Name:\tpython\nNSpid:\t{words}\n")

    def add(self, words):
        """Begin a thread."""
        self.tell(f"task/{words.split()[0]}/status", words)

    def end(self, ours):
        """End a thread."""
        shutil.rmtree(self.proc / str(PID) / "task" / str(ours))


def test_the_ids_of_a_process_in_our_namespace_are_its_own(tmp_path):
    """No thread is looked for then: the caller notices that a thread is gone."""
    Kernel(tmp_path, main=f"{PID}")
    ids = ThreadIds(PID, tmp_path)

    assert [ids.ours(tid, 1) for tid in (PID, 77)] == [PID, 77]


def test_the_ids_of_a_process_in_a_namespace_below_ours_are_translated(tmp_path):
    """Threads that come later are found, too; one that is gone is not, nor one that never was."""
    kernel = Kernel(tmp_path, main=f"{PID} 20 1", pool="4720 29 7")
    ids = ThreadIds(PID, tmp_path)
    assert [ids.ours(tid, 1) for tid in (1, 7)] == [PID, 4720]

    kernel.add("4730 39 8")
    with pytest.raises(ProcessLookupError):
        ids.ours(8, 1)  # one look asks once
    assert [ids.ours(tid, 2) for tid in (1, 7, 8)] == [PID, 4720, 4730]
    for tid in (4720, -1):
        with pytest.raises(ProcessLookupError):
            ids.ours(tid, 3)


def test_the_kernel_is_asked_once_for_each_thread(tmp_path):
    """The status of a thread that is known is not read again, however many threads come."""
    kernel = Kernel(tmp_path, main=f"{PID} 1", pool="4720 7")
    ids = ThreadIds(PID, tmp_path)
    assert ids.ours(7, 1) == 4720
    kernel.tell("task/4720/status", "4720 9")
    kernel.add("4730 8")

    assert ids.ours(8, 2) == 4730
    assert ids.ours(7, 2) == 4720


def test_ids_that_the_kernel_gives_again_are_read_again(tmp_path):
    """A thread that the caller found to be gone is forgotten, and so is one that is gone at the next look."""
    kernel = Kernel(tmp_path, main=f"{PID} 1", pool="4720 7", other="4721 8")
    ids = ThreadIds(PID, tmp_path)
    assert [ids.ours(tid, 1) for tid in (7, 8)] == [4720, 4721]
    for ours in (4720, 4721):
        kernel.end(ours)
    kernel.add("4720 9")
    kernel.add("4722 7")
    ids.forget(7)
    ids.forget(12345)

    assert [ids.ours(tid, 2) for tid in (7, 9)] == [4722, 4720]
    with pytest.raises(ProcessLookupError):
        ids.ours(8, 2)


def test_a_process_that_is_gone_has_no_ids(tmp_path):
    """The error is the kernel's."""
    with pytest.raises(FileNotFoundError):
        ThreadIds(PID, tmp_path).ours(1, 1)


def test_the_kernel_tells_of_threads_in_a_namespace_below_ours():
    """Their accounts, for what they sleep, and when they began."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no process namespace (unshare --pid)")
    command = [*UNSHARE, sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as unshare:
        main, waiter = map(int, unshare.stdout.readline().split())
        with open(f"/proc/{unshare.pid}/task/{unshare.pid}/children") as file:
            pid = int(file.read())
        accounts = Accounts(pid)
        account = accounts.of(waiter, 1)
        began_ns = beginnings(pid, [main, waiter, 1 << 30], ThreadIds(pid))
        if os.path.exists("/proc/self/syscall"):
            wait_for(lambda: accounts.sleeps_in_a_futex(waiter, 1))
        state = accounts._state_of(waiter, 1)
        accounts.close()
        unshare.communicate("\n")

    assert main == 1
    assert account is not None
    assert account.tid == waiter
    assert state == b"S"
    assert UNKNOWN < began_ns[main] <= began_ns[waiter]
    assert began_ns[1 << 30] == UNKNOWN
