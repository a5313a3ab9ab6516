"""The settings of a watch: those of $HEADWAY_WATCH, those that a second call has in vain, and the names of recordings."""

import os
import subprocess
import sys

import pytest

import headway
from headway.live import begin, watching
from headway.live.options import Limits, Options


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/python3 /v/bin/gunicorn -c conf.py -m 7 app:app", "gunicorn"),
        ("python -X dev -W error app.py -c 3", "app"),
        ("python -u -m uvicorn.main app:app -m", "uvicorn"),
        ("python -um uvicorn.main app:app", "uvicorn"),
        ("python -Xdev -- app.py", "app"),
        ("python --check-hash-based-pycs never app.py", "app"),
        ("python -c print(1) app.py", "python"),
        ("python -Bcprint(1) app.py", "python"),
        ("python -", "python"),
        ("python -m", "python"),
        ("python", "python"),
    ],
)
def test_recordings_have_the_name_of_the_program(monkeypatch, command, name):
    """Options behind the script are the script's own: gunicorn's `-c` is no code of Python's."""
    monkeypatch.setattr(sys, "orig_argv", command.split())
    assert begin._name() == name


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("/usr/bin/python3 /v/bin/headway trace app.py", True),
        ("python -X dev -m headway.cli.main --version", True),
        ("python -m headway", True),
        ("python -m uvicorn app:app --app-dir /srv/headway", False),
        ("python app.py headway -m headway", False),
        ("python -c print(1) headway", False),
        ("python {folder}/headway", False),
    ],
)
def test_only_headway_s_own_commands_are_not_watched(monkeypatch, tmp_path, command, is_ours):
    """A program that has the word among its arguments, or is a folder of that name, is watched."""
    (tmp_path / "headway").mkdir()
    monkeypatch.setattr(sys, "orig_argv", command.format(folder=tmp_path).split())
    assert begin._is_ours() == is_ours


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("", None),
        ("0", None),
        (" ", None),
        ("off", None),
        ("False", None),
        ("1", "stalls"),
        ("yes", "stalls"),
        ("some", "some"),
        ("./off", "off"),
    ],
)
def test_a_switch_is_no_folder(tmp_path, value, folder):
    """`HEADWAY_WATCH=off` switches nothing on, `=1` stands for the preset folder, and any other value names one."""
    code = (
        "from headway.live import watching\n"
        "watching.watch = lambda **_: print('watched') or watching.Watch(None, 0)\n"
        "import headway.live.begin\n"
        "print(watching._preset_folder())"
    )
    env = {name: text for name, text in os.environ.items() if not name.startswith("HEADWAY_")} | {
        "HEADWAY_WATCH": value
    }
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines() == ["watched"] * (folder is not None) + [str(tmp_path / (folder or "stalls"))]


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """Let this process seem to be watched with these settings, by the process 7."""

    def make(folder="stalls", **settings):
        there = Options("", "", 0, Limits(**settings.pop("limits", {})), **settings)
        found = watching.Watch(tmp_path / folder, 0, others=7)
        monkeypatch.setattr(watching, "_options", there)
        monkeypatch.setattr(watching, "_said_ignored", False)
        monkeypatch.setattr(watching, "_watched_already", lambda _: found)
        return found

    return make


def test_settings_that_have_no_effect_are_told(watched, capsys):
    """That is so with $HEADWAY_WATCH, whose watch has the presets; the call returns that watch."""
    there = watched()
    for _ in range(2):
        assert headway.watch(listen="127.0.0.1:9464", over_s=0.05, keep=20) is there

    said = f"headway: process {os.getpid()} is watched already: over_s, listen of this headway.watch() have no effect\n"
    assert capsys.readouterr().err == said


def test_a_folder_that_has_no_effect_is_told(watched, capsys, tmp_path):
    """The recordings are in another folder than the caller expects."""
    watched()
    headway.watch(tmp_path / "stalls")
    assert capsys.readouterr().err == ""
    headway.watch(tmp_path / "other")
    assert ": folder of this headway.watch() has no effect\n" in capsys.readouterr().err


def test_a_second_call_with_the_same_settings_says_nothing(watched, capsys):
    """Two applications in one process may have the same line, and the second may leave the settings out."""
    watched(listen="127.0.0.1:9464", limits={"loop_ns": 50_000_000, "wait_ns": 50_000_000})
    headway.watch(listen="127.0.0.1:9464", over_s=0.05)
    headway.watch()
    assert capsys.readouterr().err == ""


def test_where_nothing_is_watched_nothing_is_told(monkeypatch, watched, tmp_path, capsys):
    """In a process that `headway trace` records, a watch does nothing, whatever its settings are."""
    watched()
    monkeypatch.setattr(watching, "_watched_already", lambda _: watching.Watch(tmp_path, 0))
    headway.watch(over_s=0.05)
    assert capsys.readouterr().err == ""
