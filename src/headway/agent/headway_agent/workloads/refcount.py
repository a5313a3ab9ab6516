"""The cost of counting references in Python, depending on which other threads use the object."""

import threading
import time

from . import warm


def touch(n, target):
    """Take and drop a reference to `target` 8 * n times.

    Binding a name takes a reference and drops the one before, on every version: the borrowed loads of 3.14
    (LOAD_FAST_BORROW) do not apply to a value that is stored.
    """
    a = b = None
    for _ in range(n):
        a = target
        b = target
        a = None
        b = None
        a = target
        b = target
        a = None
        b = None
        a = target
        b = target
        a = None
        b = None
        a = target
        b = target
        a = None
        b = None
    return a, b


class Target:
    """A plain object with an ordinary reference count."""


class Refcount:
    """`threads` threads touch an object `n` times each: `own`, one `shared` by all, or an `immortal` one (None).

    Metrics: `work_s`, and `pair_s`: the time per incref and decref pair of one thread, the loop included.
    """

    def __init__(self, job):
        self.params = job["params"]

    def open(self):
        warm(touch, 1, None)
        return {}

    def _run(self, start, shared, stamps):
        # Made in this thread, so that this thread owns the object on a free-threaded build (PEP 703, biased counting).
        target = Target() if self.params["sharing"] == "own" else shared
        start.wait()
        begun_ns = time.perf_counter_ns()
        touch(self.params["n"], target)
        stamps.append((begun_ns, time.perf_counter_ns()))

    def sample(self):
        shared = None if self.params["sharing"] == "immortal" else Target()
        stamps = []
        start = threading.Barrier(self.params["threads"])
        arguments = (start, shared, stamps)
        threads = [threading.Thread(target=self._run, args=arguments) for _ in range(self.params["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # From the first begin to the last end: the wake-up at the barrier does not count.
        elapsed_s = (max(ended for _, ended in stamps) - min(begun for begun, _ in stamps)) / 1e9
        return {"work_s": elapsed_s, "pair_s": elapsed_s / (8 * self.params["n"])}

    def close(self):
        pass
