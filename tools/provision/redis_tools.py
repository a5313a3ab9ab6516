"""Add `redis-benchmark` to a Debian-like machine that lacks it, in Headway's cache: the lab's limit beside redis-py.

Does nothing where the lab finds one already: HEADWAY_REDIS_BENCHMARK, one on PATH, or an earlier one of ours that
still runs. Skipped with a line where HEADWAY_PROVISION=no. Nothing is installed system-wide. `apt_program` tells how,
and what is guaranteed.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headway.lab.beside.surroundings import find_redis_benchmark
from provision.apt_program import AptProgram, fill_from_package, run, run_script

PACKAGE = "redis-tools"
PROGRAM = "redis-benchmark"


def check_runs(program: Path, log: Path) -> None:
    """Start the program in an empty environment.

    Raises:
        ProvisionError: it does not run.
    """
    # Before 6.2 it knows no --version.
    run(["env", "-i", "/bin/sh", "-c", '"$0" --version || "$0" --help', program], log)


REDIS_BENCHMARK = AptProgram(
    name=PROGRAM,
    folder=PACKAGE,
    without="the lab goes on without it",
    find=find_redis_benchmark,
    check_runs=check_runs,
    fill=partial(fill_from_package, package=PACKAGE, program=PROGRAM),
)


def main(arguments: Sequence[str] | None = None, *, etc_apt: Path = Path("/etc/apt")) -> int:
    """Do as the command line says; return 0 whatever could be had."""
    return run_script(REDIS_BENCHMARK, __doc__ or "", arguments, etc_apt)


if __name__ == "__main__":
    sys.exit(main())
