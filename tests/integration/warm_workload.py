"""The http workload, asking every worker what it has imported: run by the agent, so CPython 3.8 and the standard library."""

import os
import sys

from headway_agent.workloads.http import Http

# Read when the client is made: a proxy that nobody serves, which requests to this machine must not ask.
os.environ["http_proxy"] = "http://127.0.0.1:9"
os.environ.pop("no_proxy", None)


def check():
    if "urllib.request" not in sys.modules:
        raise AssertionError("this worker has not imported its client")


class Warm(Http):
    def open(self):
        metrics = Http.open(self)
        self.model.on_each(check)
        return metrics
