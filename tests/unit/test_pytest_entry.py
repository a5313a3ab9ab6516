"""The plugin that pytest finds: where pytest is too old for Headway's hooks, it loads none of them and says so."""

import runpy
import tomllib
from pathlib import Path

import pluggy
import pytest

import headway

ENTRY = Path(headway.__file__).with_name("pytest_entry.py")


@pytest.mark.parametrize(
    ("package", "version", "told"),
    [
        (pytest, "9.1.0", []),
        (pytest, "7.0.0rc1", []),
        (pytest, "6.2.5", ["headway: no fixture, since a package is too old: pytest 6.2.5 (at least 7.0)"]),
        (pluggy, "1.2.0", []),
        (pluggy, "1.10.0", []),
        (pluggy, "1.0.0", ["headway: no fixture, since a package is too old: pluggy 1.0.0 (at least 1.2)"]),
    ],
)
def test_hooks_are_loaded_where_pytest_knows_them(package, version, told, monkeypatch):
    """A pytest or a pluggy that lacks what the hooks need would end each session of its environment."""
    monkeypatch.setattr(package, "__version__", version)
    loaded = runpy.run_path(str(ENTRY))

    assert loaded["pytest_plugins"] == ([] if told else ["headway.pytest_plugin"])
    assert loaded["pytest_report_header"]() == told


def test_the_entry_point_is_that_module():
    """An installation's metadata name it."""
    project = tomllib.loads(ENTRY.parents[2].joinpath("pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"headway": "headway.pytest_entry"}
