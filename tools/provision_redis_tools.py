#!/usr/bin/env python3
"""Add `redis-benchmark` to a Debian-like machine that lacks it, in Headway's cache: the lab's limit beside redis-py.

Does nothing where the lab finds one already: HEADWAY_REDIS_BENCHMARK, one on PATH, or an earlier one of ours that
still runs. Skipped with a line where HEADWAY_PROVISION=no. Nothing is installed system-wide.

Guarantees:
  - `<cache>/redis-tools` appears by a rename, after the program in it ran in an empty environment. What a killed run
    left is elsewhere, is never found, and is removed by the next run.
  - Two runs at once take turns (flock).
  - Exit status 0 whatever could be had, since the lab runs without it; 2 wrong usage.
  - One line on stderr when something was made or could not be had, none when there is nothing to do.

How: apt itself, with private lists, status and archives, fetches the package redis-tools of the machine's own release
from the archives that the machine already trusts, so the machine's own C library fits. Of the libraries that the
package depends on, only those that ldd does not find are kept, and a wrapper shows them to this one program.

Rejected: `apt-get install --download-only` (the system's status may be broken, and an empty one brings in perl and
PAM); patchelf (may have to be fetched itself; redis-benchmark starts no other program that could inherit the variable).
"""

import argparse
import contextlib
import fcntl
import io
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from apt_archive import ProvisionError, find_release_archives, keyring_of
from provision_interpreters import PrivateApt, find_one, run_logged, scratch_folder

from headway.errors import HeadwayError
from headway.lab.paths import cache_folder
from headway.lab.surroundings import find_redis_benchmark

PACKAGE = "redis-tools"
PROGRAM = "redis-benchmark"
# Enough for the index over a slow line; without a network apt gives up much sooner.
FETCH_TIMEOUT_S = 180
RUN_TIMEOUT_S = 20
# Part of the machine's own release, and so the one that the program was built for.
C_LIBRARY = re.compile(r"libc\d[\d.]*(-.*)?")
WRAPPER = f"""\
#!/bin/sh
# Debian's {PROGRAM}, with the libraries that this machine lacks, for it alone.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
export LD_LIBRARY_PATH="$home/lib"
exec "$home/libexec/{PROGRAM}" "$@"
"""


def run(command: Sequence[str | Path], log: Path, *, cwd: Path | None = None, timeout_s: float = RUN_TIMEOUT_S) -> str:
    """Run `command` as the interpreters' script does, but without showing the end of the log: one line is all we say.

    Raises:
        ProvisionError: it could not be started, failed or ran out of time.
    """
    with contextlib.redirect_stderr(io.StringIO()):
        return run_logged(command, log, cwd=cwd, timeout_s=timeout_s)


# ---- what the package index has ----


class ReleaseApt:
    """apt-get for the machine's own release, with private state; see `PrivateApt`."""

    def __init__(self, root: Path, log: Path, codenames: Sequence[str], etc_apt: Path) -> None:
        self._root = root
        self._log = log
        self._update_error: ProvisionError | None = None
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise ProvisionError(f"this is no Debian-like machine (`{tool}` is not on PATH)")
        archives = find_release_archives(codenames, etc_apt)
        for folder in ("lists/partial", "cache/archives/partial", "state"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        lines = []
        for archive in archives:
            # Debian's own key is known where the entry names none; for others apt's default decides.
            keyring = keyring_of(archive) if archive.is_debian_main() else archive.signed_by
            options = "target=Packages" + (f" signed-by={keyring}" if keyring else "")
            lines += [
                f"deb [{options}] {archive.uri} {suite} {' '.join(archive.components)}" for suite in archive.suites
            ]
        (root / "sources.list").write_text("\n".join([*lines, ""]), "utf-8")
        apt_conf = PrivateApt(root, suite="", source_packages=False).configuration()
        (root / "apt.conf").write_text(apt_conf, "utf-8")

    def update(self) -> None:
        """Bring the index up to date; an old one, or one without the updates, is good enough where it has the package."""
        try:
            self._call("update", "-o", "APT::Update::Error-Mode=any")
        except ProvisionError as error:
            self._update_error = error

    def download(self, names: Sequence[str], folder: Path) -> list[Path]:
        """Fetch packages, checked against the signed index, and return their files.

        Raises:
            ProvisionError: one cannot be had; says why the index is not up to date where that is the cause.
        """
        folder.mkdir()
        try:
            self._call("download", *names, cwd=folder)
        except ProvisionError as error:
            raise self._update_error or error from error
        return sorted(folder.glob("*.deb"))

    def _call(self, command: str, *arguments: str, cwd: Path | None = None) -> None:
        # Shorter than apt's own patience: `make lab` waits for it.
        quick = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]
        options = ["-q", "-y", "-c", str(self._root / "apt.conf"), *quick]
        run(["apt-get", command, *options, *arguments], self._log, cwd=cwd, timeout_s=FETCH_TIMEOUT_S)


def codenames_of_machine() -> list[str]:
    """What the machine's release calls itself, and what a derivative is built on; empty where it does not say."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    names = (release.get(name, "") for name in ("VERSION_CODENAME", "UBUNTU_CODENAME", "DEBIAN_CODENAME"))
    return sorted(filter(None, set(names)))


# ---- making it ----


def missing_libraries(program: Path, libraries: Path, log: Path) -> list[str]:
    """The sonames that neither the machine nor `libraries` has."""
    output = run(["env", f"LD_LIBRARY_PATH={libraries}", "ldd", program], log)
    return sorted(set(re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE)))


def needed_libraries(packages: Sequence[Path], log: Path) -> list[str]:
    """The names of the library packages that `packages` depend on, without the C library."""
    fields = "\n".join(run(["dpkg-deb", "-f", package, "Pre-Depends", "Depends"], log) for package in packages)
    names = re.findall(r"(?:^|[:,])\s*([a-z0-9][a-z0-9+.-]+)", re.sub(r"^[\w-]+:", ",", fields, flags=re.MULTILINE))
    return sorted({name for name in names if name.startswith("lib") and not C_LIBRARY.fullmatch(name)})


def take_libraries(sonames: Sequence[str], root: Path, libraries: Path) -> bool:
    """Copy those of `sonames` that are somewhere below `root`; return whether any is."""
    found = [path for soname in sonames for path in list(root.rglob(soname))[:1]]
    for path in found:
        shutil.copy(path, libraries / path.name)  # the file, where it is a link to one
    return bool(found)


def add_missing_libraries(apt: ReleaseApt, main_package: Path, work: Path, log: Path) -> list[str]:
    """Put into `work`/home/lib what the program in `work`/home/libexec needs and the machine lacks; return the sonames.

    Packages are fetched level by level: what the program's package depends on, then what those depend on.

    Raises:
        ProvisionError: some library is in none of them.
    """
    program, libraries = work / "home/libexec" / PROGRAM, work / "home/lib"
    libraries.mkdir()
    packages, seen = [main_package], set[str]()
    while lacking := missing_libraries(program, libraries, log):
        if take_libraries(lacking, work / "root", libraries):
            continue
        names = [name for name in needed_libraries(packages, log) if name not in seen]
        if not names:
            raise ProvisionError(f"no package that {PACKAGE} depends on has {', '.join(lacking)}")
        packages = apt.download(names, work / f"archives-{len(seen)}")
        seen.update(names)
        for package in packages:
            run(["dpkg-deb", "-x", package, work / "root"], log)
    return sorted(path.name for path in libraries.iterdir())


def check_runs(program: Path, log: Path) -> None:
    """Start the program in an empty environment.

    Raises:
        ProvisionError: it does not run.
    """
    # Before 6.2 it knows no --version.
    run(["env", "-i", "/bin/sh", "-c", '"$0" --version || "$0" --help', program], log)


def runs(program: Path) -> bool:
    """Whether the program starts; not logged, since every `make lab` asks."""
    try:
        check_runs(program, Path(os.devnull))
    except ProvisionError:
        return False
    return True


def make(home: Path, state: Path, log: Path, *, etc_apt: Path) -> str:
    """Make `home` with bin/redis-benchmark in it, and return what it was made of. The lock must be held.

    Raises:
        ProvisionError: some step failed; `home` is as it was.
    """
    apt = ReleaseApt(state, log, codenames_of_machine(), etc_apt)
    apt.update()
    # Beside the final place, so that the rename is one within a file system.
    with scratch_folder(home.with_name(f"{home.name}.part")) as work:
        package = apt.download([PACKAGE], work / "archives")[0]
        run(["dpkg-deb", "-x", package, work / "root"], log)
        for folder in ("bin", "libexec"):
            (work / "home" / folder).mkdir(parents=True)
        shutil.move(find_one(work / "root", f"usr/bin/{PROGRAM}"), work / "home/libexec" / PROGRAM)
        added = add_missing_libraries(apt, package, work, log)
        wrapper = work / "home/bin" / PROGRAM
        wrapper.write_text(WRAPPER, "utf-8")
        wrapper.chmod(0o755)
        check_runs(wrapper, log)
        if home.exists():
            home.rename(work / "old")
        (work / "home").rename(home)
    version = package.name.split("_")[1].replace("%3a", ":")
    return f"{PACKAGE} {version}" + (f" with {', '.join(added)}" if added else "")


def provide(cache: Path, *, force: bool, etc_apt: Path) -> str:
    """Make what is absent, and return what to tell the user, or "".

    Raises:
        ProvisionError: it cannot be had.
    """
    home, state, log = cache / PACKAGE, cache / "provision" / f"apt-{PACKAGE}", cache / f"provision/logs/{PACKAGE}.log"
    program = home / "bin" / PROGRAM

    def is_there() -> bool:
        found = find_redis_benchmark()
        return bool(found) and (found != str(program) or runs(program))

    if is_there() and not force:
        return ""
    if os.environ.get("HEADWAY_PROVISION") == "no":
        return "not adding it (HEADWAY_PROVISION=no)"
    state.mkdir(parents=True, exist_ok=True)
    # Not unlinked at the end: another run could then lock a file that no third run sees.
    with (state / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there() and not force:
            return ""
        log.unlink(missing_ok=True)
        if home.exists() and not runs(program):
            # The lab would take it for one that runs.
            with scratch_folder(home.with_name(f"{home.name}.part")) as work:
                home.rename(work / "old")
        return f"added {program} from {make(home, state, log, etc_apt=etc_apt)}"


def main(arguments: Sequence[str] | None = None, *, etc_apt: Path = Path("/etc/apt")) -> int:
    """Do as the command line says; return 0 whatever could be had."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--force", action="store_true", help="make it also where there is one already")
    options = parser.parse_args(arguments)
    try:
        said = provide(cache_folder(), force=options.force, etc_apt=etc_apt)
    except (ProvisionError, HeadwayError, OSError, subprocess.SubprocessError) as error:
        said = f"cannot be added, the lab goes on without it: {' '.join(str(error).split())}"
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; nothing half-made was left behind", file=sys.stderr)
        return 130
    if said:
        print(f"{PROGRAM}: {said}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
