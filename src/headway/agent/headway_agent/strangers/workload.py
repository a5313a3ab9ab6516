"""The workload of a launch for `headway advise`: a user's function over its inputs, through a model.

The parameters are:

- `target`: see `target`.
- `tasks`: the number of serial calls in a sample; the inputs are used again and again. If there are more inputs than that,
  some are used that are spread over all (`spread`).
- `calls`: the number of calls in a sample of this model, if not `tasks`: the serial ones, again and again, or some of them.
- `call_s`: the time of a serial call, about. With it, calls that turn out to run one after the other are cut down.
- `workers`.
- `cold`: if false, no sample is taken before the first one that counts; the first `tasks` calls are, if calls are cut.
- `kind`: as in `calls`.
- `fresh`: calls change their arguments, so each sample has new ones.
- `lag`: measure the event loop's lag.
- `compared`: the number of a sample's first calls whose results are compared with those of the same calls alone.

Metrics besides those of `Tasks`: `call_s`, a sample's time over its calls; if `cold`, `first_longer_s`, by how much the
first `tasks` calls exceed later ones, because workers import the function's module then (of threads, the first calls of
the second pool in the process); with `lag`, `loop_lag_s`, the lateness of the loop at each measurement. Details: memory
as `memory_of` gives it, `shared_inputs`, the number of inputs if threads without a GIL have to share them, and
`other_results`, the number of the compared results that are others, and `compared_results`, that of all.
"""

import itertools
import math
import os
import time

from .. import proc
from ..workloads import Tasks
from . import calls
from .renewing import source
from .results import Results
from .spread import places
from .target import find, inputs_of

__all__ = ["Calls", "memory_of"]

LAG_PERIOD_S = 0.002

MOST_IN_TURN_S = 4.0
"""The time for calls of a pool that run one after the other, in a sample: more of them tell nothing."""

BESIDE = 0.7
"""From this share of the best possible gain on, calls run beside each other."""


def memory_of():
    """Return {"own_pss_bytes", "children_pss_bytes" (of each live child)}: the peaks of memory, with shared pages divided."""
    own = os.getpid()
    sizes_bytes = [proc.peak_pss_bytes(child) for child in proc.descendants(own)]
    alive = [size_bytes for size_bytes in sizes_bytes if size_bytes is not None]
    return {"own_pss_bytes": proc.peak_pss_bytes(own), "children_pss_bytes": alive}


class Calls(Tasks):
    """`tasks` calls of the function."""

    def __init__(self, job):
        self.in_loop = job["model"] == "asyncio"
        super().__init__(job)

    def make_arguments(self):
        target = self.params["target"]
        function = find(target)
        given = inputs_of(target, function)
        tasks = self.params["tasks"]
        serial = places(len(given), tasks)
        # The place of each call's input.
        self._places = [serial[place] for place in places(tasks, self.params.get("calls", tasks))]
        chosen = sorted(set(self._places))
        own = [given[place] for place in chosen]
        self._shared = 0
        if self.job["model"].endswith("threads") and not proc.gil_enabled() and not self.params.get("fresh"):
            own = calls.own_inputs(own, self.params["workers"])
            has_arguments = any(args or kwargs for args, kwargs in own)
            self._shared = len(own) if has_arguments and len(own) < self.params["workers"] else 0
        by = calls.LOOP if self.in_loop else calls.SERIAL if self.job["model"] == "serial" else calls.WORKER
        self.task, arguments = calls.task_of(function, self.params["kind"], own, by=by)
        self._function, self._source = function, source(target, function, given) if self.params.get("fresh") else None
        # An input and its copies serve its calls by turns.
        of_input = {place: itertools.cycle(arguments[at :: len(chosen)]) for at, place in enumerate(chosen)}
        return [next(of_input[place]) for place in self._places]

    def _make_fresh(self):
        """Replace the arguments by new ones, if calls change them."""
        if self._source is not None:
            for at in range(len(self.arguments)):
                self.arguments[at] = self._source.arguments(self.task, self._function, self._places[at])

    def open(self):
        metrics = super().open()
        # The import, and the making of the inputs, may have needed more memory than the calls.
        proc.forget_peak()
        self._few = self.arguments[: max(2, self.params["tasks"])]
        is_cold = self.params.get("cold", True)
        if is_cold and self.job["model"].endswith("threads"):
            # The first threads of a process also wait for what it does once, as for their memory: a start is that of others.
            self._few_timed()
            self.model.close()
            metrics.update(super().open())
        # Until the first calls, no worker has imported the function's module, or made what it keeps for itself.
        self._first_s = self._few_timed() if is_cold else None
        if len(self._few) < len(self.arguments):
            self._cut()
        self._compared = Results(self._alone) if self.params.get("compared") else None
        return metrics

    def _alone(self):
        """Return the results of the calls that are compared, with no other call beside them."""
        self._make_fresh()
        return [self.model.run(self.task, [args])[0] for args in self.arguments[: self.params["compared"]]]

    def _few_timed(self):
        every, self.arguments = self.arguments, self._few
        try:
            return self.timed()[1]
        finally:
            self.arguments = every

    def _cut(self):
        """Leave out calls that would tell nothing, because those before them have run one after the other.

        A function may hold the GIL or a lock all the time, and what it asks may serve one call at a time. Ten workers'
        share of such calls would take ten times as long as the same calls in a serial sample.
        """
        count = len(self._few)
        alone_s = count * self.params["call_s"]
        enough = BESIDE * (count if self.in_loop else min(count, self.workers))
        took_s = self._first_s
        if took_s is None or alone_s / took_s < enough:  # the first ones have imported modules, too
            took_s = self._few_timed()
        if alone_s / took_s < enough:
            del self.arguments[max(count, int(MOST_IN_TURN_S / took_s) * count) :]

    def _rounds(self, calls):
        return 1 if self.in_loop else math.ceil(calls / self.workers)

    def timed(self):
        self._make_fresh()
        if not self.params.get("lag"):
            results, took_s = super().timed()
            self._last = results[: self.params.get("compared", 0)]
            return results, took_s
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
        if self._compared is not None:
            self._compared.beside_others(self._last)
        metrics["call_s"] = metrics["work_s"] / len(self.arguments)
        if self._first_s is not None:
            share = self._rounds(len(self._few)) / self._rounds(len(self.arguments))
            metrics["first_longer_s"] = self._first_s - share * metrics["work_s"]
        if self.params.get("lag"):
            metrics["loop_lag_s"] = self.lags_s or [metrics["work_s"]]
        return metrics

    def close(self):
        details = dict(memory_of(), shared_inputs=self._shared)
        if self._compared is not None:
            details.update(compared_results=self._compared.count, other_results=self._compared.others())
        super().close()
        return details
