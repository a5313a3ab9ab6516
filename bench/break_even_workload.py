"""The workload of bench/advise_break_even.py: a function at several sizes in turns, each alone and in a pool."""

import time

from headway_agent.model import open_model
from headway_agent.strangers.target import find

SAMPLE_S = 0.04


class Sweep:
    def __init__(self, job):
        self.job, self.params = job, job["params"]
        self.function = find(self.params["target"])

    def open(self):
        self.model = open_model(self.job["model"], self.params["workers"])
        self.model.start()
        self.model.run(self.function, [(1,)] * 4 * self.params["workers"])
        return {}

    def sample(self):
        metrics = {}
        for place, (size, size_s) in enumerate(self.params["units"]):
            count = min(2000, max(4 * self.params["workers"], int(SAMPLE_S / max(size_s, 1e-6))))
            tasks = [(size,)] * count
            begun_ns = time.perf_counter_ns()
            for one in tasks:
                self.function(*one)
            alone_ns = time.perf_counter_ns()
            self.model.run(self.function, tasks)
            ended_ns = time.perf_counter_ns()
            metrics["serial_%d_s" % place] = (alone_ns - begun_ns) / 1e9 / count
            metrics["pooled_%d_s" % place] = (ended_ns - alone_ns) / 1e9 / count
        return metrics

    def close(self):
        self.model.close()
