"""Environments in which the pytest plugin runs: one for each interpreter, made once and kept in the cache."""

from pathlib import Path

from provision.locked_environment import locked_python

from headway.host.interpreters import Interpreter

ROOT = Path(__file__).resolve().parents[2]


def plugin_python(interpreter: Interpreter) -> str:
    """Return a Python with pytest, its async plugins, xdist and Headway's dependencies; PYTHONPATH adds Headway."""
    lock = ROOT / "requirements" / ("plugin-3.13t.lock" if interpreter.name == "3.13t" else "plugin.lock")
    return locked_python(interpreter, lock, "pytest")
