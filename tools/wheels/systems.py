"""Try the wheels in other systems: Debian 12, 13 and sid, each in a new chroot, and aarch64 under QEMU.

debootstrap makes each system from the archive that this machine trusts, with its own python3 and nothing else; the
system is kept in the cache. The wheel and its dependencies are fetched outside and installed from a folder, as on a
machine without a network. The chroot has its own mounts and processes, which end with it.

The program needs root, debootstrap and unshare; for aarch64 Debian's qemu-user-static, registered with the kernel
(binfmt_misc). If a system is not available, the program prints the reason, and the exit code is 1. `--quick` leaves the
lab out.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headway.host.paths import cache_folder
from headway.provision.archive import find_archive, keyring_of
from wheels.build import OUT
from wheels.environments import TRIAL

__all__ = ["main"]

PACKAGES = "python3,python3-venv"
# The commands that enter a system. The system has its own /proc, the machine's devices, and nothing else of the machine.
INSIDE = """
set -e
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount -t sysfs sysfs {root}/sys
exec chroot {root} /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -ec {command}
"""


@dataclass(frozen=True)
class System:
    """A system to try a wheel in: a suite of Debian, and the architecture as Debian and as the wheel name it."""

    suite: str
    debian: str = "amd64"
    machine: str = "x86_64"

    @property
    def name(self) -> str:
        """The name of the system's folder in the cache."""
        return f"{self.suite}-{self.debian}"


SYSTEMS = (System("bookworm"), System("trixie"), System("sid"), System("trixie", "arm64", "aarch64"))


class CannotError(Exception):
    """A system that is not available here, with the reason."""


def make(system: System) -> Path:
    """Return the root folder of a system; make the system first if it is not in the cache."""
    root = cache_folder() / "systems" / system.name
    if (root / "complete").exists():
        return root
    if system.machine != os.uname().machine and not Path(f"/proc/sys/fs/binfmt_misc/qemu-{system.machine}").exists():
        raise CannotError(f"this kernel runs no {system.machine} programs: install qemu-user-static and binfmt-support")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    archive = find_archive()
    keyring = keyring_of(archive)
    command = ["debootstrap", "--variant=minbase", f"--arch={system.debian}", f"--include={PACKAGES}"]
    command += [*([f"--keyring={keyring}"] if keyring else []), system.suite, str(root), archive.uri]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise CannotError(f"debootstrap failed: {(done.stdout.splitlines() or ['no output'])[-1]}")
    (root / "complete").touch()
    return root


def inside(root: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in a system, with processes and mounts of its own; its output goes to this program's."""
    script = INSIDE.format(root=shlex.quote(str(root)), command=shlex.quote(command))
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]
    return subprocess.run(enter, text=True, check=False)


def version_in(root: Path) -> str:
    """Return the version of a system's python3, as "3.13"."""
    name = os.readlink(root / "usr/bin/python3")
    found = re.search(r"python(3\.\d+)", name)
    if found is None:
        raise CannotError(f"its python3 is {name}")
    return found[1]


def fetch(system: System, version: str, wheel: Path, folder: Path) -> None:
    """Fetch the dependencies of a wheel and pytest for a system into a folder, and copy the wheel into it."""
    shutil.copy(wheel, folder)
    platforms = [f"--platform=manylinux_2_{minor}_{system.machine}" for minor in (28, 27, 17)]
    command = [
        shutil.which("python3") or "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--only-binary=:all:", f"--python-version={version}", "--implementation=cp", *platforms,
        f"--platform=manylinux2014_{system.machine}", f"--dest={folder}", f"--find-links={folder}", str(wheel), "pytest",
    ]  # fmt: skip
    if subprocess.run(command, check=False).returncode != 0:
        raise CannotError(f"the wheel's dependencies cannot be had for CPython {version}")


def trial(system: System, *, quick: bool) -> None:
    """Install the wheel in a system, and try it there."""
    wheel = next(OUT.glob(f"*_{system.machine}.whl"))
    root = make(system)
    version = version_in(root)
    print(f"{wheel.name} in {system.name}, CPython {version}", flush=True)
    with tempfile.TemporaryDirectory(dir=root / "tmp") as name:
        folder = Path(name)
        fetch(system, version, wheel, folder)
        shutil.copy(TRIAL, folder)
        here = f"/tmp/{folder.name}"
        command = (
            f"cd {here}; python3 -m venv env; env/bin/pip install --quiet --no-index --find-links . headway pytest; "
            f"env/bin/python trial.py env {'--quick' if quick or system.machine != os.uname().machine else ''}"
        )
        if inside(root, command).returncode != 0:
            raise CannotError("the trial failed")


def main(arguments: list[str]) -> int:
    """Try every system, or the named ones; return 1 if one was not available or failed."""
    named = [one for one in arguments if not one.startswith("-")]
    known = [one.name for one in SYSTEMS]
    if unknown := [one for one in named if one not in known]:
        print(f"error: {unknown[0]!r} is no system; hint: the systems are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for system in SYSTEMS:
        if named and system.name not in named:
            continue
        try:
            trial(system, quick="--quick" in arguments)
        except CannotError as error:
            failed += 1
            print(f"error: {system.name}: {error}", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
