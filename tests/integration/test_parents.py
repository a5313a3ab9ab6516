"""Real parents of a program behave the same bare, scheduled and traced: a Jupyter front end, and supervisord.

The libraries come from the index, pinned by requirements/parents.lock, and are installed once for each interpreter.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import xmlrpc.client
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from provision.locked_environment import locked_python
from real_programs import LIMIT_S, SOME, bare
from waiting import wait_for

from headway.live.files import begin_ticks, wait_until_finished

HEADWAY = str(Path(sys.executable).with_name("headway"))
LOCK = Path(__file__).resolve().parents[2] / "requirements" / "parents.lock"
PARENTS = Path(__file__).with_name("parents")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


# The words before a program's own command line. Each start has its own trace, in the working directory.
BEFORE = {"bare": [], "run": [HEADWAY, "run", "--policy", "fair", "--"], "trace": [HEADWAY, "trace", "--"]}


def each_way(function, python, folder):
    """Return the function's result for each way; all run at once, each in its own folder, because they mostly wait."""
    for how in BEFORE:
        (folder / how).mkdir()
    with ThreadPoolExecutor() as pool:
        asked = {how: pool.submit(function, python, how, folder / how) for how in BEFORE}
        return {how: one.result() for how, one in asked.items()}


def is_alive(pid):
    """Return whether a process runs."""
    return begin_ticks(pid) is not None


def kernel(python, how, folder):
    """Start a kernel from a front end, let it compute, interrupt it, and kill the front end; return what was seen."""
    command = [python, str(PARENTS / "front_end.py"), *BEFORE[how]]
    runtime = bare(JUPYTER_RUNTIME_DIR=str(folder), IPYTHONDIR=str(folder), JUPYTER_CONFIG_DIR=str(folder))
    with subprocess.Popen(command, env=runtime, cwd=folder, stdout=subprocess.PIPE, text=True) as front_end:
        seen = json.loads(front_end.stdout.readline())
        pid = seen.pop("pid")
        try:
            assert is_alive(pid)
            front_end.kill()
            front_end.wait()
            wait_for(lambda: not is_alive(pid), "the kernel outlives its front end")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return seen


CONFIGURATION = """
[unix_http_server]
file = {folder}/supervisor.sock
[supervisord]
logfile = {folder}/supervisord.log
pidfile = {folder}/supervisord.pid
nodaemon = true
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[program:app]
command = {command}
directory = {folder}
startsecs = 0
autorestart = unexpected
exitcodes = 7
stopasgroup = true
stdout_logfile = {folder}/app.out
stderr_logfile = {folder}/app.err
"""


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path):
        super().__init__("supervisor")
        self._path = path

    def connect(self):
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class Unix(xmlrpc.client.Transport):
    """XML-RPC calls over a Unix socket."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def make_connection(self, host):
        """Return a connection for any host name; close() closes it."""
        if self._connection[1] is None:
            self._connection = host, UnixConnection(self._path)
        return self._connection[1]


def supervised(python, how, folder):
    """Let supervisord start, restart and stop a program that dies and exits, and end with it; return what was seen."""
    command = " ".join([*BEFORE[how], python, str(PARENTS / "supervised.py"), str(folder)])
    configuration = folder / "supervisord.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, command=command))
    seen = []
    supervisord = [python, "-m", "supervisor.supervisord", "-c", str(configuration)]
    door = folder / "supervisor.sock"
    with (
        subprocess.Popen(supervisord, env=bare(), stdout=subprocess.DEVNULL) as process,
        xmlrpc.client.ServerProxy("http://supervisor", Unix(str(door))) as proxy,
    ):
        server = proxy.supervisor
        try:
            wait_for(door.exists, "supervisord did not start")

            def started(*but):
                """Return the process id of a program that says that it has started, apart from earlier ones."""
                pids = (folder / "started").read_text().split() if (folder / "started").exists() else []
                return next((int(one) for one in pids if int(one) not in but), None)

            def info():
                return server.getProcessInfo("app")

            first = wait_for(started, "the program did not start")
            seen.append(["it is supervisord's child", info()["pid"] == first])
            os.kill(first, signal.SIGKILL)
            second = wait_for(lambda: started(first), "it was not restarted")
            seen.append(["restarted", info()["pid"] == second])
            server.stopProcess("app")
            seen.append(["stopped", info()["statename"], info()["exitstatus"], is_alive(second)])
            server.startProcess("app")
            third = wait_for(lambda: started(first, second), "it did not start again")
            os.kill(third, signal.SIGUSR1)
            wait_for(lambda: info()["statename"] == "EXITED", "its exit was not seen")
            seen.append(["exited as expected", info()["exitstatus"]])
            server.startProcess("app")
            fourth = wait_for(lambda: started(first, second, third), "it did not start once more")
            process.send_signal(signal.SIGTERM)
            seen.append(["supervisord ended", process.wait(LIMIT_S), is_alive(fourth)])
        finally:
            process.kill()
    seen.append((folder / "signals").read_text().split())
    traces = list(folder.glob("*.hwt"))
    for file in traces:
        wait_until_finished(file)
    assert len(traces) == (4 if how == "trace" else 0)
    return seen


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_kernel_ends_with_its_front_end(interpreter, tmp_path):
    """A Jupyter kernel answers, is interrupted, and ends when its front end is killed: bare, scheduled and traced."""
    python = locked_python(interpreter, LOCK, "parents")

    seen = each_way(kernel, python, tmp_path)

    assert seen["bare"] == {"printed": "42\n", "interrupted": True}
    assert seen["run"] == seen["trace"] == seen["bare"]


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_supervisord_sees_its_program(interpreter, tmp_path):
    """A death by a signal, an expected exit, a TERM for a group, and supervisord's end are the same in all three ways."""
    python = locked_python(interpreter, LOCK, "parents")

    seen = each_way(supervised, python, tmp_path)

    assert seen["bare"][0] == ["it is supervisord's child", True]
    assert seen["run"] == seen["trace"] == seen["bare"]
