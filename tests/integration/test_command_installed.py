"""The command `headway` outside of virtual environments: it finds the Python that it was installed with.

The interpreters of these tests are shell scripts that print their name and arguments, where no real one is needed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEADWAY = Path(sys.executable).with_name("headway")
SCRIPT = Path(__file__).parents[2] / "tools" / "headway_command.py"
LIMIT_S = 60


def interpreter(path):
    """Write a program that prints its path, and whether it starts the script or the module."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '#!/bin/sh\ncase "$*" in *"-- "*/headway-python*) how=script;; *) how=module;; esac\necho "$0" "$how"\n'
    )
    path.chmod(0o755)
    return path


def installed(prefix, python):
    """Install the command below a folder, as pip does; `python` is the first line of its script, or None for no script."""
    (prefix / "bin").mkdir(parents=True)
    shutil.copy(HEADWAY, prefix / "bin" / "headway")
    if python is not None:
        source = SCRIPT.read_text().removeprefix("#!python")
        (prefix / "bin" / "headway-python").write_text(f"#!{python}{source}")
    return prefix / "bin" / "headway"


def package(folder):
    """Write a package `headway` whose command prints its folder and its arguments."""
    (folder / "headway").mkdir(parents=True)
    (folder / "headway" / "__main__.py").touch()
    (folder / "headway" / "__init__.py").touch()
    (folder / "headway" / "cli.py").write_text("import sys\ndef main(): print(__file__, sys.argv[1:]); return 3\n")


def environment(folder):
    """Make the bin folder of a virtual environment that has each name of an interpreter, and return the folder."""
    (folder / "pyvenv.cfg").parent.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    for name in ("python", "python3", "python3.13"):
        interpreter(folder / "bin" / name)
    return folder / "bin"


@pytest.fixture
def bare(tmp_path):
    """Make a virtual environment without headway, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=LIMIT_S)
    return tmp_path / "bare" / "bin" / "python"


def run(command, *path, **variables):
    """Run the command with folders on PATH and nothing else in its environment."""
    return subprocess.run(
        [command, "--version"],
        env={"PATH": os.pathsep.join(map(str, path)), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("packages", ["lib/python3.13/site-packages", "lib/python3.13/dist-packages", "."])
def test_an_active_environment_does_not_take_the_installers_place(tmp_path, packages):
    """After `pip install --user`, `sudo pip install` and `--target` pip's own interpreter is started."""
    python = interpreter(tmp_path / "opt" / "python3.13")
    headway = installed(tmp_path / "home", python)
    package(tmp_path / "home" / packages)

    done = run(headway, environment(tmp_path / "active"), "/usr/bin", "/bin")

    assert done.stdout == f"{python} script\n"


def test_an_active_environment_is_passed_over_on_the_path(tmp_path):
    """Without the installer's line, the interpreter is the first one of its version on PATH that is in no environment."""
    python = interpreter(tmp_path / "usr" / "bin" / "python3.13")
    headway = installed(tmp_path / "home", None)
    package(tmp_path / "home" / "lib/python3.13/site-packages")

    done = run(headway, environment(tmp_path / "active"), python.parent)

    assert done.stdout == f"{python} module\n"


def test_an_environment_that_was_moved_has_its_own_interpreter(tmp_path):
    """In a virtual environment the interpreter beside the command counts, and not the one of before the move."""
    before = interpreter(tmp_path / "before" / "bin" / "python")
    headway = installed(tmp_path / "moved", before)
    package(tmp_path / "moved" / "lib/python3.13/site-packages")
    (tmp_path / "moved" / "pyvenv.cfg").touch()
    own = interpreter(tmp_path / "moved" / "bin" / "python3.13")

    assert run(headway, "/usr/bin", "/bin").stdout == f"{own} module\n"


def test_an_environment_without_its_interpreter_takes_no_other_one(tmp_path):
    """An upgrade may remove the Python that an environment links to; another installation's Headway does not run then."""
    headway = installed(tmp_path / "venv", None)
    package(tmp_path / "venv" / "lib/python3.13/site-packages")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    for name in ("python3", "python3.13"):
        (tmp_path / "venv" / "bin" / name).symlink_to(tmp_path / "gone")
        interpreter(tmp_path / "usr" / "bin" / name)

    done = run(headway, tmp_path / "usr" / "bin")

    assert (done.returncode, done.stdout) == (127, "")
    assert "is not to be found: No such file or directory\n\nhint: " in done.stderr


@pytest.mark.parametrize("line", ["/bin/sh", "/usr/bin/env python3", "python3"])
def test_only_a_python_is_started(tmp_path, line):
    """A first line that names a shell or `env`, as for a long path, is not followed."""
    headway = installed(tmp_path / "home", line)
    python = interpreter(tmp_path / "home" / "bin" / "python3")

    assert run(headway, "/usr/bin", "/bin").stdout == f"{python} module\n"


def test_an_interpreter_that_is_gone_is_told(tmp_path):
    """Where the named interpreter is gone, another python3 without headway does not tell of a missing module."""
    headway = installed(tmp_path / "home", tmp_path / "gone" / "python3.13")
    other = interpreter(tmp_path / "usr" / "bin" / "python3")

    done = run(headway, other.parent)

    assert done.returncode == 127
    assert done.stdout == ""
    assert "hint: run `python3 -m headway` with it, or install headway again\n" in done.stderr


@pytest.mark.parametrize(
    "packages",
    [".", "lib/python{0}.{1}/site-packages", "lib64/python{0}.{1}/site-packages"],
    ids=["target", "lib", "lib64"],
)
def test_headway_is_found_where_only_pythonpath_would_lead(tmp_path, bare, packages):
    """The headway beside the command is started, also if the interpreter does not look there."""
    headway = installed(tmp_path / "own", bare)
    place = tmp_path / "own" / packages.format(*sys.version_info)
    package(place)

    done = run(headway, "/usr/bin", "/bin", PYTHONHOME="/nowhere", PYTHONPATH="/nowhere")

    assert done.stdout == f"{place.resolve() / 'headway' / 'cli.py'} ['--version']\n"
    assert done.returncode == 3


def test_an_interpreter_that_lost_headway_says_so(tmp_path, bare):
    """An interpreter that does not have headway any more ends with the command that installs it, and no traceback."""
    headway = installed(tmp_path / "home", bare)

    done = run(headway, "/usr/bin", "/bin")

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: headway was installed with {bare} (CPython ")
    assert done.stderr.endswith(f"\n\nhint: install it again: {bare} -m pip install headway\n")
