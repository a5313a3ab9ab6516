"""A stand-in for a function, for varied task sizes: same arguments, same result, and as long a run as requested.

A function has one size, that of its inputs, and whether a pool pays depends on the size. The launches of this workload
therefore run tasks that take the function's pickled arguments and give its result, and compute for a varied time: with
the GIL, in C without it, and asleep, in the same shares as the function.

Work is counted, not timed: if two cores share their arithmetic units, or a worker's code is cold, the same work takes
longer, as the function's work does. The amount of work that fills a size is measured first, with nothing else running.

The parameters are:

- `target`, `kind`, `workers`.
- `sizes_s`: the time of a task alone, for each size.
- `shares`: {"held", "released", "asleep"}.
- `stretch_s`: how long the function computes without the GIL at a time.

Metrics: `serial_PLACE_s` and `pooled_PLACE_s`, the time per task, by the place of the size.
"""

import hashlib
import itertools
import time

from ..model import CROSSES_A_PICKLE, open_model
from . import calls
from .spread import order
from .target import find, inputs_of

__all__ = ["StandIn"]

SAMPLE_S = 0.04
MOST_TASKS = 2000
_CALIBRATED_S = 0.02
_PIECE_BYTES = 1 << 20
"""The longest stretch without the GIL; hashlib releases the GIL for 2 KB and more."""

_result, _work, _data = None, (), b""


def prime(result, work):
    """Set the function's result and the work of a task by place, once in each worker."""
    global _result, _work, _data
    _result, _work, _data = result, work, memoryview(bytes(_PIECE_BYTES))


def _turn(times):
    for _ in range(times):
        pass


def _hash(size_bytes, piece_bytes):
    # One digest object for all pieces: only its updates run without the GIL.
    digest = hashlib.sha256()
    piece = _data[:piece_bytes]
    while size_bytes > piece_bytes:
        digest.update(piece)
        size_bytes -= piece_bytes
    digest.update(_data[:size_bytes])


def stand_in(place, *arguments):
    """Compute with the GIL and without it, sleep, and return the function's result."""
    turns, size_bytes, piece_bytes, asleep_s = _work[place]
    if turns:
        _turn(turns)
    if size_bytes:
        _hash(size_bytes, piece_bytes)
    if asleep_s:
        time.sleep(asleep_s)
    return _result


def _rate(function):
    """Return how many of its units a function does in a second, the best of several measurements."""
    count, best = 64, 0.0
    while True:
        begun_s = time.perf_counter()
        function(count)
        took_s = time.perf_counter() - begun_s
        if took_s > _CALIBRATED_S / 4:
            best = max(best, count / took_s)
            if took_s > _CALIBRATED_S:
                return best
        count *= 2


class StandIn:
    """Runs sizes by turns, each alone and in the pool; the metric of a size is its time per task."""

    def __init__(self, job):
        self.job, self.params = job, job["params"]
        target = self.params["target"]
        function = find(target)
        given = inputs_of(target, function)
        kind = self.params["kind"]
        task, arguments = calls.task_of(function, kind, given)
        # A short sample has some of many inputs.
        self.arguments = [arguments[place] for place in order(len(arguments))]
        self.result = task(*self.arguments[0])

    def open(self):
        shares = self.params["shares"]
        prime(self.result, ())
        turns_per_s = _rate(_turn)
        bytes_per_s = 4096 * _rate(lambda blocks: _hash(4096 * blocks, _PIECE_BYTES))
        piece_bytes = min(_PIECE_BYTES, max(2048, int(self.params["stretch_s"] * bytes_per_s)))
        work = [
            (
                int(size_s * shares["held"] * turns_per_s),
                int(size_s * shares["released"] * bytes_per_s),
                piece_bytes,
                size_s * shares["asleep"],
            )
            for size_s in self.params["sizes_s"]
        ]
        prime(self.result, work)
        self.model = open_model(self.job["model"], self.params["workers"])
        self.model.start()
        if self.job["model"] in CROSSES_A_PICKLE:
            self.model.on_each(prime, self.result, work)
        return {}

    def _tasks(self, place, size_s):
        count = min(MOST_TASKS, max(4 * self.params["workers"], int(SAMPLE_S / max(size_s, 1e-6))))
        return [(place,) + one for one in itertools.islice(itertools.cycle(self.arguments), count)]

    def sample(self):
        metrics = {}
        for place, size_s in enumerate(self.params["sizes_s"]):
            tasks = self._tasks(place, size_s)
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
