"""What takes a function's place where its size must vary: it takes the same arguments, gives the same result, and lasts as long as asked.

A function has one size, its inputs', and where a pool begins to pay depends on it. So the launches of this workload run
tasks that take the function's pickled arguments and give its result, and compute for a time that is varied: with the GIL,
in C without it, and asleep, in the shares that the function has.

Parameters: `target`, `kind`, `workers`, `sizes_s` (of each, what a task takes alone), `shares` ({"held", "released",
"asleep"}). Metrics: by place of the size, `serial_PLACE_s` and `pooled_PLACE_s`, what a task took.
"""

import hashlib
import itertools
import time

from ..model import CROSSES_A_PICKLE, open_model
from . import calls
from .target import find, inputs_of

__all__ = ["StandIn"]

SAMPLE_S = 0.04
MOST_TASKS = 2000
_PIECE = bytes(32 << 10)
"""hashlib lets go of the GIL for so much, for about 20 us."""

_result = None


def prime(result):
    """Keep what the function gives, once in each worker."""
    global _result
    _result = result


def stand_in(held_s, released_s, asleep_s, arguments):
    """Compute and wait for so long, by the thread's own clock, and return the function's result."""
    clock = time.thread_time
    if held_s > 0:
        until_s = clock() + held_s
        while clock() < until_s:
            for _ in range(40):
                pass
    if released_s > 0:
        until_s = clock() + released_s
        while clock() < until_s:
            hashlib.sha256(_PIECE)
    if asleep_s > 0:
        time.sleep(asleep_s)
    return _result


class StandIn:
    """Sizes by turns, each alone and in the pool; what a size takes is told as time per task."""

    def __init__(self, job):
        self.job, self.params = job, job["params"]
        target = self.params["target"]
        function = find(target)
        given = inputs_of(target, function)
        kind = self.params["kind"]
        task, self.arguments = calls.task_of(function, kind, given)
        prime(task(*self.arguments[0]))

    def open(self):
        self.model = open_model(self.job["model"], self.params["workers"])
        self.model.start()
        if self.job["model"] in CROSSES_A_PICKLE:
            self.model.on_each(prime, _result)
        return {}

    def _tasks(self, size_s):
        shares = self.params["shares"]
        parts = tuple(size_s * shares[name] for name in ("held", "released", "asleep"))
        count = min(MOST_TASKS, max(4 * self.params["workers"], int(SAMPLE_S / max(size_s, 1e-6))))
        return [parts + (one,) for one in itertools.islice(itertools.cycle(self.arguments), count)]

    def sample(self):
        metrics = {}
        for place, size_s in enumerate(self.params["sizes_s"]):
            tasks = self._tasks(size_s)
            begun_ns = time.perf_counter_ns()
            for one in tasks:
                stand_in(*one)
            alone_ns = time.perf_counter_ns()
            self.model.run(stand_in, tasks)
            ended_ns = time.perf_counter_ns()
            metrics["serial_%d_s" % place] = (alone_ns - begun_ns) / 1e9 / len(tasks)
            metrics["pooled_%d_s" % place] = (ended_ns - alone_ns) / 1e9 / len(tasks)
        return metrics

    def close(self):
        self.model.close()
