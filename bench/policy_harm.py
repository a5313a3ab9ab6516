"""Measure what a policy for the GIL costs where it has nothing to gain.

In one process the work goes on while the policy changes every tenth of a second, in random order: none, none again,
`fair`. The figure of a round is its ratio to none, the figure of a launch is the median of its rounds, and the table
has the median of fresh launches with the interval of the sign test. So the drift of the machine, which is far larger
than the target, is the same on both sides. Target: at most 2 % slower. The gains and losses of "none again" are noise.
Servers run on one core and the C client on another; the system places all other processes.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median
from typing import Any

from doubt import median_interval

from headway.agent import AGENT_PATH
from headway.host.interpreters import Interpreter
from headway.lab import discover, select
from headway.library import library_path
from headway.native import policies

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
WINDOW_S = 0.1
MOST_SLOWER = 0.02
NONE, AGAIN = "none", "none again"


def rates(interpreter: Interpreter, work: tuple[str, int], chosen: list[str], rounds: int) -> list[list[float]]:
    """Return the rates in one fresh process: a list for each round, in the order of `chosen`."""
    name, number = work
    served = name in ("echo", "asyncio")
    cores = sorted(os.sched_getaffinity(0))
    arguments = [str(number), str(AGENT_PATH), str(library_path()), str(WINDOW_S), str(rounds)]
    process = subprocess.Popen(
        [
            *(["taskset", "-c", str(cores[0])] if served else []),
            interpreter.executable,
            WORKLOAD,
            name,
            *arguments,
            *["" if one in (NONE, AGAIN) else one for one in chosen],
        ],
        env={key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HEADWAY_P"))},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            if not served:
                return list(json.loads(process.stdout.readline()))
            load = {"port": int(process.stdout.readline()), "connections": number, "request": "x" * 64}
            with LoadClient(library_path(), [cores[-1]]) as client:
                # Longer than the server measures: the end of the server ends it early. Its figures are not used.
                longest_s = PATIENCE_S + 2 * WINDOW_S * rounds * len(chosen)
                asking = threading.Thread(
                    target=load_until_the_end,
                    args=(
                        client,
                        {**load, "response_bytes": 64, "duration_s": longest_s, "max_duration_s": 2 * longest_s},
                    ),
                )
                asking.start()
                found = list(json.loads(process.stdout.readline()))
                process.kill()
                asking.join()
                return found
        finally:
            process.kill()


def load_until_the_end(client: LoadClient, load: dict[str, Any]) -> None:
    """Send requests until the server has ended."""
    with contextlib.suppress(OSError):
        client.run(load)


def main() -> int:
    """Print a line for each work and policy; return 1 if `fair` is too slow beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpreter", default="3.13", help="which (default: %(default)s)")
    parser.add_argument(
        "--policy", action="append", choices=[one.name for one in policies()[0]], help="may be repeated"
    )
    parser.add_argument("--launches", type=int, default=6, help="6 at least (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=12, help="of a launch (default: %(default)s)")
    parser.add_argument("--work", action="append", choices=WORKS, help="only this one; may be repeated")
    arguments = parser.parse_args()
    if arguments.launches < 6:
        parser.error("--launches: 6 at least, else there is no 95 % interval")
    (interpreter,) = select(discover()[0], [arguments.interpreter])
    chosen = [NONE, AGAIN, *(arguments.policy or ["fair"])]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{interpreter.name}, {arguments.launches} launches of {arguments.rounds} rounds, load averages {load}")
    missed = False
    launched: dict[str, list[list[list[float]]]] = {title: [] for title in arguments.work or WORKS}
    for i in range(arguments.launches):
        for title in random.sample(list(launched), len(launched)):
            print(f"launch {i + 1} of {arguments.launches}: {title}", file=sys.stderr)
            launched[title].append(rates(interpreter, WORKS[title], chosen, arguments.rounds))
    for title, launches in launched.items():
        said = []
        for i, policy in enumerate(chosen[1:], 1):
            # On a busy machine, a round may have done nothing without a policy: then it has no ratio.
            ratios = [median(one[i] / one[0] for one in rounds if one[0] > 0) for rounds in launches]
            middle, low, high = median_interval(ratios)
            said.append(f"{policy} {100 * (middle - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]")
            missed |= policy == "fair" and high < 1 - MOST_SLOWER
        bare = median(one[0] for rounds in launches for one in rounds)
        print(f"{title + ':':42} {bare:9,.0f}/s  {'  '.join(said)}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
