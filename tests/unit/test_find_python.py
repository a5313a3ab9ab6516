"""`make setup` runs Headway with the Python that the developer asked for, or says that it took another."""

import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "find_python.sh"


@pytest.fixture
def pythons(tmp_path):
    """Make an `old` Python that does not fit and a `python3.13` and a `mine` that do; return their folder."""
    for name, status in {"old": 1, "mine": 0, "python3.13": 0, "python3": 0}.items():
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\ncase "$2" in *executable*) echo {path} ;; esac\nexit {status}\n')
        path.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("asked", ["mine", "python3", ""])
def test_a_python_that_fits_is_taken(pythons, asked):
    """The Python that was asked for is printed, and nothing is said."""
    done = subprocess.run(
        [TOOL, *filter(None, [asked])],
        env={"PATH": f"{pythons}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == (f"{pythons / (asked or 'python3')}\n", "")


@pytest.mark.parametrize("asked", ["old", "absent"])
def test_a_python_that_does_not_fit_is_named(pythons, asked):
    """Another Python takes the place of one that is too old or absent, and a line says so."""
    done = subprocess.run(
        [TOOL, asked], env={"PATH": f"{pythons}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )

    assert done.stdout == f"{pythons / 'python3.13'}\n"
    assert done.stderr == f"setup: {asked} is no CPython 3.11 or later with a GIL; taking {pythons / 'python3.13'}\n"
