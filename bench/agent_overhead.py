"""Measure what the agent adds to the times that it measures: one loop, timed by a lab's launch and by a bare script.

Both run in fresh processes of the same interpreter, in pairs of random order, with one warm-up and forty samples. The
fastest sample of each is compared: every sample contains the agent's cost, but only some contain the cost of a busy
host. A host that changes speed between the two processes of a pair still spoils that pair, either way. So the figure is
the median over pairs, with the interval of the sign test. Target: within 2 %.
"""

import argparse
import json
import random
import subprocess
import sys

from doubt import median_interval

from headway.lab import discover, select, this_machine
from headway.lab.design import Cell, Variant
from headway.lab.launching.launch import run_launch

TARGET = 0.02
N = 200_000
SAMPLES = 40

BARE = """
import json, time
def increment(n):
    value = 0
    for _ in range(n):
        value += 1
    return value
samples = []
for _ in range({samples} + 1):
    begun = time.perf_counter()
    increment({n})
    samples.append(time.perf_counter() - begun)
print(json.dumps(samples[1:]))
"""


def through_the_lab(executable: str) -> list[float]:
    """Return the times of the loop in seconds, as a launch measures them."""
    variant = Variant(
        series="serial",
        workload="increment",
        model="serial",
        params={"n": N, "tasks": 1},
        samples=SAMPLES,
        warmups=1,
    )
    cell = Cell("bench", variant, "free", "bench", "bench")
    (launch,) = run_launch([cell], executable, this_machine(), limit_s=60)
    if launch.status != "ok":
        sys.exit(f"the launch failed: {launch.reason}\n{launch.stderr}")
    return launch.samples["work_s"]


def bare(executable: str) -> list[float]:
    """Return the times of the loop in seconds, as a script of its own measures them."""
    script = BARE.format(n=N, samples=SAMPLES)
    done = subprocess.run([executable, "-s", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    times_s: list[float] = json.loads(done.stdout)
    return times_s


def measure(executable: str, pairs: int) -> tuple[float, float, float]:
    """Return the ratio of the lab's figure to the bare script's over `pairs` pairs, with its interval."""
    ratios = []
    for _ in range(pairs):
        order = [through_the_lab, bare]
        random.shuffle(order)
        times_s = {program: program(executable) for program in order}
        ratios.append(min(times_s[through_the_lab]) / min(times_s[bare]))
    return median_interval(ratios)


def main() -> int:
    """Print a line for each interpreter; return 1 if an interval lies wholly outside the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", action="append", help="which (default: 3.8, 3.13 and 3.13t where they are)")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of launches (default: %(default)s)")
    arguments = parser.parse_args()
    found, _ = discover()
    names = arguments.interpreter or [name for name in ("3.8", "3.13", "3.13t") if name in {one.name for one in found}]
    missed = False
    for interpreter in select(found, names):
        ratio, low, high = measure(interpreter.executable, arguments.pairs)
        outside = low > 1 + TARGET or high < 1 - TARGET
        inside = low >= 1 - TARGET and high <= 1 + TARGET
        verdict = "within 2 %" if inside else "NOT within 2 %" if outside else "undecided: the interval crosses 2 %"
        missed |= outside
        print(
            f"{interpreter.name:<6} lab / bare script {ratio:.4f} [{low:.4f}, {high:.4f}], "
            f"{arguments.pairs} pairs: {verdict}",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
