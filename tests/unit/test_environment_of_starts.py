"""The environment of the processes that are started to measure in."""

import pytest

from headway.advice.course import _OF_THE_PROGRAM, _advising
from headway.host.children import _OF_PYTHON, clean_environment


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
