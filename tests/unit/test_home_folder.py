"""The folders that Headway has in the user's home, and a HOME that names none."""

import errno
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.errors import RecordingError
from headway.host import paths
from headway.live import channel


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """Have no other variable that names a folder, and a folder of one's own to be in."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "HEADWAY_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("home", ["", "home", ".", "~", "~root"])
def test_a_home_that_is_no_absolute_path_is_none(home, monkeypatch, capsys, tmp_path):
    """Results would lie below the folder that the command happens to be run in, and not be found from another one."""
    monkeypatch.setenv("HOME", home)

    assert paths.home_folder() is None
    assert main(["report"]) == 2
    assert "this user has no home folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_relative_home_has_no_place_for_what_processes_execute(monkeypatch):
    """A socket or a script below the folder of the command would not be found by a command in another one."""
    tried = []

    def refuse(path, _mode):
        tried.append(path)
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setenv("HOME", "home")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    monkeypatch.setattr(channel.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(channel, "_open_own", refuse)

    with pytest.raises(RecordingError, match="there is no folder for the code"):
        channel.private_folder()
    assert tried == [Path("/run/user/1000/headway")]


def test_a_home_is_used_as_it_is(monkeypatch, tmp_path):
    """An absolute HOME is the home, and the store is below it."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert paths.home_folder() == tmp_path
    assert paths.default_store() == tmp_path / ".local/share/headway/results.sqlite"


def test_without_home_the_user_database_is_asked(monkeypatch):
    """A user whom the database does not have has no home."""
    monkeypatch.delenv("HOME")
    assert paths.home_folder() is not None

    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(paths.Path, "home", unknown)
    assert paths.home_folder() is None
