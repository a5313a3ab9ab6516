"""One line each for real servers, which are watched then: gunicorn, waitress, uvicorn; and gunicorn under `headway watch`."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from locked_environment import locked_python

from headway.lab import discover, select
from headway.native import library_path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 90

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

APPLICATION = """
import time

def nap():
    time.sleep(0.4)

def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/nap":
        nap()
    elif environ["PATH_INFO"] == "/long":
        time.sleep(1.2)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] == "/nap":
        nap()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
LINES = """
from headway.live.services import watched_asgi, watched_wsgi
from app import asgi, wsgi
w = watched_wsgi(wsgi, folder="stalls", requests_over_s=0.1)
a = watched_asgi(asgi, folder="stalls")
"""
GUNICORN = "from headway.live.services import post_fork\n"


@pytest.fixture(scope="module")
def python():
    """The Python of an environment with the servers."""
    return locked_python(select(discover()[0], ["3.13"])[0], ROOT / "requirements" / "watched.lock", "watched")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with the applications."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APPLICATION)
    Path("line.py").write_text(LINES)
    return tmp_path


@contextlib.contextmanager
def started(command, **variables):
    """Start a server, and end it and what it has started."""
    # The environment has numpy by headway's own, which looks into recordings.
    paths = os.pathsep.join([str(ROOT / "src"), os.getcwd()])
    env = os.environ | {"PYTHONPATH": paths, "HEADWAY_NATIVE": str(library_path()), **variables}
    with subprocess.Popen(command, env=env, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def ask(port, path):
    """Ask a server as soon as it is there."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
                connection.request("GET", path)
                return connection.getresponse().read()
        except OSError:
            assert time.monotonic() < deadline, "nothing listens"
            time.sleep(0.05)


def napped(kind, port):
    """Have requests stand still until the log tells of a stall of that kind in `nap`."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        assert ask(port, "/nap") == b"ok"
        for log in Path("stalls").glob("*.stalls.jsonl"):
            for line in log.read_text().splitlines():
                row = json.loads(line) if line.endswith("}") else {"kind": "", "parts": []}
                places = [part["place"] for part in row["parts"] if part["cause"] == "blocking call"]
                if row["kind"] == kind and any(one and one["function"] == "nap" for one in places):
                    return
    raise AssertionError("nothing was told")


@pytest.fixture
def port():
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


SERVERS = {
    "waitress": (["waitress-serve", "--listen=127.0.0.1:{port}", "line:w"], "request"),
    "uvicorn": (["uvicorn", "--port", "{port}", "line:a"], "event loop"),
    "uvicorn-uvloop": (["uvicorn", "--loop", "uvloop", "--port", "{port}", "line:a"], "event loop"),
    "gunicorn": (["gunicorn", "-k", "gthread", "--threads", "2", "-b", "127.0.0.1:{port}", "line:w"], "request"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_one_line(here, python, port, server):
    """A request that stands still is told, from the line on."""
    command, kind = SERVERS[server]
    folder = Path(python).parent
    with started([str(folder / command[0]), *(word.format(port=port) for word in command[1:])]):
        napped(kind, port)


def test_a_hook_of_gunicorn(here, python, port):
    """`post_fork` in its configuration: a worker is watched, and its recordings are in $HEADWAY_WATCH."""
    Path("gunicorn.conf.py").write_text(GUNICORN)
    command = [str(Path(python).with_name("gunicorn")), "-k", "gthread", "--threads", "1", "-b", f"127.0.0.1:{port}"]
    with started([*command, "app:wsgi"], HEADWAY_WATCH="stalls"):
        assert ask(port, "/") == b"ok"
        log = Path("stalls", "gunicorn.stalls.jsonl")
        deadline = time.monotonic() + LIMIT_S
        while not log.exists():  # what takes over a second is told
            assert time.monotonic() < deadline, "nothing was told"
            for _ in range(3):
                ask(port, "/long")


def test_under_the_command(here, python, port):
    """`headway watch gunicorn`: the workers are watched, without a line."""
    headway = str(Path(sys.executable).with_name("headway"))
    command = [headway, "watch", "--requests-over", "100ms", str(Path(python).with_name("gunicorn"))]
    command += ["-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}", "app:wsgi"]
    with started(command, PYTHONPATH=os.getcwd()):
        napped("request", port)
