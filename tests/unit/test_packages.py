"""The tools that try the packages, and that check the workflows, also outside of a repository."""

import io
import os
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
from wheels import environments

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Put an empty folder first on PATH; return a function that writes a program there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def write(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return write


def test_the_sdists_tests_get_no_option_of_the_make_around_them(tmp_path, monkeypatch, programs):
    """`make dist ARGS=--quick` runs the tests of the unpacked sdist without that option."""
    programs("make", f'echo "$PWD $*" > {tmp_path}/called; env > {tmp_path}/environment')
    for name, value in {
        "MAKEFLAGS": " -- ARGS=--quick",
        "MAKELEVEL": "1",
        "ARGS": "--quick",
        "OF_THE_USER": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with tarfile.open(tmp_path / "sdist.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("headway-1/Makefile"), io.BytesIO())

    environments.quick_tests(tmp_path / "sdist.tar.gz", tmp_path / "unpacked")

    assert (tmp_path / "called").read_text().split() == [str(tmp_path / "unpacked" / "headway-1"), "test-quick"]
    environment = (tmp_path / "environment").read_text()
    assert "OF_THE_USER=1" in environment
    assert "--quick" not in environment
    assert "MAKELEVEL" not in environment


def actionlint(tree):
    """Run tools/actionlint.sh in a tree that is no repository; return the exit status and what it said."""
    (tree / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "actionlint.sh", tree / "tools")
    done = subprocess.run([tree / "tools" / "actionlint.sh"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_workflows_are_checked_outside_of_a_repository(tmp_path, programs):
    """The check names the workflows, because actionlint looks for them only in a Git repository."""
    programs("actionlint", 'echo "$@"')
    workflows = tmp_path / "tree" / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "ci.yml").touch()

    assert actionlint(tmp_path / "tree") == (0, ".github/workflows/ci.yml\n")


def test_the_sdist_has_all_that_is_committed():
    """The sdist leaves out only what a build makes: its own quick tests lint, and look at, every other file."""
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["sdist"]["exclude"]

    assert {f"{folder}/" for folder in excluded} <= set((ROOT / ".gitignore").read_text().split())
