"""Install the packages of dist/ into clean environments of CPython 3.11 to 3.15, and try them there.

The wheel is tried on every interpreter of these versions that this machine has. The sdist is tried on the oldest, where
its own quick tests also run, outside of the repository. With `--quick` only one environment runs the lab. The command is
also tried outside of environments, as after `pip install --user`, beside an active environment without headway.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from headway.host.interpreters import Interpreter, discover
from headway.lab.beside.environments import find_uv
from wheels.build import OUT

__all__ = ["main"]

WANTED = ("3.11", "3.12", "3.13", "3.14", "3.15")
TRIAL = Path(__file__).with_name("trial.py")
OF_MAKE = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "ARGS")
"""The variables in which make hands its options, and those of its command line, down to its children."""


def install(interpreter: Interpreter, package: Path, folder: Path) -> None:
    """Make an environment that contains a package, pytest and their dependencies, and nothing else."""
    env = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    uv = [find_uv(), "--quiet", "--no-config"]
    subprocess.run(
        [*uv, "venv", "--no-python-downloads", "--python", interpreter.executable, str(folder)], env=env, check=True
    )
    # The package is the one that was just built. Its dependencies are the newest of the index, as for a user.
    subprocess.run(
        [*uv, "pip", "install", "--python", str(folder / "bin/python"), str(package), "pytest"], env=env, check=True
    )


def trial(folder: Path, *, quick: bool) -> None:
    """Try what is installed in an environment."""
    if subprocess.run(
        [sys.executable, str(TRIAL), str(folder), *(["--quick"] if quick else [])], check=False
    ).returncode:
        raise SystemExit(1)


def beside_active(interpreter: Interpreter, wheel: Path, folder: Path) -> None:
    """Install a wheel as `pip install --user` does, and start its command beside an active environment of that version."""
    uv = [find_uv(), "--quiet", "--no-config"]
    home, active = folder / "home", folder / "active"
    for command in (
        ["venv", "--no-python-downloads", "--python", interpreter.executable, str(active)],
        ["pip", "install", "--python", interpreter.executable, "--prefix", str(home / ".local"), str(wheel)],
    ):
        subprocess.run([*uv, *command], check=True)
    env = {
        **os.environ,
        "HOME": str(home),
        "VIRTUAL_ENV": str(active),
        "PATH": f"{active / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    command = [str(home / ".local/bin/headway"), "run", "-c", "import sys; print(sys.prefix)"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or done.stdout != f"{active}\n":
        raise SystemExit(f"error: beside an active environment: exit code {done.returncode}, {done.stdout!r}")
    print("  beside an active environment", flush=True)


def quick_tests(sdist: Path, folder: Path) -> None:
    """Unpack an sdist and run its quick tests there, in an environment that its own Makefile makes."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    tree = next(folder.iterdir())
    # The options of the make that runs this program, such as ARGS=--quick, are not meant for the tests.
    env = {key: value for key, value in os.environ.items() if key not in OF_MAKE}
    subprocess.run([shutil.which("make") or "make", "test-quick"], cwd=tree, env=env, check=True)


def main(arguments: list[str]) -> int:
    """Try the packages; return 0, or 1 if an interpreter is missing."""
    wheel = next(OUT.glob(f"*{os.uname().machine}.whl"))
    sdist = next(OUT.glob("*.tar.gz"))
    found = {one.name: one for one in reversed(discover()[0])}
    missing = [name for name in WANTED if name not in found]
    quick = "--quick" in arguments
    for name in (name for name in WANTED if name in found):
        print(f"{wheel.name} on {found[name].version}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            install(found[name], wheel, Path(folder) / "env")
            trial(Path(folder) / "env", quick=quick and name != WANTED[-1])
    newest = next(name for name in reversed(WANTED) if name in found)
    with tempfile.TemporaryDirectory() as folder:
        beside_active(found[newest], wheel, Path(folder))
    oldest = next(name for name in WANTED if name in found)
    print(f"{sdist.name} on {found[oldest].version}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        install(found[oldest], sdist, Path(folder) / "env")
        trial(Path(folder) / "env", quick=True)
        quick_tests(sdist, Path(folder) / "unpacked")
    for name in missing:
        print(f"error: CPython {name} is not on this machine; `headway interpreters --add {name}`", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
