"""The programs of bench/ start as their docstrings say, and its README has all of them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
STARTED_BY_OTHERS = {"against_side.py", "slow_disk.py"}
PROGRAMS = {
    path.name: path
    for path in sorted(BENCH.glob("*.py"))
    if '__name__ == "__main__"' in path.read_text() and not path.stem.endswith("_workload")
}
NAMES = sorted(set(PROGRAMS) - STARTED_BY_OTHERS)
README = (BENCH / "README.md").read_text()

# The modules that programs share are imported once. A child then runs each program, with bench/ alone on the path, as
# Python itself does for a program.
HELP_OF_EACH = """
import contextlib, io, os, runpy, sys
import numpy, rich.console, rich.table, scipy.special, headway, headway.advice.course
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        sys.path[0], sys.argv = os.path.dirname(path), [path, "--help"]
        said, failure = io.StringIO(), ""
        try:
            with contextlib.redirect_stdout(said):
                runpy.run_path(path, run_name="__main__")
        except SystemExit as ended:
            failure = ended.code and f"exit code {ended.code}"
        except BaseException as error:
            failure = f"{type(error).__name__}: {error}"
        if failure or not said.getvalue().startswith("usage: "):
            print(f"{path}: {failure or 'no help'}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_every_program_starts_and_takes_help(tmp_path):
    """Each program finds what it imports in a fresh process, without the folders that pytest adds to the path."""
    without = [name for name in NAMES if "argparse.ArgumentParser(" not in PROGRAMS[name].read_text()]
    assert without == []  # such a program would begin to measure
    command = [sys.executable, "-c", HELP_OF_EACH, *(str(PROGRAMS[name]) for name in NAMES)]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_the_readme_has_a_row_for_each_program():
    """The table of bench/README.md has each program once, and no other."""
    rows = re.findall(r"^\| `(\w+\.py)[^`]*` \|", README, re.MULTILINE)

    assert sorted(rows) == NAMES


def test_make_bench_runs_all_programs_but_those_of_the_readme():
    """The list of exceptions in bench/README.md, and the recipe of `make bench`, together have each program once."""
    exceptions = README.partition("except these:")[2].partition("\n| ")[0]
    left_out = re.findall(r"`(\w+\.py)", exceptions)
    run = re.findall(r"bench/(\w+\.py)", (ROOT / "Makefile").read_text())

    assert sorted(left_out + run) == NAMES
