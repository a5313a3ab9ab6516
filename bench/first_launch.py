"""Measure the time from `headway lab` on the command line to its first launch, beside the start of a bare interpreter.

The time runs from the start of the command to its progress line for the first launch. Discovery uses its cache, and
each repetition has a new store. Target: under a second.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headway.lab.stats import level_interval
from headway.report import seconds

TARGET_S = 1.0


def first_launch_s(store: Path) -> float:
    """Return the seconds from the start of the command to its first launch."""
    command = [sys.executable, "-m", "headway", "lab", "sleep", "--model", "serial", "--launches", "1"]
    begun_s = time.perf_counter()
    with subprocess.Popen(
        [*command, "--store", str(store)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("0/"):
                elapsed_s = time.perf_counter() - begun_s
                break
        else:
            sys.exit("the lab launched nothing")
        process.terminate()
        process.communicate()
    return elapsed_s


def bare_s() -> float:
    """Return the seconds that a bare interpreter takes to start and end."""
    begun_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - begun_s


def main() -> int:
    """Print both figures; return 1 if the target is missed beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="(default: %(default)s)")
    arguments = parser.parse_args()
    lab, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.repeats):
            lab.append(first_launch_s(Path(folder) / f"{number}.sqlite"))
            bare.append(bare_s())
    ours, theirs = level_interval(lab), level_interval(bare)
    verdict = "under a second" if ours.high < TARGET_S else "OVER a second" if ours.low > TARGET_S else "undecided"
    print(
        f"command to first launch {seconds(ours.value)} [{seconds(ours.low)}, {seconds(ours.high)}], "
        f"python -c pass {seconds(theirs.value)} [{seconds(theirs.low)}, {seconds(theirs.high)}], "
        f"{arguments.repeats} repeats: {verdict}"
    )
    return int(ours.low > TARGET_S)


if __name__ == "__main__":
    sys.exit(main())
