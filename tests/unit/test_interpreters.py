"""Choosing interpreters, and finding them on a machine made for the test."""

import json
import os
import sys
from pathlib import Path

import pytest
from synthetic import make_interpreter

from headway.errors import InterpreterError
from headway.host import interpreters
from headway.host.interpreters import Interpreter, discover, executable_of, probe, select, survey

FOUND = [
    make_interpreter("3.8.18"),
    make_interpreter("3.11.7"),
    make_interpreter("3.11.2"),
    make_interpreter("3.13.5", free_threaded=True),
]


def test_the_default_is_the_newest_patch_of_each():
    """Without a choice each minor version and build is taken once."""
    assert [one.id for one in select(FOUND)] == ["3.8.18", "3.11.7", "3.13.5t"]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (["3.11"], ["3.11.7"]),
        (["3.11.2"], ["3.11.2"]),
        (["3.13t"], ["3.13.5t"]),
        (["3.8", "3.8.18"], ["3.8.18"]),
        (["all"], ["3.8.18", "3.11.7", "3.11.2", "3.13.5t"]),
    ],
)
def test_names_choose(wanted, ids):
    """Short names, versions and `all` choose, and nothing is chosen twice."""
    assert [one.id for one in select(FOUND, wanted)] == ids


def test_an_unknown_name_lists_what_is_there():
    """The error names what was wanted and what was found."""
    with pytest.raises(InterpreterError, match=r"`3\.7`; found: 3\.8, 3\.11, 3\.13t"):
        select(FOUND, ["3.7"])


def test_an_interpreter_survives_json():
    """An interpreter that is stored and read back is unchanged."""
    for one in FOUND:
        assert Interpreter.from_json(one.to_json()) == one


def test_builds_of_one_version_get_ids_of_their_own():
    """Two executables of one version are told apart by their folder."""
    answer = {key: value for key, value in FOUND[0].to_json().items() if key not in {"id", "name"}}
    named = interpreters._named(
        [("path", Path("/a/bin/python3.8"), answer), ("path", Path("/b/bin/python3.8"), answer)]
    )

    assert [one.id for one in named] == ["3.8.18@/a/bin", "3.8.18@/b/bin"]


def test_links_to_one_interpreter_are_one(bare_machine):
    """An interpreter is found once through python3, python3.11 and a link elsewhere."""
    for name in ("python3", "python3.11", "python3.12"):
        (bare_machine / name).symlink_to(os.path.realpath(sys.executable))

    found, passed_over = discover()

    assert [one.executable for one in found] == [os.path.realpath(sys.executable)]
    assert passed_over == []


@pytest.mark.parametrize(
    ("variable", "value", "below"),
    [
        ("PYENV_ROOT", ".", "versions/3.9/bin"),
        ("HOME", ".", ".pyenv/versions/3.9/bin"),
        ("UV_PYTHON_INSTALL_DIR", ".", "cpython-3.9/bin"),
        ("XDG_DATA_HOME", ".", "uv/python/cpython-3.9/bin"),
        ("HOME", ".", ".local/share/uv/python/cpython-3.9/bin"),
    ],
)
def test_no_interpreter_of_the_present_folder_is_executed(bare_machine, monkeypatch, tmp_path, variable, value, below):
    """A variable that names a relative folder would have a probe execute what lies in whatever folder one is in."""
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, value)
    folder = tmp_path / "here" / below
    folder.mkdir(parents=True)
    script = folder / "python3.9"
    script.write_text("#!/bin/sh\necho run >> $0.log\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path / "here")

    assert discover() == ([], [])
    assert not Path(f"{script}.log").exists()


def test_what_is_no_cpython_is_passed_over_with_a_reason(bare_machine):
    """A script called python3.9 is reported and not used, and tried again later, because it may have been fixed."""
    script = bare_machine / "python3.9"
    script.write_text("#!/bin/sh\necho run >> $0.log\necho surprise >&2\nexit 3\n")
    script.chmod(0o755)

    found, passed_over = discover()
    discover()

    assert found == []
    assert passed_over == [f"the interpreter {script} failed the probe (exit code 3): surprise"]
    assert Path(f"{script}.log").read_text() == "run\nrun\n"


def test_what_answered_is_told_from_what_failed(bare_machine):
    """One that is too old is no loss; one that gives no answer may be any CPython."""
    answer = {"implementation": "cpython", "version": "3.6.1", "minor": "3.6", "real": "/old"}
    for name, command in (("python3.6", f"echo '{json.dumps(answer)}'"), ("python3.9", "exit 3")):
        script = bare_machine / name
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)

    found, passed_over = survey()

    assert found == []
    assert {Path(one.executable).name: one.failed for one in passed_over} == {"python3.6": False, "python3.9": True}


def test_final_releases_come_before_their_candidates():
    """The newest of one minor version is chosen, and a final release is newer than its pre-releases."""
    versions = ["3.15.0a3", "3.15.0r1", "3.15.0b2", "3.15.0"]
    ordered = sorted((make_interpreter(version) for version in versions), key=lambda one: one.order)

    assert [one.version for one in ordered] == ["3.15.0", "3.15.0r1", "3.15.0b2", "3.15.0a3"]


def test_shims_are_not_interpreters(bare_machine, monkeypatch):
    """A folder of shims on PATH is not searched."""
    shims = bare_machine.parent / "shims"
    shims.mkdir()
    (shims / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(shims))

    assert discover()[0] == []


def test_private_interpreters_count_only_when_complete(bare_machine, monkeypatch):
    """A private prefix without its completion marker is still being made."""
    private = bare_machine.parent / "HEADWAY_INTERPRETERS" / "3.11"
    (private / "bin").mkdir(parents=True)
    (private / "bin" / "python3.11").symlink_to(os.path.realpath(sys.executable))
    before = discover()[0]
    (private / ".headway-complete").write_text("{}")
    after = discover()[0]

    assert (before, [one.origin for one in after]) == ([], ["private"])


def test_a_command_on_the_path_is_an_interpreter(tmp_path, monkeypatch):
    """A word without a slash is a command on PATH; a command that is not there is an error."""
    (tmp_path / "python-of-mine").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert probe("python-of-mine").executable == str(tmp_path / "python-of-mine")
    with pytest.raises(InterpreterError, match="no interpreter 'python-of-nobody'"):
        probe("python-of-nobody")


def test_a_name_that_the_list_shows_is_an_interpreter(bare_machine):
    """A version names the interpreter that `headway interpreters` lists, although no such command is on PATH."""
    private = bare_machine.parent / "HEADWAY_INTERPRETERS" / "3.11"
    (private / "bin").mkdir(parents=True)
    (private / "bin" / "python3.11").symlink_to(os.path.realpath(sys.executable))
    (private / ".headway-complete").write_text("{}")
    name = discover()[0][0].name

    assert os.path.samefile(executable_of(name), sys.executable)
    assert probe(name).executable == executable_of(name)
    with pytest.raises(InterpreterError, match=f"`3.99`; found: {name}") as caught:
        executable_of("3.99")
    assert "`all`" not in caught.value.hint  # that is not one interpreter


def test_a_link_that_loops_is_no_interpreter(bare_machine):
    """A `python3.13` that is a link to itself stops no command, and is refused by name like any missing file."""
    (bare_machine / "python3").symlink_to(os.path.realpath(sys.executable))
    loop = bare_machine / "python3.13"
    loop.symlink_to(loop.name)

    found, passed_over = discover()

    assert ([one.executable for one in found], passed_over) == ([os.path.realpath(sys.executable)], [])
    with pytest.raises(InterpreterError, match=f"there is no interpreter '{loop}'"):
        select(found, [str(loop)])


@pytest.mark.parametrize("path", ["3.13.1/bin/python", "3.13t/bin/python"])
def test_a_path_that_looks_like_a_version_is_a_path(path):
    """A mistyped path below pyenv's folder is refused at once."""
    with pytest.raises(InterpreterError, match=f"no interpreter '{path}'"):
        executable_of(path)


@pytest.mark.parametrize("path", ["/nowhere/python3", "/etc/passwd"])
def test_a_path_without_an_executable_is_refused(path):
    """The error names the path."""
    with pytest.raises(InterpreterError, match=path):
        probe(path)


def test_the_interpreter_that_runs_headway_is_found(tmp_path, monkeypatch):
    """It is found wherever it is installed, also if its environment is not activated."""
    prefix = tmp_path / "opt"
    (prefix / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "base_prefix", str(prefix))

    assert ("own", prefix / "bin") in list(interpreters._folders())
