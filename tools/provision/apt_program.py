"""Add a program of the machine's own release to Headway's cache, with the libraries that the machine lacks.

The other modules of this package each add one program through this module. They share these guarantees:
  - `<cache>/<folder>` appears by a rename, after the program in it ran in an empty environment. Files of a killed run
    are in another folder: no run uses them, and the next one removes them.
  - Runs at the same time take turns (flock).
  - The exit status is 0 even if the program cannot be added, since Headway works without it; 2 is wrong usage.
  - A run prints one line on stderr if it added the program or could not, and none if there was nothing to do.

Method: apt itself, with private lists, status and archives, fetches packages of the machine's own release from the
archives that the machine already trusts, so the machine's own C library fits. Of the libraries that a package depends
on, only those that ldd does not find are kept. A wrapper makes them visible to this one program.

Rejected: `apt-get install --download-only` (the system's status may be broken, and an empty one brings in perl and
PAM); patchelf (it may have to be fetched itself). LD_LIBRARY_PATH serves instead: the programs start only their own
children, which must inherit it.
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
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError
from headway.host.paths import cache_folder
from headway.provision.apt import PrivateApt
from headway.provision.archive import ProvisionError, find_release_archives, keyring_of, source_options
from headway.provision.commands import find_one, run_logged, scratch_folder

RUN_TIMEOUT_S = 20
# The C library is not fetched: the machine has that of its own release, for which the program was built.
C_LIBRARY = re.compile(r"libc\d[\d.]*(-.*)?")
WRAPPER = """\
#!/bin/sh
# Debian's {program}, with what this machine lacks, for it alone.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
{exports}
exec "$home/libexec/{program}" "$@"
"""


def run(command: Sequence[str | Path], log: Path, *, cwd: Path | None = None, timeout_s: float = RUN_TIMEOUT_S) -> str:
    """Run `command` by `run_logged`, but do not show the end of the log: the script reports in one line.

    Raises:
        ProvisionError: The command could not be started, failed or ran out of time.
    """
    with contextlib.redirect_stderr(io.StringIO()):
        return run_logged(command, log, cwd=cwd, timeout_s=timeout_s)


# ---- what the package index has ----


class ReleaseApt:
    """apt-get for the machine's own release, with private state; see `PrivateApt`."""

    def __init__(
        self, root: Path, log: Path, codenames: Sequence[str], etc_apt: Path, *, fetch_timeout_s: float
    ) -> None:
        self._root = root
        self._log = log
        self._fetch_timeout_s = fetch_timeout_s
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
            # If the entry names no key, Debian's own is known; for other archives apt's default decides.
            keyring = keyring_of(archive) if archive.is_debian_main() else archive.signed_by
            options = source_options(archive, "Packages", keyring)
            lines += [
                f"deb [{options}] {archive.uri} {suite} {' '.join(archive.components)}" for suite in archive.suites
            ]
        (root / "sources.list").write_text("\n".join([*lines, ""]), "utf-8")
        apt_conf = PrivateApt(root, suite="", source_packages=False).configuration()
        (root / "apt.conf").write_text(apt_conf, "utf-8")

    def update(self) -> None:
        """Update the index. On failure, go on: an old index, or one without the updates, may still have the package."""
        try:
            self._call("update", "-o", "APT::Update::Error-Mode=any")
        except ProvisionError as error:
            self._update_error = error

    def first_known(self, names: Sequence[str]) -> str:
        """Return the first of `names` that the index has; if it has none, the first, whose download tells why."""
        for name in names:
            with contextlib.suppress(ProvisionError):
                self._call("download", "--print-uris", name)
                return name
        return names[0]

    def download(self, names: Sequence[str], folder: Path) -> list[Path]:
        """Fetch packages, checked against the signed index, and return their files.

        Raises:
            ProvisionError: A package is not available. If the index could not be updated, the error says why.
        """
        folder.mkdir()
        try:
            self._call("download", *names, cwd=folder)
        except ProvisionError as error:
            raise self._update_error or error from error
        return sorted(folder.glob("*.deb"))

    def unpack(self, packages: Sequence[Path], root: Path) -> None:
        """Unpack the files of `packages` below `root`; their scripts do not run."""
        for package in packages:
            run(["dpkg-deb", "-x", package, root], self._log, timeout_s=self._fetch_timeout_s)

    def _call(self, command: str, *arguments: str, cwd: Path | None = None) -> None:
        # These limits are shorter than apt's own, because `make lab` and `make test` wait for apt.
        quick = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]
        options = ["-q", "-y", "-c", str(self._root / "apt.conf"), *quick]
        run(["apt-get", command, *options, *arguments], self._log, cwd=cwd, timeout_s=self._fetch_timeout_s)


def codenames_of_machine() -> list[str]:
    """Return the code names of the machine's release and of the release it derives from; empty if it tells none."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    names = (release.get(name, "") for name in ("VERSION_CODENAME", "UBUNTU_CODENAME", "DEBIAN_CODENAME"))
    return sorted(filter(None, set(names)))


def name_of(package: Path) -> str:
    """Return the package name in a package's file name."""
    return package.name.split("_")[0]


def version_of(package: Path) -> str:
    """Return the version in a package's file name."""
    return package.name.split("_")[1].replace("%3a", ":")


# ---- the libraries that the machine lacks ----


def missing_libraries(program: Path, libraries: Path, log: Path) -> list[str]:
    """Return the sonames that `program`, or one of `libraries`, needs and neither the machine nor `libraries` has."""
    objects = [program, *sorted(libraries.iterdir())]
    output = run(["env", f"LD_LIBRARY_PATH={libraries}", "ldd", *objects], log)
    return sorted(set(re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE)))


def needed_libraries(packages: Sequence[Path], log: Path) -> list[str]:
    """Return the names of the library packages that `packages` depend on, without the C library."""
    fields = "\n".join(run(["dpkg-deb", "-f", package, "Pre-Depends", "Depends"], log) for package in packages)
    names = re.findall(r"(?:^|[:,])\s*([a-z0-9][a-z0-9+.-]+)", re.sub(r"^[\w-]+:", ",", fields, flags=re.MULTILINE))
    return sorted({name for name in names if name.startswith("lib") and not C_LIBRARY.fullmatch(name)})


def take_libraries(sonames: Sequence[str], root: Path, libraries: Path) -> bool:
    """Copy those of `sonames` that are somewhere below `root`; return whether any was found."""
    found = [path for soname in sonames for path in list(root.rglob(soname))[:1]]
    for path in found:
        shutil.copy(path, libraries / path.name)  # copies the file itself if the path is a link
    return bool(found)


def add_missing_libraries(
    apt: ReleaseApt,
    program: str,
    main_packages: Sequence[Path],
    work: Path,
    log: Path,
    *,
    loaded_later: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Put the libraries that `work`/home/libexec/`program` needs and the machine lacks into `work`/home/lib.

    Packages are fetched level by level: first the dependencies of the program's packages, then the dependencies of
    those. Returns the sonames.

    Args:
        apt: Fetches the packages.
        program: The name of the program.
        main_packages: The program's packages, unpacked in `work`/root like all others.
        work: The scratch folder.
        log: The file for the output of the commands.
        loaded_later: Library -> libraries that it opens by itself: ldd does not name them, and they are copied with it.

    Raises:
        ProvisionError: No package has one of the libraries.
    """
    libraries = work / "home/lib"
    libraries.mkdir()
    packages, seen = main_packages, set[str]()
    while lacking := missing_libraries(work / "home/libexec" / program, libraries, log):
        later = [name for soname in lacking for name in (loaded_later or {}).get(soname, ())]
        if take_libraries([*lacking, *later], work / "root", libraries):
            continue
        names = [name for name in needed_libraries(packages, log) if name not in seen]
        if not names:
            raise ProvisionError(f"no package that {name_of(main_packages[0])} depends on has {', '.join(lacking)}")
        packages = apt.download(names, work / f"archives-{len(seen)}")
        seen.update(names)
        apt.unpack(packages, work / "root")
    return sorted(path.name for path in libraries.iterdir())


# ---- making it ----


@dataclass(frozen=True)
class AptProgram:
    """A program that a script adds to the cache.

    Attributes:
        name: The name of the program, in `<cache>/<folder>/bin` and in messages.
        folder: Its folder in the cache.
        without: The consequence of its absence, as a part of a message.
        find: Returns the path of the program on this machine, or of the one in the cache, or None.
        check_runs: Starts the program at a path, with output to a log; raises ProvisionError if it does not run.
        fill: Fetches the program and fills bin, libexec and lib of `work`/home, from (apt, work, log). Returns the
            packages that it was made of.
        fetch_timeout_s: Enough for the index or the packages over a slow line; apt gives up sooner without a network.
    """

    name: str
    folder: str
    without: str
    find: Callable[[], str | None]
    check_runs: Callable[[Path, Path], None]
    fill: Callable[[ReleaseApt, Path, Path], str]
    fetch_timeout_s: float = 180


def write_wrapper(home: Path, name: str, program: str, variables: Mapping[str, str] | None = None) -> None:
    """Write bin/`name`: it starts libexec/`program` with lib and with `variables`, whose $home is the folder `home`."""
    exports = {"LD_LIBRARY_PATH": "$home/lib", **(variables or {})}
    text = WRAPPER.format(
        program=program, exports="\n".join(f'export {key}="{value}"' for key, value in exports.items())
    )
    (home / "bin").mkdir(exist_ok=True)
    wrapper = home / "bin" / name
    wrapper.write_text(text, "utf-8")
    wrapper.chmod(0o755)


def fill_from_package(apt: ReleaseApt, work: Path, log: Path, *, package: str, program: str) -> str:
    """Make `work`/home with one program of one package in bin; return the packages that it was made of.

    Raises:
        ProvisionError: A step failed.
    """
    packages = apt.download([package], work / "archives")
    apt.unpack(packages, work / "root")
    (work / "home/libexec").mkdir()
    shutil.move(find_one(work / "root", f"usr/bin/{program}"), work / "home/libexec" / program)
    added = add_missing_libraries(apt, program, packages, work, log)
    write_wrapper(work / "home", program, program)
    return f"{package} {version_of(packages[0])}" + (f" with {', '.join(added)}" if added else "")


def runs(program: AptProgram, path: Path) -> bool:
    """Return whether the program at `path` starts; the check is not logged, since every `make` makes it."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            program.check_runs(path, Path(folder) / "log")
    except ProvisionError:
        return False
    return True


def make(program: AptProgram, home: Path, state: Path, log: Path, *, etc_apt: Path) -> str:
    """Make `home` with the program in it; return the packages that it was made of. The caller must hold the lock.

    Raises:
        ProvisionError: A step failed; `home` is unchanged.
    """
    apt = ReleaseApt(state, log, codenames_of_machine(), etc_apt, fetch_timeout_s=program.fetch_timeout_s)
    apt.update()
    # The scratch folder is beside the final place, so that the rename stays within a file system.
    with scratch_folder(home.with_name(f"{home.name}.part")) as work:
        (work / "home").mkdir()
        made_of = program.fill(apt, work, log)
        program.check_runs(work / "home/bin" / program.name, log)
        if home.exists():
            home.rename(work / "old")
        (work / "home").rename(home)
    return made_of


def provide(program: AptProgram, cache: Path, *, force: bool, etc_apt: Path) -> str:
    """Add the program if it is absent; return a message for the user, or "".

    Raises:
        ProvisionError: The program cannot be added.
    """
    home, state = cache / program.folder, cache / "provision" / f"apt-{program.folder}"
    log = cache / f"provision/logs/{program.folder}.log"
    ours = home / "bin" / program.name

    def is_there() -> bool:
        found = program.find()
        return bool(found) and (found != str(ours) or runs(program, ours))

    if is_there() and not force:
        return ""
    if os.environ.get("HEADWAY_PROVISION") == "no":
        return "not adding it (HEADWAY_PROVISION=no)"
    state.mkdir(parents=True, exist_ok=True)
    # The file is not removed at the end: another run could then lock a file that a third run does not see.
    with (state / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there() and not force:
            return ""
        log.unlink(missing_ok=True)
        if home.exists() and not runs(program, ours):
            # A program that does not run must not stay at the path where others look for it.
            with scratch_folder(home.with_name(f"{home.name}.part")) as work:
                home.rename(work / "old")
        return f"added {ours} from {make(program, home, state, log, etc_apt=etc_apt)}"


def run_script(program: AptProgram, description: str, arguments: Sequence[str] | None, etc_apt: Path) -> int:
    """Carry out the command line; return 0 even if the program cannot be added."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--force", action="store_true", help="make it also where there is one already")
    options = parser.parse_args(arguments)
    try:
        said = provide(program, cache_folder(), force=options.force, etc_apt=etc_apt)
    except (ProvisionError, HeadwayError, OSError, subprocess.SubprocessError) as error:
        said = f"cannot be added, {program.without}: {' '.join(str(error).split())}"
    except KeyboardInterrupt:
        print(f"{program.name}: interrupted; nothing half-made was left behind", file=sys.stderr)
        return 130
    if said:
        print(f"{program.name}: {said}", file=sys.stderr)
    return 0
