"""Our exports are typed: a user's suite passes a strict type checker, and one with mistakes does not."""

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parent.parent / "data" / "users_suite.py"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def checked(path):
    """Return mypy's exit status and output, from a folder where it does not see our own configuration."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_users_suite_is_typed(tmp_path):
    """Results, decisions and comparisons have their types, also when they are awaited."""
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(SUITE.read_text())
    wrong.write_text(SUITE.read_text().replace("takes_less_than(0.01)", "takes_less_then(0.01)"))

    assert checked(right) == (0, "Success: no issues found in 1 source file\n")
    status, said = checked(wrong)
    assert status == 1
    assert '"Result" has no attribute "takes_less_then"' in said
