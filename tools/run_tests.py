"""Runs the Python tests: what is right under any load on all cores at once, then the rest one after the other.

usage: run_tests.py [PYTEST ARGUMENT...]

Exits 0 where both parts pass; a part that none of the arguments' tests belongs to passes.
"""

import subprocess
import sys
import time

NO_TESTS = 5
PARTS = (
    ("on all cores", ["-n", "auto", "--dist", "worksteal", "-m", "any_load"]),
    ("one by one", ["-m", "not any_load"]),
)


def main(arguments: list[str]) -> int:
    """Run both parts, also where the first fails; return the worst exit code."""
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
    return NO_TESTS if set(codes) == {NO_TESTS} else max(code for code in codes if code != NO_TESTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
