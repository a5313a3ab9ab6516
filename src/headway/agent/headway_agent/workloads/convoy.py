"""An echo server in the measured interpreter, beside CPU-bound threads or processes, under an external load (source C).

The server and the CPU-bound work beside it are one side. The load client (in C, in a separate process) is the other
side. Placement `split` gives each side a core. The convoy effect: every `recv` releases the GIL, and if a CPU-bound
thread acquires it, the server's thread waits a switch interval to get it back.
"""

import os
import socket
import sys
import threading
import time

from .. import proc
from . import units
from .pingpong import party_cpus

_stop = False


def burn(unit, done, position, ready, gate):
    """Do units of work from the opening of the gate until stopped, and count them in `done[position]`."""
    work = units.loaded(unit)
    ready.release()
    gate.wait()
    while not _stop:
        work()
        done[position] += 1


def _start_burners(kind, count, unit):
    """Start `count` CPU-bound threads or processes; return (counters, processes) once all are about to work.

    All wait for the gate: if the first one already worked, starting the last one on the same core would take seconds.
    """
    units.loaded(unit)  # An interpreter without the unit's module fails here, and not in a thread.
    if kind == "processes":
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        start, done = context.Process, context.RawArray("Q", max(1, count))
        ready, gate = context.Semaphore(0), context.Event()
    else:
        start, done = threading.Thread, [0] * count
        ready, gate = threading.Semaphore(0), threading.Event()
    burners = [start(target=burn, args=(unit, done, i, ready, gate), daemon=True) for i in range(count)]
    for burner in burners:
        burner.start()
    for _ in burners:
        while not ready.acquire(timeout=1):
            if not all(burner.is_alive() for burner in burners):
                raise OSError("a CPU-bound process ended as it began")
    gate.set()
    return done, burners if kind == "processes" else []


def _echo(connection):
    """Send back all received data until the other side closes."""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            data = connection.recv(4096)
            if not data:
                return
            connection.sendall(data)


def _accept(listener):
    """Start a thread for each connection, as the article's server does."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # Closed: the launch is over.
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo_datagrams(server):
    while True:
        try:
            data, sender = server.recvfrom(65535)
            server.sendto(data, sender)
        except OSError:
            return


def _timer_slack_s():
    try:
        return int(proc.read("/proc/self/timerslack_ns")) / 1e9
    except OSError:
        return 50e-6  # Before Linux 4.6 the slack cannot be read; this is the kernel's initial value.


class _BesideCpu:
    """A server beside `cpu` CPU-bound `beside` ("threads", "processes"), which do units of `unit` (see `units`).

    Metrics:
    - `work_per_s`: the units of all of them together per second.
    - `evenness`: Jain's index of the units of each, from 1 / `cpu` to 1 (Jain, Chiu, Hawe 1984).
    - `idle_share`, under a policy: the share of the time in which the GIL was free and wanted.
    - `worst_wait_s`, under a policy: the longest wait of any thread since the policy began.
    """

    def __init__(self, job):
        self.job = job
        self.params = job["params"]
        self._cpu = self.params["cpu"]

    def open(self):
        server_cpus, self._client_cpus = party_cpus(self.job)
        proc.pin(server_cpus)
        self._serve()
        # Started last: with CPU-bound threads on its core, a free-threaded interpreter takes seconds for an import,
        # because the creation of each type stops the world.
        self._done, self._processes = _start_burners(
            self.params.get("beside", "threads"), self._cpu, self.params.get("unit", "count")
        )
        return {}

    def _serve(self):
        """Start the server that is measured beside the CPU-bound work."""
        raise NotImplementedError

    def _begin(self):
        """Return the state to pass to `_ended` after the work: (units done by each, time, the scheduler's counts)."""
        scheduler = self.job.get("scheduler")
        counts = scheduler.counts() if scheduler is not None else {}
        return [self._done[i] for i in range(self._cpu)], time.monotonic_ns(), counts

    def _ended(self, before):
        """Return the metrics of the CPU-bound work since `before`: `work_per_s`, `evenness`, and a policy's counts."""
        done, now_ns, counts = self._begin()
        elapsed_ns = now_ns - before[1]
        each = [now - then for now, then in zip(done, before[0])]
        metrics = {}
        if self._cpu:
            metrics["work_per_s"] = sum(each) / (elapsed_ns / 1e9)
            squares = sum(one * one for one in each)
            metrics["evenness"] = sum(each) ** 2 / (len(each) * squares) if squares else 0.0
        if counts:
            metrics["idle_share"] = (counts["idle_ns"] - before[2]["idle_ns"]) / elapsed_ns
            metrics["worst_wait_s"] = counts["worst_wait_ns"] / 1e9
        return metrics

    def close(self):
        global _stop
        _stop = True
        for process in self._processes:
            process.terminate()


class Convoy(_BesideCpu):
    """The echo server under load.

    Parameters besides: `transport` ("tcp", "udp"), `connections`, `message_bytes`, `duration_s`, `min_requests` (the
    load goes on until so many requests were answered), `most_s`, and for an open loop `rate_per_s` with `arrivals`
    ("poisson", "uniform"): latency then counts from the intended time of sending.

    Metrics: `requests_per_s`, `latency_p50_s`, `_p90_s`, `_p99_s`, `_p999_s`, `_max_s`, `_mean_s`, `_sd_s`, `work_per_s`,
    `lost_requests`. With a GIL and CPU-bound threads also `of_bound`: the requests per second of one connection,
    divided by the analytic bound of one request per switch interval and timer slack. Details: `requests` is the number
    of requests that were answered, in warm-ups and samples together.
    """

    def _serve(self):
        from ..load import LoadClient

        params = self.params
        udp = params.get("transport", "tcp") == "udp"
        self._server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        self._server.bind(("127.0.0.1", 0))
        if not udp:
            self._server.listen(1024)
        serve = _echo_datagrams if udp else _accept
        threading.Thread(target=serve, args=(self._server,), daemon=True).start()
        size = params.get("message_bytes", 1)
        self._config = {
            "protocol": params.get("transport", "tcp"),
            "address": "127.0.0.1",
            "port": self._server.getsockname()[1],
            "connections": params.get("connections", 1),
            "request": "x" * size,
            "response_bytes": size,
            "model": "open" if params.get("rate_per_s") else "closed",
            "warmup_s": params.get("warmup_s", 0.02),
            "duration_s": params["duration_s"],
            "min_requests": params.get("min_requests", 1),
            "max_duration_s": params.get("most_s", 60.0),
            "timeout_s": params.get("timeout_s", 20.0),
        }
        for name in ("rate_per_s", "arrivals"):
            if name in params:
                self._config[name] = params[name]
        # Each launch of a cell has another seed: with one seed for all, the interval would not show the seed's effect.
        self._config["seed"] = self.job["seed"]
        self._client = LoadClient(self.job["library"], self._client_cpus)
        self._requests = 0
        # The kernel may end a timed wait this much late (prctl(2), PR_SET_TIMERSLACK): by default 50 us.
        self._slack_s = _timer_slack_s()

    def sample(self):
        before = self._begin()
        result = self._client.run(self._config)
        requests_per_s = result["requests_per_s"]
        if self._config["model"] == "open":
            # Requests of the open model leave at set times: the offered time counts, even if they are answered sooner.
            requests_per_s = result["requests"] / max(self._config["duration_s"], result["elapsed_s"])
        metrics = {
            "requests_per_s": requests_per_s,
            "lost_requests": result["lost"],
            "client_cpu_share": result["cpu_s"] / result["elapsed_s"],
        }
        for name in ("p50", "p90", "p99", "p999", "max", "mean", "sd"):
            metrics["latency_%s_s" % name] = result[name + "_s"]
        metrics.update(self._ended(before))
        if self._cpu:
            threads = self.params.get("beside", "threads") == "threads"
            if threads and proc.gil_enabled() and not self.params.get("rate_per_s"):
                each = result["requests_per_s"] / self._config["connections"]
                metrics["of_bound"] = each * (sys.getswitchinterval() + self._slack_s)
        self._requests += result["requests"]
        return metrics

    def close(self):
        self._client.close()
        self._server.close()
        _BesideCpu.close(self)
        return {"requests": self._requests}


class TinyWrites(_BesideCpu):
    """A thread that only does tiny writes, each of which releases the GIL for next to no time (bpo-7946).

    Parameter: `duration_s`. Metrics: `requests_per_s`, the writes per second; `work_per_s`.
    """

    def _serve(self):
        self._writes = [0]
        # A write to /dev/null costs a system call and nothing else.
        self._fd = os.open(os.devnull, os.O_WRONLY)
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self):
        writes, fd, write = self._writes, self._fd, os.write
        while not _stop:
            write(fd, b"x")
            writes[0] += 1

    def sample(self):
        before = self._begin()
        begun, begun_ns = self._writes[0], time.monotonic_ns()
        time.sleep(self.params["duration_s"])
        ended, ended_ns = self._writes[0], time.monotonic_ns()
        metrics = {"requests_per_s": (ended - begun) / ((ended_ns - begun_ns) / 1e9)}
        metrics.update(self._ended(before))
        return metrics


class Throughput(_BesideCpu):
    """The CPU-bound work alone for `duration_s`, with no server beside it. Metrics: `work_per_s`, `evenness`."""

    def _serve(self):
        pass

    def sample(self):
        before = self._begin()
        time.sleep(self.params["duration_s"])
        return self._ended(before)
