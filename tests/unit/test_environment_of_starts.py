"""The environment of the processes that are started to measure in."""

import re
import subprocess
from pathlib import Path

import pytest
from real_programs import FOUND

from headway.advice.course import _OF_THE_PROGRAM, _advising
from headway.host.children import _OF_PYTHON, clean_environment
from headway.host.interpreters import Interpreter

OF_ITS_CODE = (
    "print(*{line.split()[-1] for line in open('/proc/self/maps') if 'python' in line.rpartition('/')[2]}, sep='\\n')"
)
"""Prints the files that have the code of the interpreter: its executable, and its library if there is one."""


def test_a_programs_own_variables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have variables that begin with PYTHON; only those that Python itself reads are left out."""
    for name in ("PYTHON_ENV", "PYTHONANYWHERE_SITE", "PYTHONUSERBASE", "PYTHONHASHSEED", "PYTHONPROFILEIMPORTTIME"):
        monkeypatch.setenv(name, "1")
    found = clean_environment()

    assert {"PYTHON_ENV", "PYTHONANYWHERE_SITE", "PYTHONUSERBASE"} <= found.keys()
    assert not {"PYTHONHASHSEED", "PYTHONPROFILEIMPORTTIME"} & found.keys()


def test_a_function_has_the_settings_that_decide_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other variables of Python would disturb the measurement, and the lab has none of them."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("PYTHONMALLOCSTATS", "1")
    with _advising():
        found = clean_environment()

    assert found["PYTHONHASHSEED"] == "7"
    assert "PYTHONMALLOCSTATS" not in found
    assert "PYTHONHASHSEED" not in clean_environment()
    assert _OF_THE_PROGRAM <= _OF_PYTHON


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", [one for one in FOUND if one.minor == "3.15"], ids=lambda one: one.id)
def test_no_variable_that_the_newest_python_reads_is_left(
    monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter
) -> None:
    """Its code has their names, also those that are in no document, as of the JIT compiler's thresholds."""
    command = [interpreter.executable, "-I", "-c", OF_ITS_CODE]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    code = b"".join(Path(one).read_bytes() for one in files)
    names = {name.decode() for name in re.findall(rb"(?<=\0)PYTHON[A-Z0-9_]+(?=\0)", code)}
    for name in names:
        monkeypatch.setenv(name, "1")

    assert len(names) > 30
    assert names & clean_environment().keys() <= {"PYTHONNOUSERSITE", "PYTHONUSERBASE"}
