"""The programs of bench/ start as their docstrings say, and its README has all of them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PROGRAMS = sorted(path for path in BENCH.glob("*.py") if '__name__ == "__main__"' in path.read_text())
PROGRAMS = [path for path in PROGRAMS if not path.stem.endswith("_workload")]

# The modules that programs share are imported once. A child then imports each program, with bench/ alone on the
# path, as Python itself does for a program.
IMPORT_EACH = """
import os, runpy, sys
import numpy, rich.console, rich.table, scipy.stats, headway, headway.advice.course
failed = []
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        sys.path[0] = os.path.dirname(path)
        sys.argv = [path, os.path.dirname(sys.path[0])]  # against_side.py takes the checkout
        try:
            runpy.run_path(path, run_name="imported")
        except BaseException as error:
            print(f"{path}: {type(error).__name__}: {error}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_every_program_finds_what_it_imports(tmp_path):
    """Each program can be imported in a fresh process, without the folders that pytest adds to the path."""
    command = [sys.executable, "-c", IMPORT_EACH, *map(str, PROGRAMS)]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("", 0), done.stderr
