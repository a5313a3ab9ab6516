"""Runs the lab's echo server under its load client: `echo_program.py JOB`. Prints the client's measurements."""

import json
import sys

from headway_agent.workloads.convoy import Convoy

if __name__ == "__main__":
    convoy = Convoy(json.loads(sys.argv[1]))
    convoy.open()
    metrics = convoy.sample()
    metrics["work"] = sum(convoy._done)
    metrics["requests"] = convoy.close()["requests"]
    print(json.dumps(metrics))
