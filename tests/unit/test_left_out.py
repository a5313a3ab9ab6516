"""`make test-all` leaves out the interpreters that the machine lacks, with a line, and says what adds them."""

import sys
import types

import cpython_tests
import pytest
import sanitized_cpython

from headway.errors import UsageError


def interpreter(name):
    """Return an interpreter of a name."""
    return types.SimpleNamespace(name=name, id=f"{name}.0", executable=f"/opt/python{name}")


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Let the machine have interpreters of these names, of which some have CPython's own tests."""

    def put(names, tested=()):
        for name in tested:
            (tmp_path / name).mkdir()
            (tmp_path / name / "test_thread.py").touch()
        for tool in (cpython_tests, sanitized_cpython):
            monkeypatch.setattr(tool, "discover", lambda: ([interpreter(name) for name in names], []))
        monkeypatch.setattr(cpython_tests, "tests_folder", lambda one: tmp_path / one.name)
        monkeypatch.setattr(
            sanitized_cpython, "select", lambda found, names: [one for one in found if one.name in names]
        )

    return put


def test_cpythons_tests_leave_out_what_the_machine_lacks(here, capsys):
    """A version that is absent, or without its own tests, is left out with a line that names the remedy."""
    here(["3.13", "3.14", "3.15"], tested=["3.13", "3.15"])

    chosen = cpython_tests.interpreters_for()

    assert [one.name for one in chosen] == ["3.13", "3.15"]
    assert capsys.readouterr().err.splitlines() == [
        "leaving out 3.11: there is no CPython 3.11 with its own tests on this machine; a build of its source has them",
        "leaving out 3.12: there is no CPython 3.12 with its own tests on this machine; a build of its source has them",
        "leaving out 3.14: /opt/python3.14 lacks CPython's own tests; `headway interpreters --add 3.14 --with-tests` may add it",
    ]


def test_cpythons_tests_need_an_interpreter(here, capsys):
    """A version that was named must be there, and without versions at least one must be."""
    here(["3.13"], tested=[])

    with pytest.raises(LookupError, match=r"python3\.13 lacks CPython's own tests"):
        cpython_tests.interpreters_for(["3.13"])
    with pytest.raises(LookupError, match="none of CPython"):
        cpython_tests.interpreters_for()
    assert capsys.readouterr().err.count("leaving out") == len(cpython_tests.VERSIONS)


def test_the_sanitizers_leave_out_what_the_machine_lacks(here, capsys):
    """A version that is absent is left out with a line, unless it was named."""
    here(["3.13", "3.14", "3.15"])

    assert [one.name for one in sanitized_cpython.chosen([])] == ["3.13", "3.14", "3.15"]
    assert capsys.readouterr().err.splitlines() == [
        f"leaving out {name}, which is not on this machine; `headway interpreters --add {name}` may add it"
        for name in ("3.11", "3.12")
    ]
    assert [one.name for one in sanitized_cpython.chosen(["3.14"])] == ["3.14"]
    assert capsys.readouterr().err == ""


def test_an_error_of_the_sanitizers_is_told_with_its_hint(monkeypatch, capsys):
    """An interpreter that was named and is absent ends the program with exit code 2, before anything is built."""

    def refuse(_found, _names):
        raise UsageError("no interpreter is called `9.9`", hint="name a version")

    monkeypatch.setattr(sys, "argv", ["sanitized_cpython.py", "--python", "9.9"])
    monkeypatch.setattr(sanitized_cpython, "discover", lambda: ([], []))
    monkeypatch.setattr(sanitized_cpython, "select", refuse)
    monkeypatch.setattr(sanitized_cpython, "build", lambda: pytest.fail("built the library"))

    assert sanitized_cpython.main() == 2
    assert capsys.readouterr().err == "error: no interpreter is called `9.9`\nhint: name a version\n"
