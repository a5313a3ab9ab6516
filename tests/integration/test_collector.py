"""The work after a traced program has ended, by a process that is not the program's child."""

import contextlib
import ctypes
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from real_programs import LIMIT_S
from waiting import wait_for

from headway.live import collect, collector
from headway.live.door import Door
from headway.live.files import lock, lock_path, unlock, wait_until_finished
from headway.traces.model import Kind
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))
SET_SUBREAPER = 36

pytestmark = pytest.mark.slow

WORKS = "import sys, time\ntime.sleep(0.001)\n"
WAITS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the working directory, with two programs."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)
    Path("works.py").write_text(WORKS)
    Path("waits.py").write_text(WAITS)
    return tmp_path


def trace(*arguments, python=sys.executable):
    """Return the command line that traces into x.hwt."""
    return [HEADWAY, "trace", "-o", "x.hwt", "--python", python, *arguments]


def looks_at(pid, path):
    """Return whether a process has a file open."""
    try:
        return any(os.readlink(one) == str(path) for one in Path(f"/proc/{pid}/fd").glob("*"))
    except OSError:
        return False


def collector_of(folder):
    """Return the process that holds a trace's lock, other than the one named in the lock."""
    identity = lock_path(folder / "x.hwt").stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        if line.split()[5].endswith(f":{identity}"):
            holder = lock_path(folder / "x.hwt")
            break
    else:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(one) == str(holder) for one in process.glob("fd/*")):
                return int(process.name)
        except OSError:
            continue
    return None


def test_a_report_at_once_waits_for_the_trace(here):
    """`headway trace x; headway report x` reads a finished trace each time."""
    for _ in range(2):
        Path("x.hwt").unlink(missing_ok=True)
        subprocess.run(trace("works.py"), check=True, capture_output=True, timeout=LIMIT_S)
        done = subprocess.run([HEADWAY, "report", "x.hwt", "--json"], capture_output=True, check=True, timeout=LIMIT_S)

        assert json.loads(done.stdout)["processes"]
        assert Path("x.hwt").stat().st_size < 64 << 20
        assert not lock_path(Path("x.hwt")).exists()


def test_a_trace_that_is_just_being_finished_is_overwritten_afterwards(here):
    """A second launch with --force waits until the first one's collector has finished.

    The shell already has the exit status of the first launch at that time.
    """
    Path("x.hwt").write_bytes(b"")
    descriptor = lock(Path("x.hwt"))
    Path("x.hwt.lock").write_text("1 1\n")  # the id of a program that has ended
    with subprocess.Popen(trace("--force", "works.py"), stderr=subprocess.PIPE, text=True) as one:
        wait_for(lambda: one.poll() is not None or looks_at(one.pid, lock_path(here / "x.hwt")), "it does not look")
        unlock(Path("x.hwt"), descriptor)
        _, said = one.communicate(timeout=LIMIT_S)

    assert one.returncode == 0, said
    wait_until_finished(Path("x.hwt"))
    assert read(Path("x.hwt")).process.ended


def test_a_report_of_what_still_runs_does_not_wait(here):
    """A report of a running program does not wait."""
    with subprocess.Popen(
        trace("waits.py"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as one:
        assert one.stdout.readline() == b"ready\n"
        begun = time.monotonic()
        wait_until_finished(Path("x.hwt"), patience_s=LIMIT_S)
        assert time.monotonic() - begun < LIMIT_S / 2
        assert one.poll() is None
        assert Path("x.hwt.lock").exists()
        one.communicate(timeout=LIMIT_S)
    wait_until_finished(Path("x.hwt"))


def test_the_lock_of_who_was_killed_holds_nobody_up(here):
    """A lock file without a holder does not count.

    If its program is gone but the lock is held, a report waits until it is released.
    """
    assert wait_until_finished(Path("x.hwt")) is None  # type: ignore[func-returns-value]
    descriptor = lock(Path("x.hwt"))
    Path("x.hwt.lock").write_text("1 1\n")
    begun = time.monotonic()
    wait_until_finished(Path("x.hwt"), patience_s=0.3)
    assert time.monotonic() - begun >= 0.3
    os.close(descriptor)
    wait_until_finished(Path("x.hwt"), patience_s=LIMIT_S)
    assert time.monotonic() - begun < LIMIT_S / 2

    unlock(Path("x.hwt"), lock(Path("x.hwt")))
    assert not Path("x.hwt.lock").exists()


def test_the_collector_is_nobodys_child(here):
    """The collector is not below the program; session, name and folder are its own, and no descriptor is the program's."""
    reads, writes = os.pipe()
    command = trace("waits.py", "a-word-of-mine")

    def descriptors_of(process):
        with contextlib.suppress(OSError):
            return [os.readlink(one) for one in process.glob("fd/*")]
        return ["closed meanwhile"]

    def its_own(name):
        return name in ("/dev/null", str(here / "x.hwt.lock"), str(here / "x.hwt")) or name.startswith(
            ("anon_inode", "pipe:", "socket:")
        )

    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[writes]
    ) as one:
        os.close(writes)
        assert one.stdout.readline() == b"ready\n"
        pid = wait_for(lambda: collector_of(here), "nobody holds the lock")
        process = Path(f"/proc/{pid}")
        wait_for(lambda: (process / "comm").read_text() == "headway-collect\n", "it has no name")
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        assert pid != one.pid
        assert int(fields[1]) not in (one.pid, os.getpid())  # its parent
        assert int(fields[3]) not in (os.getsid(0), pid)  # its session, which it does not lead
        assert b"a-word-of-mine" not in (process / "cmdline").read_bytes()
        assert os.readlink(process / "cwd") == "/"
        # The descriptor of a memory that is just being received is there for a moment.
        wait_for(lambda: all(map(its_own, descriptors_of(process))), "it has another's descriptor")
        one.communicate(timeout=LIMIT_S)
        assert os.read(reads, 1) == b""  # the pipe's end: no process has it open any more
    os.close(reads)
    wait_until_finished(Path("x.hwt"))


def test_a_service_that_is_stopped_has_its_trace(here):
    """A trace is finished even if signals are sent to all of a service, including the collector."""
    with subprocess.Popen(
        trace("waits.py"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as one:
        assert one.stdout.readline() == b"ready\n"
        pid = wait_for(lambda: collector_of(here), "nobody holds the lock")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGQUIT, signal.SIGALRM):
            os.kill(pid, number)
        one.terminate()
        one.communicate(timeout=LIMIT_S)
        assert one.returncode == -signal.SIGTERM
    wait_for(lambda: not Path("x.hwt.lock").exists(), "the collector has left its lock")

    assert Path("x.hwt").stat().st_size < 64 << 20


def shown(command):
    """Run on a terminal; return all output until the collector has ended, too."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as one:
        assert one.wait(LIMIT_S) == 0
        wait_until_finished(Path("x.hwt"))
        seen = b""
        while b"the GIL held" not in seen and b"was not traced" not in seen:
            seen += os.read(controller, 65536)
    os.close(terminal)
    os.close(controller)
    return seen.decode()


def test_on_a_terminal_a_summary_follows(here):
    """The collector prints a summary when the program has ended."""
    seen = shown(trace("works.py"))

    assert re.search(r"recording into \S+x\.hwt; look at it with `headway report ", seen)
    assert re.search(r"works\.py \(pid \d+\)", seen)


def test_on_a_terminal_it_is_told_that_nothing_was_recorded(here):
    """A program without Python leaves no trace, and a message says so."""
    assert "true was not traced" in shown([HEADWAY, "trace", "-o", "x.hwt", "true"])


def test_elsewhere_one_line_is_said_before(here):
    """A pipe gets one line from us, then the program's own output, and nothing afterwards."""
    done = subprocess.run(trace("works.py"), capture_output=True, text=True, check=True, timeout=LIMIT_S)

    assert done.stdout == ""
    assert done.stderr == f"recording into {here / 'x.hwt'}; look at it with `headway report {here / 'x.hwt'}`\n"
    wait_until_finished(Path("x.hwt"))


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"], ["-bIc", "pass"]])
def test_who_is_out_of_reach_is_told_before(here, options):
    """The command line of a Python that ignores PYTHONPATH gives a line that says so."""
    command = [HEADWAY, "trace", "-o", "x.hwt", "--", sys.executable, *options, "works.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)

    assert re.match(
        r"\S+ is not traced: \S+ -([IE] ignores PYTHONPATH|S imports no sitecustomize), which Headway needs\n"
        r"recording only the Python processes that it starts in another way into ",
        done.stderr,
    )
    wait_until_finished(Path("x.hwt"))


def test_who_is_out_of_reach_by_a_first_line_is_told(here):
    """A script whose first line makes Python ignore PYTHONPATH gives the same line."""
    script = here / "tool"
    script.write_text(f"#!{sys.executable} -I\nprint('ran')\n")
    script.chmod(0o755)
    done = subprocess.run([HEADWAY, "run", "./tool"], capture_output=True, text=True, check=True, timeout=LIMIT_S)

    assert done.stdout == "ran\n"
    assert re.match(r"tool is not scheduled: \S+ -I ignores PYTHONPATH, which Headway needs\n$", done.stderr)


def test_a_launcher_that_adopts_orphans_is_not_given_the_collector(here):
    """A program that adopts orphans below it does not get the collector, and gets other orphans."""
    Path("adopts.py").write_text(
        "import ctypes, os\n"
        "found = ctypes.c_int(0); ctypes.CDLL(None).prctl(37, ctypes.byref(found), 0, 0, 0)\n"
        "between = os.fork()\n"
        "if between == 0:\n os.fork(); os._exit(0)\n"
        "ended = 0\n"
        "while True:\n"
        " try:\n  os.wait()\n"
        " except ChildProcessError:\n  break\n"
        " ended += 1\n"
        "print(found.value, ended)\n"
    )
    done = subprocess.run(
        trace("adopts.py"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(SET_SUBREAPER, 1, 0, 0, 0) and None,
    )

    assert done.stdout == "1 2\n"
    wait_until_finished(Path("x.hwt"))


def test_the_first_process_of_a_container_waits_for_its_own_children_only(here):
    """The collector is the first process's child, but is not found by a wait for any child."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no process namespace (unshare --pid)")
    Path("first.py").write_text(
        "import os, time\n"
        "time.sleep(0.001)\n"
        "child = os.fork()\n"
        "if child == 0:\n os._exit(3)\n"
        "print(os.getpid(), os.wait() == (child, 3 << 8))\n"
        "try:\n os.wait()\nexcept ChildProcessError:\n print('no other')\n"
        "for _ in range(1000):\n time.sleep(0)\n"
    )
    done = subprocess.run([*unshare, *trace("first.py")], capture_output=True, text=True, timeout=LIMIT_S, check=True)

    assert done.stdout == "1 True\nno other\n"
    # The first process takes the collector with it, so it waits for the collector at its end.
    recorded = read(Path("x.hwt"))
    assert recorded.process.ended
    assert recorded.loss.whole
    assert np.count_nonzero(recorded.events["kind"] == Kind.RELEASE) >= 1000


def test_what_cannot_be_executed_ends_as_in_a_shell(here):
    """The exit code is 127 for a missing program and 126 for a file that is none, and nothing is left behind."""
    Path("no-program").write_bytes(b"\x7fELF nothing")
    Path("no-program").chmod(0o755)
    Path("no-line").write_text("#!/nothing/python\n")
    Path("no-line").chmod(0o755)
    Path("folder").mkdir()
    for command, name, code in (
        ("run", "nothing-there", 127),
        ("trace", "nothing-there", 127),
        ("run", "./nothing-there", 127),
        ("run", "./no-program", 126),
        ("trace", "./no-program", 126),
        ("run", "./no-line", 126),
        ("trace", "./no-line", 126),
    ):
        done = subprocess.run([HEADWAY, command, name], capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert done.stderr.count("error: ") == done.stderr.count("hint: ") == 1
        assert "Traceback" not in done.stderr
    wait_for(lambda: not list(here.glob("*.lock")), "a lock is left")
    assert not list(here.glob("*.hwt"))


def test_two_launches_at_once_have_traces_of_their_own(here):
    """Each launch takes a name that the other does not have, even before either has written anything."""
    command = [HEADWAY, "trace", "--python", sys.executable, "works.py"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    names = {re.match(r"recording into (\S+);", one.communicate(timeout=LIMIT_S)[1])[1] for one in both}

    assert names == {str(here / "works.hwt"), str(here / "works-2.hwt")}
    for name in names:
        wait_until_finished(Path(name))
    assert sorted(path.name for path in here.glob("works*")) == ["works-2.hwt", "works.hwt", "works.py"]


def test_which_python_a_script_gets(here):
    """A script runs on the Python that --python names, else on its first line's if the script can be executed.

    Otherwise the active environment's Python, or python3 on PATH is used.
    """
    active = here / "venv" / "bin" / "python"
    active.parent.mkdir(parents=True)
    on_path = here / "bin" / "python3"
    on_path.parent.mkdir()
    for path, name in ((active, "active"), (on_path, "on path")):
        path.write_text(f"#!/bin/sh\necho {name} $*\n")
        path.chmod(0o755)
    script = here / "app.py"
    script.write_text("#!/bin/echo first line\n")
    environment = {"PATH": f"{on_path.parent}:/usr/bin:/bin"}
    in_venv = environment | {"VIRTUAL_ENV": str(here / "venv")}

    def printed(*arguments, env=environment):
        return subprocess.run([HEADWAY, "run", *arguments], env=env, capture_output=True, text=True, check=True).stdout

    assert printed("app.py") == "on path app.py\n"
    assert printed("app.py", env=in_venv) == "active app.py\n"
    assert printed("-m", "mod", "x", env=in_venv) == "active -m mod x\n"
    script.chmod(0o755)
    assert printed("app.py", "x", env=in_venv) == "first line ./app.py x\n"
    assert printed("--python", str(active), "app.py") == "active app.py\n"
    script.write_text("print(1)\n")
    assert printed("app.py", env=in_venv) == "active app.py\n"


def limited(kind, soft, hard=None):
    """Return a function that sets a limit of a process before it begins."""
    return lambda: resource.setrlimit(kind, (soft, soft if hard is None else hard))


def traced_under(kind, limit, *options):
    """Trace works.py under a limit on the whole launch."""
    return subprocess.run(
        trace(*options, "works.py"), check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT_S, preexec_fn=limited(kind, limit),
    )  # fmt: skip


@pytest.mark.parametrize("files", [6, 12, 15])
def test_too_few_open_files_for_a_collector(here, files):
    """The program runs as usual, one line says why it is not recorded, and nothing is left."""
    done = traced_under(resource.RLIMIT_NOFILE, files)

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"works.py will not be traced: the collector cannot start: it may open {files} files, expected 16 (ulimit -n)"
    ]
    assert sorted(os.listdir()) == ["waits.py", "works.py"]


def test_as_few_open_files_as_a_collector_needs(here):
    """One more file is enough for the collector."""
    done = traced_under(resource.RLIMIT_NOFILE, 16)
    assert done.returncode == 0, done.stderr
    wait_until_finished(Path("x.hwt"))

    assert read(Path("x.hwt")).process.ended


@pytest.mark.parametrize("files", [4, 5])
def test_too_few_open_files_for_python(here, files):
    """The error is one line with a hint, and no traceback."""
    done = traced_under(resource.RLIMIT_NOFILE, files)

    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"error: this process may open {files} files, expected 6 at least"
    assert "hint:" in done.stderr


FORKS = """
import os, sys, threading
held, release = os.pipe()
ready, tell = os.pipe()
children = []
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        os.close(release)
        one = threading.Thread(target=sum, args=(range(1000),))
        one.start()
        one.join()
        os.write(tell, b".")
        os.read(held, 1)
        os._exit(0)
    children.append(pid)
for _ in children:
    os.read(ready, 1)
sys.stdin.readline()
os.close(release)
print([os.waitpid(one, 0)[1] for one in children].count(0))
"""


def test_more_processes_than_files_that_may_be_open(here):
    """The collector raises its soft limit, and the program's stays; if the hard limit is too low, some are recorded."""
    Path("forks.py").write_text(FORKS)
    for hard in (1024, 64):
        for path in here.glob("*.hwt"):
            path.unlink()
        with subprocess.Popen(
            trace("forks.py"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=limited(resource.RLIMIT_NOFILE, 64, hard),
        ) as one:  # fmt: skip
            if hard == 1024:
                wait_for(lambda: len(list(here.glob("x*.hwt"))) == 41, "not all are recorded")
            output, _ = one.communicate("\n", timeout=LIMIT_S)
        wait_until_finished(Path("x.hwt"))

        assert output == "40\n"
        assert len(list(here.glob("x*.hwt"))) > 10
        assert all(read(path).process.pid for path in here.glob("x*.hwt"))


def test_a_trace_is_overwritten_in_hardly_any_memory(here):
    """The earlier trace is examined without a library that needs a hundred megabytes, so the program runs."""
    for _ in range(2):
        done = traced_under(resource.RLIMIT_AS, 120_000 << 10, "--force")
        assert done.returncode == 0, done.stderr
        wait_until_finished(Path("x.hwt"))
        Path("x.hwt").touch()


def test_what_cannot_begin_leaves_nothing(here):
    """Without the native library there is an error, and the trace's name is free for the next launch."""
    done = subprocess.run(
        trace("works.py"), check=False, capture_output=True, text=True, timeout=LIMIT_S,
        env={**os.environ, "HEADWAY_NATIVE": "/not/there.so"},
    )  # fmt: skip

    assert done.returncode != 0
    assert "/not/there.so" in done.stderr
    assert sorted(os.listdir()) == ["waits.py", "works.py"]


def test_a_collector_that_fails_leaves_nothing(here, monkeypatch):
    """A collector that fails leaves neither its socket nor the lock."""

    def fail(*_, **__):
        raise MemoryError

    door = Door()
    descriptor = lock(here / "x.hwt")
    monkeypatch.setattr(collect, "Collector", fail)
    detached = collector.DetachedCollector(door, here / "x.hwt", descriptor, lambda *_: None)
    os.close(detached._tell)  # as when this process becomes the program
    door.socket.close()

    wait_for(lambda: not door.folder.exists(), "the door is still there")
    wait_for(lambda: not lock_path(here / "x.hwt").exists(), "the lock is still there")
