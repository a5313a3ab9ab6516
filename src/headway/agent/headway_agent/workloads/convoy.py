"""An echo server in the measured interpreter, CPU-bound threads or processes beside it, a load client outside (source C).

The server and whatever burns CPU time beside it are one side, the load client (in C, in a process of its own) is the
other: placement `split` gives each side a core. The convoy effect: every `recv` lets go of the GIL, and with a
CPU-bound thread holding it, getting it back takes a switch interval.
"""

import os
import socket
import sys
import threading
import time

from .. import proc
from .pingpong import party_cpus
from .units import UNITS

_stop = False


def burn(unit, done, position, ready, gate):
    """Once the gate opens, do units of work and count them in `done[position]`, until stopped."""
    work = UNITS[unit]
    ready.release()
    gate.wait()
    while not _stop:
        work()
        done[position] += 1


def _start_burners(kind, count, unit):
    """Start `count` CPU-bound threads or processes; return (counters, processes) once all are about to work.

    They wait for each other: with the first at work, starting the last on the same core would take seconds.
    """
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
    """Send back what comes, until the other side closes."""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            data = connection.recv(4096)
            if not data:
                return
            connection.sendall(data)


def _accept(listener):
    """A thread for each connection, as the article's server has."""
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
        return 50e-6  # Before Linux 4.6 nobody tells; then it is what the kernel starts with.


class _BesideCpu:
    """`cpu` CPU-bound `beside` ("threads", "processes") that do units of `unit` (see `units`).

    Metrics: `work_per_s`, units that they did a second, together; `evenness`, Jain's index of what each did, 1 / `cpu` to
    1 (Jain, Chiu, Hawe 1984); under a policy `idle_share`, the part of the time that the GIL was free and wanted, and
    `worst_wait_s`, the longest wait of any thread since the policy began.
    """

    def __init__(self, job):
        self.job = job
        self.params = job["params"]
        self._cpu = self.params["cpu"]

    def open(self):
        server_cpus, self._client_cpus = party_cpus(self.job)
        proc.pin(server_cpus)
        self._serve()
        # Last: with CPU-bound threads on its core, a free-threaded interpreter takes seconds over an import, because
        # each type that is made stops the world.
        self._done, self._processes = _start_burners(
            self.params.get("beside", "threads"), self._cpu, self.params.get("unit", "count")
        )
        return {}

    def _serve(self):
        """Start what is measured beside the CPU-bound work."""
        raise NotImplementedError

    def _begin(self):
        """Return what to hand to `_ended` after the work: (units done by each, when, the scheduler's counts)."""
        scheduler = self.job.get("scheduler")
        counts = scheduler.counts() if scheduler is not None else {}
        return [self._done[i] for i in range(self._cpu)], time.monotonic_ns(), counts

    def _ended(self, before):
        """Return the metrics of what was done beside: `work_per_s`, `evenness`, and under a policy its own counts."""
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

    Parameters besides: `transport` ("tcp", "udp"), `connections`, `message_bytes`, `duration_s`, `min_requests` (goes on
    until so many were answered), `most_s`, and for an open loop `rate_per_s` with `arrivals` ("poisson", "uniform"):
    latency then counts from the intended time of sending.

    Metrics: `requests_per_s`, `latency_p50_s`, `_p90_s`, `_p99_s`, `_p999_s`, `_max_s`, `_mean_s`, `_sd_s`, `work_per_s`,
    `lost_requests`, and with a GIL and CPU-bound threads `of_bound`: requests a second of one connection over the analytic
    bound, one per switch interval and timer slack. Details: `requests` answered, and `latency_counts`, their histogram.
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
        # Another draw in each launch of a cell: with one for all, the interval would say nothing of it.
        self._config["seed"] = self.job["seed"]
        self._client = LoadClient(self.job["library"], self._client_cpus)
        self._counts = {}
        self._requests = 0
        # A wait that times out ends late by as much (prctl(2), PR_SET_TIMERSLACK): 50 us unless somebody set it.
        self._slack_s = _timer_slack_s()

    def sample(self):
        before = self._begin()
        result = self._client.run(self._config)
        requests_per_s = result["requests_per_s"]
        if self._config["model"] == "open":
            # Requests leave at their own times: the time that they were offered in counts, answered sooner or not.
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
        for index, count in result["counts"]:
            self._counts[index] = self._counts.get(index, 0) + count
        self._requests += result["requests"]
        return metrics

    def close(self):
        self._client.close()
        self._server.close()
        _BesideCpu.close(self)
        return {"requests": self._requests, "latency_counts": sorted(self._counts.items())}


class TinyWrites(_BesideCpu):
    """A thread that does nothing but tiny writes, each of which lets go of the GIL for next to nothing (bpo-7946).

    `duration_s`. Metrics: `requests_per_s`, writes a second; `work_per_s`.
    """

    def _serve(self):
        self._writes = [0]
        # To nowhere: the write itself costs a system call and nothing else.
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
    """The CPU-bound work by itself: `duration_s` of it, with nothing beside. Metrics: `work_per_s`, `evenness`."""

    def _serve(self):
        pass

    def sample(self):
        before = self._begin()
        time.sleep(self.params["duration_s"])
        return self._ended(before)
