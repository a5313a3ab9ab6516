"""`headway attach` on a process whose children do the work."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from attached import next_line, without_waits
from real_programs import LIMIT_S
from waiting import wait_for

from headway.cli.entering import beside_each_other
from headway.host.interpreters import discover
from headway.host.interpreters import select as chosen
from headway.live.watch import is_recorded
from headway.traces.family import read_family
from headway.traces.invariants import violations

PYTHON = chosen(discover()[0], ["3.14"])[0].executable

pytestmark = pytest.mark.slow


def start(*arguments):
    """Start the command line."""
    command = [sys.executable, "-m", "headway", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments):
    """Run the command line."""
    with start(*arguments) as command:
        output, errors = command.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess(command.args, command.returncode, output, errors)


FORKED = r"""
import os, sys, time
if sys.argv[1:] == ["deep"]:
    os.fork()  # the parent's child has one, too
child = os.fork()
os.write(1, b"%d\n" % os.getpid())
def work():
    if child and "idle" in sys.argv:
        os.wait()
    if not child and "all" in sys.argv:
        os.read(os.pipe()[0], 1)
    while True:
        time.sleep(0.001)
work()
"""


@contextlib.contextmanager
def forked(*arguments, processes):
    """Run a program that forks at once; yield it and the pids of its children, and end all of them afterwards."""
    command = [PYTHON, "-c", FORKED, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        try:
            pids = {int(parent.stdout.readline()) for _ in range(processes)}
            yield parent, sorted(pids - {parent.pid})
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.parametrize("arguments", [(), ("deep",)])
def test_children_that_do_the_work_are_recorded(tmp_path, arguments):
    """Existing children and their children are recorded too, and left as they were; each has a trace with its lines."""
    with forked(*arguments, processes=4 if arguments else 2) as (parent, children):
        done = run("attach", parent.pid, "-o", tmp_path / "trace.hwt", "--duration", "0.5", "--no-summary")
        assert done.returncode == 0, done.stderr
        some = f"{len(children)} child process{'es' * (len(children) > 1)}"
        assert f"and its {some}: {', '.join(map(str, children))}" in done.stderr
        traces = read_family(tmp_path / "trace.hwt")
        assert sorted(one.process.pid for one in traces) == sorted([parent.pid, *children])
        for trace in traces:
            assert violations(trace) == []
            assert "work" in {frame.function for frame in trace.frames}
        assert not any(map(is_recorded, children))


def test_children_may_be_left_alone(tmp_path):
    """With --no-children the children are not touched, and a message names them."""
    with forked(processes=2) as (parent, (child,)):
        done = run(
            "attach", parent.pid, "-o", tmp_path / "trace.hwt", "--duration", "0.1", "--no-summary", "--no-children"
        )
        assert done.returncode == 0, done.stderr
        assert f"its 1 child process is not recorded, and may do the work: {child}" in done.stderr
        assert [one.process.pid for one in read_family(tmp_path / "trace.hwt")] == [parent.pid]


def test_children_of_a_process_that_cannot_be_entered(tmp_path):
    """A parent that only waits for its children is named with the reason, and its children are recorded."""
    with forked("idle", processes=2) as (parent, (child,)):
        command = ["attach", parent.pid, "-o", tmp_path / "trace.hwt", "--duration", "0.5", "--no-summary"]
        done = run(*command, "--patience", "8")
        assert done.returncode == 0, done.stderr
        assert (
            f"process {parent.pid} is not recorded: the main thread of process {parent.pid} has run no Python for 8 s:"
            " it is in a wait for another process\n"
            f"recording only its 1 child process: {child} for 0.5 s\n" in done.stderr
        )
        assert [one.process.pid for one in read_family(tmp_path / "trace.hwt")] == [child]
        assert not is_recorded(child)

        done = run(*command, "--force", "--patience", "0.3", "--no-children")
        assert done.returncode == 7
        assert f"or name one of its child processes, which may do the work: {child}\n" in done.stderr
        # --force has replaced nothing: there is no other recording.
        assert [one.process.pid for one in read_family(tmp_path / "trace.hwt")] == [child]


def test_a_child_that_cannot_be_recorded(tmp_path):
    """A child inside a C call is named with the reason; the process itself is recorded, and the exit code is 0."""
    code = "import os, signal, time\nchild = os.fork()\nif not child: signal.pthread_sigmask(2, range(1, 65)); os.read(os.pipe()[0], 1)\nprint(child, flush=True)\nwhile True: time.sleep(0.001)"
    with subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        try:
            done = run(
                "attach",
                parent.pid,
                "-o",
                tmp_path / "trace.hwt",
                "--duration",
                "0.1",
                "--patience",
                "5",
                "--no-summary",
            )
            assert done.returncode == 0, done.stderr
            assert (
                f"its child process {child} is not recorded: the main thread of process {child} has run no Python"
                in done.stderr
            )
            assert [one.process.pid for one in read_family(tmp_path / "trace.hwt")] == [parent.pid]
        finally:
            parent.kill()
            os.kill(child, signal.SIGKILL)


def test_top_counts_children_that_run_already():
    """`headway top PID --children` enters the children, too, and they stop counting by themselves afterwards."""
    with forked(processes=2) as (parent, (child,)):
        with start("top", parent.pid, "--children", "--json", "--interval", "0.2") as command:
            seen: set[int] = set()
            while not {parent.pid, child} <= seen:
                seen |= {one["pid"] for one in json.loads(command.stdout.readline())["processes"]}
            command.send_signal(signal.SIGINT)
            assert without_waits(command.communicate(timeout=LIMIT_S)[1]) == ""
        assert command.returncode == 0
        wait_for(lambda: not is_recorded(child))


def test_top_says_that_children_are_not_shown():
    """`headway top PID` shows the process alone; with a server's workers, that is not the process that works."""
    with forked(processes=2) as (parent, _):
        done = run("top", parent.pid, "--json", "--interval", "0.2", "--count", "1")
        assert done.returncode == 0, done.stderr
        said = (
            f"process {parent.pid} has started another Python process, which is not shown; --children shows them, too"
        )
        assert said in done.stderr


def test_top_counts_children_of_a_process_that_cannot_be_entered():
    """`headway top PID --children` says that the process itself is left out, and shows its children."""
    with forked("idle", processes=2) as (parent, (child,)):
        command = ["top", parent.pid, "--children", "--json", "--interval", "0.2", "--count", "1", "--patience", "8"]
        done = run(*command)
        assert done.returncode == 0, done.stderr
        assert [one["pid"] for one in json.loads(done.stdout)["processes"]] == [child]
        said = f"process {parent.pid} is not counted: the main thread of process {parent.pid} has run"
        assert said in done.stderr.splitlines()[-1]
        wait_for(lambda: not is_recorded(child))


def test_top_of_processes_that_cannot_be_entered():
    """If no child can be entered either, there is nothing to show."""
    with forked("idle", "all", processes=2) as (parent, (child,)):
        wait_for(lambda: Path(f"/proc/{child}/syscall").read_text().startswith(("0 ", "63 ")))  # in read()
        done = run("top", parent.pid, "--children", "--json", "--patience", "0.3")
        assert done.returncode == 7
        assert f"its child process {child} is not counted: the main thread" in done.stderr
        assert f"neither process {parent.pid} nor a process below it can be counted" in done.stderr


STARTING = r"""
import os, subprocess, sys, time
from multiprocessing import resource_tracker
resource_tracker.ensure_running()
print(resource_tracker._resource_tracker._pid, flush=True)
children = []
while True:
    time.sleep(0.001)
    if os.path.exists("%s-%d" % (sys.argv[1], len(children))):
        loop = "import time\nwhile True: time.sleep(0.001)"
        children.append(subprocess.Popen([sys.executable, "-c", loop]))
        print(children[-1].pid, flush=True)
"""


@contextlib.contextmanager
def starting(folder):
    """Run a program that starts a resource tracker, and on demand a worker; yield it and a function for each demand."""
    names = (f"start-{number}" for number in itertools.count())

    def demand():
        (folder / next(names)).touch()
        return int(parent.stdout.readline())

    command = [PYTHON, "-c", STARTING, str(folder / "start")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        try:
            assert parent.stdout.readline()
            yield parent, demand
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_child_that_is_started_meanwhile_is_recorded(tmp_path):
    """A spawned worker is a new program, which is entered, too; a resource tracker is not, and keeps nobody waiting."""
    with starting(tmp_path) as (parent, demand):
        command = ["attach", parent.pid, "-o", tmp_path / "trace.hwt", "--no-summary"]
        with start(*command) as attach:
            assert next_line(attach.stderr) == f"recording process {parent.pid} until Ctrl-C\n"
            children = [demand()]
            # The first one may have come before the command has listed the children that are there.
            new, listed = f"and its new child process {children[0]}\n", f"and its 1 child process: {children[0]}\n"
            assert next_line(attach.stderr) in {new, listed}
            children.append(demand())
            assert next_line(attach.stderr) == f"and its new child process {children[1]}\n"
            attach.send_signal(signal.SIGINT)
            assert "error" not in attach.communicate(timeout=LIMIT_S)[1]
        assert attach.returncode == 0
        assert {one.process.pid for one in read_family(tmp_path / "trace.hwt")} == {parent.pid, *children}
        assert not any(map(is_recorded, children))


def test_top_counts_a_child_that_is_started_meanwhile(tmp_path):
    """`headway top PID --children` shows the worker that takes another one's place."""
    with starting(tmp_path) as (parent, demand):
        with start("top", parent.pid, "--children", "--json", "--interval", "0.1") as command:
            assert command.stdout.readline()
            child = demand()
            seen: set[int] = set()
            while child not in seen:
                seen |= {one["pid"] for one in json.loads(command.stdout.readline())["processes"]}
            command.send_signal(signal.SIGINT)
            assert without_waits(command.communicate(timeout=LIMIT_S)[1]) == ""
        assert command.returncode == 0
        assert seen == {parent.pid, child}
        wait_for(lambda: not is_recorded(child))


BLOCKED = r"""
import os, signal, sys, time
gate, ungated = os.pipe()
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.001)
        os.write(1, b"blocked\n")
        os.read(gate, 1)
    children.append(child)
os.write(1, b"%d\n" % len(children))
while True:
    time.sleep(0.001)
"""


def test_processes_are_entered_beside_each_other():
    """Each process may keep the command waiting, so they wait beside each other; results come in order."""
    meeting = threading.Barrier(5, timeout=LIMIT_S)

    def meet(one):
        meeting.wait()
        return one * 2

    assert beside_each_other(meet, range(5)) == [0, 2, 4, 6, 8]


def test_a_second_signal_ends_it_at_once(tmp_path):
    """Children that run no Python any more keep the end waiting, for as long as --patience; a second Ctrl-C ends that."""
    command = [PYTHON, "-u", "-c", BLOCKED, str(tmp_path / "block")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        try:
            assert parent.stdout.readline() == "3\n"
            with start("attach", parent.pid, "-o", tmp_path / "trace.hwt", "--patience", "1000") as command:
                said = ""
                while "and its 3 child processes" not in said:
                    said = command.stderr.readline()
                    assert said
                (tmp_path / "block").touch()
                assert [parent.stdout.readline() for _ in range(3)] == ["blocked\n"] * 3
                command.send_signal(signal.SIGINT)
                wait_for(lambda: not is_recorded(parent.pid))
                assert command.poll() is None
                command.send_signal(signal.SIGINT)
                assert "stopped" in command.communicate(timeout=LIMIT_S)[1]
                assert command.returncode == 128 + signal.SIGINT
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    assert parent.pid in {one.process.pid for one in read_family(tmp_path / "trace.hwt")}
