"""Check in a newly provided interpreter what the tests rely on, and print a report about it as one line of JSON.

The argument is JSON: the modules that must be importable, and the modules whose absence is only reported.
The program runs by its path on CPython 3.13 and later, and imports no module of Headway.
"""

import asyncio
import concurrent.futures
import hashlib
import importlib
import json
import multiprocessing
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator

__all__ = ["main"]


def square(number: int) -> int:
    """Return the square of `number`, for the processes of a pool."""
    return number * number


def absent(names: Iterable[str]) -> Iterator[str]:
    """Yield the modules that cannot be imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            yield name


def run_subinterpreter() -> None:
    """Run code in a sub-interpreter, by the one of two interfaces that this version has."""
    code = "import math; assert math.sqrt(4) == 2"
    try:
        interpreters = importlib.import_module("concurrent.interpreters")
    except ImportError:
        interpreters = importlib.import_module("_interpreters")
        new = interpreters.create()
        failure = interpreters.exec(new, code)
        interpreters.destroy(new)
        assert failure is None, failure
    else:
        new = interpreters.create()
        new.exec(code)
        assert new.call(len, "abc") == 3
        new.close()


def main() -> None:
    """Make the checks and print the report; any failure ends the program with a traceback."""
    essential, wanted = json.loads(sys.argv[1])
    without = list(absent(essential))
    assert not without, f"cannot import {', '.join(without)}"
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            assert pool.submit(square, 7).result(timeout=30) == 49, method
    run_subinterpreter()
    assert asyncio.run(asyncio.sleep(0, "slept")) == "slept"
    assert len(hashlib.sha256(b"x" * 4096).digest()) == 32
    time.sleep(0.001)
    assert subprocess.run(["/bin/sh", "-c", "echo ok"], capture_output=True, text=True, check=True).stdout == "ok\n"
    missing = list(absent(wanted))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        libraries = sorted({line.split()[-1] for line in maps if ".so" in line})
    report = {
        "version": sys.version.split()[0],
        "executable": sys.executable,
        "prefix": sys.prefix,
        "missing": missing,
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "free_threaded": sysconfig.get_config_var("Py_GIL_DISABLED") == 1,
        "libraries": libraries,
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
