"""Runs one launch: reads the job, runs its workloads, streams the results, and exits.

Protocol. The job is one JSON object on standard input. Its `parts` are cells, each with its workload, model and counts
of samples and warm-ups; all other keys are common to the parts. Answers are JSON objects, one a line, on the descriptor
named by `argv[1]`, because a workload may print to standard output. The first answer is `started`. Each part then gives
`setup`, `facts`, one `sample` for each sample, and `end`; the key `part` has the part's index. A part without `end` has
failed; stderr says why. All times are in seconds unless the key says otherwise; `*_monotonic_ns` are CLOCK_MONOTONIC,
which the controller shares.

The process exits by `os._exit`: the interpreter's finalisation is no part of a launch, and CPython 3.12.1 crashes in
it after OpenSSL was loaded in a sub-interpreter.
"""

import time

_started_monotonic_ns = time.monotonic_ns()

import gc  # noqa: E402  (the clock is read before anything is imported)
import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402

from . import proc, turns  # noqa: E402

WORKLOADS = {
    "increment": "headway_agent.workloads.cpu:Increment",
    "countdown": "headway_agent.workloads.cpu:Countdown",
    "sigma": "headway_agent.workloads.cpu:Sigma",
    "sha256": "headway_agent.workloads.cpu:Sha256",
    "kernels": "headway_agent.workloads.kernels:Kernels",
    "race": "headway_agent.workloads.race:Race",
    "refcount": "headway_agent.workloads.refcount:Refcount",
    "refcount-native": "headway_agent.workloads.native:NativeRefcount",
    "sleep": "headway_agent.workloads.sleep:Sleep",
    "ping-pong": "headway_agent.workloads.pingpong:PingPong",
    "ping-pong-native": "headway_agent.workloads.native:NativePingPong",
    "one-way": "headway_agent.workloads.pingpong:OneWay",
    "one-way-native": "headway_agent.workloads.native:NativeOneWay",
    "http": "headway_agent.workloads.http:Http",
    "sqlite-sleep": "headway_agent.workloads.sqlite:SqliteSleep",
    "sqlite-wal": "headway_agent.workloads.sqlite:SqliteWal",
    "redis-set": "headway_agent.workloads.redis:RedisSet",
    "redis-benchmark": "headway_agent.workloads.redis:RedisBenchmark",
    "redis-load": "headway_agent.workloads.redis:RedisLoad",
    "file-io": "headway_agent.workloads.files:FileIo",
    "file-write": "headway_agent.workloads.files:FileWrite",
    "disk-baseline": "headway_agent.workloads.files:DiskBaseline",
    "convoy": "headway_agent.workloads.convoy:Convoy",
    "tiny-writes": "headway_agent.workloads.convoy:TinyWrites",
    "throughput": "headway_agent.workloads.convoy:Throughput",
}
"""Workload name -> "module:class". A job may also name any importable "module:class" itself (see `Variant.paths`)."""


def load(name):
    """Return the workload class called `name`. Raises KeyError, ImportError or AttributeError."""
    target = name if ":" in name else WORKLOADS[name]
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _schedule(job):
    from . import scheduler

    job["scheduler"] = scheduler.Scheduler(job["library"])
    job["scheduler"].start(job["policy"], job["policy_options"])


class _Part:
    """One cell of the launch, with the time, CPU time and switches that it has used so far."""

    def __init__(self, job, place, emit):
        self.job = job
        self.interval_s = job.get("switch_interval_s") or sys.getswitchinterval()
        self.timed_ns, self._begun_ns = 0, 0
        self.own_busy_s, self._busy_before_s = 0.0, 0.0
        self.switches, self._switches_before = [0, 0], [0, 0]
        # Samples are kept, as a bare script would keep them. On 3.13t the time of a loop over ints depends, by up to a
        # tenth, on how full mimalloc's page of their size class is. Keeping the samples lets that state move on from
        # sample to sample; otherwise it would be the same, good or bad, for the whole launch.
        self.kept = []
        self._place, self._emit = place, emit

    def say(self, kind, **values):
        self._emit(dict(values, kind=kind, part=self._place))

    def open(self, allowed):
        self._take_interval()
        self._course = proc.Course(allowed)
        self.workload = load(self.job["workload"])(self.job)
        self.say("setup", metrics=self.workload.open())
        self._course.mark("set-up")

    def warm_up(self):
        self._take_interval()
        self._course.resume()
        for _ in range(self.job["warmups"]):
            self.workload.sample()
        self._course.mark("warm-up" if self.job["warmups"] else "set-up")

    def _take_interval(self):
        if sys.getswitchinterval() != self.interval_s:
            sys.setswitchinterval(self.interval_s)

    def enter(self):
        """Begin the part's turn."""
        self._take_interval()
        self._busy_before_s = proc.own_busy_s()
        self._course.resume()
        self._switches_before, self._begun_ns = proc.context_switches(), time.monotonic_ns()

    def leave(self):
        """End the part's turn."""
        self.timed_ns += time.monotonic_ns() - self._begun_ns
        spent = [now - then for now, then in zip(proc.context_switches(), self._switches_before)]
        self.switches = [one + more for one, more in zip(self.switches, spent)]
        self.own_busy_s += proc.own_busy_s() - self._busy_before_s

    def sample(self):
        self.kept.append(self.workload.sample())
        self.say("sample", metrics=self.kept[-1])
        self._course.mark("timed")

    def facts(self, policy, of_all):
        shared = {"turns": of_all} if of_all > 1 else {}
        self.say(
            "facts",
            gil_enabled=proc.gil_enabled(),
            switch_interval_s=self.interval_s,
            policy=policy,
            affinity=sorted(os.sched_getaffinity(0)),
            version=sys.version.split()[0],
            **shared,
        )

    def end(self):
        self.say(
            "end",
            timed_s=self.timed_ns / 1e9,
            utilisation=self._course.utilisation("timed"),
            course=self._course.stretches(),
            own_busy_s=self.own_busy_s,
            voluntary_switches=self.switches[0],
            involuntary_switches=self.switches[1],
            max_rss_bytes=proc.max_rss_bytes(),
            details=self.workload.close() or {},
        )


def run_job(job, emit):
    """Run the parts of a job by turns, and pass each answer (a dict) to `emit`. Exceptions of workloads pass through.

    A launch of one cell is a job with one part.
    """
    # Read before pinning: the other side of a launch may run on any of these cores.
    allowed = os.sched_getaffinity(0)
    proc.pin(job.get("cpus"))
    if job.get("policy"):
        _schedule(job)
    parts = [_Part(dict(job, **part), place, emit) for place, part in enumerate(job["parts"])]
    for part in parts:
        part.open(allowed)
    for part in parts:
        part.warm_up()
    # Garbage is collected now and not in the timed part. The collector stays enabled, because it is part of the
    # measurement.
    gc.collect()
    # Emitted after the imports and a first run: extensions that lack Py_mod_gil have switched the GIL back on by now.
    for part in parts:
        part.facts(job["scheduler"].active if job.get("policy") else "", len(parts))
    now = None
    for turn in range(max(part.job["samples"] for part in parts)):
        for part in turns.in_order(parts, turn):
            if turn >= part.job["samples"]:
                continue
            if part is not now:
                if now is not None:
                    now.leave()
                part.enter()
                now = part
            part.sample()
    now.leave()
    if job.get("policy") and not job["scheduler"].active:
        raise RuntimeError("the policy %s was removed" % job["policy"])
    for part in parts:
        part.end()


def main():
    """Run the process of a launch: exit code 0 after `end`, 1 after a traceback on stderr."""
    answers_fd = int(sys.argv[1])

    def emit(answer):
        os.write(answers_fd, json.dumps(answer).encode() + b"\n")

    emit({"kind": "started", "started_monotonic_ns": _started_monotonic_ns, "pid": os.getpid()})
    code = 1
    try:
        job = json.load(sys.stdin)
        if job.get("stacks_after_s"):
            import faulthandler

            # A launch that hangs dumps its stacks before the controller kills it.
            faulthandler.dump_traceback_later(job["stacks_after_s"])
        run_job(job, emit)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
