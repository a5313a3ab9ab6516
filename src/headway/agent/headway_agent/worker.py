"""One launch: read the job, run its workload, stream what was measured, leave.

Protocol. The job is one JSON object on standard input. Answers are JSON objects, one a line, on the descriptor named
by `argv[1]` (a workload may print what it likes): `started`, `facts`, `setup`, one `sample` each, `end`. A launch that
ends without `end` has failed; its stderr says why. All times are in seconds unless the key says otherwise;
`*_monotonic_ns` are CLOCK_MONOTONIC, which the controller shares.

The process leaves by `os._exit`: the interpreter's finalisation is no part of a launch, and CPython 3.12.1 crashes in
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

from . import proc  # noqa: E402

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


def run_job(job, emit):
    """Run one job and pass each answer (a dict) to `emit`. Whatever the workload raises goes through."""
    # Before we pin ourselves: a launch's other side may run on any of these.
    allowed = os.sched_getaffinity(0)
    proc.pin(job.get("cpus"))
    if job.get("switch_interval_s"):
        sys.setswitchinterval(job["switch_interval_s"])
    if job.get("policy"):
        _schedule(job)
    course = proc.Course(allowed)
    workload = load(job["workload"])(job)
    emit({"kind": "setup", "metrics": workload.open()})
    course.mark("set-up")
    for _ in range(job["warmups"]):
        workload.sample()
    # Collected now and not in the timed part; left enabled, because it is a part of what is measured.
    gc.collect()
    # After the imports and a first run: any extension that lacks Py_mod_gil has switched the GIL back on by now.
    emit(
        {
            "kind": "facts",
            "gil_enabled": proc.gil_enabled(),
            "switch_interval_s": sys.getswitchinterval(),
            "policy": job["scheduler"].active if job.get("policy") else "",
            "affinity": sorted(os.sched_getaffinity(0)),
            "version": sys.version.split()[0],
        }
    )
    switches = proc.context_switches()
    course.mark("warm-up" if job["warmups"] else "set-up")
    begun_ns = time.monotonic_ns()
    # Kept as a bare script would keep them. On 3.13t the time of a loop over ints depends on how far mimalloc's page of
    # their size class is used, by up to a tenth; while the samples are kept, that state moves on from sample to sample
    # instead of being the same, good or bad, for the whole launch.
    kept = []
    for _ in range(job["samples"]):
        kept.append(workload.sample())
        emit({"kind": "sample", "metrics": kept[-1]})
        course.mark("timed")
    ended_ns = time.monotonic_ns()
    switches = [after - before for before, after in zip(switches, proc.context_switches())]
    end = {
        "kind": "end",
        "timed_s": (ended_ns - begun_ns) / 1e9,
        "utilisation": course.utilisation("timed"),
        "course": course.stretches(),
        "voluntary_switches": switches[0],
        "involuntary_switches": switches[1],
        "max_rss_bytes": proc.max_rss_bytes(),
    }
    if job.get("policy") and not job["scheduler"].active:
        raise RuntimeError("the policy %s was removed" % job["policy"])
    end["details"] = workload.close() or {}
    emit(end)


def main():
    """Be the process of a launch: exit code 0 after `end`, 1 after a traceback on stderr."""
    answers_fd = int(sys.argv[1])

    def emit(answer):
        os.write(answers_fd, json.dumps(answer).encode() + b"\n")

    emit({"kind": "started", "started_monotonic_ns": _started_monotonic_ns, "pid": os.getpid()})
    code = 1
    try:
        job = json.load(sys.stdin)
        if job.get("stacks_after_s"):
            import faulthandler

            # A launch that hangs says where, before the controller kills it.
            faulthandler.dump_traceback_later(job["stacks_after_s"])
        if "parts" in job:
            from .turns import run_turns

            run_turns(job, emit)
        else:
            run_job(job, emit)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
