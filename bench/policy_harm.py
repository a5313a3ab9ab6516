"""What a policy for the GIL costs where there is nothing to win: each work under it beside none, in fresh processes.

A block is one launch of each, next to each other in drawn order; a figure is the median of the blocks' ratios with the
interval of the sign test. Target: at most 2 % slower. "none again" is a launch without a policy, too: what it seems to
lose or win is noise. Servers run on one core and the C client on another; the rest goes where the system puts it.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from agent_overhead import median_interval

from headway.agent import AGENT_PATH
from headway.lab import discover, select
from headway.lab.interpreters import Interpreter
from headway.live.launch import scheduled_environment
from headway.native import library_path, policies

sys.path.insert(0, str(AGENT_PATH))
from headway_agent.load import LoadClient

WORKLOAD = Path(__file__).with_name("policy_harm_workload.py")
WORKS = {
    **{f"compute in {n} thread{'s' * (n > 1)}": ("compute", n) for n in (1, 2, 4, 8)},
    **{f"echo server, {n} connection{'s' * (n > 1)}": ("echo", n) for n in (1, 10, 100)},
    "asyncio echo server, 10 connections": ("asyncio", 10),
    "sha256 of 64 KiB in 4 threads": ("digest", 4),
    "queue.Queue, 2 producers and 2 consumers": ("queue", 2),
    "one lock, 4 threads": ("lock", 4),
    "tiny GIL round trips, 1 thread": ("trips", 1),
    "tiny GIL round trips, 2 threads": ("trips", 2),
}
PATIENCE_S = 60
MOST_SLOWER = 0.02
NONE, AGAIN = "none", "none again"


def rate(client: LoadClient, interpreter: Interpreter, work: tuple[str, int], policy: str, seconds: float) -> float:
    """Return the rate of one fresh process."""
    name, number = work
    base = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_P"))}
    env = scheduled_environment(None if policy in (NONE, AGAIN) else policy, base=base)
    served = name in ("echo", "asyncio")
    core = min(os.sched_getaffinity(0))
    process = subprocess.Popen(
        [
            *(["taskset", "-c", str(core)] if served else []),
            interpreter.executable,
            WORKLOAD,
            name,
            str(number),
            str(seconds),
        ],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not served:
                return float(json.loads(line))
            load = {"port": int(line), "connections": number, "request": "x" * 64, "response_bytes": 64}
            return float(client.run({**load, "warmup_s": 0.05, "duration_s": seconds})["requests_per_s"])
        finally:
            process.kill()


def main() -> int:
    """Print a line per work and policy; 1 if `fair` is slower than it may be beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13", help="which (default: %(default)s)")
    parser.add_argument(
        "--policy", action="append", choices=[one.name for one in policies()[0]], help="may be repeated"
    )
    parser.add_argument("--blocks", type=int, default=10, help="6 at least (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a launch (default: %(default)s)")
    parser.add_argument("--work", action="append", choices=WORKS, help="only this one; may be repeated")
    arguments = parser.parse_args()
    if arguments.blocks < 6:
        parser.error("--blocks: 6 at least, else there is no 95 % interval")
    (interpreter,) = select(discover()[0], [arguments.interpreter])
    chosen = [AGAIN, *(arguments.policy or ["fair"])]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{interpreter.name}, {arguments.blocks} blocks of {arguments.seconds:g} s a launch, load averages {load}")
    missed = False
    with LoadClient(library_path(), [max(os.sched_getaffinity(0))]) as client:
        for title in arguments.work or WORKS:
            ratios: dict[str, list[float]] = {policy: [] for policy in chosen}
            bare = []
            for _ in range(arguments.blocks):
                rates = {
                    policy: rate(client, interpreter, WORKS[title], policy, arguments.seconds)
                    for policy in random.sample([NONE, *chosen], len(chosen) + 1)
                }
                bare.append(rates[NONE])
                for policy in chosen:
                    ratios[policy].append(rates[policy] / rates[NONE])
            said = []
            for policy in chosen:
                middle, low, high = median_interval(ratios[policy])
                said.append(f"{policy} {100 * (middle - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]")
                missed |= policy == "fair" and high < 1 - MOST_SLOWER
            print(f"{title + ':':42} {sorted(bare)[len(bare) // 2]:9,.0f}/s  {'  '.join(said)}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
