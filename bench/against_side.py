"""One side of `against.py`: makes launches in the environment of a build, with that build's own bench programs.

The argument is the checkout. The protocol has a JSON object a line. When ready, the program writes {"measures": [...]}.
For each {"measure", "interpreter", "seconds", "rounds"} that it reads, it makes one launch and answers {"figures":
{name: value}}, all of them better if greater, or {"error"}.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

CHECKOUT = Path(sys.argv[1])
sys.path[0] = str(CHECKOUT / "bench")

import policy_harm  # noqa: E402  (from the checkout)
import trace_overhead  # noqa: E402
import trace_overhead_tools  # noqa: E402

# Where these are defined differs from revision to revision; its bench program has them all.
LoadClient, discover, library_path, select = (
    vars(trace_overhead)[name] for name in ("LoadClient", "discover", "library_path", "select")
)

HEADWAY = trace_overhead_tools.TOOLS["headway"]


def figures(order: dict[str, Any]) -> dict[str, float]:
    """Make a launch and return its figures."""
    kind, _, name = order["measure"].partition(": ")
    (interpreter,) = select(discover()[0], [order["interpreter"]])
    if kind == "policy":
        rounds = policy_harm.rates(interpreter, policy_harm.WORKS[name], [policy_harm.NONE, "fair"], order["rounds"])
        return {"fair to none": statistics.median(one[1] / one[0] for one in rounds)}
    cores = sorted(os.sched_getaffinity(0))
    work = trace_overhead.WORKS[name]
    with (
        LoadClient(library_path(), [cores[-1]]) as client,
        tempfile.TemporaryDirectory(prefix="headway-against-") as folder,
    ):
        bench = trace_overhead.Bench(client, cores, order["seconds"], Path(folder))
        if kind == "switch":
            rate, per_cpu_s = bench.switch(work, interpreter)
            return {"on to off, rate": rate, "on to off, per CPU-second": per_cpu_s}
        launch = bench.launch(HEADWAY, work, interpreter)
        return {"rate": launch.rate, "rate per CPU-second": launch.per_cpu_s}


def main() -> None:
    """Answer until the end of the input."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of a bench program is not an answer
    measures = [f"{kind}: {name}" for kind in ("trace", "switch") for name in trace_overhead.WORKS]
    measures += [f"policy: {name}" for name in policy_harm.WORKS]
    print(json.dumps({"measures": measures, "library": str(library_path())}), file=said, flush=True)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"figures": figures(json.loads(line))}
        except Exception as error:  # noqa: BLE001  the main program must learn which launch failed
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=said, flush=True)


if __name__ == "__main__":
    main()
