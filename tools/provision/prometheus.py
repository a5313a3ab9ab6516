"""Add Prometheus to a Debian-like machine that lacks it, in Headway's cache: tests have it scrape a watched service.

The script does nothing if one is on PATH, or one that was added earlier still runs. With HEADWAY_PROVISION=no the
script adds nothing and says so in a line. Nothing is installed system-wide. `apt_program` describes the method and its
guarantees.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headway.host.paths import cache_folder
from provision.apt_program import AptProgram, fill_from_package, run, run_script

NAME = "prometheus"


def find_prometheus() -> str | None:
    """Return the path of a Prometheus: `HEADWAY_PROMETHEUS`, one on PATH, or the one that this script has added."""
    ours = cache_folder() / NAME / "bin" / NAME
    return os.environ.get("HEADWAY_PROMETHEUS") or shutil.which(NAME) or (str(ours) if ours.exists() else None)


def check_runs(program: Path, log: Path) -> None:
    """Start the program in an empty environment.

    Raises:
        ProvisionError: The program does not run.
    """
    run(["env", "-i", program, "--version"], log)


PROMETHEUS = AptProgram(
    name=NAME,
    folder=NAME,
    without="a test fails for want of it",
    find=find_prometheus,
    check_runs=check_runs,
    fill=partial(fill_from_package, package=NAME, program=NAME),
)


def main(arguments: Sequence[str] | None = None, *, etc_apt: Path = Path("/etc/apt")) -> int:
    """Carry out the command line; return 0 even if the program cannot be added."""
    return run_script(PROMETHEUS, __doc__ or "", arguments, etc_apt)


if __name__ == "__main__":
    sys.exit(main())
