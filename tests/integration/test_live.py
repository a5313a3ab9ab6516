"""Live counters of real processes: `headway top`, metrics of this process, and middleware under load."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from attached import without_waits
from real_programs import LIMIT_S
from waiting import wait_for

from headway.cli.top_app import TopApp
from headway.host.interpreters import discover
from headway.live import watch
from headway.live.collect import collecting
from headway.live.counted_run import Beside
from headway.live.launch import environment
from headway.live.watch import Monitor, Watch

pytestmark = pytest.mark.slow

WORKLOAD = str(Path(__file__).parent / "live_workload.py")
NEWEST = next((one for one in discover()[0] if one.name == "3.14"), None)


def top(*arguments):
    return [sys.executable, "-m", "headway", "top", *map(str, arguments)]


def run_top(*arguments, pass_fds=(), **more):
    how = {"env": {**os.environ, **more}, "pass_fds": pass_fds}
    return subprocess.run(top(*arguments), capture_output=True, text=True, check=False, timeout=LIMIT_S, **how)


@pytest.fixture
def recorded(tmp_path):
    """Yield a process that is recorded into a file, as by `headway trace`."""
    with collecting(tmp_path / "app.hwt", max_bytes=1 << 20) as door:
        env = environment(door.environment())
        with subprocess.Popen([sys.executable, WORKLOAD], env=env, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "ready\n"
            yield child
            child.kill()


def held_most(threads):
    return max(threads, key=lambda one: one["hold_share"])["name"]


def test_a_watch_sees_who_holds(recorded):
    """A recorded process is read from outside: its threads by name, shares that fit the time, and one GIL."""
    monitor = Monitor(recorded.pid)
    monitor.sample()
    names, late_ns = {"MainThread", "burner", "sleeper-0", "sleeper-1"}, 0

    def sampled():
        nonlocal late_ns
        began_ns, found = time.monotonic_ns(), monitor.sample()
        late_ns = time.monotonic_ns() - began_ns
        rates = found[0].window if found and found[0].window.gils else None
        if not rates or rates.wall_ns <= 2e8 or {one.now.name for one in rates.threads} != names:
            return None
        # On a busy machine, a sleeper may lose its core while it holds the GIL, or before it takes a GIL that is free.
        held_most = max(rates.threads, key=lambda one: one.hold_share).now.name == "burner"
        return rates if held_most and rates.gils[0].utilisation > 0.5 else None

    rates = wait_for(sampled, "no sample in which the thread that computes held most", LIMIT_S)
    monitor.close()
    sleeper = next(one for one in rates.threads if one.now.name == "sleeper-0")
    assert rates.gils[0].utilisation <= 1
    assert 0 < sleeper.wait_p50_ns <= sleeper.wait_p99_ns <= sleeper.worst_wait_ns
    # The wait after a release on request is told when the thread asks again, and may have begun before the window.
    for one in rates.threads:
        most_ns = rates.wall_ns + one.worst_wait_ns + late_ns
        assert 0 <= (one.hold_share + one.wait_share) * rates.wall_ns <= most_ns


def test_the_end_of_a_process_ends_its_watch(recorded):
    """The watch of a killed process says that it has ended, even before anyone has reaped it."""
    with Watch(recorded.pid) as one:
        one.snapshot()
        recorded.kill()

        def ended():
            try:
                one.snapshot()
            except watch.WatchEndedError as error:
                return error.message
            return None

        assert wait_for(ended, "the watch never ended", LIMIT_S) == f"process {recorded.pid} has ended"
    assert recorded.returncode is None


def test_top_says_who_holds_of_a_recorded_process(recorded):
    """`top PID --json` prints one line per interval, and leaves a recording as it was."""
    done = run_top(recorded.pid, "--json", "--count", 2, "--interval", 0.3)

    assert done.returncode == 0, done.stderr
    first, second = lines = [json.loads(line) for line in done.stdout.splitlines()]
    for (process,) in (first["processes"], second["processes"]):
        assert (process["pid"], process["program"]) == (recorded.pid, "live_workload.py")
        shares = [one["hold_share"] for one in process["threads"]]
        assert process["gils"][0]["utilisation"] == pytest.approx(min(1.0, sum(shares)))
    # On a busy machine, another thread may lose its core while it holds the GIL.
    assert "burner" in {held_most(line["processes"][0]["threads"]) for line in lines}
    assert not watch.counts_only(recorded.pid)


@pytest.mark.skipif(NEWEST is None, reason="attaching without gdb needs CPython 3.14")
def test_top_counts_only_while_it_watches():
    """A process that was not recorded counts only while `top` runs; Ctrl-C ends `top` with 0."""
    with subprocess.Popen([NEWEST.executable, WORKLOAD], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        assert not watch.is_recorded(child.pid)
        with subprocess.Popen(top(child.pid, "--interval", 0.2), stdout=subprocess.PIPE, text=True) as watching:
            first = [watching.stdout.readline() for _ in range(3)]
            counted = watch.is_recorded(child.pid)
            watching.send_signal(signal.SIGINT)
            watching.stdout.read()
        assert watching.returncode == 0
        assert f"live_workload.py (pid {child.pid}): GIL" in first[0]
        assert counted
        assert not watch.is_recorded(child.pid)
        assert child.poll() is None
        child.kill()


@pytest.mark.skipif(NEWEST is None, reason="attaching without gdb needs CPython 3.14")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_last_top_ends_the_counting(number):
    """The first of two `top` commands that quits, or is killed, leaves the other one counting; the last one ends it."""
    with subprocess.Popen([NEWEST.executable, WORKLOAD], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        tops = []
        try:
            for _ in range(2):
                command = top(child.pid, "--json", "--interval", 0.1)
                tops.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
                json.loads(tops[-1].stdout.readline())
            tops[0].send_signal(number)
            tops[0].communicate(timeout=LIMIT_S)

            assert watch.is_recorded(child.pid)
            tops[1].stdout.readline()  # lines that it had printed meanwhile
            assert json.loads(tops[1].stdout.readline())["processes"][0]["pid"] == child.pid
            tops[1].send_signal(signal.SIGINT)
            _, said = tops[1].communicate(timeout=LIMIT_S)
        finally:
            for one in tops:
                one.kill()
                one.communicate()
        assert (tops[1].returncode, without_waits(said)) == (0, "")
        assert not watch.is_recorded(child.pid)
        child.kill()


def test_top_starts_a_program_and_ends_it(tmp_path):
    """`top -- script` passes the program's output on to stderr, and ends the program as Ctrl-C would."""
    done = run_top("--json", "--count", 3, "--interval", 1, "--", WORKLOAD, "a word")

    assert done.returncode == 0, done.stderr
    _, *lines = map(json.loads, done.stdout.splitlines())  # in the first interval, the main thread imports
    assert "burner" in {held_most(line["processes"][0]["threads"]) for line in lines}
    assert done.stderr == "ready a word\ninterrupted\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_ctrl_c_reaches_the_program(tmp_path, number, code):
    """Ctrl-C on `top` reaches its program once and ends with 0, and a kill leaves no program behind."""
    output = tmp_path / "printed"
    with subprocess.Popen(
        top("--interval", 0.2, "--output", output, "--", WORKLOAD), stdout=subprocess.PIPE, text=True
    ) as watching:
        watching.stdout.readline()
        wait_for(lambda: "ready" in output.read_text())
        watching.send_signal(number)
        watching.stdout.read()

    assert watching.returncode == code
    assert output.read_text() == "ready\ninterrupted\n"


def test_top_ends_with_the_program(tmp_path):
    """`top` ends with its program, with the same exit code, and --output has the program's output."""
    script, output = tmp_path / "short.py", tmp_path / "printed"
    script.write_text("import time; print('hello'); time.sleep(0.1); raise SystemExit(3)")

    done = run_top("--output", output, "--", script)

    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "short.py has ended with exit code 3"
    assert output.read_text() == "hello\n"


def test_children_are_watched_too(tmp_path):
    """With --children, each process that the program starts has its own part."""
    script = tmp_path / "parent.py"
    script.write_text(
        f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, {WORKLOAD!r}])\n"
        "try:\n    child.wait()\nexcept KeyboardInterrupt:\n    child.wait()\n"
    )
    with subprocess.Popen(
        top("--children", "--json", "--interval", 0.2, "--", script), stdout=subprocess.PIPE, text=True
    ) as watching:
        names = set()
        while names != {"parent.py", "live_workload.py"}:
            names = {one["program"] for one in json.loads(watching.stdout.readline())["processes"]}
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()

    assert watching.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "no process and no program is given"),
        ((2**22 + 1,), 7, "there is no process"),
        ((1, "--count", 0), 2, "argument --count: '0' is not a whole number of at least 1"),
        ((1, "--output", "x"), 2, "--output needs a program to start"),
        (("--", "/not/there.py"), 127, "there is no script or program"),
        (("--", sys.executable, "-S", WORKLOAD), 7, "is not counted"),
    ],
)
def test_what_top_cannot_do_it_says(arguments, code, message):
    """Errors name what is wrong, on stderr, with the exit code of their kind."""
    options = ("--patience", 1) if code == 7 and arguments[0] == "--" else ()
    done = run_top(*options, *arguments)

    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


@pytest.mark.parametrize(("no_color", "bold"), [("", True), ("1", False)])
def test_on_a_terminal_the_picture_is_painted_over(no_color, bold):
    """Plain text on a terminal is painted over the previous one, without colours if NO_COLOR is set."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        top("--plain", "--count", 2, "--interval", 1, "--", WORKLOAD),
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        stdin=terminal,
        env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
    ) as watching:
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(controller, 65536):
                shown += part
        except OSError:  # the terminal is closed
            pass
        os.close(controller)

    assert watching.returncode == 0
    assert shown.count(b"\x1b[H") == 2
    assert b"burner" in shown
    assert (b"\x1b[1m" in shown) == bold


def test_the_app_shows_sorts_and_pauses():
    """The table has a row per thread, sorts by a column, holds still when paused, and quits."""

    async def use(monitor):
        app = TopApp(monitor, 0.1)
        async with app.run_test(size=(120, 30)) as pilot:
            table = app.query_one("#threads")

            async def until(condition):
                deadline = time.monotonic() + LIMIT_S
                while not condition():
                    assert time.monotonic() < deadline
                    await pilot.pause(0.01)

            def name(row):
                return table.get_row_at(row)[0].plain.strip()  # type: ignore[attr-defined]

            await until(lambda: table.row_count == 4)  # type: ignore[attr-defined]
            await pilot.press("s")
            assert [name(i) for i in range(4)] == ["MainThread", "burner", "sleeper-0", "sleeper-1"]
            await pilot.press("r")
            assert name(0) == "sleeper-1"
            await pilot.press("r", "s", "s")
            await until(lambda: name(0) == "burner")
            await pilot.press("p")
            before = app._rows
            app.look()
            assert app._rows is before
            assert "paused" in str(app.query_one("#head").render())
            await pilot.press("q")

    with Beside([sys.executable, WORKLOAD]) as program:
        monitor = Monitor(program.pid)
        wait_for(monitor.sample, "the program is never counted", LIMIT_S)
        asyncio.run(use(monitor))
        monitor.close()


def test_a_program_that_will_not_end_is_killed(monkeypatch):
    """A program that ignores Ctrl-C and SIGTERM is killed in the end."""
    monkeypatch.setattr("headway.live.counted_run._PATIENCE_S", 0.2)
    stubborn = "import signal, time\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nprint('up', flush=True)\nwhile 1: time.sleep(1)"
    with Beside([sys.executable, "-c", stubborn]) as program:
        wait_for(lambda: program.tail(1) == ["up"], "it never starts", LIMIT_S)

    assert program.code == -signal.SIGKILL


def run_script(text):
    """Run Python code in its own process, so that counting does not go on in this one; return its JSON."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_prometheus_has_this_process_by_role():
    """A scrape starts the counting, roles include threads that ended, and a forked child begins at 0."""
    found = run_script("""
        import json, os, threading
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
        from headway.live.metrics import GilCollector

        registry = CollectorRegistry()
        registry.register(GilCollector())

        def scrape():
            families = parse(openmetrics(registry).decode())
            return {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples}

        def burn():
            for _ in range(100):
                sum(range(20000))

        first = scrape()
        for _ in range(3):
            threads = [threading.Thread(target=burn, name=f"burn-{n}") for n in range(2)]
            for one in threads: one.start()
            for one in threads: one.join()
            second = scrape()
        third = scrape()
        role, where = ("role", "burn"), ("gil", "0")
        read, write = os.pipe()
        if not os.fork():
            mine = scrape()
            there = ("cpython_gil_hold_duration_seconds_sum", where, role) in mine
            os.write(write, json.dumps([there, len(mine)]).encode())
            os._exit(0)
        reasons = ("voluntary", "forced")
        print(json.dumps({
            "hold": second["cpython_gil_hold_duration_seconds_sum", where, role],
            "holds": second["cpython_gil_hold_duration_seconds_count", where, role],
            "wait": second["cpython_gil_wait_duration_seconds_sum", where, role],
            "waits": second["cpython_gil_wait_duration_seconds_count", where, role],
            "releases": sum(second["cpython_gil_handoffs_total", where, ("reason", k), role] for k in reasons),
            "enabled": second["cpython_gil_enabled",],
            "old": {
                "hold": second["python_gil_hold_seconds_total", role],
                "wait": second["python_gil_wait_seconds_total", role],
                "releases": sum(second["python_gil_handovers_total", ("kind", k), role] for k in reasons),
                "waits": second["python_gil_wait_duration_seconds_count", role],
            },
            "back": [key for key in first if second[key] < first[key]] + [key for key in second if third[key] < second[key]],
            "child": json.loads(os.read(read, 1000)),
            "text": b"cpython_gil_handoffs_total" in generate_latest(registry),
        }))
    """)

    assert found["hold"] > 0
    assert found["releases"] == found["holds"] >= 6
    assert found["waits"] > 0
    assert found["enabled"] == 1
    assert found["old"] == pytest.approx({name: found[name] for name in ("hold", "wait", "releases", "waits")})
    assert found["back"] == []
    assert found["child"][0] is False
    assert found["child"][1] > 0
    assert found["text"]


def test_opentelemetry_observes_this_process():
    """The instruments, including the old ones, have their units and attributes, and their values grow."""
    found = run_script("""
        import json
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from headway.live.metrics import instrument

        reader = InMemoryMetricReader()
        provider = MeterProvider([reader])
        instrument(provider, role=lambda name: "all")
        reader.get_metrics_data()
        for _ in range(100): sum(range(20000))
        data = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        def told(points): return [[dict(p.attributes), p.value] for p in points]
        print(json.dumps({m.name: [m.unit, getattr(m.data, "is_monotonic", None), told(m.data.data_points)] for m in metrics}))
        provider.shutdown()
    """)

    times = {"cpython.gil.hold.time", "cpython.gil.wait.time"}
    assert set(found) == {"cpython.gil.handoffs", "cpython.gil.enabled", "cpython.gil.handovers"} | times
    unit, monotonic, points = found["cpython.gil.handoffs"]
    assert (unit, monotonic) == ("{handoff}", True)
    assert [point[0] for point in points] == [
        {"cpython.gil": 0, "thread.role": "all", "cpython.handoff.reason": reason, "reason": reason}
        for reason in ("voluntary", "forced")
    ]
    assert found["cpython.gil.enabled"] == ["1", None, [[{}, 1]]]
    unit, monotonic, ((attributes, value),) = found["cpython.gil.hold.time"]
    assert (unit, monotonic, attributes) == ("s", True, {"cpython.gil": 0, "thread.role": "all", "role": "all"})
    assert value > 0
    assert {point[0]["kind"] for point in found["cpython.gil.handovers"][2]} == {"voluntary", "forced"}


def test_middleware_tells_that_a_request_waited():
    """A request that releases the GIL waits for it beside a thread that computes, under wsgiref and in an event loop."""
    found = run_script("""
        import asyncio, json, re, threading, time, urllib.request
        from wsgiref.simple_server import WSGIRequestHandler, make_server
        from headway.live.middleware import GilASGIMiddleware, GilWSGIMiddleware

        stop = threading.Event()

        def burn():
            while not stop.is_set(): sum(range(20000))

        threading.Thread(target=burn).start()

        def wsgi(environ, start_response):
            for _ in range(5): time.sleep(0.005)
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"fine"]

        class Quiet(WSGIRequestHandler):
            def log_message(self, *arguments): pass

        server = make_server("127.0.0.1", 0, GilWSGIMiddleware(wsgi, log_over_ms=1000), handler_class=Quiet)
        threading.Thread(target=server.handle_request).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as response:
            wsgi_header, length, body = response.headers["Server-Timing"], response.headers["Content-Length"], response.read()
        server.server_close()

        async def asgi(scope, receive, send):
            for _ in range(5): time.sleep(0.005)
            await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": 200, "headers": []})

        sent = []
        async def send(message): sent.append(message)
        asyncio.run(GilASGIMiddleware(asgi)({"type": "http"}, None, send))
        stop.set()
        figures = [dict(re.findall(r"([a-z-]+);dur=([0-9.]+)", text)) for text in (wsgi_header, sent[0]["headers"][0][1].decode())]
        print(json.dumps([*figures, length, body.decode()]))
    """)

    wsgi, asgi, length, body = found
    assert set(wsgi) == {"gil-wait", "gil-hold"}
    assert float(wsgi["gil-wait"]) > 0
    assert float(asgi["gil-wait"]) > 0
    assert float(asgi["gil-loop"]) >= float(asgi["gil-wait"])
    assert (length, body) == ("4", "fine")


def test_code_is_started_and_counted():
    """`-c CODE` and `--python` start a program as Python does; the code's own options stay its own."""
    code = "import sys, time; sys.exit(sys.argv != ['-c', '--count', '7'] and time.sleep(60))"
    wrong = run_top("--python", sys.executable, "--count", "1", "--interval", "0.1", "-c", code)
    assert (wrong.returncode, "pid" in wrong.stdout) == (0, True), wrong.stderr
    right = run_top("--python", sys.executable, "-c", code, "--count", "7")
    assert right.returncode == 0, right.stderr
    assert "code has ended" in right.stderr


def test_top_takes_a_program_from_an_inherited_pipe():
    """A program that a shell gives as `<(...)` is a pipe, which the started program inherits."""
    pipe, end = os.pipe()
    with open(pipe, "rb"), open(end, "wb") as code:
        code.write(b"raise SystemExit(3)")
        code.close()
        done = run_top(f"/dev/fd/{pipe}", pass_fds=[pipe])
    assert (done.returncode, "has ended with exit code 3" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize("command", [["run"], ["trace", "-o", "trace.hwt"]])
def test_a_program_is_read_from_the_standard_input(tmp_path, command):
    """`-` runs the program that comes from stdin, with its arguments."""
    words = [sys.executable, "-m", "headway", *command, "-", "--fast"]
    code = "import sys; print(sys.argv)"
    done = subprocess.run(words, input=code, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout == "['-', '--fast']\n"
