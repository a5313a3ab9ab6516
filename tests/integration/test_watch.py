"""`headway watch`, `headway.watch()` and `headway stalls`: stalls are named, whatever the process does meanwhile.

The tests are in one file because they share the program and the ways to read what was told.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from ports import free_port
from waiting import wait_for

from headway.cli.main import main
from headway.lab import discover
from headway.library import library_path
from headway.live.detached import Program
from headway.live.door import Door
from headway.live.options import Limits, Options
from headway.live.ring import Ring
from headway.live.untold import wait_until_told
from headway.live.watcher import Watcher
from headway.traces.invariants import violations
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150  # see tests/support/real_programs.py
BY_NAME = {one.name: one for one in discover()[0]}
WITH_STACKS = ("3.11", "3.12", "3.13", "3.14", "3.15")
SOURCES = str(Path(__file__).resolve().parents[2] / "src")

pytestmark = pytest.mark.slow

PROGRAM = '''
import asyncio, ctypes, gc, os, sys, threading, time

class Node:
    pass

def compute():
    until = time.thread_time() + 0.3  # of a core: on a busy machine the loop waits for a core as well
    while time.thread_time() < until:
        sum(range(50))

def nap():
    time.sleep(0.4)

def collect():
    gc.collect()

def keeps_the_gil():
    """In one call of C, until somebody writes to stdin."""
    ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)

async def main(kind):
    await asyncio.sleep(0.3)  # the loop is known to be one
    if kind == "keeps_the_gil":
        thread = threading.Thread(target=keeps_the_gil, name="keeper")
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.005)
    elif kind == "held":
        os.read(0, 1)
    elif kind == "collect":
        gc.disable()
        for _ in range(700000):
            one = Node()
            one.itself = one
        await asyncio.sleep(0.3)
        collect()
    else:
        globals()[kind]()
    await asyncio.sleep(0.1)
    print("done", flush=True)

class Slow:
    def __del__(self, thread_time=time.thread_time):
        until = thread_time() + 1
        while thread_time() < until:
            pass

if sys.argv[1] == "slow_end":
    main, kept = (lambda kind: asyncio.sleep(0.3)), Slow()
if sys.argv[1] == "forked":
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    else:
        asyncio.run(main("nap"))
    sys.exit(7)
asyncio.run(main(sys.argv[1]))
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the working directory, with the program."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HEADWAY_WATCH"))]:
        monkeypatch.delenv(name)
    Path("app.py").write_text(PROGRAM)
    return tmp_path


def rows(folder="stalls"):
    """Return the rows of a folder's logs."""
    found = []
    for log in Path(folder).glob("*.stalls.jsonl"):
        found += [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return found


def parts(cause, folder="stalls"):
    """Return the parts with this cause, of stalls that are over."""
    return [
        (row, part) for row in rows(folder) if not row["goes_on"] for part in row["parts"] if part["cause"] == cause
    ]


def is_in(part, function):
    """Tell whether a part is in a function."""
    return part["place"] is not None and part["place"]["function"] == function


def watch(*arguments, python=sys.executable, options=(), **more):
    """Start a program under the watcher."""
    command = [HEADWAY, "watch", *options, "--python", python, "app.py", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


CAUSES = [("compute", "own code"), ("nap", "blocking call"), ("collect", "garbage collection")]


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", WITH_STACKS)
@pytest.mark.parametrize(("kind", "cause"), CAUSES)
def test_a_cause_is_named_with_its_line(here, name, kind, cause):
    """The loop's own code, a blocking call in it and a garbage collection are each named with their function."""
    # The length of a collection depends on the machine: 60 to 250 ms.
    program = watch(kind, python=BY_NAME[name].executable, options=["--over", "30ms"])
    out, said = program.communicate(timeout=LIMIT_S)

    assert (program.returncode, out) == (0, "done\n")
    # On a busy machine, the loop may have stalled at another place before.
    row, _ = wait_for(lambda: [one for one in parts(cause) if is_in(one[1], kind) and one[1]["time_s"] > 0.02], said)[0]
    assert row["recording"] in os.listdir("stalls")
    assert violations(read(Path("stalls", row["recording"]))) == []
    assert "the event loop of MainThread stalled for" in said + row["line"]


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", WITH_STACKS)
def test_it_is_told_while_the_gil_is_held(here, name):
    """A thread that keeps the GIL in one C call is named before that call is over, and once more when it is."""
    with watch("keeps_the_gil", python=BY_NAME[name].executable, stdin=subprocess.PIPE) as program:
        # On a busy machine, a stall before that call may have had the GIL as its cause, too.
        row, first = wait_for(
            lambda: [
                (row, part)
                for row in rows()
                if row["goes_on"] and row["cause"] == "GIL"
                for part in row["parts"]
                if part["cause"] == "GIL" and is_in(part, "keeps_the_gil")
            ],
            "nothing was told",
        )[0]
        program.stdin.write("x")
        program.stdin.close()
        assert program.wait(LIMIT_S) == 0

    assert first["thread"] == "keeper"
    assert row["recording"] in os.listdir("stalls")
    over = wait_for(lambda: [one for _, one in parts("GIL") if is_in(one, "keeps_the_gil")], "its end was not told")
    assert over[0]["kept"] == "in one call of C"


def test_children_are_watched(here):
    """A forked child has a ring of its own, and the program's exit code is unchanged."""
    program = watch("forked")
    _, said = program.communicate(timeout=LIMIT_S)

    assert program.returncode == 7
    found = wait_for(lambda: parts("blocking call"), said)
    assert found[0][0]["pid"] not in (program.pid, os.getpid())


def test_closed_standard_streams(here):
    """A service that was started without standard streams is watched."""
    command = [HEADWAY, "watch", "--quiet", "--python", sys.executable, "app.py", "nap"]
    subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], check=False, timeout=LIMIT_S)

    assert wait_for(lambda: [one for _, one in parts("blocking call") if is_in(one, "nap")], "nothing was told")


JOBS = """
import asyncio, threading, time

def jobs():
    for _ in range(4):
        asyncio.run(asyncio.sleep(0.05))
        time.sleep(0.3)
    asyncio.run(asyncio.to_thread(time.sleep, 0))

def nap():
    time.sleep(0.4)

async def stalled():
    await asyncio.sleep(0.1)
    nap()
    await asyncio.sleep(0.1)

thread = threading.Thread(target=jobs)
thread.start()
thread.join()
asyncio.run(stalled())
"""


def test_a_thread_is_idle_between_its_loops(here):
    """A worker that runs a loop for each job does not stall while it waits for the next job."""
    Path("app.py").write_text(JOBS)
    with watch() as program:
        said = program.communicate(timeout=LIMIT_S)[1]

    wait_for(lambda: any(is_in(one, "nap") for _, one in parts("blocking call")), said)
    assert {
        part["place"]["function"]
        for row in rows()
        for part in row["parts"]
        if part["cause"] == "blocking call" and part["place"]  # many small parts have no place
    } == {"nap"}


def test_without_a_gil_it_says_so(here):
    """A free-threaded process runs, and a line says that nothing of it is watched."""
    program = watch("nap", python=BY_NAME["3.13t"].executable)
    out, said = program.communicate(timeout=LIMIT_S)

    assert (program.returncode, out) == (0, "done\n")
    assert "it runs without a GIL" in said
    assert not list(Path("stalls").iterdir())  # an empty log would say that nothing stalled


def test_before_3_11_waits_are_told(here):
    """Without stacks, before 3.11, there are no loops: a line says so, and the program runs."""
    program = watch("nap", python=BY_NAME["3.10"].executable)
    out, said = program.communicate(timeout=LIMIT_S)

    assert (program.returncode, out) == (0, "done\n")
    assert "only waits for the GIL are reported" in said


IN_PROCESS = """
import asyncio, os, sys, time
import headway

def nap():
    time.sleep(0.4)

async def main():
    mine = headway.watch("mine", name="it", listen=sys.argv[1], keep=1)
    assert headway.watch("mine") is mine
    await asyncio.sleep(0.3)
    nap()
    await asyncio.sleep(0.1)
    print(mine.watcher, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    mine.record()
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


def test_in_process(here):
    """`headway.watch()` reports the stall, has metrics, records by call and by HTTP, and keeps a limited number."""
    Path("it.py").write_text(IN_PROCESS)
    port = free_port()
    env = os.environ | {"HEADWAY_NATIVE": str(library_path())}
    with subprocess.Popen(
        [sys.executable, "it.py", f"127.0.0.1:{port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    ) as program:
        watcher = int(program.stdout.readline())
        wait_for(lambda: parts("blocking call", "mine"), "nothing was told")

        def served(path):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        def told():  # on a busy machine there may be other stalls than the program's own
            over = Counter((row["kind"], row["cause"]) for row in rows("mine") if not row["goes_on"])
            return {f'{{kind="{kind}",cause="{cause}"}} {count}' for (kind, cause), count in over.items()}

        def counted():
            return set(re.findall(r"^headway_stalls_total(.* [1-9]\d*)$", served("/metrics")[1], re.MULTILINE))

        wait_for(lambda: told() == counted(), "the stalls of the log were not counted")
        text = served("/metrics")[1]
        assert 'asyncio_eventloop_delay_seconds_bucket{le="' in text
        assert 'cpython_gil_hold_duration_seconds_count{gil="0",role="MainThread"}' in text
        assert wait_for(
            lambda: [json.loads(line) for line in served("/stalls")[1].splitlines()] == rows("mine"), "not all"
        )
        assert served("/nothing")[0] == 404

        for ask in (
            lambda: os.kill(watcher, signal.SIGUSR2),
            lambda: served("/dump"),
            lambda: (program.stdin.write("\n"), program.stdin.flush()),
        ):
            before = set(Path("mine").glob("*.hwt"))
            ask()
            wait_for(lambda old=before: set(Path("mine").glob("*.hwt")) - old, "no recording was written")
            wait_for(lambda old=before: not set(Path("mine").glob("*.hwt")) & old, "more than one is kept")
        program.stdin.write("\n")
        program.stdin.close()
        assert program.wait(LIMIT_S) == 0
    wait_for(lambda: not Path(f"/proc/{watcher}").exists(), "the watcher is still there")


BRIEF = """
import os, signal
import headway
from headway.live import watching

def start_stopped(options):
    variables, watcher = start(options)
    os.kill(watcher, signal.SIGSTOP)
    return variables, watcher

start, watching.start_watcher = watching.start_watcher, start_stopped
watch = headway.watch("stalls")
watch.stop()
os.kill(watch.watcher, signal.SIGCONT)
assert watch.finish(120)
"""


def test_a_watch_may_be_over_before_the_watcher_looks(here):
    """The watcher ends, and not only with the process, if the recorder had stopped before the watcher's first look."""
    subprocess.run([sys.executable, "-c", BRIEF], check=True, timeout=LIMIT_S)


HELD_UP = """
import asyncio, os, sys
from headway.live.joining import join

async def main():
    await asyncio.sleep(0.3)
    os.read(0, 1)  # the loop stands still
    await asyncio.to_thread(os.read, 0, 1)

assert join(sys.argv[1])
asyncio.run(main())
"""


def test_a_stall_that_ends_while_it_is_recorded_is_closed(here, monkeypatch):
    """A stall that is over a moment before the ring is saved is told as one that goes on, and later as one that is over.

    The last millisecond of a recording is not complete, so the end is not in it.
    """
    door = Door()
    names = ("HEADWAY_TRACE_FAMILY", "HEADWAY_TRACE_BYTES", "HEADWAY_TRACE_DOOR")
    address = " ".join([*(door.environment()[name] for name in names), str(os.getpid())])
    env = os.environ | {"HEADWAY_NATIVE": str(library_path())}
    with subprocess.Popen([sys.executable, "-c", HELD_UP, address], stdin=subprocess.PIPE, env=env) as program:
        to_come = [b"x", b"x"]
        copy = Ring.copy

        def go_on():
            os.write(program.stdin.fileno(), to_come.pop())

        def copy_late(ring, now_ns, *, hurry=False):
            if hurry and len(to_come) == 2:
                go_on()
            copy(ring, now_ns, hurry=hurry)
            while hurry and not ring.laps.late_loops:
                time.sleep(0.001)
                copy(ring, now_ns, hurry=True)

        monkeypatch.setattr(Ring, "copy", copy_late)
        options = Options(str(here), "it", program.pid, Limits(), quiet=True)
        thread = threading.Thread(target=Watcher(door, options).run, args=[Program(program.pid)])
        thread.start()
        try:
            wait_for(lambda: parts("blocking call", here), "the stall is not closed")
        finally:
            while to_come:
                go_on()
            thread.join()


def test_a_stall_that_the_process_s_end_cuts_off_is_closed(here):
    """A stall that was told while it went on is told once more if the process is killed in it, and counts."""
    program = watch("held", stdin=subprocess.PIPE)
    # Without a core, the loop may have stalled before it called.
    wait_for(lambda: any(row["goes_on"] and row["cause"] == "blocking call" for row in rows()), "the stall is not told")
    program.kill()
    _, said = program.communicate(timeout=LIMIT_S)
    wait_for(lambda: any(row["cut_off"] for row in rows()), said)
    (last,) = [row for row in rows() if row["cut_off"]]
    first = next(row for row in rows() if row["since_ns"] == last["since_ns"])
    assert (first["goes_on"], last["goes_on"], last["cut_off"]) == (True, False, True)
    assert last["length_s"] >= first["length_s"]
    assert "until the process ended" in last["line"]
    assert "a blocking call" in last["line"]


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", WITH_STACKS)
def test_the_interpreter_s_end_is_no_stall(here, name):
    """An interpreter that frees its objects for a second, after its loop has ended, stalls no loop."""
    _, said = watch("slow_end", python=BY_NAME[name].executable).communicate(timeout=LIMIT_S)
    assert not any(row["cut_off"] for row in rows()), said  # on a busy machine, the loop itself may have stalled before


def test_recordings_of_earlier_runs_count(here):
    """A service that is started again and again keeps no more recordings than asked for; other files stay."""
    folder = here / "stalls"
    folder.mkdir()
    old = [f"app-2026010{day}T000000.000Z-{day}.hwt" for day in range(1, 6)]
    others = ["app.hwt", "app-before.hwt", "apple-20260101T000000.000Z-1.hwt", "notes.txt"]
    for name in old + others:
        (folder / name).write_text("")
    program = watch("nap", options=["--keep", "3"])
    _, said = program.communicate(timeout=LIMIT_S)
    wait_for(lambda: parts("blocking call"), said)

    wait_for(lambda: len([one for one in folder.iterdir() if one.name.startswith("app-2026")]) == 3, said)
    assert {one.name for one in folder.iterdir()} >= set(others)
    assert not (folder / old[0]).exists()


def test_stalls_are_summed_up(here, capsys):
    """A folder, a log and a recording are summed up as tables, lines and JSON."""
    program = watch("nap")
    _, said = program.communicate(timeout=LIMIT_S)
    # On a busy machine, the loop may have had no core before, which is a stall with a recording of its own.
    assert wait_until_told(Path("stalls"), LIMIT_S)
    naps = [row for row, part in parts("blocking call") if is_in(part, "nap")]
    assert naps, said
    (log,) = Path("stalls").glob("*.jsonl")
    recording = Path("stalls", naps[0]["recording"])

    for file in ("stalls", log, recording):
        assert main(["stalls", "--json", str(file)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert any(one["cause"] == "blocking call" for one in found["by_cause"])
        assert any(one["line"].endswith(" nap") for one in found["by_line"])
    assert main(["stalls", "stalls"]) == 0
    assert "await the call, or run it with `asyncio.to_thread()`" in capsys.readouterr().out
    with log.open("a") as file:
        file.write('{"began": "20')
    assert main(["stalls", "--each", str(log)]) == 0
    each, problems = capsys.readouterr()
    assert "left out, since not a valid entry: 1 line" in problems
    # A stall that was logged while it went on is there again at its end, and counts once.
    assert each.count("\n") == len({(one["pid"], one["serial"], one["since_ns"]) for one in rows()})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--over", "3ms"], "'3ms' is not a time from 10ms to 600s"),
        (["--ring", "2GB"], "'2GB' is not a size from 1MB to 1024MB"),
        (["--keep", "0"], "--keep is 0, expected 1 or more"),
        (["--listen", "9464"], "'9464' is not an address"),
        (["-o", "app.py/x"], "cannot be created: Not a directory"),
    ],
)
def test_bad_input(here, options, said):
    """Bad input gives one message, and nothing is started."""
    program = watch("nap", options=options)
    out, told = program.communicate(timeout=LIMIT_S)

    assert (program.returncode, out) == (2, "")
    assert said in told
    assert "hint: " in told


def test_a_port_that_is_taken(here):
    """A port that is taken, as by the watcher of a service that restarts, keeps no program from starting."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program = watch("nap", options=["--listen", f"127.0.0.1:{taken.getsockname()[1]}"])
        out, told = program.communicate(timeout=LIMIT_S)

    assert (program.returncode, out) == (0, "done\n")
    assert "is not served for process" in told


@pytest.mark.parametrize("file", ["nothing", "empty"])
def test_nothing_to_sum_up(here, file, capsys):
    """A missing file, and a folder without a log, are errors."""
    Path("empty").mkdir()
    assert main(["stalls", file]) == 6

    out, said = capsys.readouterr()
    assert out == ""
    assert "hint: " in said


SERVER = """
import time
from http.server import BaseHTTPRequestHandler, {kind}

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.4)
        self.send_response(200)
        self.end_headers()

server = {kind}(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("kind", ["ThreadingHTTPServer", "HTTPServer"])
def test_a_server_of_the_standard_library(here, kind):
    """A slow request is reported with its line, whether each connection has a thread or all share the main thread."""
    Path("app.py").write_text(SERVER.format(kind=kind))
    with watch(options=["--requests-over", "200ms"]) as program:
        try:
            port = int(program.stdout.readline())
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as one:
                one.request("GET", "/")
                one.getresponse().read()
            # A client without a core sends late: then the request begins with a wait for its words.
            row, _ = wait_for(
                lambda: [one for one in parts("blocking call") if is_in(one[1], "Handler.do_GET")],
                "the request is not told",
            )[0]
        finally:
            program.kill()

    assert row["kind"] == "request"
    assert row["length_s"] >= 0.4


def test_a_service_that_never_stalled_has_no_stalls(here):
    """A folder of a watch in which nothing stalled is summed up as such, and is no error for those that poll it."""
    _, said = watch("nap", options=["--over", "30s", "--requests-over", "30s"]).communicate(timeout=LIMIT_S)
    wait_for(lambda: list(Path("stalls").glob("*.stalls.jsonl")), said)
    done = subprocess.run([HEADWAY, "stalls", "stalls", "--json"], capture_output=True, text=True, check=False)

    assert (done.returncode, json.loads(done.stdout)["stalls"]) == (0, []), done.stderr


SERVICES = {
    "wsgi": "app = watched_wsgi(lambda environ, start: (start('200 OK', []), [b'hi'])[1])\napp({}, lambda *_: None)",
    "asgi": "import asyncio\nasync def ok(*_): pass\nasyncio.run(watched_asgi(ok)({}, None, None))",
    "worker": "assert not watch_worker()",
    "gunicorn": "post_worker_init(None)",
    "gunicorn's fork": "post_fork(None, None)",
}


@pytest.mark.parametrize("service", SERVICES)
def test_without_the_native_library_a_service_runs(here, service):
    """Each of the lines says once that nothing is watched."""
    code = f"from headway.live.services import *\n{SERVICES[service]}\nwatch_worker()\nprint('runs')"
    env = os.environ | {"HEADWAY_NATIVE": "/nowhere/libheadway.so"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)

    assert done.stdout == "runs\n"
    assert done.stderr.count("is not watched") == 1


BEGUN = """
import asyncio, os, subprocess, sys, time

def nap():
    time.sleep(0.3)

async def main():
    await asyncio.sleep(0.3)
    nap()
    await asyncio.sleep(0.1)

if len(sys.argv) == 1:
    subprocess.run([sys.executable, "begun.py", "child"], check=True)
asyncio.run(main())
print(os.getpid(), os.environ["HEADWAY_WATCH_DOOR"].rpartition(" ")[2], flush=True)
"""


def test_a_variable_has_processes_watched_from_their_start(here, monkeypatch):
    """With $HEADWAY_WATCH, one watcher watches a program and its children, and reports stalls of both."""
    Path("begun.py").write_text(BEGUN)
    monkeypatch.setenv("HEADWAY_WATCH", "stalls")
    done = subprocess.run([sys.executable, "begun.py"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    (child, its_watcher), (parent, watcher) = (line.split() for line in done.stdout.splitlines())

    assert its_watcher == watcher
    wait_for(
        lambda: (
            {row["pid"] for row, part in parts("blocking call") if part["place"] and part["place"]["function"] == "nap"}
            == {int(child), int(parent)}
        ),
        done.stderr,
    )
    assert {path.name for path in Path("stalls").glob("*.jsonl")} == {"begun.stalls.jsonl"}


def test_the_variable_harms_nothing(here, monkeypatch):
    """The variable changes nothing if unset, does not apply to headway's own commands, and may name a bad folder.

    Without it, nothing of ours is imported. With a bad folder, a line says so, and the program runs.
    """
    see = "import sys; print(any(name.startswith('headway.') for name in sys.modules))"

    def run(*command):
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert run(sys.executable, "-c", see).stdout == "False\n"
    monkeypatch.setenv("HEADWAY_WATCH", "stalls")
    assert run(HEADWAY, "--version").returncode == 0
    assert run(sys.executable, "-m", "headway", "--version").returncode == 0
    assert not Path("stalls").exists()
    monkeypatch.setenv("HEADWAY_WATCH", "app.py/stalls")
    done = run(sys.executable, "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "is not watched: the folder" in done.stderr
    assert "Traceback" not in done.stderr
