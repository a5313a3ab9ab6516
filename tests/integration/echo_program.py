"""The lab's echo server under its load client, as a program: `echo_program.py JOB`. Prints what the client measured."""

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
