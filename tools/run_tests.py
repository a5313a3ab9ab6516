"""Runs the Python tests: beside each other, then those that look at time, one after the other.

usage: run_tests.py [--full] [PYTEST ARGUMENT...]

A test that does the same on each interpreter, or with each policy, runs on one of them (tests/conftest.py); with --full on
all. Exits 0 where both parts pass; a part that none of the arguments' tests belongs to passes.
"""

import os
import subprocess
import sys
import time

from default_signals import restore_for_children

NO_TESTS = 5
# Twice as many at a time as there are cores: most tests wait for processes and timers.
BESIDE = 2 * len(os.sched_getaffinity(0))
PARTS = (
    ("beside each other", ["-n", str(BESIDE), "--dist", "worksteal", "-m", "not times"]),
    ("one by one", ["-m", "times"]),
)


def main(arguments: list[str]) -> int:
    """Run both parts, also where the first fails; return the worst exit code."""
    restore_for_children()
    full = "--full" in arguments
    arguments = [*(one for one in arguments if one != "--full"), "--matrix", "full" if full else "sample"]
    if any(one.startswith("-m") and not one.startswith("--") for one in arguments):
        # A choice by marker takes the place of ours: then one by one.
        return abs(subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode)
    codes = []
    for name, options in PARTS:
        begun_s = time.monotonic()
        codes.append(subprocess.run([sys.executable, "-m", "pytest", *options, *arguments], check=False).returncode)
        print(
            f"== tests {name}: exit code {codes[-1]} after {time.monotonic() - begun_s:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if codes[-1] == 2:  # interrupted
            return 2
    if set(codes) == {NO_TESTS}:
        return NO_TESTS
    # A part that a signal ended has a code below 0.
    return next((abs(code) for code in codes if code not in {0, NO_TESTS}), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
