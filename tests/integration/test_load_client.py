"""The load client's process: loads against a small echo server, and every way to fail."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading

import pytest
from headway_agent.load import LoadClient, percentiles
from ports import free_port
from real_programs import LIMIT_S

from headway.agent import AGENT_PATH
from headway.host.interpreters import discover
from headway.host.interpreters import select as select_interpreters
from headway.library import library_path

pytestmark = pytest.mark.slow

FOUND = select_interpreters(discover()[0], ["all"])
LATENCIES = ("p50_s", "p90_s", "p99_s", "p999_s", "max_s", "mean_s")


class EchoServer:
    """Echoes TCP and UDP on one port, in a thread; after `close_after` bytes it closes a connection instead."""

    def __init__(self, close_after=None):
        self.close_after = close_after
        self.listener = socket.create_server(("127.0.0.1", free_port()), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.told, self.tell = socket.socketpair()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        connections = {}
        while True:
            ready, _, _ = select.select([self.told, self.listener, self.udp, *connections], [], [])
            if self.told in ready:
                break
            for one in ready:
                if one is self.listener:
                    connections[one.accept()[0]] = 0
                elif one is self.udp:
                    data, address = one.recvfrom(65536)
                    one.sendto(data, address)
                elif not self.echo(one, connections):
                    del connections[one]
                    one.close()
        for one in [*connections, self.listener, self.udp, self.told]:
            one.close()

    def echo(self, one, connections):
        try:
            data = one.recv(65536)
            connections[one] += len(data)
            if not data or (self.close_after is not None and connections[one] > self.close_after):
                return False
            one.sendall(data)
        except OSError:
            return False  # A killed client resets.
        return True

    def close(self):
        self.tell.close()
        self.thread.join()


@pytest.fixture
def echo():
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def client():
    with LoadClient(library_path(), None) as made:
        yield made


def short(server, **changes):
    config = {
        "port": server.port,
        "request": "\x00\xffpayload",
        "response_bytes": 9,
        "duration_s": 0.02,
        "min_requests": 200,
        "max_duration_s": 30.0,
        "timeout_s": 20.0,
    }
    return {**config, **changes}


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("connections", [1, 10])
def test_a_closed_load_counts_its_answers(echo, client, protocol, connections):
    """Requests, histogram and rate agree, and there is one latency."""
    result = client.run(short(echo, protocol=protocol, connections=connections, warmup_s=0.01))

    assert result["requests"] >= 200
    assert sum(count for _, count in result["counts"]) == result["requests"]
    assert result["requests_per_s"] == pytest.approx(result["requests"] / result["elapsed_s"])
    assert 0 < result["p50_s"] <= result["p90_s"] <= result["p99_s"] <= result["p999_s"] <= result["max_s"]
    assert result["cpu_s"] > 0
    assert result["lost"] == result["unanswered"] == result["late"] == result["unsent"] == result["clamped"] == 0
    assert not any(key.startswith("actual_") for key in result)


@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_an_open_load_has_two_latencies(echo, client, arrivals):
    """The latency from the time that a request was due is at least that from its sending."""
    result = client.run(short(echo, model="open", arrivals=arrivals, rate_per_s=4000.0, connections=4))

    assert result["requests"] >= 200
    assert all(result[key] >= result[f"actual_{key}"] > 0 for key in LATENCIES)


def test_the_percentiles_of_the_pairs_are_the_clients(echo, client):
    """Pure Python and C compute the same percentiles, also of several loads together."""
    one, other = client.run(short(echo)), client.run(short(echo, connections=3))

    assert percentiles(one["counts"], (50, 90, 99, 99.9, 100)) == [one[key] for key in LATENCIES[:5]]
    both_s = percentiles(one["counts"] + other["counts"], (50, 100))
    assert min(one["p50_s"], other["p50_s"]) <= both_s[0] <= max(one["p50_s"], other["p50_s"])
    assert both_s[1] == max(one["max_s"], other["max_s"])


def test_nothing_answered_gives_no_latency(client):
    """A silent UDP server loses every request, and no figure is made up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        result = client.run(
            {
                "protocol": "udp",
                "port": silent.getsockname()[1],
                "request": "x",
                "response_bytes": 1,
                "duration_s": 0.02,
                "timeout_s": 0.005,
            }
        )

    assert result["lost"] >= 1
    assert result["requests"] == result["requests_per_s"] == result["elapsed_s"] == 0
    assert all(result[key] is None for key in LATENCIES)
    assert result["counts"] == []


def test_a_failed_load_says_what_and_where(client):
    """The errno is the C library's, the message names the server, and the client goes on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError, match=f"tcp over 2 connections to 127.0.0.1:{port}: "):
                client.run({"port": port, "connections": 2, "request": "x", "response_bytes": 1})


def test_a_server_that_closes_ends_the_load(client):
    """A closed connection is an error, not a shorter result."""
    server = EchoServer(close_after=500)
    try:
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.run(short(server))
    finally:
        server.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retries": 3}, "unknown keys: retries"),
        ({"protocol": "sctp"}, "protocol 'sctp', expected one of tcp, udp"),
        ({"model": "ajar"}, "model 'ajar'"),
        ({"arrivals": "bursts"}, "arrivals 'bursts'"),
    ],
)
def test_a_wrong_config_is_refused_at_once(echo, client, changes, message):
    """A wrong configuration is refused before anything is sent, and the client goes on."""
    with pytest.raises(ValueError, match=message):
        client.start(short(echo, **changes))
    assert client.run(short(echo))["requests"] >= 200


def test_a_config_must_say_where_and_what(client):
    """There is no default for the port, the request and the size of its answer."""
    with pytest.raises(ValueError, match="lacks port, request, response_bytes"):
        client.start({})


def test_one_load_at_a_time(echo, client):
    """A second start, and a result without a load, are refused."""
    with pytest.raises(RuntimeError, match="no load"):
        client.result()
    client.start(short(echo))
    with pytest.raises(RuntimeError, match="still at the load before"):
        client.start(short(echo))
    assert client.result()["requests"] >= 200


def test_a_client_that_died_is_reported(echo):
    """A client that died is reported during its load, and when it gets another one."""
    with LoadClient(library_path(), None) as client:
        client.start(short(echo, duration_s=30.0))
        os.kill(client._process.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="ended by signal 9"):
            client.result()
        with pytest.raises(RuntimeError, match="ended by signal 9"):
            client.run(short(echo))


def test_closing_ends_a_running_load(echo):
    """`close` does not wait for the load, and may be called again."""
    client = LoadClient(library_path(), None)
    client.start(short(echo, duration_s=30.0))
    client.close()
    client.close()

    assert client._process.returncode == -signal.SIGKILL


def test_a_library_that_is_not_there_is_an_error(tmp_path):
    """The constructor reports a missing library, and leaves no process."""
    with pytest.raises(RuntimeError, match=r"nothing\.so"):
        LoadClient(tmp_path / "nothing.so", None)


def test_the_client_is_pinned():
    """The client runs on the given cores only."""
    core = max(os.sched_getaffinity(0))
    with LoadClient(library_path(), [core]) as client:
        assert os.sched_getaffinity(client._process.pid) == {core}


def test_the_client_dies_with_its_parent(echo):
    """A parent that is killed without a chance to clean up leaves no load behind."""
    script = (
        "import sys, time\nfrom headway_agent.load import LoadClient\n"
        "client = LoadClient(sys.argv[1], None)\n"
        "client.start({'port': int(sys.argv[2]), 'request': 'x', 'response_bytes': 1, 'duration_s': 60.0})\n"
        "print(client._process.pid, flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-s", "-c", script, str(library_path()), str(echo.port)]
    environment = {**os.environ, "PYTHONPATH": str(AGENT_PATH)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        watched = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        # Readable as soon as the process has ended.
        assert select.select([watched], [], [], LIMIT_S) == ([watched], [], [])
    finally:
        os.close(watched)


@pytest.mark.parametrize("interpreter", FOUND, ids=[one.id for one in FOUND])
def test_every_interpreter_can_run_it(echo, interpreter):
    """The module needs neither more than CPython 3.8, nor a GIL."""
    script = (
        "import sys\nfrom headway_agent.load import LoadClient\n"
        "with LoadClient(sys.argv[1], None) as client:\n"
        "    config = {'port': int(sys.argv[2]), 'request': 'x', 'response_bytes': 1, 'duration_s': 0.01}\n"
        "    print(client.run(config)['requests'])\n"
    )
    command = [interpreter.executable, "-s", "-c", script, str(library_path()), str(echo.port)]
    environment = {**os.environ, "PYTHONPATH": str(AGENT_PATH)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_S, check=False)

    assert done.stderr == ""
    assert int(done.stdout) >= 1
