"""A message names what a user may not read, run or write, and what to do."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headway.cli import calibrate_command, console, doctor_command
from headway.cli.main import main
from headway.errors import InterpreterError, RecordingError
from headway.host import interpreters
from headway.live import attach, door
from headway.sim import calibration


def test_an_interpreter_behind_a_closed_folder_is_not_said_to_be_missing(monkeypatch):
    """The user may not even know whether the file is there."""

    def refuse(self, **_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(interpreters.shutil, "which", lambda _: None)
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(InterpreterError, match="cannot be run: permission denied"):
        interpreters.executable_of("/closed/bin/python")


def test_a_machine_without_a_folder_for_temporary_files_is_told_of_tmpdir(monkeypatch):
    """The message has no list of Python's, and the hint names the variable."""

    def refuse(**_):
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(door, "private_folder", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(RecordingError, match="no folder for temporary files can be written to") as caught:
        door.Door()
    assert "TMPDIR" in caught.value.hint


@pytest.mark.parametrize("error", ["Permission denied", "No such file or directory"])
def test_files_that_another_user_cannot_read_have_a_place_that_they_can(error):
    """A folder above the files may be closed, as root's home is."""
    hint = attach._hint(
        f"{error}: '/root/agent/headway_agent/__init__.py'", cast(attach.Target, SimpleNamespace(pid=7))
    )
    assert "enter each folder above them" in hint
    assert "/opt" in hint


def test_help_after_a_process_id_is_help(capsys):
    """`headway top PID --help` shows the options, as without the id."""
    with pytest.raises(SystemExit) as ended:
        main(["top", "1", "--help"])
    assert ended.value.code == 0
    assert "--interval" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "HEADWAY_INTERPRETERS"])
def test_another_users_interpreters_are_passed_over(monkeypatch, variable):
    """After `su`, the variables may lead to folders of the user before."""

    def refuse(self, pattern):
        if str(self).startswith("/closed"):
            raise PermissionError(13, "Permission denied", str(self))
        return globbed(self, pattern)

    globbed = Path.glob
    monkeypatch.setattr(Path, "glob", refuse)
    monkeypatch.setenv(variable, "/closed")
    assert "own" in {origin for origin, _ in interpreters._folders()}


def test_a_refused_file_is_no_lack_of_space(monkeypatch, capsys):
    """The hint to an error that no command expects speaks of the permission, where one is missing."""

    def refuse(_):
        raise PermissionError(13, "Permission denied", "/closed")

    monkeypatch.setattr(doctor_command, "run", refuse)
    monkeypatch.setattr(console, "discard_output", lambda: None)  # it would end pytest's own capture
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "error: Permission denied (/closed)\n\n"
        "hint: give this user the permission, or choose another place, then try again\n"
    )


def test_a_calibration_that_cannot_be_kept_is_not_made(monkeypatch, tmp_path, capsys):
    """The measurement takes half a minute, so the folder is looked at before."""
    path = tmp_path / "calibration.json"
    monkeypatch.setattr(calibration, "default_path", lambda: path)
    monkeypatch.setattr(calibration, "measure", lambda *_, **__: pytest.fail("it measures"))
    monkeypatch.setattr(calibrate_command.os, "access", lambda folder, _: folder != tmp_path)
    assert main(["calibrate"]) == 2
    assert capsys.readouterr().err == (
        f"error: the folder {tmp_path} cannot be written\n\n"
        "hint: set XDG_CACHE_HOME to a folder that you may write to, or name a file with `-o`\n"
    )
