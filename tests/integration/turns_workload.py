"""Workloads that report when they had their turn, and under which switch interval."""

import sys


class Noted:
    """Writes each sample's turn to a file."""

    def __init__(self, job):
        self.params = job["params"]

    def open(self):
        self.samples = 0
        return {"pool_start_s": 0.0}

    def sample(self):
        # The first sample is the warm-up.
        with open(self.params["log"], "a", encoding="utf-8") as log:
            log.write(self.params["name"] + ("-timed" if self.samples else "-warm") + "\n")
        self.samples += 1
        return {"work_s": float("abc".index(self.params["name"]) + 1)}

    def close(self):
        pass


class Interval:
    """Reports the switch interval of its samples."""

    def __init__(self, job):
        pass

    def open(self):
        return {}

    def sample(self):
        return {"interval_s": sys.getswitchinterval()}

    def close(self):
        pass
