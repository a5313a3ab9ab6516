"""Finish an interpreter: its final place, bytecode, self-check, marker."""

import json
import os
from pathlib import Path
from typing import Any

from headway.provision.archive import ProvisionError
from headway.provision.commands import find_one, run_logged
from headway.provision.site import Site, Target, write_marker

__all__ = ["byte_compile", "settle"]

SELF_CHECK_TIMEOUT_S = 60
# The tests need these modules of every interpreter; other modules that are absent are only reported.
ESSENTIAL_MODULES = ("_multiprocessing", "math", "select", "_socket", "_asyncio", "_interpreters", "hashlib")
WANTED_MODULES = ("ssl", "_hashlib", "sqlite3", "ctypes", "zlib", "bz2", "lzma", "_uuid", "readline", "curses")
# Each new interpreter runs this program with `-I`. It is a file, because spawn and forkserver import the main script
# again.
SELF_CHECK = Path(__file__).with_name("self_check_program.py")


def settle(site: Site, target: Target, part: Path, *, source: str, how: str) -> None:
    """Move `part` to its final place, byte-compile the library, check the interpreter, mark it complete."""
    home = site.home(target)
    part.rename(home)
    stdlib = find_one(home / "lib", f"{target.binary}*/os.py").parent
    with site.talk.step("byte-compile the library"):
        byte_compile(site, target, stdlib)
    with site.talk.step("self-check"):
        report = self_check(site, target)
    if report["missing"]:
        site.talk.tell(f"  built without: {', '.join(report['missing'])} (the machine lacks their headers)")
    write_marker(site, target, source=source, how=how, report=report)


def byte_compile(site: Site, target: Target, folder: Path) -> None:
    """Compile a folder of the library now, because later users may not have the right to write there."""
    python = site.home(target) / "bin" / target.binary
    # Some test data has invalid syntax or encoding on purpose.
    bad_data = r"bad_?coding|bad_?syntax|/test/tokenizedata/"
    run_logged([python, "-I", "-m", "compileall", "-q", "-j", str(site.jobs), "-x", bad_data, folder], site.log(target))


def self_check(site: Site, target: Target) -> dict[str, Any]:
    """Check in the new interpreter what the tests rely on, and return its report.

    Raises:
        ProvisionError: The interpreter does not start, a check fails, or it is not the one that its name says.
    """
    home, log = site.home(target), site.log(target)
    modules = json.dumps([ESSENTIAL_MODULES, WANTED_MODULES])
    python = home / "bin" / target.binary
    output = run_logged([python, "-I", "-X", "faulthandler", SELF_CHECK, modules], log, timeout_s=SELF_CHECK_TIMEOUT_S)
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    free_threaded = target.name.endswith("t")
    strangers = [path for path in report["libraries"] if not path.startswith(f"{os.path.realpath(home)}/")]
    problems = [
        (not report["version"].startswith(target.name.rstrip("t") + "."), f"it is version {report['version']}"),
        (report["free_threaded"] != free_threaded, f"Py_GIL_DISABLED is {report['free_threaded']}"),
        (report["gil"] == free_threaded, f"sys._is_gil_enabled() is {report['gil']}"),
        (os.path.realpath(report["prefix"]) != os.path.realpath(home), f"sys.prefix is {report['prefix']}"),
        (not target.from_source and bool(strangers), f"it loads the system's {', '.join(strangers)}"),
        (not target.from_source and bool(report["missing"]), f"it cannot import {', '.join(report['missing'])}"),
    ]
    for is_wrong, problem in problems:
        if is_wrong:
            raise ProvisionError(f"self-check of {target.binary} failed: {problem}", hint=f"see {log}")
    return report
