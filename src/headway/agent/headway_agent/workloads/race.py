"""A counter that several threads increment without a lock, and four other ways, safe or not."""

import itertools
import threading
import time

from . import warm

_counter = 0


def _one():
    return 1


def plain(k, _shared):
    """`counter += 1`."""
    global _counter
    for _ in range(k):
        _counter += 1


def call(k, _shared):
    """`counter += one()`: a call, where CPython 3.10+ may let another thread run, between the read and the write."""
    global _counter
    for _ in range(k):
        _counter += _one()


def lock(k, shared):
    """`with lock: counter += 1`."""
    global _counter
    for _ in range(k):
        with shared:
            _counter += 1


def count(k, shared):
    """`next(itertools.count())`."""
    for _ in range(k):
        next(shared)


def append(k, shared):
    """`list.append`."""
    for _ in range(k):
        shared.append(None)


class Race:
    """`threads` threads do `k` increments each, the way `variant` says.

    Metrics: `lost` (increments that are missing at the end), `work_s`.
    """

    VARIANTS = {
        "plain": (plain, lambda: None, lambda shared: _counter),
        "call": (call, lambda: None, lambda shared: _counter),
        "lock": (lock, threading.Lock, lambda shared: _counter),
        "count": (count, itertools.count, next),
        "append": (append, list, len),
    }

    def __init__(self, job):
        self.params = job["params"]
        self.body, self.make_shared, self.total = self.VARIANTS[self.params["variant"]]

    def open(self):
        warm(self.body, 1, self.make_shared())
        return {}

    def _run(self, start, shared):
        start.wait()
        self.body(self.params["k"], shared)

    def sample(self):
        global _counter
        _counter = 0
        shared = self.make_shared()
        start = threading.Barrier(self.params["threads"] + 1)
        threads = [threading.Thread(target=self._run, args=(start, shared)) for _ in range(self.params["threads"])]
        for thread in threads:
            thread.start()
        start.wait()
        begun_ns = time.perf_counter_ns()
        for thread in threads:
            thread.join()
        elapsed_s = (time.perf_counter_ns() - begun_ns) / 1e9
        lost = self.params["threads"] * self.params["k"] - self.total(shared)
        return {"lost": lost, "work_s": elapsed_s}

    def close(self):
        pass
