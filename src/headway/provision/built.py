"""Make 3.13t, the free-threaded build, from the upstream tarball of trixie's python3.13.

Debian has no free-threaded package.
"""

import os
import shutil
from pathlib import Path

from headway.provision.apt import PrivateApt
from headway.provision.archive import ProvisionError
from headway.provision.commands import find_one, require_tool, run_logged, scratch_folder
from headway.provision.finishing import settle
from headway.provision.site import Site, Target, prefix_folder

__all__ = ["SOURCE_SUITE", "provide_built"]

SOURCE_SUITE = "trixie"
SOURCE_PACKAGE = "python3.13"


def provide_built(site: Site, target: Target, apt: PrivateApt) -> None:
    """Make `<prefix>/3.13t` from CPython's tarball: download, configure, make, install, check.

    Raises:
        ProvisionError: A step failed; nothing is left behind.
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
    """Configure and make CPython in `tree` for its final folder, but install it to `part`."""
    log = site.log(target)
    home = site.home(target)
    options = [
        "-q", f"--prefix={home}", "--disable-gil", "--disable-test-modules", "--with-ensurepip=no", "--enable-shared",
        f"LDFLAGS=-Wl,-rpath,{home}/lib",
        # No -g, because it doubles the time. No PGO and LTO, as in a default pyenv build, so that both compare fairly.
        "OPT=-DNDEBUG -O3 -Wall",
    ]  # fmt: skip
    with site.talk.step("configure"):
        run_logged(["./configure", *options], log, cwd=tree)
    with site.talk.step(f"make -j{site.jobs}"):
        run_logged(["make", "-s", f"-j{site.jobs}"], log, cwd=tree)
    with site.talk.step("make altinstall"):
        # --help keeps compileall from compiling the library for three levels; settle() compiles it for one level.
        run_logged(["make", "-s", "altinstall", f"DESTDIR={part}/destdir", "COMPILEALL_OPTS=--help"], log, cwd=tree)
        for entry in (part / "destdir" / home.relative_to("/")).iterdir():
            shutil.move(entry, part / entry.name)
        shutil.rmtree(part / "destdir")
    # The binary's second name, `python3.13`, would pass for a 3.13 with a GIL if this bin folder is on PATH.
    (part / "bin" / target.binary.rstrip("t")).unlink(missing_ok=True)
