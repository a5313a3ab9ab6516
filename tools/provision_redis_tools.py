#!/usr/bin/env python3
"""Add `redis-benchmark` to a Debian-like machine that lacks it, in Headway's cache: the lab's limit beside redis-py.

Does nothing where the lab finds one already: HEADWAY_REDIS_BENCHMARK, one on PATH, or an earlier one of ours that
still runs. Skipped with a line where HEADWAY_PROVISION=no. Nothing is installed system-wide. `apt_program` tells how,
and what is guaranteed.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from apt_program import AptProgram, ReleaseApt, add_missing_libraries, run, run_script, version_of, write_wrapper
from provision_interpreters import find_one

from headway.lab.surroundings import find_redis_benchmark

PACKAGE = "redis-tools"
PROGRAM = "redis-benchmark"


def check_runs(program: Path, log: Path) -> None:
    """Start the program in an empty environment.

    Raises:
        ProvisionError: it does not run.
    """
    # Before 6.2 it knows no --version.
    run(["env", "-i", "/bin/sh", "-c", '"$0" --version || "$0" --help', program], log)


def fill(apt: ReleaseApt, work: Path, log: Path) -> str:
    """Make `work`/home with bin/redis-benchmark in it, and return what it was made of.

    Raises:
        ProvisionError: some step failed.
    """
    packages = apt.download([PACKAGE], work / "archives")
    apt.unpack(packages, work / "root")
    (work / "home/libexec").mkdir()
    shutil.move(find_one(work / "root", f"usr/bin/{PROGRAM}"), work / "home/libexec" / PROGRAM)
    added = add_missing_libraries(apt, PROGRAM, packages, work, log)
    write_wrapper(work / "home", PROGRAM, PROGRAM)
    return f"{PACKAGE} {version_of(packages[0])}" + (f" with {', '.join(added)}" if added else "")


REDIS_BENCHMARK = AptProgram(
    name=PROGRAM,
    folder=PACKAGE,
    without="the lab goes on without it",
    find=find_redis_benchmark,
    check_runs=check_runs,
    fill=fill,
)


def main(arguments: Sequence[str] | None = None, *, etc_apt: Path = Path("/etc/apt")) -> int:
    """Do as the command line says; return 0 whatever could be had."""
    return run_script(REDIS_BENCHMARK, __doc__ or "", arguments, etc_apt)


if __name__ == "__main__":
    sys.exit(main())
