"""The C limits as workloads. The module is separate because sub-interpreters of 3.12 cannot import ctypes."""

from ..limits import UNPINNED, Limits
from .pingpong import party_cpus


class _Native:
    """A workload over the library that the job names."""

    def __init__(self, job):
        self.job = job
        self.params = job["params"]

    def open(self):
        self.limits = Limits(self.job["library"])
        return {}

    def close(self):
        pass


class NativeRefcount(_Native):
    """The C loop: `kind` of counting, `threads`, `sharing`, `pairs`, `objects`, `work` units between pairs.

    Metrics: `work_s`, and `pair_s`, the time per incref and decref pair of one thread. Raises AssertionError if the
    final counts lack a reference.
    """

    def sample(self):
        keys = ("kind", "threads", "sharing", "pairs", "objects", "work")
        result = self.limits.refcount(**{key: self.params[key] for key in keys})
        if result.lost:
            raise AssertionError("the %s count lost %d references" % (self.params["kind"], result.lost))
        elapsed_s = result.elapsed_ns / 1e9
        return {"work_s": elapsed_s, "pair_s": elapsed_s / self.params["pairs"]}


class NativePingPong(_Native):
    """The ping-pong over pipes in C between two threads or two processes. Metric: `switch_s`."""

    def open(self):
        self.kind = "processes" if self.job["model"].startswith("processes") else "threads"
        self.rounds = self.params["rounds"]
        self.cpus = [cpus[0] if cpus else UNPINNED for cpus in party_cpus(self.job)]
        return super().open()

    def sample(self):
        result = self.limits.pingpong(self.kind, self.rounds, *self.cpus)
        if result.final_value != 2 * self.rounds:
            raise AssertionError("%d rounds gave %d" % (self.rounds, result.final_value))
        return {"switch_s": result.elapsed_ns / 1e9 / (2 * self.rounds)}


class NativeOneWay(NativePingPong):
    """The one-way variant in C. Metric: `one_way_s`, a list."""

    def sample(self):
        return {"one_way_s": [age / 1e9 for age in self.limits.one_way_ns(self.kind, self.rounds, *self.cpus)]}
