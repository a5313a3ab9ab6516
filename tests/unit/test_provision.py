"""Interpreters are added from the first source that has them, and an error says why one cannot be added."""

import types

import pytest

from headway import provision
from headway.cli import interpreters_command
from headway.cli.main import main
from headway.errors import HeadwayError
from headway.provision import door, uv_builds

SAID = []


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Use a cache and a prefix of the test's own, not those of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADWAY_INTERPRETERS", str(tmp_path / "interpreters"))
    monkeypatch.delenv("HEADWAY_PROVISION", raising=False)


def fake_uv(folder, *, status=0, said=""):
    """Make a program that logs its calls, prints `said` to stderr, and exits with `status`."""
    path = folder / "uv"
    path.write_text(f'#!/bin/sh\necho "$PWD $UV_HTTP_RETRIES $*" >> {folder}/calls\necho "{said}" >&2\nexit {status}\n')
    path.chmod(0o755)
    return str(path)


def test_uvs_builds_come_first(tmp_path, monkeypatch):
    """The distribution is not asked for a build that uv has; uv runs outside the user's projects and adds no command."""
    monkeypatch.setattr(door, "_from_distribution", lambda *_, **__: pytest.fail("asked the distribution"))

    failures = provision.add(["3.14t", "3.14"], source="auto", uv=fake_uv(tmp_path), tell=SAID.append)

    assert failures == {}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[-1] for call in calls] == ["3.14t", "3.14"]
    assert all(call.startswith("/ 0 python install") and "--no-bin" in call for call in calls)


def test_the_distribution_is_asked_for_what_uv_has_not(tmp_path, monkeypatch):
    """Only names that uv could not install go on to the distribution; if it fails too, the error has both reasons."""
    asked = []

    def provide(site, targets):
        asked.extend(target.name for target in targets)
        return {}

    monkeypatch.setattr(door, "provide", provide)
    uv = fake_uv(tmp_path, status=2, said="error: no build\n  cause: failed to lookup address")

    failures = provision.add(["3.14", "3.9"], source="auto", uv=uv, tell=SAID.append)

    assert asked == ["3.14"]
    assert list(failures) == ["3.9"]
    assert "failed to lookup address" in str(failures["3.9"])
    assert "the distribution's archive has" in str(failures["3.9"])


def test_one_source_alone_may_be_asked(tmp_path, monkeypatch):
    """`uv` never asks the distribution, and `distribution` never starts uv."""
    monkeypatch.setattr(door, "provide", lambda _site, targets: dict.fromkeys(targets, provision.ProvisionError("no")))
    uv = fake_uv(tmp_path, status=1, said="error: nothing")

    by_uv = provision.add(["3.14"], source="uv", uv=uv, tell=SAID.append)
    (tmp_path / "calls").unlink()
    by_packages = provision.add(["3.14"], source="distribution", uv=uv, tell=SAID.append)

    assert "uv cannot install 3.14" in str(by_uv["3.14"])
    assert str(by_packages["3.14"]) == "no"
    assert not (tmp_path / "calls").exists()


def test_tests_of_cpython_come_from_the_distribution(tmp_path, monkeypatch):
    """With tests, uv is asked only for interpreters that the distribution has not as packages."""
    asked = []

    def provide(site, targets):
        asked.extend((target.name, site.with_tests) for target in targets)
        return {}

    monkeypatch.setattr(door, "provide", provide)

    failures = provision.add(["3.14", "3.14t"], source="auto", uv=fake_uv(tmp_path), tell=SAID.append, with_tests=True)

    assert failures == {}
    assert [call.split()[-1] for call in (tmp_path / "calls").read_text().splitlines()] == ["3.14t"]
    assert asked == [("3.14", True)]


@pytest.mark.parametrize(
    ("options", "added", "without"),
    [
        (["3.14", "--with-tests"], ["3.14"], []),
        (["3.13", "3.14t", "--with-tests"], ["3.14t"], ["3.13", "3.14t"]),
        (["3.14", "--with-tests", "--from", "uv"], [], ["3.14"]),
        (["3.14"], [], []),
    ],
)
def test_tests_are_added_beside_an_interpreter_without_them(monkeypatch, capsys, options, added, without):
    """An interpreter from uv does not prevent the one with tests, and a line names those that get no tests."""
    there = [types.SimpleNamespace(name=name) for name in ("3.13", "3.14")]
    monkeypatch.setattr(interpreters_command.lab, "discover", lambda: (there, []))
    monkeypatch.setattr(interpreters_command, "_list", lambda _: None)
    asked = []

    def add(names, **_):
        asked.extend(names)
        return {}

    monkeypatch.setattr(provision, "add", add)

    assert main(["interpreters", "--add", *options]) == 0

    assert asked == added
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said if "gets no tests of CPython" in line] == without


@pytest.mark.parametrize("name", ["--all", "3", "pypy3.10", "3.14 --reinstall", ""])
def test_uv_gets_no_name_that_is_none(name, tmp_path):
    """A name that is not a CPython version is refused before uv starts."""
    with pytest.raises(HeadwayError, match="is no CPython's name") as caught:
        uv_builds.install(fake_uv(tmp_path), name)

    assert caught.value.hint
    assert not (tmp_path / "calls").exists()


def test_a_machine_without_uv_says_so():
    """The failure says that uv is missing, and has a hint."""
    failures = provision.add(["3.14t"], source="uv", uv="", tell=SAID.append)

    assert "uv is not on this machine" in str(failures["3.14t"])
    assert failures["3.14t"].hint


def test_a_folder_that_a_build_cannot_use_is_refused(tmp_path, monkeypatch):
    """A space in the prefix would break make and rpath, so it is refused before anything is downloaded."""
    monkeypatch.setenv("HEADWAY_INTERPRETERS", str(tmp_path / "with space"))

    with pytest.raises(HeadwayError, match="with space") as caught:
        provision.add(["3.14"], source="distribution", uv="", tell=SAID.append)

    assert "HEADWAY_INTERPRETERS" in caught.value.hint


def test_provisioning_may_be_forbidden(monkeypatch, capsys):
    """With HEADWAY_PROVISION=no the command exits with 2 and adds nothing."""
    monkeypatch.setenv("HEADWAY_PROVISION", "no")
    monkeypatch.setattr(provision, "add", lambda *_, **__: pytest.fail("added something"))

    assert main(["interpreters", "--add", "3.14t"]) == 2

    assert "HEADWAY_PROVISION=no" in capsys.readouterr().err


def test_a_source_without_a_name_is_refused(capsys):
    """`--from` without `--add` would do nothing, so it is refused."""
    assert main(["interpreters", "--from", "uv"]) == 2

    assert "--add" in capsys.readouterr().err


def test_a_failure_is_told_with_the_end_of_its_log(monkeypatch, capsys):
    """The command prints the interpreter, the reason and the log's last lines, then the list, and exits with 3."""
    failure = provision.ProvisionError("`make` failed", hint="see the log", tail=("first", "last"))
    monkeypatch.setattr(provision, "add", lambda *_, **__: {"3.99": failure})

    assert main(["interpreters", "--add", "3.99"]) == 3

    said = capsys.readouterr()
    assert "| last" in said.err
    assert "3.99 cannot be added: `make` failed" in said.err
    assert "hint: see the log" in said.err
    assert "3.11" in said.out


@pytest.mark.parametrize(
    ("name", "is_debian", "hint"),
    [
        ("3.14t", True, "this machine can have `headway interpreters --add 3.13t`"),
        ("3.9", True, "this machine can have `headway interpreters --add 3.14 3.15`"),
        ("3.14t", False, "`uv python install 3.14t` provides it where uv's host can be reached"),
    ],
)
def test_a_name_that_nobody_provides_has_a_hint_that_helps(name, is_debian, hint, monkeypatch):
    """The hint names a like interpreter that the distribution has, and never the program that just failed."""

    def found():
        if not is_debian:
            raise provision.ProvisionError("this is not a Debian machine")

    monkeypatch.setattr(door, "find_archive", found)

    failures = provision.add([name], source="distribution", uv="", tell=SAID.append)

    assert failures[name].hint == hint
