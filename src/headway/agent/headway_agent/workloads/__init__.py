"""The workloads of launches: classes that take the job, with `open()`, `sample()` and `close()` (may return details).

`open` and `sample` return {metric: value or list of values}. A metric's unit is part of its name (`work_s`); a count
has none. `Tasks` is the common case: one function over a list of arguments, through a model.
"""

import time

from ..model import CROSSES_A_PICKLE, open_model

WARM_CALLS = 16


def warm(function, *args):
    """Call a function often enough for the interpreter to specialise its code.

    CPython 3.11 specialises a function after eight calls or backward jumps (QUICKENING_WARMUP_DELAY,
    Include/internal/pycore_code.h), and the conditional jump of a `while` loop does not count. Such a task, called by eight
    threads, would be quicker than the same loop in one call, which has nothing to do with threads. Modules call `warm` on
    import, so that the function is warm in every worker.
    """
    for _ in range(WARM_CALLS):
        function(*args)


class Tasks:
    """Run `function` over `arguments` through the job's model.

    Metrics from `open`: `pool_start_s` (creating the pool, until every worker is there; the imports for it come before),
    `workers`, and `pickle_s` (pickling and unpickling the tasks once, if the model does so). Metric from `sample`:
    `work_s` (all tasks, from the first submit to the last result). Raises AssertionError if a result differs from
    `expected`.
    """

    function = None
    """The task, a module-level function so that every model can import it."""

    task = None
    """The function of one task, if its parameters or model need another function; by default `function`."""

    def __init__(self, job):
        self.job = job
        self.params = job["params"]
        if self.task is None:
            self.task = type(self).function
        self.arguments = self.make_arguments()
        self.workers = self.params.get("workers", len(self.arguments))

    def make_arguments(self):
        """Return one tuple of arguments per task."""
        raise NotImplementedError

    def expected(self):
        """Return the results that every sample must give, or None."""

    def open(self):
        self.model = open_model(self.job["model"], self.workers)
        begun_ns = time.perf_counter_ns()
        self.model.start()
        metrics = {"pool_start_s": (time.perf_counter_ns() - begun_ns) / 1e9, "workers": self.workers}
        if self.job["model"] in CROSSES_A_PICKLE:
            import pickle

            begun_ns = time.perf_counter_ns()
            for args in self.arguments:
                pickle.loads(pickle.dumps((self.task, args)))
            metrics["pickle_s"] = (time.perf_counter_ns() - begun_ns) / 1e9
        return metrics

    def timed(self):
        """Run all tasks once; return (results in order, seconds from first submit to last result)."""
        begun_ns = time.perf_counter_ns()
        results = self.model.run(self.task, self.arguments)
        ended_ns = time.perf_counter_ns()
        return results, (ended_ns - begun_ns) / 1e9

    def sample(self):
        results, work_s = self.timed()
        expected = self.expected()
        if expected is not None and results != expected:
            raise AssertionError("the tasks returned %r, expected %r" % (results, expected))
        return {"work_s": work_s}

    def close(self):
        self.model.close()
