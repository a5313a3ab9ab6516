"""Without the native library, a program that `headway watch` or `headway run` starts runs, and one line says why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEADWAY = str(Path(sys.executable).with_name("headway"))
CODE = "import os, sys; print(sorted(n for n in os.environ if n.startswith('HEADWAY_TRACE'))); sys.exit(3)"


@pytest.mark.parametrize("library", ["missing", "damaged"])
@pytest.mark.parametrize(
    ("words", "said"),
    [(["watch", "-o", "stalls"], "watched"), (["run"], "scheduled"), (["run", "--policy", "bfs"], "scheduled")],
)
def test_the_program_runs(tmp_path, words, said, library):
    """It has its own exit code and no variable of a recorder, and nothing is left behind."""
    path = tmp_path / "libheadway.so"
    if library == "damaged":
        path.write_bytes(b"\x7fELF")
    done = subprocess.run(
        [HEADWAY, *words, "--", sys.executable, "-c", CODE],
        cwd=tmp_path,
        env=os.environ | {"HEADWAY_NATIVE": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (3, "[]\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{Path(sys.executable).name} is not {said}: the native library ")
    assert str(path) in line
    assert {one.name for one in tmp_path.iterdir()} <= {path.name}
