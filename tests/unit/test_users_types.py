"""Our exports are typed: a user's suite passes a strict type checker, and one with mistakes does not."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

LAZY = ("headway", "headway.dask", "headway.lab", "headway.report", "headway.traces.analysis")
"""Packages whose names are imported on first use."""

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "tests" / "data" / "users_suite.py"
# It is kept: without it mypy reads all modules that a suite imports, for some seconds.
CACHE = ROOT / ".mypy_cache" / "users"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_users_suite_is_typed(tmp_path):
    """Results, decisions and comparisons have their types, also when they are awaited."""
    (tmp_path / "right.py").write_text(SUITE.read_text())
    (tmp_path / "wrong.py").write_text(SUITE.read_text().replace("takes_less_than(0.01)", "takes_less_then(0.01)"))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", CACHE, "right.py", "wrong.py"]

    # In this folder mypy does not see our own configuration.
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    error, counts = done.stdout.splitlines()
    assert error.startswith("wrong.py:")
    assert '"Result" has no attribute "takes_less_then"' in error
    assert counts == "Found 1 error in 1 file (checked 2 source files)"


def names_of(body):
    """Return the names that statements assign, define or import, also those for type checkers only."""
    found = set()
    for one in body:
        if isinstance(one, ast.If) and isinstance(one.test, ast.Name) and one.test.id == "TYPE_CHECKING":
            found |= names_of(one.body)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in one.names}
        elif isinstance(one, ast.FunctionDef | ast.ClassDef):
            found.add(one.name)
        elif isinstance(one, ast.Assign):
            found |= {target.id for target in one.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("name", LAZY)
def test_each_name_that_is_imported_on_first_use_has_a_type(name):
    """A checker that does not find a name takes the result of the package's `__getattr__`, an object, as pyright does."""
    package = importlib.import_module(name)
    assert set(package.__all__) <= names_of(ast.parse(Path(package.__file__).read_text()).body)


def test_the_lazy_packages_are_known():
    """The list above has each package with a `__getattr__`."""
    root = Path(importlib.import_module("headway").__file__).parent
    found = {
        ".".join(("headway", *path.parent.relative_to(root).parts))
        for path in root.rglob("__init__.py")
        if "__getattr__" in path.read_text()
    }
    assert found == set(LAZY)
