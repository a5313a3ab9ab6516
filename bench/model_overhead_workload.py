"""The workload of `model_overhead.py`, in the measured interpreter: one batch by the model, one by the bare call."""

import random
import time

from headway_agent.model import open_model


def nothing():
    """Do nothing, as a task without work of its own."""


async def nothing_awaited():
    """Do nothing, as a task for asyncio."""


class Overhead:
    """Gives `through_s` and `bare_s`: the time per task of `tasks` tasks that do nothing, in random order."""

    def __init__(self, job):
        self.name = job["model"]
        self.tasks = job["params"]["tasks"]

    def open(self):
        self.model = open_model(self.name, 2)
        self.model.start()
        self.function = nothing_awaited if self.name == "asyncio" else nothing
        self.arguments = [()] * self.tasks
        return {}

    def through(self):
        return self.model.run(self.function, self.arguments)

    def bare(self):
        function, arguments = self.function, self.arguments
        if self.name == "serial":
            return [function(*args) for args in arguments]
        if self.name == "asyncio":
            import asyncio

            async def gather():
                return await asyncio.gather(*[function(*args) for args in arguments])

            return self.model.loop.run_until_complete(gather())
        if self.name.startswith("asyncio-"):
            import asyncio

            loop, pool = self.model.loop, self.model._inner.pool

            async def gather():
                return await asyncio.gather(*[loop.run_in_executor(pool, function, *args) for args in arguments])

            return loop.run_until_complete(gather())
        pool = self.model.pool
        return [future.result() for future in [pool.submit(function, *args) for args in arguments]]

    def sample(self):
        metrics = {}
        order = [("through_s", self.through), ("bare_s", self.bare)]
        random.shuffle(order)
        for metric, run in order:
            begun_ns = time.perf_counter_ns()
            results = run()
            metrics[metric] = (time.perf_counter_ns() - begun_ns) / 1e9 / self.tasks
            if len(results) != self.tasks:
                raise AssertionError("lost a task")
        return metrics

    def close(self):
        self.model.close()
