"""No process has the watcher as a child, whatever adopts orphans, and the watcher outlives the program unnoticed."""

import ctypes
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S
from waiting import wait_for

from headway.library import library_path

SET_SUBREAPER = 36
UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
COMMAND = [str(Path(sys.executable).with_name("headway")), "watch", "--quiet", "-c"]
WAIT = """
import os
{watch}
ended = 0
while True:
    try:
        ended += bool(os.waitpid(-1, 0)[0])
    except ChildProcessError:
        break
print(os.getpid() == 1, ended)
{stop}
"""
FROM_OUTSIDE = WAIT.format(watch="", stop="")
FROM_INSIDE = WAIT.format(
    watch="import headway; it = headway.watch('stalls', quiet=True)", stop="print(it.finish(120))"
)


@pytest.fixture
def env(tmp_path, monkeypatch):
    """Return the variables of a service that runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return os.environ | {"HEADWAY_NATIVE": str(library_path())}


@pytest.mark.parametrize(
    ("command", "more"),
    [([*COMMAND, FROM_OUTSIDE], ""), ([sys.executable, "-c", FROM_INSIDE], "True\n")],
    ids=["outside", "inside"],
)
def test_the_first_process_of_a_container_has_no_watcher_as_its_child(command, more, env):
    """A wait for any child of the first process does not wait for the watcher, which the first process can end."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no process namespace (unshare --pid)")
    done = subprocess.run([*UNSHARE, *command], capture_output=True, text=True, check=True, timeout=LIMIT_S, env=env)

    assert done.stdout == f"True 0\n{more}", done.stderr


@pytest.mark.parametrize(
    ("command", "more"),
    [([*COMMAND, FROM_OUTSIDE], ""), ([sys.executable, "-c", FROM_INSIDE], "True\n")],
    ids=["outside", "inside"],
)
def test_a_process_that_adopts_orphans_is_not_given_the_watcher(command, more, env):
    """A wait for any child of a subreaper does not wait for the watcher."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
        env=env,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(SET_SUBREAPER, 1, 0, 0, 0) and None,
    )

    assert done.stdout == f"False 0\n{more}", done.stderr


AGAIN = """
import contextlib, os, time
import headway

def between():
    found = {}
    for one in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            with open(f"/proc/{one}/stat") as file:
                words = file.read().replace("(", ") ").split(") ")
            if words[1] == "headway-between":
                found[one] = words[2].split()[0]
    return found

for turn in range(3):
    assert headway.watch("stalls", quiet=True).finish(120)
    until = time.monotonic() + 60
    while set(between().values()) != {"Z"} and time.monotonic() < until:
        time.sleep(0.01)
    print(list(between().values()))
"""


def test_watches_of_the_first_process_leave_no_more_than_one_zombie(env):
    """A Dask worker that gets its plugin again and again is watched anew each time."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no process namespace (unshare --pid)")
    command = [*UNSHARE, sys.executable, "-c", AGAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=env)

    assert (done.returncode, done.stdout) == (0, "['Z']\n" * 3), done.stderr


ENDS = """
import sys
import headway
from headway.live import watching

def with_patience(command, *more):
    patient = "import sys, headway.live.watcher as w; w._LINGER_S = 3600; w.main(sys.argv[1:])"
    code, module = command.index("-c") + 1, command.index("headway.live.watcher")
    return start(command[:code] + [patient] + command[module + 1 :], *more)

start, watching.start_detached = watching.start_detached, with_patience
# Without a watcher its id is 0, and a signal to that would end all processes of the tests.
print(headway.watch("stalls", required=True).watcher, flush=True)
"""


def test_a_program_without_room_for_the_watcher_runs(env, tmp_path):
    """One line says why the program is not watched; this holds for `headway watch` and $HEADWAY_WATCH."""
    few = "ulimit -n 8; exec "
    for command, more in (
        (f"{COMMAND[0]} watch -o {tmp_path} -c 'print(7)'", {}),
        (f"{sys.executable} -c 'print(7)'", {"HEADWAY_WATCH": str(tmp_path)}),
    ):
        done = subprocess.run(
            ["/bin/sh", "-c", few + command],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
            env=env | more,
        )

        assert done.stdout == "7\n"
        (line,) = done.stderr.splitlines()
        assert "is not watched: the watcher does not start: it may open 8 files, expected 16 (ulimit -n)" in line


def test_the_end_of_stderr_is_the_program_s_end(env):
    """A watcher that stays for processes to come no longer holds the program's stderr, to whose end a reader reads."""
    program = subprocess.Popen(
        [sys.executable, "-c", ENDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )
    watcher = int(program.stdout.readline())
    try:
        with program:
            program.communicate(timeout=LIMIT_S)
    finally:
        os.kill(watcher, signal.SIGKILL)

    assert program.returncode == 0


DAEMON = """
import asyncio, os, time

reading, writing = os.pipe()
if os.fork():
    os.read(reading, 1)
    os._exit(3)
os.setsid()
for one in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), one)
os.write(writing, b"x")

async def main():
    await asyncio.to_thread(open, "go")
    time.sleep(0.3)
    await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_a_daemon_is_watched_although_the_program_has_ended(env, tmp_path):
    """The end of stderr comes while the daemon waits, after a line; its stall is in the log, and the watcher ends after it."""
    os.mkfifo("go")
    Path("daemon.py").write_text(DAEMON)
    command = [COMMAND[0], "watch", "-o", "stalls", sys.executable, "daemon.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=env)
    assert done.returncode == 3, done.stderr
    assert "headway: daemon has ended, and 1 process of it is watched on: only " in done.stderr
    watcher = int(re.search(r"USR2 (\d+)", done.stderr)[1])
    Path("go").write_text("")

    wait_for(lambda: not Path(f"/proc/{watcher}").exists(), "the watcher does not end", LIMIT_S)
    assert "MainThread stalled for" in (tmp_path / "stalls" / "daemon.stalls.jsonl").read_text()


def test_the_variables_of_the_service_s_python_are_none_of_the_watcher_s(env, tmp_path):
    """PYTHONHOME of a service that is another Python ended the watcher, and the service did not start."""
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/sh\necho served\n")
    script.chmod(0o755)
    done = subprocess.run(
        [*COMMAND[:3], str(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
        env=env | {"PYTHONHOME": "/nonexistent"},
    )

    assert done.stdout == "served\n"
