"""Run the Python tests in two parts: first in parallel, then one by one those that measure time.

usage: run_tests.py [--full] [PYTEST ARGUMENT...]

A test that does the same on each interpreter, or with each policy, runs on one of them (tests/conftest.py), and with
--full on all. The exit code is 0 if both parts pass; a part passes if none of the chosen tests belongs to it.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from default_signals import restore_for_children

NO_TESTS = 5
# Twice as many processes as there are cores, because most tests wait for processes and timers.
BESIDE = 2 * len(os.sched_getaffinity(0))
PARTS = (
    ("beside each other", ["-n", str(BESIDE), "--dist", "worksteal", "-m", "not times"]),
    ("one by one", ["-m", "times"]),
)


_BYTECODE = Path(__file__).resolve().parent.parent / "tests" / "unit" / "__pycache__"


def _compile_once() -> None:
    """Let pytest compile the tests of a fresh clone once. Otherwise each of its processes would do so, all at the same time.

    PYTHONDONTWRITEBYTECODE is for a user's programs, not for this clone: with it, each process that a test starts would
    compile Headway anew.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not _BYTECODE.exists():
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
        subprocess.run(collect, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(arguments: list[str]) -> int:
    """Run both parts, the second even if the first fails; return the first exit code that is not 0."""
    restore_for_children()
    _compile_once()
    full = "--full" in arguments
    arguments = [*(one for one in arguments if one != "--full"), "--matrix", "full" if full else "sample"]
    if any(one.startswith("-m") and not one.startswith("--") for one in arguments):
        # The caller's choice by marker takes the place of the two parts; the tests then run one by one.
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
    # The code of a part that a signal ended is negative.
    return next((abs(code) for code in codes if code not in {0, NO_TESTS}), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
