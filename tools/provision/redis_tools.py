"""Add `redis-benchmark` to a Debian-like machine that lacks it, in Headway's cache: the lab's limit beside redis-py.

The script does nothing if the lab finds one: HEADWAY_REDIS_BENCHMARK, one on PATH, or one that was added earlier and
still runs. With HEADWAY_PROVISION=no the script adds nothing and says so in a line. Nothing is installed system-wide.
`apt_program` describes the method and its guarantees.
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
        ProvisionError: The program does not run.
    """
    # redis-benchmark has --version since 6.2.
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
    """Carry out the command line; return 0 even if the program cannot be added."""
    return run_script(REDIS_BENCHMARK, __doc__ or "", arguments, etc_apt)


if __name__ == "__main__":
    sys.exit(main())
