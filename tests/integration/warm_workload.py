"""The http workload, which asks every worker what it has imported.

The agent runs it, so it needs only CPython 3.8 and the standard library.
"""

import os
import sys

from headway_agent.workloads.http import Http

# Read when the client is made: a proxy that does not exist, which requests to this machine must not use.
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
