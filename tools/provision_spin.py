#!/usr/bin/env python3
"""Add the model checker `spin` to a Debian-like machine that lacks it, in Headway's cache: for `make model`.

Does nothing where one is on PATH, or an earlier one of ours still runs. Skipped with a line where
HEADWAY_PROVISION=no. Nothing is installed system-wide. `apt_program` tells how, and what is guaranteed.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from apt_program import AptProgram, ReleaseApt, add_missing_libraries, run, run_script, version_of, write_wrapper
from provision_interpreters import find_one

from headway.lab.paths import cache_folder

NAME = "spin"


def find_spin() -> str | None:
    """Return the path of a spin: one on PATH, or the one that this script has added."""
    ours = cache_folder() / NAME / "bin" / NAME
    return shutil.which(NAME) or (str(ours) if ours.exists() else None)


def check_runs(program: Path, log: Path) -> None:
    """Start the program in an empty environment.

    Raises:
        ProvisionError: it does not run.
    """
    run(["env", "-i", program, "-V"], log)


def fill(apt: ReleaseApt, work: Path, log: Path) -> str:
    """Make `work`/home with bin/spin in it, and return what it was made of.

    Raises:
        ProvisionError: some step failed.
    """
    packages = apt.download([NAME], work / "archives")
    apt.unpack(packages, work / "root")
    (work / "home/libexec").mkdir()
    shutil.move(find_one(work / "root", f"usr/bin/{NAME}"), work / "home/libexec" / NAME)
    added = add_missing_libraries(apt, NAME, packages, work, log)
    write_wrapper(work / "home", NAME, NAME)
    return f"{NAME} {version_of(packages[0])}" + (f" with {', '.join(added)}" if added else "")


SPIN = AptProgram(
    name=NAME,
    folder=NAME,
    without="the models are not checked",
    find=find_spin,
    check_runs=check_runs,
    fill=fill,
)


def main(arguments: Sequence[str] | None = None, *, etc_apt: Path = Path("/etc/apt")) -> int:
    """Do as the command line says; return 0 whatever could be had."""
    return run_script(SPIN, __doc__ or "", arguments, etc_apt)


if __name__ == "__main__":
    sys.exit(main())
