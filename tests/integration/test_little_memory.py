"""Events that wait in a program's memory: no more than fits there, and none once nobody takes them any more."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import wait_for

from headway.live.collect import Collector
from headway.live.door import Door
from headway.live.launch import environment
from headway.live.options import COLLECTOR_NAME, WATCHER_NAME
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150
MIB = 1 << 20
UNHEARD, FULL = "nobody takes its events any more", "the memory for its events is full"

pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys, threading

def read():
    sys.stdin.read()
    ended.append(True)

ended = []
kept = bytearray(int(sys.argv[1]) << 20)
thread = threading.Thread(target=read)
thread.start()
print("begun", flush=True)
while not ended:
    os.stat("/")
"""
"""Its main thread runs Python, as `headway attach` needs it."""


@contextmanager
def running(*command, megabytes=1, env=None):
    """Run a program with many events while the `with` lasts; its stderr is in a file."""
    Path("app.py").write_text(PROGRAM)
    with (
        open("stderr", "wb") as stderr,
        subprocess.Popen(
            [*command, sys.executable, "app.py", str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=env,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        try:
            yield process
        finally:
            process.communicate(timeout=LIMIT_S)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run each test in a folder of its own, without the user's settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HEADWAY"))]:
        monkeypatch.delenv(name)
    return tmp_path


def helper_of(name, folder):
    """Return the id of the process of ours with that name that has a file open in the folder, or works there."""

    def found():
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and (process / "comm").read_bytes() == name + b"\n":
                    opened = [one.readlink() for one in (process / "fd").iterdir()]
                    if any(folder in one.parents for one in [*opened, (process / "cwd").readlink()]):
                        return int(process.name)
            except OSError:  # it has just ended
                continue
        return None

    # It has let the program in, when there is a first copy or a log.
    wait_for(lambda: [one for one in [*folder.glob("*.hwt"), *folder.glob("stalls/*.jsonl")] if begun(one)])
    return wait_for(found, f"there is no {name!r}")


def begun(file):
    """Return whether that is a log, or a trace that has been copied to."""
    return file.suffix != ".hwt" or any(file.read_bytes()[:8])


def shared_kib(pid):
    """Return the size of the shared memory that a process has touched and the system still keeps."""
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("RssShmem:")]
    return int(line.split()[1])


def said():
    return Path("stderr").read_text()


def ran_s(pid):
    """Return how long a process has run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("command", "name"),
    [(["trace", "--no-summary", "-o", "app.hwt"], COLLECTOR_NAME), (["watch", "-o", "stalls"], WATCHER_NAME)],
    ids=["trace", "watch"],
)
def test_the_helper_is_killed(folder, command, name):
    """The kernel kills the helper first; the program goes on, says so, and keeps no more events."""
    with running(HEADWAY, *command) as process:
        helper = helper_of(name, folder)
        assert Path(f"/proc/{helper}/oom_score_adj").read_text() == "1000\n"
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == Path("/proc/self/oom_score_adj").read_text()
        os.kill(helper, signal.SIGKILL)
        wait_for(lambda: UNHEARD in said(), "the program does not see that")
        size_kib, since_s = shared_kib(process.pid), ran_s(process.pid)
        wait_for(lambda: ran_s(process.pid) > since_s + 1, "the program stands still")
        assert shared_kib(process.pid) <= size_kib + 16
    assert process.returncode == 0


def test_a_collector_stands_still(folder):
    """Events are lost and counted meanwhile; once it goes on, the recording does, too."""
    with running(HEADWAY, "trace", "--no-summary", "-o", "app.hwt") as process:
        helper = helper_of(COLLECTOR_NAME, folder)
        os.kill(helper, signal.SIGSTOP)
        try:
            wait_for(lambda: UNHEARD in said(), "the program does not see that")
        finally:
            os.kill(helper, signal.SIGCONT)
        going_on_ns = time.monotonic_ns()
        since_s = ran_s(process.pid)
        wait_for(lambda: ran_s(process.pid) > since_s + 1.5, "the program stands still")
    wait_for(lambda: not Path("app.hwt.lock").exists(), "the collector goes on")
    trace = read("app.hwt")
    assert trace.loss.dropped_events > 1000
    assert (trace.events["time_ns"] > going_on_ns).sum() > 1000


def test_an_attach_is_killed(folder):
    """Within seconds, its target has its memory back."""
    with running() as process:
        before_kib = shared_kib(process.pid)
        command = subprocess.Popen(
            [HEADWAY, "attach", str(process.pid), "-o", "app.hwt"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: Path("app.hwt").exists() and begun(Path("app.hwt")), "nothing is recorded")
        finally:
            command.kill()
            command.wait()
        maps = Path(f"/proc/{process.pid}/maps")
        wait_for(lambda: "/memfd:headway " not in maps.read_text(), "the memory is not given back")
        assert shared_kib(process.pid) <= before_kib + 64
    assert process.returncode == 0


class Group:
    """A control group with a limit of memory, of either version."""

    def __init__(self, limit_bytes):
        """Make it. Raises OSError if that is not possible here."""
        root = Path("/sys/fs/cgroup")
        is_second = (root / "cgroup.controllers").exists()
        if is_second and "memory" not in (root / "cgroup.subtree_control").read_text().split():
            raise OSError("the memory controller is not delegated")
        self._folder = (root if is_second else root / "memory") / f"headway-test-{os.getpid()}"
        self._folder.mkdir()
        (self._folder / ("memory.max" if is_second else "memory.limit_in_bytes")).write_text(str(limit_bytes))
        swap = self._folder / ("memory.swap.max" if is_second else "memory.memsw.limit_in_bytes")
        if swap.exists():
            swap.write_text(str(0 if is_second else limit_bytes))

    def words(self):
        """Return the beginning of a command that runs in the group."""
        return ["sh", "-c", f'echo $$ > {self._folder}/cgroup.procs && exec "$@"', "sh"]

    def close(self):
        """Remove it, when its processes have ended."""
        wait_for(lambda: not (self._folder / "cgroup.procs").read_text(), "processes are left in the group")
        self._folder.rmdir()


@pytest.fixture
def group(request):
    """Return a group with the limit that the test asks for."""
    try:
        made = Group(request.param)
    except OSError as error:
        pytest.skip(f"needs root and a memory controller of control groups: {error}")
    yield made
    made.close()


@pytest.mark.parametrize("group", [72 * MIB], indirect=True)
def test_a_slow_disk_in_a_small_container(folder, group):
    """The events that wait have a part of what the container still leaves to the program, which lives."""
    door = Door()
    with (
        Collector(door, Path("app.hwt")) as collector,
        running(*group.words(), megabytes=24, env=environment(door.environment())) as process,
    ):
        wait_for(lambda: [collector.step(0.1)] and collector.files)
        # From here on nothing is copied, as if a write took for ever.
        wait_for(lambda: FULL in said() or process.poll() is not None, "its memory does not fill")
        assert process.poll() is None
        assert shared_kib(process.pid) < 8 * 1024
    assert process.returncode == 0
