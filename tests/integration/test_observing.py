"""`headway advise --observe`: which calls a command's observation takes, and that the command runs as without it."""

import os
import pickle
import sys
from pathlib import Path

import pytest

from headway.advice.observing import observed
from headway.advice.target import parse_target

APP = """
def count(size):
    return size
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Return the folder with the functions, which is the working directory."""
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def taken(name: str, command: str, python: str = "", say=print) -> list[tuple]:
    """Return the positional arguments of the calls that are taken from a command."""
    calls = []
    with (
        observed(parse_target(f"app:{name}"), command, python, say) as target,
        open(target.inputs["path"], "rb") as file,
    ):
        while file.peek(1):
            calls.append(pickle.load(file)[0])
    return calls


def test_a_command_of_the_current_folder_does_not_hide_the_real_one(app, monkeypatch):
    """With a bare name of a Python, the current folder is not put on the command's PATH."""
    real = app / "bin"
    real.mkdir()
    for folder, size in ((app, 1), (real, 2)):
        (folder / "mytests").write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import app; app.count({size})'\n")
        (folder / "mytests").chmod(0o755)
    python = Path(sys.executable)
    monkeypatch.setenv("PATH", os.pathsep.join([str(real), str(python.parent), os.environ["PATH"]]))
    assert taken("count", "mytests", python.name) == [(2,)]
