"""Add those of 3.13t, 3.14 and 3.15 that this machine lacks and the tests need; always the distribution's, not uv's.

With `--with-tests` the program also adds CPython's own tests to the interpreters in the private prefix, for
tools/cpython_tests.py.
With `--packages` it adds only interpreters that come as packages, which takes seconds. It then prints what is left for
later on stdout, a name a line: 3.13t, which is built, and redis-benchmark. `make lab` runs its first experiment before.
If the machine cannot have an interpreter, or with HEADWAY_PROVISION=no, it prints a line and exits with 0: `make lab`
works everywhere, and tests fail by themselves if they lack an interpreter.
"""

import os
import sys

from headway import provision
from headway.errors import HeadwayError
from headway.lab import discover
from headway.lab.beside.surroundings import find_redis_benchmark


def _say(line: str) -> None:
    # One write with its line end, because two threads may print at once.
    print(f"{line}\n", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Add what is missing; return 0 even if something cannot be added."""
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
