"""One line makes real servers watched: gunicorn, waitress, uvicorn; and gunicorn under `headway watch`."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ports import free_port
from provision.locked_environment import locked_python

from headway.lab import discover, select
from headway.library import library_path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 90
AGAIN_S = 2.0
"""The time between two requests that stand still: each costs an analysis, and the first may be before the watch."""
SAID = "said.txt"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

APPLICATION = """
import os, time

def nap():
    time.sleep(0.4)

def computes():
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        pass

def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/nap":
        nap()
    elif environ["PATH_INFO"] == "/computes":
        computes()
    elif environ["PATH_INFO"] == "/long":
        time.sleep(1.2)
    elif environ["PATH_INFO"] == "/never":
        time.sleep(3600)
    elif environ["PATH_INFO"] == "/slow-then-never":
        computes()
        while not os.path.exists("told"):
            computes()
        time.sleep(3600)
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
FRAMEWORKS = """
import fastapi, flask
from app import nap
from headway.live.services import watched_asgi, watched_wsgi

flask_app = flask.Flask("it")
fast_app = fastapi.FastAPI()

@flask_app.get("/nap")
def flask_nap():
    nap()
    return "ok"

@fast_app.get("/nap", response_class=fastapi.responses.PlainTextResponse)
async def fast_nap():
    nap()
    return "ok"

sync_app = fastapi.FastAPI()

@sync_app.get("/nap", response_class=fastapi.responses.PlainTextResponse)
def sync_nap():
    nap()
    return "ok"

w = watched_wsgi(flask_app, folder="stalls", requests_over_s=0.1)
a = watched_asgi(fast_app, folder="stalls")
s = watched_asgi(sync_app, folder="stalls", requests_over_s=0.1)
"""
DJANGO = """
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from app import nap
from headway.live.services import watched_asgi, watched_wsgi

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="not one")

def view(request):
    nap()
    return HttpResponse("ok")

urlpatterns = [path("nap", view)]
w = watched_wsgi(get_wsgi_application(), folder="stalls", requests_over_s=0.1)
a = watched_asgi(get_asgi_application(), folder="stalls", requests_over_s=0.1)
"""
CELERY = """
import ctypes, os, threading, time
from celery import Celery
from headway.live.services import watch_celery

folders = {name: os.path.abspath(name) for name in ("queue", "processed")}
for folder in folders.values():
    os.makedirs(folder, exist_ok=True)
options = {"data_folder_in": folders["queue"], "data_folder_out": folders["queue"], "processed_folder": folders["processed"]}
app = Celery("tasks", broker="filesystem://", broker_transport_options=options)
watch_celery(folder="stalls")

def keeps():
    ctypes.PyDLL(None).usleep(500_000)

@app.task
def stand_still():
    thread = threading.Thread(target=keeps, name="keeper")
    thread.start()
    time.sleep(0.01)
    thread.join()
"""
RAY = """
import asyncio, os, sys, time
import ray
from app import nap
from headway.live.services import watch_worker

FOLDER = os.path.abspath("stalls")

def hook():
    watch_worker(folder=FOLDER, name="ray")

@ray.remote
class Actor:
    async def stand_still(self):
        await asyncio.sleep(0.5)
        nap()
        await asyncio.sleep(0.1)

if __name__ == "__main__":
    environment = {"worker_process_setup_hook": hook, "env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    actor = Actor.remote()
    while True:
        ray.get(actor.stand_still.remote())
        time.sleep(2)
"""
EVENTLET = """
import eventlet
eventlet.monkey_patch()
import sys
from eventlet import wsgi
import app
wsgi.server(eventlet.listen(("127.0.0.1", int(sys.argv[1]))), app.wsgi, log_output=False)
"""
ENDS = """
from gevent import monkey
monkey.patch_all()
import time

class Slow:
    def __del__(self, clock=time.perf_counter):
        until = clock() + 0.6
        while clock() < until:
            pass

slow = Slow()
time.sleep(0.5)
"""
SQLALCHEMY = """
import asyncio
from sqlalchemy.ext.asyncio import create_async_engine
from app import nap

async def main():
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    while True:
        async with engine.connect() as connection:
            await connection.run_sync(lambda connection: nap())
        await asyncio.sleep(2)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def python():
    """Return the Python of an environment with the servers."""
    return locked_python(select(discover()[0], ["3.13"])[0], ROOT / "requirements" / "watched.lock", "watched")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the working directory, with the applications."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APPLICATION)
    Path("line.py").write_text(LINES)
    Path("frameworks.py").write_text(FRAMEWORKS)
    Path("with_django.py").write_text(DJANGO)
    Path("tasks.py").write_text(CELERY)
    Path("actors.py").write_text(RAY)
    Path("greens.py").write_text(EVENTLET)
    Path("queries.py").write_text(SQLALCHEMY)
    Path("ends.py").write_text(ENDS)
    return tmp_path


@contextlib.contextmanager
def started(command, **variables):
    """Start a server and yield it; end it and all that it has started."""
    # The environment gets numpy through headway's own, which reads recordings.
    paths = os.pathsep.join([str(ROOT / "src"), os.getcwd()])
    env = os.environ | {"PYTHONPATH": paths, "HEADWAY_NATIVE": str(library_path()), **variables}
    with (
        open(SAID, "w") as said,
        subprocess.Popen(command, env=env, start_new_session=True, stdout=said, stderr=said) as process,
    ):
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def ask(port, path):
    """Send a request to a server as soon as it listens; return the answer."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
                connection.request("GET", path)
                return connection.getresponse().read()
        except OSError:
            assert time.monotonic() < deadline, "nothing listens"
            time.sleep(0.05)


def told(kind, cause, function, *, again=lambda: None):
    """Repeat `again`, now and then, until the log has a stall of that kind, cause and function; return its row."""
    deadline = time.monotonic() + LIMIT_S
    again_at = 0.0
    while time.monotonic() < deadline:
        if time.monotonic() >= again_at:
            again()
            again_at = time.monotonic() + AGAIN_S
        else:
            time.sleep(0.05)
        for log in Path("stalls").glob("*.stalls.jsonl"):
            for line in log.read_text().splitlines():
                row = json.loads(line) if line.endswith("}") else {"kind": "", "parts": []}
                places = [part["place"] for part in row["parts"] if part["cause"] == cause]
                if row["kind"] == kind and any(one and one["function"] == function for one in places):
                    return row
    logs = "".join(log.read_text() for log in Path("stalls").glob("*.stalls.jsonl"))
    raise AssertionError(f"nothing was told; the log has:\n{logs}\nand the server said:\n{Path(SAID).read_text()}")


def napped(kind, port):
    """Send requests that stand still until the log has a stall of that kind in `nap`."""

    def again():
        assert ask(port, "/nap") == b"ok"

    told(kind, "blocking call", "nap", again=again)


@pytest.fixture
def port():
    """Return a port that stays free until a server has it."""
    return free_port()


SERVERS = {
    "waitress": (["waitress-serve", "--listen=127.0.0.1:{port}", "line:w"], "request"),
    "uvicorn": (["uvicorn", "--port", "{port}", "line:a"], "event loop"),
    "uvicorn-uvloop": (["uvicorn", "--loop", "uvloop", "--port", "{port}", "line:a"], "event loop"),
    "flask": (["waitress-serve", "--listen=127.0.0.1:{port}", "frameworks:w"], "request"),
    "django": (["waitress-serve", "--listen=127.0.0.1:{port}", "with_django:w"], "request"),
    "django-in-threads": (["uvicorn", "--port", "{port}", "with_django:a"], "request"),
    "fastapi": (["uvicorn", "--port", "{port}", "frameworks:a"], "event loop"),
    "fastapi-in-threads": (["uvicorn", "--port", "{port}", "frameworks:s"], "request"),
    "gunicorn-sync": (["gunicorn", "-b", "127.0.0.1:{port}", "line:w"], "request"),
    "gunicorn": (["gunicorn", "-k", "gthread", "--threads", "2", "-b", "127.0.0.1:{port}", "line:w"], "request"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_one_line(here, python, port, server):
    """A request that stands still after the line is reported."""
    command, kind = SERVERS[server]
    folder = Path(python).parent
    with started([str(folder / command[0]), *(word.format(port=port) for word in command[1:])]):
        napped(kind, port)


@pytest.mark.parametrize("hook", ["post_worker_init", "post_fork"])
def test_a_hook_of_gunicorn(here, python, port, hook):
    """A worker with a hook in gunicorn's configuration is watched, and its recordings are in $HEADWAY_WATCH."""
    Path("gunicorn.conf.py").write_text(f"from headway.live.services import {hook}\n")
    command = [str(Path(python).with_name("gunicorn")), "-k", "gthread", "--threads", "1", "-b", f"127.0.0.1:{port}"]
    with started([*command, "app:wsgi"], HEADWAY_WATCH="stalls"):
        assert ask(port, "/") == b"ok"
        log = Path("stalls", "gunicorn.stalls.jsonl")
        deadline = time.monotonic() + LIMIT_S
        while not log.exists() or not log.read_text():  # requests that take over a second are reported
            assert time.monotonic() < deadline, "nothing was told"
            for _ in range(3):
                ask(port, "/long")


def test_the_first_request_of_a_worker(here, python, port):
    """A worker's only request is reported, although the stack at which its thread waits afterwards is new."""
    headway = str(Path(sys.executable).with_name("headway"))
    command = [headway, "watch", str(Path(python).with_name("gunicorn"))]
    command += ["-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}", "app:wsgi"]
    with started(command, PYTHONPATH=os.getcwd()):
        assert ask(port, "/long") == b"ok"
        told("request", "blocking call", "wsgi")


@pytest.mark.parametrize(
    ("path", "over", "cause"), [("/never", "1s", "blocking call"), ("/slow-then-never", "200ms", "own code")]
)
def test_a_first_request_that_never_ends(here, python, port, path, over, cause):
    """A worker whose first request hangs is reported, although its thread has never waited for work.

    It is reported again when it has hung for ten times as long, for by then the main cause may be another one.
    """
    headway = str(Path(sys.executable).with_name("headway"))
    command = [headway, "watch", "--requests-over", over, str(Path(python).with_name("gunicorn"))]
    command += ["-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}", "app:wsgi"]
    with started(command, PYTHONPATH=os.getcwd()):
        deadline = time.monotonic() + LIMIT_S
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)) as one:
                one.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
                function = "wsgi" if cause == "blocking call" else "computes"
                first = told("request", cause, function)
                Path("told").touch()
                row = told("request", "blocking call", "wsgi")
                break
            assert time.monotonic() < deadline, "nothing listens"
            time.sleep(0.05)

    assert first["goes_on"]
    assert row["goes_on"]
    assert first["since_ns"] == row["since_ns"]


def test_under_the_command(here, python, port):
    """The workers of `headway watch gunicorn` are watched without a line."""
    headway = str(Path(sys.executable).with_name("headway"))
    command = [headway, "watch", "--requests-over", "100ms", str(Path(python).with_name("gunicorn"))]
    command += ["-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}", "app:wsgi"]
    with started(command, PYTHONPATH=os.getcwd()):
        napped("request", port)


@pytest.mark.parametrize(
    "command",
    [["bin/gunicorn", "-k", "gevent", "-b", "127.0.0.1:{port}", "app:wsgi"], ["bin/python", "greens.py", "{port}"]],
    ids=["gevent", "eventlet"],
)
def test_a_greenlet_that_computes(here, python, port, command):
    """A request that computes stalls the hub, and with it all other greenlets, whose stacks do not show the hub."""
    headway = str(Path(sys.executable).with_name("headway"))
    program, *words = (word.format(port=port) for word in command)

    def again():
        assert ask(port, "/computes") == b"ok"

    with started([headway, "watch", str(Path(python).parents[1] / program), *words], PYTHONPATH=os.getcwd()):
        told("event loop", "own code", "computes", again=again)


def test_the_end_of_a_program_is_no_stall_of_its_hub(here, python):
    """The interpreter's exit is not in the hub. Under gevent, sleep(0) runs the hub once more.

    On a busy machine, the hub may have waited for a core before.
    """
    headway = str(Path(sys.executable).with_name("headway"))
    subprocess.run([headway, "watch", python, "ends.py"], check=True, timeout=LIMIT_S)
    found = subprocess.run([headway, "stalls", "stalls", "--json"], check=True, timeout=LIMIT_S, capture_output=True)

    rows = json.loads(found.stdout)["stalls"]
    assert not any(row["cut_off"] for row in rows), rows
    functions = {part["place"]["function"] for row in rows for part in row["parts"] if part["place"]}
    assert not any(function.endswith("__del__") for function in functions), rows


def test_a_query_that_blocks(here, python):
    """SQLAlchemy runs what is not asynchronous in a greenlet of the event loop's thread, which stalls the loop."""
    headway = str(Path(sys.executable).with_name("headway"))
    with started([headway, "watch", python, "queries.py"], PYTHONPATH=os.getcwd()):
        row = told("event loop", "blocking call", "nap")

    assert row["thread"] == "MainThread"


FULL = {
    "gunicorn": ["gunicorn", "-k", "gthread", "--threads", "1", "-b", "127.0.0.1:{port}", "app:wsgi"],
    "waitress": ["waitress-serve", "--threads=1", "--listen=127.0.0.1:{port}", "app:wsgi"],
}


@pytest.mark.parametrize("server", FULL)
def test_requests_of_a_full_pool(here, python, port, server):
    """A thread that finds the next request in its queue does not wait for it: each request is told by itself."""
    words = [word.format(port=port) for word in FULL[server]]
    headway = str(Path(sys.executable).with_name("headway"))
    command = [headway, "watch", "--requests-over", "300ms", str(Path(python).with_name(words[0])), *words[1:]]
    with started(command, PYTHONPATH=os.getcwd()):
        ask(port, "/")
        clients = [threading.Thread(target=ask, args=(port, "/nap")) for _ in range(4)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        deadline = time.monotonic() + LIMIT_S
        begun = set()
        while len(begun) < 4:
            assert time.monotonic() < deadline, f"the beginnings of the requests that were told: {begun}"
            time.sleep(0.05)
            lines = "".join(log.read_text() for log in Path("stalls").glob("*.stalls.jsonl")).splitlines()
            rows = [json.loads(line) for line in lines if line.endswith("}")]
            begun = {row["since_ns"] for row in rows if row["kind"] == "request"}


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_celery(here, python, pool):
    """With `watch_celery()`, a task that keeps the GIL in one C call is reported, in a worker of each pool."""
    worker = [python, "-m", "celery", "-A", "tasks", "worker", f"--pool={pool}", "--concurrency=2"]
    sends = [python, "-c", "import tasks; tasks.stand_still.delay()"]
    with started([str(word) for word in worker]):
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.getcwd()])}
        row = told("thread", "GIL", "keeps", again=lambda: subprocess.run(sends, env=env, check=True, timeout=LIMIT_S))
    assert row["program"] == "-m celery"


def test_ray(here, python):
    """With `worker_process_setup_hook`, the event loop of an actor, uvloop's in a thread, is reported in `nap`."""
    with started([str(python), "actors.py"], RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", TMPDIR="/tmp"):
        row = told("event loop", "blocking call", "nap")
    assert row["thread"].startswith("AsyncIO Thread")


REFUSED = """
import os, select
import headway
from headway.errors import RecordingError
from headway.live import watching

def refuse(_recorder, _door):
    raise RecordingError("not this one")

def started(options):
    variables, pid = start(options)
    watchers.append(os.pidfd_open(pid))
    doors.append(variables["HEADWAY_TRACE_DOOR"])
    return variables, pid

watchers, doors, start = [], [], watching.start_watcher
watching.start_watcher, watching.enter = started, refuse
try:
    headway.watch("mine", required=True)
except RecordingError as error:
    print(error.message)
print(bool(select.select(watchers, [], [], 30)[0]), os.path.exists(os.path.dirname(*doors)))
"""


def test_a_process_that_cannot_be_watched_leaves_no_watcher(tmp_path, monkeypatch):
    """Where recording is refused, the watcher that was started for it ends at once."""
    monkeypatch.chdir(tmp_path)
    env = os.environ | {"HEADWAY_NATIVE": str(library_path())}
    out = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, text=True, check=True, timeout=LIMIT_S, env=env
    ).stdout

    assert out == "not this one\nTrue False\n"
