"""The workload of a launch for `headway advise`: a user's function over its inputs, through a model.

The parameters are:

- `target`: see `target`.
- `tasks`: the number of calls in a sample; the inputs are used again and again.
- `workers`.
- `kind`: as in `calls`.
- `fresh`: calls change their arguments, so each sample has new ones.
- `lag`: measure the event loop's lag.

Metrics besides those of `Tasks`: `first_work_s`, the time of the first sample, in which workers import the function's
module; with `lag`, `loop_lag_s`, the lateness of the loop at each measurement. Details: memory as `memory_of` gives it.
"""

import itertools
import os
import time

from .. import proc
from ..workloads import Tasks
from . import calls
from .target import find, inputs_of

__all__ = ["Calls", "memory_of"]

LAG_PERIOD_S = 0.002


def memory_of():
    """Return {"own_pss_bytes", "children_pss_bytes" (of each live child)}: memory, with shared pages divided."""
    own = os.getpid()
    sizes_bytes = [proc.pss_bytes(child) for child in proc.descendants(own)]
    alive = [size_bytes for size_bytes in sizes_bytes if size_bytes is not None]
    return {"own_pss_bytes": proc.pss_bytes(own), "children_pss_bytes": alive}


class Calls(Tasks):
    """`tasks` calls of the function."""

    def __init__(self, job):
        self.in_loop = job["model"] == "asyncio"
        super().__init__(job)

    def make_arguments(self):
        target = self.params["target"]
        function = find(target)
        given = inputs_of(target, function)
        self.task, arguments = calls.task_of(function, self.params["kind"], given, in_loop=self.in_loop)
        self._function, self._copies = function, calls.Copies(given) if self.params.get("fresh") else None
        return list(itertools.islice(itertools.cycle(arguments), self.params["tasks"]))

    def _make_fresh(self):
        """Replace the arguments by unchanged copies, if calls change them."""
        if self._copies is not None:
            for place in range(len(self.arguments)):
                self.arguments[place] = self._copies.arguments(self.task, self._function, place)

    def open(self):
        metrics = super().open()
        # The first tasks in every worker: until then no worker has imported the function's module.
        _, metrics["first_work_s"] = self.timed()
        return metrics

    def timed(self):
        self._make_fresh()
        if not self.params.get("lag"):
            return super().timed()
        begun_ns = time.perf_counter_ns()
        results, self.lags_s = self.model.run_coroutine(self._with_lag())
        return results, (time.perf_counter_ns() - begun_ns) / 1e9

    async def _with_lag(self):
        import asyncio

        lags_s, loop = [], asyncio.get_running_loop()

        async def look():
            while True:
                due_s = loop.time() + LAG_PERIOD_S
                await asyncio.sleep(LAG_PERIOD_S)
                lags_s.append(max(0.0, loop.time() - due_s))

        looking = asyncio.ensure_future(look())
        await asyncio.sleep(0)
        try:
            results = await self.model.gather(self.task, self.arguments)
        finally:
            looking.cancel()
        return results, lags_s

    def sample(self):
        metrics = super().sample()
        if self.params.get("lag"):
            metrics["loop_lag_s"] = self.lags_s or [metrics["work_s"]]
        return metrics

    def close(self):
        memory = memory_of()
        super().close()
        return memory
