"""A program of the machine's own release, unpacked into Headway's cache with the libraries that the machine lacks.

The machinery of the modules here that add one program each. What they have in common:
  - `<cache>/<folder>` appears by a rename, after the program in it ran in an empty environment. What a killed run left
    is elsewhere, is never found, and is removed by the next run.
  - Two runs at once take turns (flock).
  - Exit status 0 whatever could be had, since Headway goes on without it; 2 wrong usage.
  - One line on stderr when something was made or could not be had, none when there is nothing to do.

How: apt itself, with private lists, status and archives, fetches packages of the machine's own release from the
archives that the machine already trusts, so the machine's own C library fits. Of the libraries that a package depends
on, only those that ldd does not find are kept, and a wrapper shows them to this one program.

Rejected: `apt-get install --download-only` (the system's status may be broken, and an empty one brings in perl and
PAM); patchelf (may have to be fetched itself; the programs start none but their own, which are to inherit the variable).
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
# Part of the machine's own release, and so the one that the program was built for.
C_LIBRARY = re.compile(r"libc\d[\d.]*(-.*)?")
WRAPPER = """\
#!/bin/sh
# Debian's {program}, with what this machine lacks, for it alone.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
{exports}
exec "$home/libexec/{program}" "$@"
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
            # Debian's own key is known where the entry names none; for others apt's default decides.
            keyring = keyring_of(archive) if archive.is_debian_main() else archive.signed_by
            options = source_options(archive, "Packages", keyring)
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

    def first_known(self, names: Sequence[str]) -> str:
        """The first of `names` that the index has; where it has none the first, whose download then says why."""
        for name in names:
            with contextlib.suppress(ProvisionError):
                self._call("download", "--print-uris", name)
                return name
        return names[0]

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

    def unpack(self, packages: Sequence[Path], root: Path) -> None:
        """Unpack the files of `packages` below `root`; no script of theirs runs."""
        for package in packages:
            run(["dpkg-deb", "-x", package, root], self._log, timeout_s=self._fetch_timeout_s)

    def _call(self, command: str, *arguments: str, cwd: Path | None = None) -> None:
        # Shorter than apt's own patience: `make lab` and `make test` wait for it.
        quick = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]
        options = ["-q", "-y", "-c", str(self._root / "apt.conf"), *quick]
        run(["apt-get", command, *options, *arguments], self._log, cwd=cwd, timeout_s=self._fetch_timeout_s)


def codenames_of_machine() -> list[str]:
    """What the machine's release calls itself, and what a derivative is built on; empty where it does not say."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    names = (release.get(name, "") for name in ("VERSION_CODENAME", "UBUNTU_CODENAME", "DEBIAN_CODENAME"))
    return sorted(filter(None, set(names)))


def name_of(package: Path) -> str:
    """The name that a package's file name tells."""
    return package.name.split("_")[0]


def version_of(package: Path) -> str:
    """The version that a package's file name tells."""
    return package.name.split("_")[1].replace("%3a", ":")


# ---- the libraries that the machine lacks ----


def missing_libraries(program: Path, libraries: Path, log: Path) -> list[str]:
    """The sonames that `program`, or one of `libraries`, needs and neither the machine nor `libraries` has."""
    objects = [program, *sorted(libraries.iterdir())]
    output = run(["env", f"LD_LIBRARY_PATH={libraries}", "ldd", *objects], log)
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


def add_missing_libraries(
    apt: ReleaseApt,
    program: str,
    main_packages: Sequence[Path],
    work: Path,
    log: Path,
    *,
    loaded_later: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Put into `work`/home/lib what `work`/home/libexec/`program` needs and the machine lacks; return the sonames.

    Packages are fetched level by level: what the program's packages depend on, then what those depend on.

    Args:
        apt: Fetches them.
        program: The name of the program.
        main_packages: Its packages, unpacked in `work`/root like all others.
        work: The scratch folder.
        log: Where the commands' output goes.
        loaded_later: Library -> those that it opens by itself, which ldd does not tell and which come with it.

    Raises:
        ProvisionError: some library is in none of them.
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
        name: What it is called, in `<cache>/<folder>/bin` and to the user.
        folder: Its folder in the cache.
        without: What becomes of Headway without it, for the line that says so.
        find: Returns the path of one that is there, ours included, or nothing.
        check_runs: Starts the one at a path, logs to another, and raises ProvisionError where it does not run.
        fill: Fetches it and fills bin, libexec and lib of `work`/home, for (apt, work, log); returns what of.
        fetch_timeout_s: Enough for the index or the packages over a slow line; without a network apt gives up sooner.
    """

    name: str
    folder: str
    without: str
    find: Callable[[], str | None]
    check_runs: Callable[[Path, Path], None]
    fill: Callable[[ReleaseApt, Path, Path], str]
    fetch_timeout_s: float = 180


def write_wrapper(home: Path, name: str, program: str, variables: Mapping[str, str] | None = None) -> None:
    """Write bin/`name`, which starts libexec/`program` with lib, and with `variables`, in which $home is its folder."""
    exports = {"LD_LIBRARY_PATH": "$home/lib", **(variables or {})}
    text = WRAPPER.format(
        program=program, exports="\n".join(f'export {key}="{value}"' for key, value in exports.items())
    )
    (home / "bin").mkdir(exist_ok=True)
    wrapper = home / "bin" / name
    wrapper.write_text(text, "utf-8")
    wrapper.chmod(0o755)


def fill_from_package(apt: ReleaseApt, work: Path, log: Path, *, package: str, program: str) -> str:
    """Make `work`/home with one program of one package in bin, and return what it was made of.

    Raises:
        ProvisionError: some step failed.
    """
    packages = apt.download([package], work / "archives")
    apt.unpack(packages, work / "root")
    (work / "home/libexec").mkdir()
    shutil.move(find_one(work / "root", f"usr/bin/{program}"), work / "home/libexec" / program)
    added = add_missing_libraries(apt, program, packages, work, log)
    write_wrapper(work / "home", program, program)
    return f"{package} {version_of(packages[0])}" + (f" with {', '.join(added)}" if added else "")


def runs(program: AptProgram, path: Path) -> bool:
    """Whether the program at `path` starts; not logged, since every `make` asks."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            program.check_runs(path, Path(folder) / "log")
    except ProvisionError:
        return False
    return True


def make(program: AptProgram, home: Path, state: Path, log: Path, *, etc_apt: Path) -> str:
    """Make `home` with the program in it, and return what it was made of. The lock must be held.

    Raises:
        ProvisionError: some step failed; `home` is as it was.
    """
    apt = ReleaseApt(state, log, codenames_of_machine(), etc_apt, fetch_timeout_s=program.fetch_timeout_s)
    apt.update()
    # Beside the final place, so that the rename is one within a file system.
    with scratch_folder(home.with_name(f"{home.name}.part")) as work:
        (work / "home").mkdir()
        made_of = program.fill(apt, work, log)
        program.check_runs(work / "home/bin" / program.name, log)
        if home.exists():
            home.rename(work / "old")
        (work / "home").rename(home)
    return made_of


def provide(program: AptProgram, cache: Path, *, force: bool, etc_apt: Path) -> str:
    """Make what is absent, and return what to tell the user, or "".

    Raises:
        ProvisionError: it cannot be had.
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
    # Not unlinked at the end: another run could then lock a file that no third run sees.
    with (state / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there() and not force:
            return ""
        log.unlink(missing_ok=True)
        if home.exists() and not runs(program, ours):
            # Whoever looks for it would take it for one that runs.
            with scratch_folder(home.with_name(f"{home.name}.part")) as work:
                home.rename(work / "old")
        return f"added {ours} from {make(program, home, state, log, etc_apt=etc_apt)}"


def run_script(program: AptProgram, description: str, arguments: Sequence[str] | None, etc_apt: Path) -> int:
    """Do as the command line says; return 0 whatever could be had."""
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
