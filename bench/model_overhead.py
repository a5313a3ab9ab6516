"""Measure what a model adds to the call that it wraps, by tasks that do nothing: with the model and with a bare call.

The bare call is the list comprehension, `submit` and `result`, `gather`, or `run_in_executor` that one would write by
hand. Both run in one process, in turns of random order, in fresh launches. Target: within 5 %.
"""

import argparse
import sys
from pathlib import Path

from headway.host.interpreters import Interpreter
from headway.lab import discover, select, this_machine
from headway.lab.design import Cell, Variant
from headway.lab.launching.launch import run_launch
from headway.lab.stats import Interval, launch_value, paired_ratio_interval
from headway.report import seconds

TARGET = 0.05
TASKS = {"serial": 20_000, "asyncio": 2_000}
OTHER_TASKS = 500


def measure(interpreter: Interpreter, model: str, launches: int) -> tuple[Interval, float]:
    """Return the ratio of the model's figure to the bare call's, and the bare call's seconds per task, over launches."""
    variant = Variant(
        series=model,
        workload="model_overhead_workload:Overhead",
        model=model,
        params={"tasks": TASKS.get(model, OTHER_TASKS)},
        samples=15,
        warmups=2,
        paths=(str(Path(__file__).parent),),
    )
    cell = Cell("bench", variant, "free", interpreter.id, "bench")
    pairs, bare_s = [], []
    for _ in range(launches):
        (launch,) = run_launch([cell], interpreter.executable, this_machine(), limit_s=60)
        if launch.status != "ok":
            sys.exit(f"the launch failed: {launch.reason}\n{launch.stderr}")
        both = zip(launch.samples["through_s"], launch.samples["bare_s"], strict=True)
        # The two values of a sample are neighbours in time, so a busy moment hardly changes their ratio.
        pairs.append((launch_value([through / bare for through, bare in both]), 1.0))
        bare_s.append(launch_value(launch.samples["bare_s"]))
    return paired_ratio_interval(pairs), launch_value(bare_s)


def main() -> int:
    """Print a line for each model; return 1 if any interval lies wholly above the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.14", help="which (default: %(default)s)")
    parser.add_argument("--launches", type=int, default=10, help="fresh launches a model (default: %(default)s)")
    arguments = parser.parse_args()
    (interpreter,) = select(discover()[0], [arguments.interpreter])
    missed = False
    for model in interpreter.models:
        ratio, bare_s = measure(interpreter, model, arguments.launches)
        outside = ratio.low > 1 + TARGET
        inside = ratio.high <= 1 + TARGET
        verdict = "within 5 %" if inside else "NOT within 5 %" if outside else "undecided: the interval crosses 5 %"
        missed |= outside
        print(
            f"{interpreter.name} {model:<21} model / bare {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], "
            f"bare {seconds(bare_s)} a task, {arguments.launches} launches: {verdict}",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
