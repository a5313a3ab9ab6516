"""Try an installed headway as a new user would, in a folder of its own; standard library only.

usage: trial.py PREFIX [--quick] [--traced NAME]

PREFIX is the environment that headway and pytest are installed in. --quick leaves the lab out. --traced NAME runs and
traces the programs with another interpreter, by its name in `headway interpreters`. The steps are the command alone,
doctor, interpreters, run, trace and report, the pytest fixture, and `headway lab convoy`. Each output is compared with
patterns that it must contain. The program prints a line for each step with its time. It exits with 1 at the first step
that fails, with that step's output.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]

LIMIT_S = 900
PROGRAM = """
import threading, time
def burn(until):
    n = 0
    while time.monotonic() < until:
        n += sum(range(100))
def sleep(until):
    while time.monotonic() < until:
        time.sleep(0.001)
end = time.monotonic() + 0.5
threads = [threading.Thread(target=one, args=(end,), name=one.__name__) for one in (burn, sleep, sleep)]
for one in threads: one.start()
for one in threads: one.join()
print("done")
"""
TEST = """
def test_sum(headway):
    assert headway(sum, range(10)).faster_than(headway(sum, range(10_000)))
"""


def run(name: str, command: list[str], folder: Path, *said: str, **variables: str) -> str:
    """Run one step and return what it printed.

    Raises:
        SystemExit: The step fails, or does not print what it must print.
    """
    begun_s = time.monotonic()
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **variables}
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    missing = [pattern for pattern in said if not re.search(pattern, done.stdout)]
    if done.returncode or missing:
        print(done.stdout)
        raise SystemExit(f"error: {name}: exit code {done.returncode}, without {missing}")
    print(f"  {name}: {time.monotonic() - begun_s:.1f} s", flush=True)
    return done.stdout


def executable(headway: str, name: str) -> str:
    """Return the path of an interpreter that `headway interpreters` lists.

    Raises:
        SystemExit: The list has no interpreter of that name.
    """
    text = subprocess.run([headway, "interpreters", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {one["name"]: str(one["executable"]) for one in reversed(json.loads(text)["interpreters"])}
    if name not in found:
        raise SystemExit(f"error: there is no {name}, only {', '.join(found)}")
    return found[name]


def main(arguments: list[str]) -> int:
    """Carry out all steps; return 0."""
    options = argparse.ArgumentParser()
    options.add_argument("prefix", type=Path)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--traced")
    chosen = options.parse_args(arguments)
    prefix = chosen.prefix.absolute()
    headway, python = str(prefix / "bin" / "headway"), str(prefix / "bin" / "python")
    traced = executable(headway, chosen.traced) if chosen.traced else python
    free_threaded = (chosen.traced or "").endswith("t")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = {"HEADWAY_STORE": str(folder / "results.sqlite")}
        (folder / "app.py").write_text(PROGRAM)
        (folder / "test_app.py").write_text(TEST)
        run("headway", [headway], folder, "headway lab convoy", "headway doctor")
        run("doctor", [headway, "doctor"], folder, r"cores +(OK|WARNING)", r"next: headway ", **own)
        run("interpreters", [headway, "interpreters"], folder, r"3\.\d+")
        run("completion", [headway, "completion", "bash"], folder, "complete ")
        run(
            "run",
            [headway, "run", "--python", traced, "--why", "app.py"],
            folder,
            "done",
            "no GIL to schedule" if free_threaded else "fair",
        )
        run("trace", [headway, "trace", "--python", traced, "-o", "app.hwt", "app.py"], folder, "done")
        run("report", [headway, "report", "app.hwt"], folder, "lock" if free_threaded else "burn")
        run("page", [headway, "report", "app.hwt", "--html", "app.html"], folder, "app.html")
        if not free_threaded:
            run("whatif", [headway, "whatif", "app.hwt"], folder, "")
        run(
            "pytest", [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"], folder, "1 passed", **own
        )
        if not chosen.quick:
            run("lab convoy", [headway, "lab", "convoy"], folder, "Verdicts on this machine", **own)
            run("report last", [headway, "report", "last"], folder, "convoy", **own)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
