"""Several cells in one launch, by turns: forth and back, so that what slows the machine for a moment slows all alike.

The job has `parts`, each with a workload, a model and its counts of samples; the rest of the job is common to them. All parts are
opened and warmed up first. Then each has a sample in order, and each one in the opposite order, and so on (A B B A). Answers are
as in `worker`, with the place of the part they are of.
"""

import gc
import os
import sys
import time

from . import proc
from .worker import load


class _Part:
    """One cell of the launch, with what it used up so far."""

    def __init__(self, job, place, emit):
        self.job = job
        self.interval_s = job.get("switch_interval_s") or sys.getswitchinterval()
        self.timed_ns = 0
        self.switches = [0, 0]
        self.kept = []  # as in worker.run_job
        self._place, self._emit = place, emit
        self._course = proc.Course(())

    def say(self, kind, **values):
        self._emit({"kind": kind, "part": self._place, **values})

    def open(self, allowed):
        self._course = proc.Course(allowed)
        self.workload = load(self.job["workload"])(self.job)
        self.say("setup", metrics=self.workload.open())
        self._course.mark("set-up")

    def warm_up(self):
        self._enter()
        for _ in range(self.job["warmups"]):
            self.workload.sample()
        self._course.mark("warm-up" if self.job["warmups"] else "set-up")

    def _enter(self):
        if sys.getswitchinterval() != self.interval_s:
            sys.setswitchinterval(self.interval_s)
        self._course.resume()

    def sample(self):
        self._enter()
        before, begun_ns = proc.context_switches(), time.monotonic_ns()
        self.kept.append(self.workload.sample())
        self.timed_ns += time.monotonic_ns() - begun_ns
        self.switches = [sum_ + now - then for sum_, now, then in zip(self.switches, proc.context_switches(), before)]
        self._course.mark("timed")
        self.say("sample", metrics=self.kept[-1])

    def facts(self, of_all):
        self.say(
            "facts",
            gil_enabled=proc.gil_enabled(),
            switch_interval_s=self.interval_s,
            policy="",
            affinity=sorted(os.sched_getaffinity(0)),
            version=sys.version.split()[0],
            turns=of_all,
        )

    def end(self):
        self.say(
            "end",
            timed_s=self.timed_ns / 1e9,
            utilisation=self._course.utilisation("timed"),
            course=self._course.stretches(),
            voluntary_switches=self.switches[0],
            involuntary_switches=self.switches[1],
            max_rss_bytes=proc.max_rss_bytes(),
            details=self.workload.close() or {},
        )


def run_turns(job, emit):
    """Run the parts of a job by turns, and pass each answer (a dict) to `emit`. Whatever a workload raises goes through."""
    allowed = os.sched_getaffinity(0)
    proc.pin(job.get("cpus"))
    parts = [_Part(dict(job, **part), place, emit) for place, part in enumerate(job["parts"])]
    for part in parts:
        part.open(allowed)
    for part in parts:
        part.warm_up()
    gc.collect()
    for part in parts:
        part.facts(len(parts))
    for turn in range(max(part.job["samples"] for part in parts)):
        for part in parts if turn % 2 == 0 else reversed(parts):
            if turn < part.job["samples"]:
                part.sample()
    for part in parts:
        part.end()
