"""The faults that `chaos_soak.py` injects into a running program, and their means: a disk, a process group, ptrace.

Where this machine lacks the means for a fault, the code raises Impossible with the reason in a sentence.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slow_disk import Impossible, command

HEADWAY = Path(sys.executable).with_name("headway")
DISK_BYTES = 128 << 20
CGROUP_PERIOD_US = 100_000
# The longest pause of the whole program.
MOST_PAUSE_S = 2.0
# From linux/ptrace.h and linux/fs.h.
_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000
_FIFREEZE, _FITHAW = 0xC0045877, 0xC0045878


# ---- a file system of the trace's own ----


class Disk:
    """An ext4 on a loop device: it can be full, frozen and read-only without harm to other files."""

    def __init__(self, folder: Path) -> None:
        """Make and mount the file system. Raises Impossible."""
        self.image, self.mount = folder / "disk.img", folder / "disk"
        self.loop = ""
        with self.image.open("wb") as file:
            file.truncate(DISK_BYTES)
        self.mount.mkdir()
        try:
            self.loop = command("losetup", "--find", "--show", str(self.image)).strip()
            command("mkfs.ext4", "-q", "-m", "0", self.loop)
            command("mount", "-o", "errors=remount-ro", self.loop, str(self.mount))
        except Impossible:
            self.end()
            raise

    def end(self) -> None:
        """Unmount the file system and free its loop device."""
        if os.path.ismount(self.mount):
            with contextlib.suppress(Impossible):
                command("umount", "--lazy", str(self.mount))
        if self.loop:
            with contextlib.suppress(Impossible):
                command("losetup", "--detach", self.loop)

    def fill(self, seconds: float) -> None:
        """Fill the file system for a while."""
        ballast = self.mount / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            block = bytes(1 << 20)
            while file.write(block):
                pass
        time.sleep(seconds)
        ballast.unlink(missing_ok=True)

    def stand_still(self, seconds: float) -> None:
        """Block all writes for a while."""
        descriptor = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _FIFREEZE, 0)
            try:
                time.sleep(seconds)
            finally:
                fcntl.ioctl(descriptor, _FITHAW, 0)
        finally:
            os.close(descriptor)

    def become_read_only(self) -> None:
        """Become read-only for good, as after an error of the device. Raises Impossible."""
        trigger = Path("/sys/fs/ext4", Path(self.loop).name, "trigger_fs_error")
        try:
            trigger.write_text("1")
        except OSError as error:
            raise Impossible(f"the file system cannot be made read-only: {trigger}: {error.strerror}") from error


# ---- groups of processes ----


class Cgroups:
    """A cgroup that can be frozen and limited in CPU time: one of cgroup v2, or one in each of v1's two hierarchies."""

    def __init__(self) -> None:
        """Make the group. Raises Impossible."""
        name = f"headway-chaos-{os.getpid()}"
        root = Path("/sys/fs/cgroup")
        if (root / "cgroup.controllers").exists():
            with contextlib.suppress(OSError):
                (root / "cgroup.subtree_control").write_text("+cpu")
            self.frozen = ((root / name / "cgroup.freeze"), "1", "0")
            self.quota = ((root / name / "cpu.max"), f"{{}} {CGROUP_PERIOD_US}", "max")
        else:
            self.frozen = ((root / "freezer" / name / "freezer.state"), "FROZEN", "THAWED")
            self.quota = ((root / "cpu" / name / "cpu.cfs_quota_us"), "{}", "-1")
        self.folders = list(dict.fromkeys([self.frozen[0].parent, self.quota[0].parent]))
        try:
            for folder in self.folders:
                folder.mkdir()
        except OSError as error:
            self.end()
            raise Impossible(f"no cgroup can be made: {folder}: {error.strerror}") from error
        for file, _, _ in (self.frozen, self.quota):
            if not file.exists():
                self.end()
                raise Impossible(f"there is no {file.name} in a new cgroup")

    def take(self, pid: int) -> None:
        """Put a process, and the processes that it will start, into the group."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def freeze(self, seconds: float) -> None:
        """Freeze the whole group for a while."""
        file, on, off = self.frozen
        file.write_text(on)
        try:
            time.sleep(seconds)
        finally:
            file.write_text(off)

    def starve(self, seconds: float, share: float) -> None:
        """Limit the group to a share of one core for a while."""
        file, on, off = self.quota
        file.write_text(on.format(int(share * CGROUP_PERIOD_US)))
        try:
            time.sleep(seconds)
        finally:
            file.write_text(off)

    def end(self) -> None:
        """Remove the group as soon as it has no process, within 5 s."""
        for folder in self.folders:
            deadline = time.monotonic() + 5
            while folder.exists() and time.monotonic() < deadline:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.1)


# ---- what is done to the program ----


def stop_process(pid: int, seconds: float) -> None:
    """Stop a process with SIGSTOP, and continue it with SIGCONT after a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def stop_thread(pid: int, seconds: float) -> None:
    """Stop one thread, chosen at random, for a while. Raises Impossible."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    thread = int(random.choice(os.listdir(f"/proc/{pid}/task")))
    if libc.ptrace(_PTRACE_SEIZE, thread, None, None) != 0:
        if ctypes.get_errno() == 1:  # EPERM; any other error means that the thread has ended
            raise Impossible("single threads cannot be stopped: ptrace is not permitted")
        return
    libc.ptrace(_PTRACE_INTERRUPT, thread, None, None)
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(thread, _WALL)
        time.sleep(seconds)
        # A signal that arrived meanwhile is passed on.
        number = os.WSTOPSIG(status) if os.WIFSTOPPED(status) and status >> 16 == 0 else 0
        if ended == thread and not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            libc.ptrace(_PTRACE_DETACH, thread, None, ctypes.c_void_p(number))


@dataclass
class Harm:
    """Injects faults into the program, and records how often it did, and which of them failed."""

    pid: int
    disk: Disk | None
    cgroups: Cgroups | None
    attachable: bool
    bound_s: float
    """How much longer than a pause of the whole program a wait may be."""
    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    """Of the pauses of the whole program."""
    stood_still: bool = False
    """The program said nothing for too long."""
    kinds: dict[str, Callable[[], None]] = field(default_factory=dict)
    _order: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """List the faults that can be injected here."""
        self.kinds = {
            "process stopped": lambda: self.paused(stop_process, random.uniform(0.05, 1.0)),
            "thread stopped": lambda: self.paused(stop_thread, random.uniform(0.01, 0.5)),
        }
        if self.cgroups is not None:
            group = self.cgroups
            self.kinds["frozen"] = lambda: self.paused(
                lambda _pid, s: group.freeze(s), random.uniform(0.1, MOST_PAUSE_S)
            )
            self.kinds["starved"] = lambda: group.starve(random.uniform(1.0, 4.0), random.uniform(0.2, 0.8))
        if self.disk is not None:
            disk = self.disk
            self.kinds["disk full"] = lambda: disk.fill(random.uniform(1.0, 5.0))
            # This counts as no pause, because the program must not notice it. It lasts longer than any wait may, so
            # that a wait for it would be seen.
            self.kinds["disk standing still"] = lambda: disk.stand_still(
                MOST_PAUSE_S + self.bound_s + random.uniform(1.0, 3.0)
            )
        if self.attachable:
            self.kinds["policy changed from outside"] = self.attach

    def paused(self, what: Callable[[int, float], None], seconds: float) -> None:
        """Pause the program, and note the length of the pause."""
        self.longest_s = max(self.longest_s, seconds)
        what(self.pid, seconds)

    def attach(self) -> None:
        """Switch the program to another policy for a while, and then back."""
        policy = random.choice(["fair", "priority", "bfs", "stock"])
        words = [str(HEADWAY), "attach", str(self.pid), "--policy", policy, "--patience", "60"]
        words += ["--duration", f"{random.uniform(0.2, 2.0):.1f}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            self.failures.append(f"{policy}: {(errors or done.stderr.strip().splitlines() or ['?'])[-1]}")

    def one(self) -> None:
        """Inject one fault. Each fault comes once, in random order, before any of them comes again."""
        if not self._order:
            self._order = random.sample(list(self.kinds), len(self.kinds))
        name = self._order.pop()
        if name not in self.kinds:
            return
        try:
            self.kinds[name]()
        except Impossible as error:
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
            del self.kinds[name]
            return
        except (ProcessLookupError, FileNotFoundError):
            return  # the program has ended, which the caller reports
        self.done[name] += 1
