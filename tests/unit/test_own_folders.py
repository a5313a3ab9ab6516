"""The lab removes folders with its marker, and nothing else."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headway.host.interpreters import discover
from headway.host.own_folders import OWN, is_own, mark, remove_own
from headway.lab.beside import environments
from headway.provision import ProvisionError, site
from headway.provision.commands import Talk


def filled(folder: Path) -> Path:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_text("x")
    (folder / "file").write_text("x")
    return folder


def pid_of_nobody() -> int:
    with subprocess.Popen(["true"]) as gone:
        pass
    return gone.pid


def test_an_own_folder_goes_with_what_is_in_it(tmp_path):
    """A folder with the marker is removed with its contents; a link in it is removed and not followed."""
    folder, other = filled(tmp_path / "own"), filled(tmp_path / "other")
    mark(folder)
    (folder / "link").symlink_to(other)

    assert remove_own(folder)
    assert not folder.exists()
    assert (other / "deep" / "er" / "file").exists()


@pytest.mark.parametrize("how", ["unmarked", "linked to", "marked by a link", "marked by a folder"])
def test_another_folder_stays(tmp_path, how):
    """A folder without a marker stays, whatever its name, also if the marker or the folder is a link."""
    folder = path = filled(tmp_path / "folder")
    if how == "linked to":
        mark(folder)
        path = tmp_path / "link"
        path.symlink_to(folder)
    elif how == "marked by a link":
        (folder / OWN).symlink_to("/dev/null")
    elif how == "marked by a folder":
        (folder / OWN).mkdir()

    assert not is_own(path)
    assert not remove_own(path)
    assert (folder / "deep" / "er" / "file").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_stays(tmp_path):
    """A marker does not count in a folder of another user, who may write it."""
    folder = filled(tmp_path / "folder")
    mark(folder)
    os.chown(folder, 65534, 65534)

    assert not remove_own(folder)
    assert (folder / "file").exists()


def test_a_removal_that_was_interrupted_can_be_done_again(tmp_path, monkeypatch):
    """The marker is removed last, so that an interrupted removal can be repeated."""
    folder = filled(tmp_path / "folder")
    mark(folder)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    assert not remove_own(folder)
    assert is_own(folder)
    monkeypatch.undo()
    assert remove_own(folder)


def test_libraries_of_a_user_stay(tmp_path, monkeypatch):
    """A project `my-project-1.2` in $HEADWAY_LIBRARIES stays, although its name is like that of a killed installation."""
    monkeypatch.setenv("HEADWAY_LIBRARIES", str(tmp_path))
    project = filled(tmp_path / f"my-project-1.{pid_of_nobody()}")
    killed = filled(tmp_path / f"3.13.0-redis-0123456789ab.{pid_of_nobody()}")
    mark(killed)

    environments.prepare([])

    assert project.exists()
    assert not killed.exists()


def test_an_installation_replaces_no_folder_of_a_user(tmp_path, monkeypatch):
    """The cells of a library are left out, with a reason, if something else is at its place."""
    interpreter = discover()[0][0]
    monkeypatch.setenv("HEADWAY_LIBRARIES", str(tmp_path))
    monkeypatch.setenv("HEADWAY_UV", "/bin/true")
    taken = filled(environments._folder(interpreter, "redis"))

    libraries = environments.prepare([(interpreter, "redis")])

    assert "was not made by Headway" in libraries.why_not(interpreter.id, ["redis"])
    assert (taken / "file").exists()


def test_an_interpreter_replaces_no_folder_of_a_user(tmp_path):
    """A folder `3.14` in $HEADWAY_INTERPRETERS that Headway did not begin stays."""
    target = next(one for one in site.TARGETS if one.name == "3.14")
    prefix = site.Site(tmp_path, tmp_path, 1, with_tests=False, talk=Talk(print))
    taken = filled(tmp_path / "3.14")

    with (
        pytest.raises(ProvisionError, match="was not made by Headway"),
        site.prefix_folder(prefix, target),
    ):
        raise AssertionError("never reached")
    assert (taken / "file").exists()

    shutil.rmtree(taken)
    mark(filled(tmp_path / "3.14.part"))
    with site.prefix_folder(prefix, target) as part:
        assert [path.name for path in part.iterdir()] == [OWN]
        part.rename(taken)
    assert not taken.exists()
