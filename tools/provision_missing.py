"""Provision the interpreters of the lab that this machine lacks: 3.13t, 3.14, 3.15.

Skipped with a line where HEADWAY_PROVISION=no, or where the machine is no Debian: the lab then runs on what is there.
Exits 0 in those cases, so that `make lab` works everywhere; the tests fail by themselves where they lack one.
"""

import os
import subprocess
import sys
from pathlib import Path

from headway.lab import discover

WANTED = ("3.13t", "3.14", "3.15")


def main() -> int:
    """Provision what is missing; return 0 whatever could be had."""
    have = {interpreter.name for interpreter in discover()[0]}
    missing = [name for name in WANTED if name not in have]
    if not missing:
        return 0
    if os.environ.get("HEADWAY_PROVISION") == "no":
        print(f"interpreters: leaving out {', '.join(missing)} (HEADWAY_PROVISION=no)", file=sys.stderr)
        return 0
    print(
        f"interpreters: adding {', '.join(missing)} in a private prefix, once; 3.13t is built from source, under two "
        "minutes on two cores (HEADWAY_PROVISION=no leaves them out)",
        file=sys.stderr,
    )
    script = Path(__file__).with_name("provision_interpreters.py")
    # Its list of interpreters is data, which nobody asked `make lab` for.
    done = subprocess.run(
        [sys.executable, str(script), "--only", ",".join(missing)], check=False, stdout=subprocess.DEVNULL
    )
    if done.returncode != 0:
        print("interpreters: going on with those that are here (`headway interpreters`)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
