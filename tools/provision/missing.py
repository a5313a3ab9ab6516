"""Add the interpreters of the tests that this machine lacks: 3.13t, 3.14, 3.15. The distribution's, in every case.

With `--with-tests` CPython's own tests as well, for those that are in the private prefix: for tools/cpython_tests.py.
With `--packages` only those that come as packages, which takes seconds. What is then left for later (3.13t, which is
built, and redis-benchmark) is printed on stdout, a name a line: `make lab` measures its first experiment before.
A machine that cannot have one, or HEADWAY_PROVISION=no, is told in a line, and the exit code is 0: `make lab` works
everywhere, and the tests fail by themselves where they lack one.
"""

import os
import sys

from headway import provision
from headway.errors import HeadwayError
from headway.lab import discover
from headway.lab.beside.surroundings import find_redis_benchmark


def _say(line: str) -> None:
    # One write with its end: two threads may talk at once.
    print(f"{line}\n", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Add what is missing; return 0 whatever could be had."""
    with_tests = "--with-tests" in sys.argv[1:]
    allowed = os.environ.get("HEADWAY_PROVISION") != "no"
    have = {interpreter.name for interpreter in discover()[0]}
    missing = [
        name
        for name in (*provision.BUILT, *(one for one in provision.DISTRIBUTED if one not in provision.BUILT))
        if name not in have or (with_tests and provision.lacks_tests(name))
    ]
    if "--packages" in sys.argv[1:] and allowed:
        later = [name for name in missing if name in provision.BUILT]
        print("\n".join(later + ["redis-benchmark"] * (not find_redis_benchmark())))
        missing = [name for name in missing if name not in later]
    if not missing:
        return 0
    if not allowed:
        _say(f"interpreters: leaving out {', '.join(missing)} (HEADWAY_PROVISION=no)")
        return 0
    _say(
        f"interpreters: adding {', '.join(missing)}{' and their tests' if with_tests else ''} in a private prefix, once"
        f"{'; 3.13t is built from source, under two minutes on two cores' if '3.13t' in missing else ''} "
        "(HEADWAY_PROVISION=no leaves them out)"
    )
    try:
        failures = provision.add(missing, source="distribution", uv="", tell=_say, with_tests=with_tests)
    except HeadwayError as error:
        failures = {"all": provision.ProvisionError(error.message, hint=error.hint)}
    for name, failure in failures.items():
        for line in failure.tail:
            _say(f"    | {line}")
        _say(f"interpreters: {name} cannot be added: {failure}{f' ({failure.hint})' if failure.hint else ''}")
    if failures:
        _say("interpreters: going on with those that are here (`headway interpreters`)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
