"""Provision the interpreters of the lab that this machine lacks: 3.13t, 3.14, 3.15.

With `--with-tests` CPython's own tests as well, for those that are in the private prefix: for tools/cpython_tests.py.
With `--packages` only those that come as packages, which takes seconds. What is then left for later (3.13t, which is built, and
redis-benchmark) is printed on stdout, a name a line: `make lab` measures its first experiment before.
Skipped with a line where HEADWAY_PROVISION=no, or where the machine is no Debian: the lab then runs on what is there.
Exits 0 in those cases, so that `make lab` works everywhere; the tests fail by themselves where they lack one.
"""

import os
import subprocess
import sys
from pathlib import Path

from headway.host.paths import interpreters_folder
from headway.lab import discover
from headway.lab.beside.surroundings import find_redis_benchmark

BUILT = ("3.13t",)
WANTED = (*BUILT, "3.14", "3.15")


def main() -> int:
    """Provision what is missing; return 0 whatever could be had."""
    with_tests = "--with-tests" in sys.argv[1:]
    have = {interpreter.name: Path(interpreter.executable) for interpreter in reversed(discover()[0])}
    missing = [name for name in WANTED if name not in have]
    if with_tests:
        missing += without_tests(have)
    if "--packages" in sys.argv[1:] and os.environ.get("HEADWAY_PROVISION") != "no":
        print(
            "\n".join([name for name in missing if name in BUILT] + ["redis-benchmark"] * (not find_redis_benchmark()))
        )
        missing = [name for name in missing if name not in BUILT]
    if not missing:
        return 0
    if os.environ.get("HEADWAY_PROVISION") == "no":
        print(f"interpreters: leaving out {', '.join(missing)} (HEADWAY_PROVISION=no)", file=sys.stderr)
        return 0
    print(
        f"interpreters: adding {', '.join(missing)}{' and their tests' if with_tests else ''} in a private prefix, once"
        f"{'; 3.13t is built from source, under two minutes on two cores' if '3.13t' in missing else ''} "
        "(HEADWAY_PROVISION=no leaves them out)",
        file=sys.stderr,
    )
    script = Path(__file__).with_name("provision_interpreters.py")
    command = [sys.executable, str(script), "--only", ",".join(missing), *(["--with-tests"] if with_tests else [])]
    # Its list of interpreters is data, which nobody asked `make lab` for.
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        print("interpreters: going on with those that are here (`headway interpreters`)", file=sys.stderr)
    return 0


def without_tests(have: dict[str, Path]) -> list[str]:
    """Return those interpreters of the private prefix that came as packages and lack CPython's own tests."""
    homes = {name: interpreters_folder() / name for name in WANTED if not name.endswith("t")}
    return [
        name
        for name, home in homes.items()
        if name in have
        and have[name].is_relative_to(home)
        and not (home / f"lib/python{name}/test/test_thread.py").exists()
    ]


if __name__ == "__main__":
    sys.exit(main())
